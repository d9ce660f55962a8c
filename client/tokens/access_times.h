// When files were read: noted at once, and told to the controller later, of many files in one
// message. (An access time is the one attribute that other hosts may see late; and what is read as
// soon as it is written, as a journal is, has often gone by then.)
//
// Invariants:
//   1. What waits here is told of with the message that it fills, or kPatienceSeconds after the
//      first of it began to wait, or at the end.
//   2. Less than a message's worth waits, but for what was read again while it was told of.
// To a controller that does not know such messages each is told by one of its own, at once.
// Threads: all methods may be called concurrently. Lock order: a FileState, or this; never both.
#pragma once

#include <cstdint>
#include <vector>

#include "client/file/data_context.h"
#include "client/inode/atime_policy.h"
#include "proto/names.pb.h"
#include "volume/base/mutex.h"

namespace reel::client {

class AccessTimes {
 public:
  static constexpr std::uint32_t kPatienceSeconds = 5;

  explicit AccessTimes(DataContext& context) : context_(context) {}

  // The file, directory or link has been read just now.
  void Note(const FileRef& file, AtimePolicy policy);
  // Each second.
  void TellOld();
  // At the end: all that waits.
  void TellAll();

 private:
  struct Told {
    FileRef file;
    v1::Time time;
  };
  // Those that are to be told now, the file perhaps among them.
  std::vector<FileRef> Add(const FileRef& file);
  void Tell(const std::vector<FileRef>& files);
  void TellTogether(const std::vector<Told>& reads);
  void TellOne(const Told& read);
  // The controller knows of them, or will not.
  void Done(const std::vector<Told>& reads);

  DataContext& context_;
  Mutex mutex_;
  std::vector<FileRef> waiting_ ABSL_GUARDED_BY(mutex_);
  std::uint32_t seconds_ ABSL_GUARDED_BY(mutex_) = 0;  // that the first of them has waited
};

}  // namespace reel::client
