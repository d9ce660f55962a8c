#include "client/ahead/directory_opens.h"

#include <algorithm>
#include <utility>

namespace reel::client {

void DirectoryOpens::Forget(std::uint64_t now_ms) {
  directories_.remove_if([&](const Directory& directory) {
    return !directory.asking && now_ms - directory.opened_ms > kPauseMs;
  });
}

std::optional<DirectoryOpens::Fetch> DirectoryOpens::Open(const Opened& opened) {
  Forget(opened.now_ms);
  Directory& directory = Find(opened.directory, opened.now_ms);
  const bool waited = directory.waiting.erase(opened.inode) > 0;
  directory.used = directory.used || waited;  // though another host may have taken it back
  if (opened.cold) return OpenCold(directory, opened);
  return waited ? OpenFetched(directory, opened.now_ms) : std::nullopt;
}

DirectoryOpens::Directory& DirectoryOpens::Find(std::uint64_t inode, std::uint64_t now_ms) {
  const auto found = std::ranges::find(directories_, inode, &Directory::inode);
  if (found != directories_.end()) {
    directories_.splice(directories_.begin(), directories_, found);
  } else {
    if (directories_.size() >= kMaxDirectories) directories_.pop_back();
    directories_.emplace_front().inode = inode;
  }
  directories_.front().opened_ms = now_ms;
  return directories_.front();
}

std::optional<DirectoryOpens::Fetch> DirectoryOpens::OpenFetched(Directory& directory,
                                                                 std::uint64_t now_ms) {
  if (directory.waiting.size() > directory.fetched * 3 / 4) return std::nullopt;
  walked_ms_ = now_ms;
  directory.needed = kColdOpens;
  if (directory.end || directory.asking) return std::nullopt;
  directory.files = std::min(2 * directory.files, kMostFiles);
  return Ask(directory, directory.last);
}

std::optional<DirectoryOpens::Fetch> DirectoryOpens::OpenCold(Directory& directory,
                                                              const Opened& opened) {
  const bool walks = walked_ms_ && opened.now_ms - *walked_ms_ <= kWalkMs;
  ++directory.cold;
  if (directory.asking || directory.cold < (walks && !directory.asked ? 1 : directory.needed)) {
    return std::nullopt;
  }
  directory.cold = 0;
  if (std::exchange(directory.used, false) && !directory.waiting.empty()) return std::nullopt;
  if (!directory.waiting.empty()) {
    directory.waiting.clear();
    BeOfNoUse(directory);
  }
  return Ask(directory, std::string(opened.name));
}

void DirectoryOpens::BeOfNoUse(Directory& directory) {
  directory.files = kFirstFiles;
  directory.needed = std::min(4 * directory.needed, kMostColdOpens);
}

DirectoryOpens::Fetch DirectoryOpens::Ask(Directory& directory, std::string behind) {
  directory.asking = directory.asked = true;
  return {.directory = directory.inode,
          .behind = std::move(behind),
          .files = directory.files,
          .bytes = directory.reads};
}

void DirectoryOpens::Answer(std::uint64_t inode, const Fetched& fetched) {
  const auto found = std::ranges::find(directories_, inode, &Directory::inode);
  if (found == directories_.end()) return;
  Directory& directory = *found;
  directory.asking = false;
  if (fetched.inodes.empty()) BeOfNoUse(directory);
  directory.waiting.insert(fetched.inodes.begin(), fetched.inodes.end());
  directory.fetched = directory.waiting.size();
  directory.last = fetched.last;
  directory.end = fetched.end || fetched.last.empty();
}

void DirectoryOpens::Close(std::uint64_t inode, bool read) {
  const auto found = std::ranges::find(directories_, inode, &Directory::inode);
  if (found != directories_.end()) found->reads = read;
}

bool DirectoryOpens::Knows(std::uint64_t inode) const {
  return std::ranges::find(directories_, inode, &Directory::inode) != directories_.end();
}

bool DirectoryOpens::waits() const {
  return std::ranges::any_of(directories_, [](const auto& each) { return !each.waiting.empty(); });
}

}  // namespace reel::client
