// What leaves the core, and when: each output waits until all that it saw is durable.
//
// Invariants:
//   1. An output that depends on nothing undurable leaves at once; nothing waits for unrelated
//   commits.
//   2. Outputs about one inode's tokens leave to one session in the order of emission, so that a
//      recall never overtakes the grant that it recalls. (Idle replies grant nothing.)
//   3. A stream is ended after everything that was emitted for it before.
//   4. Idle replies leave ahead of whatever leaves for their stream after them.
// Threads: the core thread.
#pragma once

#include <deque>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "mdc/core/core.h"

namespace reel::mdc {

class OutputQueue {
 public:
  struct End {};
  using Message = std::variant<v1::Reply, v1::Callback, End>;
  // Whose tokens an output is about.
  using TokenOf = std::pair<SessionId, InodeNumber>;

  void StreamOpened(StreamId stream) { open_.insert(stream); }
  // Nothing more goes there.
  void StreamEnded(StreamId stream);
  bool IsOpen(StreamId stream) const { return open_.contains(stream); }

  // Whether anybody waits for a message: without, some of them are worth no sync.
  enum class Wanted { kYes, kNo };
  void Emit(StreamId stream, Message message, Sequence waits_for,
            std::span<const TokenOf> tokens = {}, Wanted wanted = Wanted::kYes);
  // Behind everything that was emitted for the stream before.
  void EmitLast(StreamId stream, Message message);
  // A reply that depends on nothing and that nobody waits for: it travels with the next output to
  // its stream, or the next ReleaseIdle. (A message alone makes four threads of two hosts run.)
  void EmitIdle(StreamId stream, v1::Reply reply);
  void ReleaseIdle();
  void Durable(Sequence sequence);
  Sequence durable() const { return durable_; }
  // What waits is worth a sync.
  bool AsksForSync() const { return wanted_ > 0 || waiting_.size() >= kMostUnwanted; }
  // Of the replies to the stream that wait.
  std::size_t WaitingBytes(StreamId stream) const {
    const auto bytes = waiting_bytes_.find(stream);
    return bytes == waiting_bytes_.end() ? 0 : bytes->second;
  }
  bool AnyWaits(StreamId stream) const { return LastWaitOf(stream) > durable_; }

  // What may leave, moved into `outputs`.
  void Take(CoreOutputs& outputs);

 private:
  static constexpr std::size_t kMostIdle = 64;  // of a stream
  // Far fewer than what a session may have on its way, and reserved (kMaxReservedInodes).
  static constexpr std::size_t kMostUnwanted = 8;

  struct Entry {
    Sequence waits_for;
    StreamId stream;
    Message message;
    Wanted wanted = Wanted::kYes;
    std::size_t bytes = 0;
  };
  void Release(Entry entry);
  void ReleaseIdleOf(StreamId stream);
  Sequence LastWaitOf(StreamId stream) const;

  Sequence durable_;
  std::deque<Entry> waiting_;  // by waits_for; equals in order of emission
  std::size_t wanted_ = 0;     // of these
  std::vector<CoreOutputs::Send> sends_;
  std::vector<StreamId> ends_;
  absl::flat_hash_set<StreamId> open_;
  // Not yet durable waits: of the last output about a token, and of any output of a stream.
  absl::flat_hash_map<TokenOf, Sequence> token_waits_;
  absl::flat_hash_map<StreamId, Sequence> last_wait_;
  absl::btree_map<StreamId, std::vector<v1::Reply>> idle_;  // they go in this order
  absl::flat_hash_map<StreamId, std::size_t> waiting_bytes_;
};

}  // namespace reel::mdc
