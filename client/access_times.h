// When files were read: noted at once, told to the controller within a second, one message for many
// reads. (An access time is the one attribute that other hosts may see late.)
//
// Threads: all methods may be called concurrently.
#pragma once

#include "client/atime_policy.h"
#include "client/data_context.h"

namespace reel::client {

class AccessTimes {
 public:
  explicit AccessTimes(DataContext& context) : context_(context) {}

  // The file, directory or link has been read just now.
  void Note(const FileRef& file, AtimePolicy policy);
  // Tells of all that was read; each second, and at the end.
  void Tell();

 private:
  DataContext& context_;
};

}  // namespace reel::client
