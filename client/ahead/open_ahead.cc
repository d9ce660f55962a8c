#include "client/ahead/open_ahead.h"

#include <optional>
#include <utility>

namespace reel::client {

bool OpenAhead::IsOn() const {
  return session_.lists_layouts() && !session_.checks_opens() && !session_.squashed();
}

void OpenAhead::NoteOpen(std::uint64_t inode, std::uint64_t size_bytes,
                         const v1::Credentials& credentials) {
  if (!IsOn() || size_bytes > kMaxFileBytes) return;
  const bool cold = !data_.Holds(inode);
  if (!cold && !state_->waits.load(std::memory_order_relaxed)) return;
  const std::optional<LookedUpFiles::File> file = looked_up_.Find(inode);
  if (!file) return;
  std::optional<DirectoryOpens::Fetch> fetch;
  {
    MutexLock lock(state_->mutex);
    fetch = state_->opens.Open({.directory = file->directory,
                                .name = file->name,
                                .inode = inode,
                                .cold = cold,
                                .now_ms = clock_.NowMs()});
    state_->Publish();
  }
  if (fetch) Ask(*fetch, credentials);
}

void OpenAhead::NoteClose(std::uint64_t inode) {
  if (!state_->knows_any.load(std::memory_order_relaxed)) return;
  const std::optional<LookedUpFiles::File> file = looked_up_.Find(inode);
  if (!file) return;
  {
    MutexLock lock(state_->mutex);
    state_->opens.Forget(clock_.NowMs());
    state_->Publish();
    if (!state_->opens.Knows(file->directory)) return;
  }
  const bool read = data_.ReadTo(inode) > 0;
  MutexLock lock(state_->mutex);
  state_->opens.Close(file->directory, read);
}

void OpenAhead::Ask(const DirectoryOpens::Fetch& fetch, const v1::Credentials& credentials) {
  v1::Request request;
  *request.mutable_credentials() = credentials;
  v1::ReadDir& read = *request.mutable_read_dir();
  read.set_inode(fetch.directory);
  read.set_behind(fetch.behind);
  read.set_limit_bytes(kReplyBytes);
  read.set_attributes(true);
  read.set_layouts(fetch.files);
  data_.ListAhead(std::move(request), fetch.bytes ? kMaxFileBytes : 0,
                  [state = state_, directory = fetch.directory](
                      const absl::StatusOr<v1::Reply>& reply, std::vector<std::uint64_t> taken) {
                    state->Answer(directory, reply, std::move(taken));
                  });
}

void OpenAhead::State::Answer(std::uint64_t directory, const absl::StatusOr<v1::Reply>& reply,
                              std::vector<std::uint64_t> taken) {
  DirectoryOpens::Fetched fetched{.inodes = std::move(taken)};
  if (reply.ok() && reply->has_read_dir()) {
    const v1::ReadDirReply& listing = reply->read_dir();
    fetched.end = listing.end() || listing.entries_size() == 0;
    if (!fetched.end) fetched.last = listing.entries(listing.entries_size() - 1).name();
  }
  MutexLock lock(mutex);
  opens.Answer(directory, fetched);
  Publish();
}

}  // namespace reel::client
