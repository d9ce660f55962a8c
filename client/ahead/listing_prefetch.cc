#include "client/ahead/listing_prefetch.h"

#include <cerrno>
#include <chrono>

#include "client/base/interrupt.h"
#include "proto/status.h"

namespace reel::client {

void ListingPrefetch::Follow(std::uint64_t directory, const v1::ReadDirReply& beginning,
                             const v1::Credentials& credentials) {
  // "." and ".." lead every listing; the root's parent is itself.
  if (beginning.entries_size() < 2 || beginning.entries(1).name() != "..") return;
  const std::uint64_t parent = beginning.entries(1).inode();
  for (const std::uint64_t next : names_.NextOfWalk(parent, directory, kSiblings)) {
    Ask(next, 0, credentials);
  }
}

void ListingPrefetch::NoteMissed(std::uint64_t directory, std::string_view name,
                                 const v1::Credentials& credentials) {
  const std::optional<std::uint64_t> cookie = names_.NoteMissed(directory, name);
  if (cookie) Ask(directory, *cookie, credentials);
}

void ListingPrefetch::Ask(std::uint64_t directory, std::uint64_t cookie,
                          const v1::Credentials& credentials) {
  {
    MutexLock lock(under_way_->mutex);
    if (under_way_->directories.size() >= kUnderWay) return;
    if (!under_way_->directories.insert(directory).second) return;
  }
  v1::Request request;
  *request.mutable_credentials() = credentials;
  v1::ReadDir& read = *request.mutable_read_dir();
  read.set_inode(directory);
  read.set_cookie(cookie);
  read.set_limit_bytes(page_bytes_);
  read.set_attributes(true);
  session_.Start(std::move(request),
                 [under_way = under_way_, directory](const absl::StatusOr<v1::Reply>&) {
                   MutexLock lock(under_way->mutex);
                   under_way->directories.erase(directory);
                   under_way->changed.NotifyAll();
                 });
}

absl::Status ListingPrefetch::Await(std::uint64_t directory, const Interrupt* interrupt) {
  MutexLock lock(under_way_->mutex);
  while (under_way_->directories.contains(directory)) {
    if (under_way_->changed.WaitFor(under_way_->mutex, kPoll)) continue;
    if (absl::Status s = CheckInterrupt(interrupt, "the controller"); !s.ok()) return s;
    if (session_.TimedOut()) return ErrnoStatus(ETIMEDOUT, "no controller answers");
  }
  return absl::OkStatus();
}

}  // namespace reel::client
