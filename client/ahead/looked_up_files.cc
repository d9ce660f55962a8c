#include "client/ahead/looked_up_files.h"

namespace reel::client {

void LookedUpFiles::Note(std::uint64_t directory, std::string_view name, std::uint64_t inode) {
  MutexLock lock(mutex_);
  const auto [entry, added] = files_.try_emplace(inode);
  File& known = entry->second;
  if (known.directory != directory || known.name != name) {
    known = {.directory = directory, .name = std::string(name)};
  }
  if (!added) return;
  order_.push_back(inode);
  if (order_.size() <= kMaxFiles) return;
  files_.erase(order_.front());
  order_.pop_front();
}

std::optional<LookedUpFiles::File> LookedUpFiles::Find(std::uint64_t inode) const {
  MutexLock lock(mutex_);
  const auto found = files_.find(inode);
  return found == files_.end() ? std::nullopt : std::optional(found->second);
}

bool LookedUpFiles::WasPlayed(std::uint64_t inode) const {
  MutexLock lock(mutex_);
  const auto found = files_.find(inode);
  return found != files_.end() && found->second.played;
}

void LookedUpFiles::NoteOpen(std::uint64_t inode, std::uint64_t size_bytes, bool played) {
  MutexLock lock(mutex_);
  const auto found = files_.find(inode);
  if (found == files_.end()) return;
  found->second.size_bytes = size_bytes;
  found->second.played = played;
}

}  // namespace reel::client
