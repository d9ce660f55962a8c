#include "client/file/file_table.h"

namespace reel::client {

FileRef FileTable::Get(std::uint64_t inode) {
  Shard& shard = shards_[IndexOf(inode)];
  MutexLock lock(shard.mutex);
  FileRef& file = shard.files[inode];
  if (file == nullptr) {
    file = std::make_shared<FileState>(inode, block_bytes_, stream_bytes_);
    size_.fetch_add(1, std::memory_order_relaxed);
  }
  file->last_use.store(tick(), std::memory_order_relaxed);
  return file;
}

FileRef FileTable::Find(std::uint64_t inode) const {
  const Shard& shard = shards_[IndexOf(inode)];
  MutexLock lock(shard.mutex);
  const auto it = shard.files.find(inode);
  return it == shard.files.end() ? nullptr : it->second;
}

std::vector<FileRef> FileTable::All() const {
  std::vector<FileRef> all;
  for (const Shard& shard : shards_) {
    MutexLock lock(shard.mutex);
    for (const auto& [inode, file] : shard.files) all.push_back(file);
  }
  return all;
}

void FileTable::DropIf(std::uint64_t inode, absl::FunctionRef<bool(FileState&)> unused) {
  Shard& shard = shards_[IndexOf(inode)];
  FileRef dropped;  // destroyed after its lock is released
  MutexLock lock(shard.mutex);
  const auto it = shard.files.find(inode);
  // References are only made under the shard's lock or from another reference.
  if (it == shard.files.end() || it->second.use_count() != 1) return;
  dropped = it->second;
  MutexLock file_lock(dropped->mutex);
  if (!unused(*dropped)) return;
  shard.files.erase(it);
  size_.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace reel::client
