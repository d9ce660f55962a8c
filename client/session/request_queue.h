// The requests of a session that are not answered yet: which wait, which are sent, which go again.
//
// A request waits for a slot (mutations, in their order), then for the stream, then for its reply.
// After a lost stream the sent ones go again, first and in their order, but for what is about that
// stream alone: reclaims, returns of attribute tokens, reports. When the session is over, what was
// sent and changes the volume is given up (its outcome is unknown), and so is everything that only
// meant something to that session (layouts, tokens, closes); the rest waits for the next session.
// Bounded by its callers: one request per waiting thread, and one post per inode held.
//
// What was answered early is done for its caller, but kept with its slot until it
// is durable. In a new epoch it goes before everything else, in the order in which it was told.
// A *delegated* request was answered by this client itself, before it is sent.
//
// Some slots are kept for what a recall waits for. All others may be taken by mutations that wait
// at the controller for another host to give up its tokens, and that host's for us.
//
// What is ready is sent in its order: a return of attribute tokens, or a close that lowers a token,
// must not be overtaken by what is granted them anew. Without a slot so many are on their way at
// once, of two kinds: those that may wait at the controller, and the *brief*, which never do. When
// so many of the first kind wait, for other hosts perhaps, those hosts may wait for a recall of
// ours: so all by which recalls are answered goes ahead of them (the brief, and mutations that
// recalls wait for), and nothing else.
// Threads: externally synchronised.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "client/session/session.h"
#include "client/session/slot_table.h"
#include "proto/mdc.pb.h"
#include "volume/base/mutex.h"

namespace reel::client {

struct PendingCall {
  enum class State { kQueued, kSent, kDone };

  explicit PendingCall(v1::Request r) : request(std::move(r)) {}

  v1::Request request;
  std::function<void(const v1::Reply&)> on_reply;  // runs when it succeeded
  // Runs once, however it ended.
  std::function<void(const absl::StatusOr<v1::Reply>&)> on_done;
  State state = State::kQueued;
  std::uint64_t session = 0;  // not under another one than this; 0: under any
  bool ever_sent = false;
  bool abandoned = false;          // its caller was interrupted
  bool under_token = false;        // as CallOptions
  std::uint64_t sent_ms = 0;       // last time
  std::uint64_t order = 0;         // of sending, once ready
  std::uint64_t early_number = 0;  // its number among those told of; 0: it was not
  // The volume sequence that is to be durable; 0: the delegated change is not answered yet.
  std::uint64_t early_sequence = 0;
  bool replaying = false;  // told, but perhaps lost: it goes out again (its state stays)
  v1::Replay replay;
  absl::StatusOr<v1::Reply> outcome = absl::UnknownError("not answered");  // valid when kDone
  CondVar done;
};
using PendingCallPtr = std::shared_ptr<PendingCall>;

class RequestQueue {
 public:
  // REQUIRES: not yet added.
  void Add(PendingCallPtr call);
  // Ahead of everything, resent requests too. REQUIRES: not a mutation.
  void AddFirst(std::vector<PendingCallPtr> calls);

  // The inode is claimed anew as open: what was added so far closes an earlier open of it.
  void Claims(std::uint64_t inode) { claimed_[inode] = next_order_; }
  // Drops such closes.
  void DropClosesOfClaimed();

  bool CanSend() { return Next().queue != nullptr; }
  // Of all that is ready nobody waits for an answer, and there is little of it: it loses nothing by
  // leaving a moment later, together with what comes meanwhile.
  bool MayGather() const;
  // The next frame: as many requests as wait and fit. REQUIRES: CanSend().
  v1::ClientFrame TakeFrame(std::uint64_t now_ms);
  // The request that this reply answers, no longer pending; null when there is none.
  PendingCallPtr Answered(std::uint64_t id);

  // Adds a request that is told of already, as `decided`; its number. 0: it has no slot, or too
  // much was told; nothing is added. REQUIRES: a mutation.
  std::uint64_t SendDelegated(const PendingCallPtr& call, const v1::Replay& decided);
  // The request that this early reply answers; null when there is none.
  PendingCallPtr NoteEarlyReply(const v1::Reply& reply);
  // All changes up to this volume sequence are durable.
  void Durable(std::uint64_t sequence);
  // What was told of this request is durable.
  void Confirmed(const PendingCallPtr& call);
  // The number up to which all that was told is durable.
  std::uint64_t confirmed() const {
    return early_.empty() ? next_early_number_ - 1 : early_.begin()->first - 1;
  }
  bool AnyEarly() const { return !early_.empty(); }
  // So much was told that slots may run out.
  bool ManyEarly() const { return 2 * early_.size() >= slots_.count() - KeptSlots(); }
  // On a new stream: what was told and may be lost goes again, in a new epoch all of it.
  void Resumed(bool new_epoch);

  bool AnySent() const { return !sent_.empty(); }
  Session::Load load() const {
    return {.slots = slots_.count(),
            .free_slots = slots_.free(),
            .waiting = for_recalls_.size() + waiting_.size() + ready_slotted_.size() +
                       ready_waiting_.size() + ready_brief_.size(),
            .unanswered = sent_.size(),
            .unconfirmed = early_.size()};
  }

  // Takes back a request that was never sent; false when it was.
  bool Remove(const PendingCallPtr& call);

  // Gives up what was about that stream alone, for which ECONNRESET is the answer.
  [[nodiscard]] std::vector<PendingCallPtr> StreamLost();
  // Gives up what cannot outlive the session, each with the errno that its caller gets.
  std::vector<std::pair<PendingCallPtr, int>> SessionOver();
  void SessionBegins(std::uint32_t slots);
  // The session goes on, with no more slots than that.
  void LimitSlots(std::uint32_t slots) { slots_.Limit(slots); }
  // Everything, for the end.
  std::vector<PendingCallPtr> TakeAll();

 private:
  using Queue = std::deque<PendingCallPtr>;
  struct Place {
    Queue* queue = nullptr;  // null: nothing may go
    std::size_t at = 0;
  };
  // What goes next.
  Place Next();
  Queue& ReadyQueueOf(const PendingCall& call);
  // How many of its kind are on their way; REQUIRES: it has no slot.
  std::uint64_t& SentLike(const PendingCall& call);
  void MakeReady(PendingCallPtr call);
  void GiveSlots();
  void GiveSlots(Queue& waiting, std::size_t keep);
  // How many slots are for `for_recalls_` alone.
  std::size_t KeptSlots() const { return slots_.count() < 2 ? 0 : (slots_.count() + 15) / 16; }

  static constexpr std::uint64_t kReplayOrder = 0, kReclaimOrder = 1, kFirstOrder = 2;

  SlotTable slots_;
  std::uint64_t next_id_ = 1;
  std::uint64_t next_order_ = kFirstOrder;
  std::uint64_t next_early_number_ = 1;
  // By the order of what comes next: claimed as open, since the stream was lost.
  absl::flat_hash_map<std::uint64_t, std::uint64_t> claimed_;
  std::uint64_t waiting_sent_ = 0;  // without a slot, and that may wait at the controller
  std::uint64_t brief_sent_ = 0;    // without a slot, and that waits for nobody
  Queue for_recalls_;               // mutations without a slot that a recall may wait for, in order
  Queue waiting_;                   // all others
  Queue ready_slotted_;             // these three by order
  Queue ready_waiting_;  // without a slot: those that may wait at the controller, and …
  Queue ready_brief_;    // … those that never do
  std::map<std::uint64_t, PendingCallPtr> sent_;   // by id: the order of sending
  std::map<std::uint64_t, PendingCallPtr> early_;  // by number; those that go again are sent, too
};

}  // namespace reel::client
