// A small model of the kernel's page cache on one host: pages stay until they are invalidated, so
// that a skipped invalidation shows as old bytes; one that a mapping has changed goes back whole,
// so that old bytes in it show as lost writes.
//
// As in Linux: a page is locked while it is read in, written through or written back; invalidation
// waits for that, and writes back what was changed; reads and writes past the pages begin with
// writing back, and writes with dropping, those of their range; an open drops them all, but for one
// to read that finds them good; a truncation holds back what is to be written back. One program at
// a time writes a file through its pages. Attributes are asked for anew with each read, but what
// they say invalidates nothing (a mapped file asks for none). Threads: fibers.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "client/base/byte_range.h"
#include "client/vfs/vfs.h"
#include "volume/base/mutex.h"

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
  // Around what changes a file's size or makes holes: the pages from `offset_bytes` on go, and of
  // one that is in it in part that part becomes zeros.
  void BeginChange(std::uint64_t inode);
  void EndChange(std::uint64_t inode, std::uint64_t offset_bytes, std::uint64_t length_bytes);

  // A store to a mapping. True: into pages that may be old, as ReadResult's; OUT_OF_RANGE: not all
  // of it lies in the file (SIGBUS), nothing is changed.
  absl::StatusOr<bool> Store(client::Vfs& vfs, std::uint64_t inode, std::uint64_t offset_bytes,
                             std::span<const std::byte> data, const client::Caller& caller);
  // What was stored goes to the client, also before anything goes past the pages.
  void WriteBack(std::uint64_t inode, std::uint64_t offset_bytes, std::uint64_t length_bytes);
  // Before a write past them; behind an open to write, which keeps none (no FOPEN_KEEP_CACHE): what
  // was read in while nobody had the file open to write could else be stored to without the right
  // to write. One to read keeps those that the client knows to be good.
  void Drop(std::uint64_t inode, std::uint64_t offset_bytes, std::uint64_t length_bytes);
  // Around a truncation: nothing is written back meanwhile, nor then beyond the end. (Behind it
  // Linux drops all of the file's pages, as its programs do here; so those that were read in while
  // it was on its way do not stay with the zeros of it. Where the size is what Linux took it for,
  // it makes no zeros, and keeps them: that is not modelled.)
  void HoldBack(std::uint64_t inode);
  void LetGo(std::uint64_t inode, std::uint64_t size_bytes);

  // Where pages are written back to.
  void SetVfs(client::Vfs* vfs) { vfs_ = vfs; }

  // From the client; an empty range is of attributes alone.
  void Invalidate(std::uint64_t inode, const client::ByteRange& range);
  // The session is over, and the client may not know yet.
  void Suspect();

  std::uint64_t hits() const { return hits_; }
  std::uint64_t invalidated() const { return invalidated_; }
  std::uint64_t written_back() const { return written_back_; }

 private:
  struct Page {
    bool locked = false;
    bool valid = false;
    bool suspect = false;
    bool dirty = false;
    std::size_t length = 0;  // bytes of the file in it
    alignas(kPageBytes) std::array<std::byte, kPageBytes> bytes;
  };
  using PageRef = std::shared_ptr<Page>;
  using Key = std::pair<std::uint64_t, std::uint64_t>;  // inode, page

  // The locked page, made if need be.
  PageRef Lock(const Key& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Unlock(const Key& key, const PageRef& page) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Through one page.
  absl::Status WritePage(client::Vfs& vfs, const Key& key, std::uint64_t at,
                         std::span<const std::byte> data, const client::Caller& caller);
  absl::Status Fill(client::Vfs& vfs, const Key& key, const PageRef& page,
                    const client::Caller& caller);
  // The page, valid, or as Fill's error.
  absl::StatusOr<PageRef> Fault(client::Vfs& vfs, const Key& key, const client::Caller& caller)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Calls `done_with` for each page of the range when it is not locked; erases it on true.
  void ForEachUnlocked(std::uint64_t inode, std::uint64_t offset_bytes, std::uint64_t length_bytes,
                       absl::FunctionRef<bool(const Key& key, const PageRef& page)> visit)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Launder(const Key& key, const PageRef& page) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  CondVar changed_;
  std::map<Key, PageRef> pages_ ABSL_GUARDED_BY(mutex_);
  std::set<std::uint64_t> writing_ ABSL_GUARDED_BY(mutex_);
  std::multiset<std::uint64_t> held_back_ ABSL_GUARDED_BY(mutex_);   // inodes being cut
  std::multiset<std::uint64_t> going_back_ ABSL_GUARDED_BY(mutex_);  // with pages on their way
  client::Vfs* vfs_ = nullptr;
  std::uint64_t hits_ = 0, invalidated_ = 0, written_back_ = 0;
};

}  // namespace reel::sim
