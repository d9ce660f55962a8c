// When files were read: noted at once, and told to the controller, of each file once a second at
// most; of a file that is held to be written here, with the next second. (An access time is the one
// attribute that other hosts may see late; and what is read as soon as it is written, as a journal
// is, has often gone by then.)
//
// Threads: all methods may be called concurrently.
#pragma once

#include <cstdint>
#include <vector>

#include "client/file/data_context.h"
#include "client/inode/atime_policy.h"

namespace reel::client {

class AccessTimes {
 public:
  explicit AccessTimes(DataContext& context) : context_(context) {}

  // The file, directory or link has been read just now.
  void Note(const FileRef& file, AtimePolicy policy);
  // Tells of those that were read and of which that is not told; each second (of some: who changes
  // something waits behind it), and at the end.
  void Report(const std::vector<FileRef>& files, std::size_t most = SIZE_MAX);

 private:
  void ReportOf(const FileRef& file, const v1::Time& time);

  DataContext& context_;
};

}  // namespace reel::client
