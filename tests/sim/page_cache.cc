#include "tests/sim/page_cache.h"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace reel::sim {

PageCache::PageRef PageCache::Lock(const Key& key) {
  for (;;) {
    PageRef& page = pages_[key];
    if (page == nullptr) page = std::make_shared<Page>();
    if (!page->locked) {
      page->locked = true;
      return page;
    }
    changed_.Wait(mutex_);
  }
}

void PageCache::Unlock(const Key& key, const PageRef& page) {
  page->locked = false;
  if (!page->valid) pages_.erase(key);
  changed_.NotifyAll();
}

absl::Status PageCache::Fill(client::Vfs& vfs, const Key& key, const PageRef& page,
                             const client::Caller& caller) {
  const absl::StatusOr<std::size_t> length =
      vfs.Read(key.first, key.second * kPageBytes, page->bytes, 0, /*page_cache=*/true, caller);
  if (!length.ok()) return length.status();
  std::memset(page->bytes.data() + *length, 0, kPageBytes - *length);
  page->length = *length;
  return absl::OkStatus();
}

absl::StatusOr<PageCache::PageRef> PageCache::Fault(client::Vfs& vfs, const Key& key,
                                                    const client::Caller& caller) {
  if (const auto found = pages_.find(key); found != pages_.end() && found->second->valid) {
    ++hits_;
    return found->second;
  }
  PageRef page = Lock(key);
  absl::Status status;
  if (!page->valid) {
    page->suspect = false;
    mutex_.Unlock();
    status = Fill(vfs, key, page, caller);
    mutex_.Lock();
    page->valid = status.ok();
  }
  Unlock(key, page);
  if (!status.ok()) return status;
  return page;
}

absl::StatusOr<PageCache::ReadResult> PageCache::Read(client::Vfs& vfs, std::uint64_t inode,
                                                      std::uint64_t offset_bytes,
                                                      std::span<std::byte> buffer,
                                                      const client::Caller& caller) {
  const absl::StatusOr<client::Attributes> attr = vfs.GetAttr(inode, caller);
  if (!attr.ok()) return attr.status();
  const std::uint64_t end = std::min<std::uint64_t>(attr->size_bytes, offset_bytes + buffer.size());
  ReadResult result;
  for (std::uint64_t at = offset_bytes; at < end;) {
    const Key key{inode, at / kPageBytes};
    const std::uint64_t next = std::min((key.second + 1) * kPageBytes, end);
    mutex_.Lock();
    const absl::StatusOr<PageRef> faulted = Fault(vfs, key, caller);
    if (!faulted.ok()) {
      mutex_.Unlock();
      return faulted.status();
    }
    const PageRef& page = *faulted;
    result.suspect = result.suspect || page->suspect;
    std::memcpy(buffer.data() + (at - offset_bytes), page->bytes.data() + at % kPageBytes,
                next - at);
    mutex_.Unlock();
    at = next;
  }
  result.length = end > offset_bytes ? end - offset_bytes : 0;
  return result;
}

absl::Status PageCache::Write(client::Vfs& vfs, std::uint64_t inode, std::uint64_t offset_bytes,
                              std::span<const std::byte> data, const client::Caller& caller) {
  BeginChange(inode);
  const std::uint64_t end = offset_bytes + data.size();
  absl::Status status;
  for (std::uint64_t at = offset_bytes; at < end && status.ok();) {
    const std::uint64_t next = std::min((at / kPageBytes + 1) * kPageBytes, end);
    const std::span<const std::byte> part = data.subspan(at - offset_bytes, next - at);
    status = WritePage(vfs, {inode, at / kPageBytes}, at % kPageBytes, part, caller);
    at = next;
  }
  EndChange(inode, 0, 0);
  return status;
}

// One after the other, each locked until the client has its part.
absl::Status PageCache::WritePage(client::Vfs& vfs, const Key& key, std::uint64_t at,
                                  std::span<const std::byte> data, const client::Caller& caller) {
  PageRef page;
  {
    MutexLock lock(mutex_);
    page = Lock(key);
    std::memcpy(page->bytes.data() + at, data.data(), data.size());
  }
  // (Within a block there is no part of it.)
  const absl::Status status = vfs.Write(key.first, key.second * kPageBytes + at, data, 0,
                                        client::PageCacheWrite::kThrough, caller)
                                  .status();
  MutexLock lock(mutex_);
  page->valid = status.ok() && (page->valid || data.size() == kPageBytes);
  page->length = std::max<std::size_t>(page->length, at + data.size());
  Unlock(key, page);
  return status;
}

void PageCache::BeginChange(std::uint64_t inode) {
  MutexLock lock(mutex_);
  while (!writing_.insert(inode).second) changed_.Wait(mutex_);
}

void PageCache::EndChange(std::uint64_t inode, std::uint64_t offset_bytes,
                          std::uint64_t length_bytes) {
  MutexLock lock(mutex_);
  const std::uint64_t end = offset_bytes + length_bytes;
  ForEachUnlocked(inode, offset_bytes, length_bytes, [&](const Key& key, const PageRef& page) {
    const std::uint64_t start = key.second * kPageBytes;
    const std::uint64_t from = std::max(offset_bytes, start);
    const std::uint64_t to = std::min(end, start + kPageBytes);
    if (to - from == kPageBytes) return true;
    std::memset(page->bytes.data() + (from - start), 0, to - from);
    if (to == start + kPageBytes) page->length = std::min<std::size_t>(page->length, from - start);
    return false;
  });
  writing_.erase(inode);
  changed_.NotifyAll();
}

void PageCache::ForEachUnlocked(
    std::uint64_t inode, std::uint64_t offset_bytes, std::uint64_t length_bytes,
    absl::FunctionRef<bool(const Key& key, const PageRef& page)> visit) {
  if (length_bytes == 0) return;
  const std::uint64_t last = (offset_bytes + length_bytes - 1) / kPageBytes;
  for (Key next{inode, offset_bytes / kPageBytes};;) {
    const auto at = pages_.lower_bound(next);
    if (at == pages_.end() || at->first.first != inode || at->first.second > last) return;
    next = at->first;
    if (at->second->locked) {
      changed_.Wait(mutex_);
      continue;
    }
    const PageRef page = at->second;
    const bool goes = visit(next, page);
    const auto again = pages_.find(next);  // visitors may wait
    if (goes && again != pages_.end() && again->second == page) pages_.erase(again);
    ++next.second;
  }
}

// ---- mappings ---------------------------------------------------------------------------------

absl::StatusOr<bool> PageCache::Store(client::Vfs& vfs, std::uint64_t inode,
                                      std::uint64_t offset_bytes, std::span<const std::byte> data,
                                      const client::Caller& caller) {
  const std::uint64_t end = offset_bytes + data.size();
  bool suspect = false;
  for (std::uint64_t at = offset_bytes; at < end;) {
    const Key key{inode, at / kPageBytes};
    const std::uint64_t start = key.second * kPageBytes;
    const std::uint64_t next = std::min(start + kPageBytes, end);
    MutexLock lock(mutex_);
    for (;;) {
      const absl::StatusOr<PageRef> page = Fault(vfs, key, caller);
      if (!page.ok()) return page.status();
      // It may have gone again, or be on its way back.
      if (!(*page)->valid || (*page)->locked) {
        changed_.WaitFor(mutex_, std::chrono::milliseconds(1));
        continue;
      }
      const auto held = pages_.find(key);
      if (held == pages_.end() || held->second != *page) continue;
      if (next - start > (*page)->length) return absl::OutOfRangeError("beyond the end");
      std::memcpy((*page)->bytes.data() + (at - start), data.data() + (at - offset_bytes),
                  next - at);
      (*page)->dirty = true;
      suspect = suspect || (*page)->suspect;
      break;
    }
    at = next;
  }
  return suspect;
}

void PageCache::Launder(const Key& key, const PageRef& page) {
  page->locked = true;
  while (held_back_.contains(key.first)) changed_.Wait(mutex_);
  page->dirty = false;
  going_back_.insert(key.first);
  ++written_back_;
  mutex_.Unlock();
  const client::Caller kernel;
  // What it cannot take is lost, and told by fsync(2).
  if (page->length > 0) {
    (void)vfs_->Write(key.first, key.second * kPageBytes,
                      std::span(page->bytes).first(page->length), 0, client::PageCacheWrite::kBack,
                      kernel);
  }
  mutex_.Lock();
  going_back_.erase(going_back_.find(key.first));
  Unlock(key, page);
}

void PageCache::WriteBack(std::uint64_t inode, std::uint64_t offset_bytes,
                          std::uint64_t length_bytes) {
  MutexLock lock(mutex_);
  ForEachUnlocked(inode, offset_bytes, length_bytes, [&](const Key& key, const PageRef& page) {
    mutex_.AssertHeld();
    if (page->dirty) Launder(key, page);
    return false;
  });
}

void PageCache::Drop(std::uint64_t inode, std::uint64_t offset_bytes, std::uint64_t length_bytes) {
  MutexLock lock(mutex_);
  ForEachUnlocked(inode, offset_bytes, length_bytes, [&](const Key& key, const PageRef& page) {
    mutex_.AssertHeld();
    if (page->dirty) Launder(key, page);
    return !page->dirty && !page->locked;
  });
}

void PageCache::HoldBack(std::uint64_t inode) {
  MutexLock lock(mutex_);
  held_back_.insert(inode);
  while (going_back_.contains(inode)) changed_.Wait(mutex_);
}

void PageCache::LetGo(std::uint64_t inode, std::uint64_t size_bytes) {
  MutexLock lock(mutex_);
  for (auto at = pages_.lower_bound({inode, size_bytes / kPageBytes});
       at != pages_.end() && at->first.first == inode; ++at) {
    const std::uint64_t start = at->first.second * kPageBytes;
    const std::uint64_t kept = size_bytes > start ? size_bytes - start : 0;
    at->second->length = std::min<std::size_t>(at->second->length, kept);
  }
  held_back_.erase(held_back_.find(inode));
  changed_.NotifyAll();
}

void PageCache::Invalidate(std::uint64_t inode, const client::ByteRange& range) {
  if (range.to == 0) return;
  MutexLock lock(mutex_);
  ForEachUnlocked(inode, range.from, range.to - range.from,
                  [&](const Key& key, const PageRef& page) {
                    mutex_.AssertHeld();
                    if (page->dirty) Launder(key, page);
                    if (page->dirty || page->locked) return false;
                    ++invalidated_;
                    return true;
                  });
}

void PageCache::Suspect() {
  for (auto& [key, page] : pages_) page->suspect = true;
}

}  // namespace reel::sim
