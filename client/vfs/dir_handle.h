// One open directory: the entries of the last reply, so that the kernel's small reads do not each
// ask the controller.
//
// A position in the stream is the cookie of the entry before it; cookies grow along the stream, are
// stable, and are never reused, so any position may be asked for at any time (telldir, seekdir).
// Names that came after the listing began are not in it: whoever renames what he lists comes to an
// end.
// Threads: one call at a time per handle (the kernel holds the open file's position lock).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "client/names/name_cache.h"
#include "proto/names.pb.h"

namespace reel::client {

class DirHandle {
 public:
  // `losses`: Session::losses() by then.
  explicit DirHandle(std::uint64_t inode, bool no_atime = false,
                     const NameCache::Listing& listing = {}, std::uint64_t losses = 0)
      : inode_(inode), no_atime_(no_atime), listing_(listing), losses_(losses) {}

  std::uint64_t inode() const { return inode_; }
  bool no_atime() const { return no_atime_; }  // opened with O_NOATIME
  // What the kernel was told of it when this was opened.
  const NameCache::Listing& listing() const { return listing_; }

  // Whether something was lost of which its fsync(2) has not told; it has now. Any thread may ask.
  bool Missed(std::uint64_t losses) { return losses_.exchange(losses) != losses; }

  enum class Position { kUnknown, kEntry, kEnd };
  struct Found {
    Position position = Position::kUnknown;
    const v1::ReadDirReply::Entry* entry = nullptr;  // with kEntry
  };
  // What the kept reply says of the entry behind `cookie`.
  Found Find(std::uint64_t cookie);

  // Keeps the reply to a request for entries behind `cookie`. EIO when it is not in order.
  absl::Status Keep(std::uint64_t cookie, std::shared_ptr<const v1::ReadDirReply> reply);
  // REQUIRES: one was kept.
  const v1::ReadDirReply& kept() const { return *reply_; }

 private:
  const std::uint64_t inode_;
  const bool no_atime_;
  const NameCache::Listing listing_;
  std::atomic<std::uint64_t> losses_;
  std::shared_ptr<const v1::ReadDirReply> reply_;
  std::uint64_t start_cookie_ = 0;
  bool kept_ = false;
  std::uint64_t bound_cookie_ = 0;  // what is listed from the start ends before it; 0: not known
  int next_ = 0;                    // where the last call left off, to find the next entry at once
};

}  // namespace reel::client
