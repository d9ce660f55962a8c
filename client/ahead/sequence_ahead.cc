#include "client/ahead/sequence_ahead.h"

#include <sys/stat.h>

#include <optional>
#include <utility>
#include <vector>

namespace reel::client {
namespace {

constexpr std::size_t kMaxFetched = 2 * FrameSequences::kFramesAhead;
constexpr std::size_t kMaxStreams = FrameSequences::kMaxPatterns * FrameSequences::kMaxStreams;

}  // namespace

bool SequenceAhead::IsOn() const {
  return data_.max_frame_bytes() > 0 && session_.looks_ahead() && !session_.checks_opens() &&
         !session_.squashed();
}

void SequenceAhead::NoteOpen(std::uint64_t inode, std::uint64_t size_bytes,
                             const v1::Credentials& credentials) {
  if (!IsOn()) return;
  const std::optional<LookedUpFiles::File> file = looked_up_.Find(inode);
  if (!file || !HasDigit(file->name)) return;
  FrameSequences::Plan plan;
  std::vector<std::uint64_t> dropped;
  {
    MutexLock lock(state_->mutex);
    plan = state_->sequences.Open({.directory = file->directory,
                                   .name = file->name,
                                   .size_bytes = size_bytes,
                                   .now_ms = clock_.NowMs(),
                                   .memory_bytes = data_.max_frame_bytes()});
    for (const std::uint64_t stream : plan.ended) {
      const auto fetched = state_->fetched.find(stream);
      if (fetched == state_->fetched.end()) continue;
      dropped.insert(dropped.end(), fetched->second.begin(), fetched->second.end());
      state_->fetched.erase(fetched);
    }
  }
  looked_up_.NoteOpen(inode, size_bytes, plan.played);
  for (const std::uint64_t frame : dropped) data_.DropAhead(frame);
  for (const Frame& frame : plan.fetch) Fetch(frame, credentials);
}

bool SequenceAhead::MayBePlayed(std::uint64_t inode) const {
  return !IsOn() || looked_up_.WasPlayed(inode);
}

void SequenceAhead::NoteClose(std::uint64_t inode) {
  if (!IsOn()) return;
  const std::optional<LookedUpFiles::File> closed = looked_up_.Find(inode);
  if (!closed || !HasDigit(closed->name)) return;
  const std::uint64_t read_to_bytes = data_.ReadTo(inode);
  MutexLock lock(state_->mutex);
  state_->sequences.Close(closed->directory, closed->name, read_to_bytes, closed->size_bytes);
}

void SequenceAhead::State::Fetched(const Frame& frame, std::uint64_t inode) {
  if (fetched.size() >= kMaxStreams) fetched.clear();  // of streams that have ended meanwhile
  std::deque<std::uint64_t>& inodes = fetched[frame.stream];
  inodes.push_back(inode);
  if (inodes.size() > kMaxFetched) inodes.pop_front();
}

void SequenceAhead::Fetch(const Frame& frame, const v1::Credentials& credentials) {
  const auto known = names_.Lookup(frame.directory, frame.name);
  if (!known || !session_.LeaseHolds()) return Ask(frame, credentials);
  if (known->absent || !S_ISREG(known->attr.mode)) {
    MutexLock lock(state_->mutex);
    return state_->sequences.NoteMissing(frame);
  }
  if (!data_.FetchAhead(known->attr.inode, frame.bytes)) return Ask(frame, credentials);
  MutexLock lock(state_->mutex);
  state_->Fetched(frame, known->attr.inode);
}

void SequenceAhead::Ask(const Frame& frame, const v1::Credentials& credentials) {
  {
    MutexLock lock(state_->mutex);
    if (state_->under_way >= kMaxUnderWay) return state_->sequences.NoteMissing(frame);
    ++state_->under_way;
  }
  v1::Request request;
  *request.mutable_credentials() = credentials;
  v1::Lookup& lookup = *request.mutable_lookup();
  lookup.set_parent(frame.directory);
  lookup.set_name(frame.name);
  lookup.set_ahead(true);
  lookup.set_layout_bytes(frame.bytes);
  data_.LookAhead(std::move(request), frame.bytes,
                  [state = state_, frame](const absl::StatusOr<v1::Attr>& attr) {
                    MutexLock lock(state->mutex);
                    --state->under_way;
                    if (attr.ok() && S_ISREG(attr->mode())) {
                      state->Fetched(frame, attr->inode());
                    } else {
                      state->sequences.NoteMissing(frame);
                    }
                  });
}

}  // namespace reel::client
