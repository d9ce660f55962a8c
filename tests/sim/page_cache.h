// A small model of the kernel's page cache on one host: pages stay until they are invalidated, so
// that a skipped invalidation shows as old bytes.
//
// As in Linux: a page is locked while it is read in or written through; invalidation waits for
// that; one program at a time writes a file. Attributes are asked for anew with each read, but what
// they say invalidates nothing (a mapped file asks for none).
// Threads: fibers.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>

#include "absl/status/statusor.h"
#include "client/vfs.h"
#include "volume/mutex.h"

namespace reel::sim {

class PageCache {
 public:
  static constexpr std::uint64_t kPageBytes = 4096;

  struct ReadResult {
    std::size_t length = 0;
    bool suspect = false;  // pages were used that may be old: invalidated, or of a lost session
  };
  absl::StatusOr<ReadResult> Read(client::Vfs& vfs, std::uint64_t inode, std::uint64_t offset_bytes,
                                  std::span<std::byte> buffer, const client::Caller& caller);
  absl::Status Write(client::Vfs& vfs, std::uint64_t inode, std::uint64_t offset_bytes,
                     std::span<const std::byte> data, const client::Caller& caller);
  // Around what changes a file's size or makes holes: the pages from `offset_bytes` on go.
  void BeginChange(std::uint64_t inode);
  void EndChange(std::uint64_t inode, std::uint64_t offset_bytes, std::uint64_t length_bytes);

  // From the client.
  void Invalidate(std::uint64_t inode);
  // The session is over, and the client may not know yet.
  void Suspect();

  std::uint64_t hits() const { return hits_; }
  std::uint64_t invalidated() const { return invalidated_; }

 private:
  struct Page {
    bool locked = false;
    bool valid = false;
    bool suspect = false;
    alignas(kPageBytes) std::array<std::byte, kPageBytes> bytes;
  };
  using PageRef = std::shared_ptr<Page>;
  using Key = std::pair<std::uint64_t, std::uint64_t>;  // inode, page

  // The locked page, made if need be.
  PageRef Lock(const Key& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Unlock(const Key& key, const PageRef& page) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Fill(client::Vfs& vfs, const Key& key, const PageRef& page,
                    const client::Caller& caller);

  Mutex mutex_;
  CondVar changed_;
  std::map<Key, PageRef> pages_ ABSL_GUARDED_BY(mutex_);
  std::set<std::uint64_t> writing_ ABSL_GUARDED_BY(mutex_);
  std::uint64_t hits_ = 0, invalidated_ = 0;
};

}  // namespace reel::sim
