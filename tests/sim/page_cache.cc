#include "tests/sim/page_cache.h"

#include <algorithm>
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
  return absl::OkStatus();
}

absl::StatusOr<PageCache::ReadResult> PageCache::Read(client::Vfs& vfs, std::uint64_t inode,
                                                      std::uint64_t offset_bytes,
                                                      std::span<std::byte> buffer,
                                                      const client::Caller& caller) {
  const absl::StatusOr<v1::Attr> attr = vfs.GetAttr(inode, caller);
  if (!attr.ok()) return attr.status();
  const std::uint64_t end =
      std::min<std::uint64_t>(attr->size_bytes(), offset_bytes + buffer.size());
  ReadResult result;
  for (std::uint64_t at = offset_bytes; at < end;) {
    const Key key{inode, at / kPageBytes};
    const std::uint64_t next = std::min((key.second + 1) * kPageBytes, end);
    mutex_.Lock();
    PageRef page;
    if (const auto found = pages_.find(key); found != pages_.end() && found->second->valid) {
      page = found->second;
      ++hits_;
    } else {
      page = Lock(key);
      if (!page->valid) {
        page->suspect = false;
        mutex_.Unlock();
        const absl::Status status = Fill(vfs, key, page, caller);
        mutex_.Lock();
        page->valid = status.ok();
        Unlock(key, page);
        if (!status.ok()) {
          mutex_.Unlock();
          return status;
        }
      } else {
        Unlock(key, page);
      }
    }
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
  std::vector<std::pair<Key, PageRef>> pages;
  {
    MutexLock lock(mutex_);
    for (std::uint64_t at = offset_bytes; at < end;) {
      const Key key{inode, at / kPageBytes};
      const std::uint64_t next = std::min((key.second + 1) * kPageBytes, end);
      PageRef page = Lock(key);
      std::memcpy(page->bytes.data() + at % kPageBytes, data.data() + (at - offset_bytes),
                  next - at);
      pages.emplace_back(key, std::move(page));
      at = next;
    }
  }
  const absl::Status status =
      vfs.Write(inode, offset_bytes, data, 0, client::PageCacheWrite::kThrough, caller);
  {
    MutexLock lock(mutex_);
    for (auto& [key, page] : pages) {
      const std::uint64_t start = key.second * kPageBytes;
      const bool whole = offset_bytes <= start && start + kPageBytes <= end;
      if (!status.ok()) {
        page->valid = false;
      } else if (whole) {
        page->valid = true;
      }
      Unlock(key, page);
    }
  }
  EndChange(inode, 0, 0);
  return status;
}

void PageCache::BeginChange(std::uint64_t inode) {
  MutexLock lock(mutex_);
  while (!writing_.insert(inode).second) changed_.Wait(mutex_);
}

void PageCache::EndChange(std::uint64_t inode, std::uint64_t offset_bytes,
                          std::uint64_t length_bytes) {
  MutexLock lock(mutex_);
  if (length_bytes > 0) {
    auto at = pages_.lower_bound({inode, offset_bytes / kPageBytes});
    while (at != pages_.end() && at->first.first == inode &&
           at->first.second * kPageBytes < offset_bytes + length_bytes) {
      if (at->second->locked) {
        const Key key = at->first;
        changed_.Wait(mutex_);
        at = pages_.lower_bound(key);
        continue;
      }
      at = pages_.erase(at);
    }
  }
  writing_.erase(inode);
  changed_.NotifyAll();
}

void PageCache::Invalidate(std::uint64_t inode) {
  MutexLock lock(mutex_);
  auto at = pages_.lower_bound({inode, 0});
  // Where a locked page holds it up, the recall may be answered before the others are gone.
  for (auto page = at; page != pages_.end() && page->first.first == inode; ++page) {
    page->second->suspect = true;
  }
  while (at != pages_.end() && at->first.first == inode) {
    if (at->second->locked) {
      const Key key = at->first;
      changed_.Wait(mutex_);
      at = pages_.lower_bound(key);
      continue;
    }
    at = pages_.erase(at);
    ++invalidated_;
  }
}

void PageCache::Suspect() {
  for (auto& [key, page] : pages_) page->suspect = true;
}

}  // namespace reel::sim
