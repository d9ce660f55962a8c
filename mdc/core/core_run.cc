// The one path of every operation: slot → run → miss, block or commit → reply.
#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "mdc/core/core_impl.h"
#include "mdc/metadb/schema.h"
#include "mdc/ops/access.h"
#include "proto/convert.h"
#include "proto/records.pb.h"
#include "proto/request_kind.h"
#include "proto/status.h"
#include "spdlog/spdlog.h"

namespace reel::mdc {
namespace {

// After so many fetches whose results did not stay in memory long enough, the core reads for
// itself.
constexpr std::uint32_t kMaxMisses = 8;
// Operations without a slot that a session may have under way; the kernel's own limits are far
// lower.
constexpr std::uint32_t kMaxUnslotted = 4096;
// Memory of the operations that a session may have under way: twice what a client has that commits
// with all slots (three quarters of a MiB each), and returns as many locks as it may hold, at once.
constexpr std::size_t kMaxWaitingBytes = std::size_t{CoreOptions::kMostSlots} * 3 / 2 << 20;
// Of answers that wait to become durable.
constexpr std::size_t kMaxAnswerBytes = std::size_t{64} << 20;
// How many of the operations behind a fetch have their own keys fetched at the same time.
constexpr std::size_t kPrefetchLane = 64;

// Of short requests their length says enough.
std::size_t MemoryOf(const v1::Request& request) {
  constexpr std::size_t kShort = 4096;
  const std::size_t bytes = request.ByteSizeLong();
  return bytes <= kShort ? bytes : request.SpaceUsedLong();
}

// What is kept of a reply for its repetition: all but grants, which are made anew.
std::string StoredForm(const v1::Reply& reply) {
  if (!reply.has_layout() && !reply.entry().has_layout()) return reply.SerializeAsString();
  v1::Reply bare = reply;
  bare.clear_layout();
  if (bare.has_entry()) bare.mutable_entry()->clear_layout();
  return bare.SerializeAsString();
}

}  // namespace

void CoreImpl::Operate(Session& session, v1::Request request) {
  if (OperationFor(request.op_case()) == nullptr) {
    v1::Reply reply;
    reply.set_error(EOPNOTSUPP);
    reply.set_message("the controller does not know this operation");
    Answer(session, request, std::move(reply), Sequence());
    return;
  }
  const char* const name = NameOf(request.op_case());
  // (Who has asked for blocks without a slot may ask for them again.)
  if (request.slot() == 0 && Is(request, kMutation) && !request.has_layout_get()) {
    Refuse(session.stream, request.id(), EPROTO, absl::StrCat(name, " carries no slot"));
    return;
  }
  const std::size_t bytes = MemoryOf(request);
  if (session.waiting >= options_.slots + kMaxUnslotted ||
      session.waiting_bytes + bytes > kMaxWaitingBytes ||
      outbox_.queue.WaitingBytes(session.stream) > kMaxAnswerBytes) {
    Refuse(session.stream, request.id(), EPROTO, "too many operations at once");
    return;
  }
  if (request.slot() != 0 && !AdmitToSlot(session, request, name)) return;

  auto op = std::make_shared<Pending>();
  op->request = std::move(request);
  op->session = session.id;
  op->stream = session.stream;
  op->bytes = bytes;
  Squash(session.exported, *op->request.mutable_credentials());
  // What a client locks by itself, nobody here looks at.
  if (op->request.has_set_lock() && Restricts(session.exported)) {
    op->request.mutable_set_lock()->set_take(false);
  }
  op->ordered = op->request.slot() != 0 || !Is(op->request, kRead);
  ++session.waiting;
  session.waiting_bytes += bytes;
  const bool replay = op->request.has_replay();
  if (replay) ++session.reclaim.replays_left;
  if (grace_.on() && !replay) {
    session.lane.push_back(std::move(op));
  } else if (!op->ordered && !AnyDelegated(session)) {
    Advance(op);
  } else {
    session.lane.push_back(op);
    if (session.lane.size() == 1) {
      RunLane(session);
    } else if (session.lane.size() <= kPrefetchLane) {
      Prefetch(*op);
    }
  }
}

// True when the operation is new and may run; a repetition has been answered, an error refused.
bool CoreImpl::AdmitToSlot(Session& session, const v1::Request& request, const char* name) {
  const std::uint64_t sequence = request.slot_sequence();
  if (request.slot() >= session.slots.size() || sequence == 0) {
    Refuse(session.stream, request.id(), EPROTO,
           absl::StrCat(name, " in slot ", request.slot(), " of ", session.slots.size() - 1,
                        ", sequence ", sequence, ": no such slot or sequence"));
    return false;
  }
  Slot& slot = session.slots[request.slot()];
  if (slot.running == 0 && sequence == slot.sequence) {
    Repeat(session, slot, request);
    return false;
  }
  const bool next = slot.resumed ? sequence > slot.sequence : sequence == slot.sequence + 1;
  if (slot.running != 0 || !next) {
    Refuse(session.stream, request.id(), EPROTO,
           absl::StrCat(name, " in slot ", request.slot(), " has sequence ", sequence, " after ",
                        slot.running != 0 ? slot.running : slot.sequence,
                        slot.running != 0 ? ", which is not done" : ""));
    return false;
  }
  slot.running = sequence;
  return true;
}

void CoreImpl::Repeat(Session& session, Slot& slot, const v1::Request& request) {
  v1::Reply reply;
  if (!reply.ParseFromString(slot.reply)) {
    reply.Clear();
    reply.set_error(EIO);
    reply.set_message("the stored reply is damaged; run fsck.reelfs");
  }
  ++counters_.repetitions;
  // Grants are made anew: an open that the old epoch registered died with it. (Who does it again
  // says by itself what it still has open.)
  if (slot.resumed && reply.error() == 0 && request.has_create() && request.create().open() &&
      !request.has_replay()) {
    holdings_.opens.Open(session.id, InodeNumber(reply.entry().attr().inode()));
  }
  slot.resumed = false;
  reply.set_sequence(term_.VolumeSequence(outbox_.queue.durable()).value());
  Answer(session, request, std::move(reply), slot.waits_for);
}

void CoreImpl::RunLane(Session& session) {
  while (!session.lane.empty() && session.phase != Session::Phase::kEnding && health_.ok()) {
    const PendingRef op = session.lane.front();
    const bool served = !grace_.on() && session.phase == Session::Phase::kServing;
    if (op->fetching || !(served || op->request.has_replay())) return;
    if (!op->ordered) {
      session.lane.pop_front();
      Advance(op);
      continue;
    }
    switch (Run(op, /*from_queue=*/false)) {
      case Outcome::kMissed:
        return;
      case Outcome::kBlocked:
        session.lane.pop_front();
        Park(op, op->blocked_on);
        break;
      case Outcome::kDone:
        // Running may have ended the session's stream, but never the lane's own entry.
        if (!session.lane.empty() && session.lane.front() == op) session.lane.pop_front();
        break;
    }
  }
}

void CoreImpl::Advance(const PendingRef& op) {
  if (Run(op, /*from_queue=*/false) == Outcome::kBlocked) Park(op, op->blocked_on);
}

OpContext CoreImpl::MakeContext(Txn& txn, SessionId session, const v1::Credentials& credentials) {
  return OpContext{.txn = txn,
                   .caller = {.session = session, .credentials = credentials},
                   .now = clock_.WallNow(),
                   .next_sequence = term_.VolumeSequence(db_.last_applied() + 1),
                   .descriptor = descriptor_,
                   .inode_numbers = *inode_numbers_,
                   .allocator = *allocator_,
                   .tokens = holdings_.tokens,
                   .attr_tokens = holdings_.attr_tokens,
                   .opens = holdings_.opens,
                   .locks = holdings_.locks,
                   .lock_tokens = holdings_.lock_tokens,
                   .quota = {.state = &work_.quotas.state(),
                             .reserved = &delegations_.reserved(),
                             .now_seconds = clock_.WallNow().seconds,
                             .bandwidth = &work_.bandwidth.book()},
                   .steps = options_.steps,
                   .directory_moves = &term_.directory_moves};
}

// A client that is not allowed everything tells of every open, but of directories that it caches;
// and that it is a file's single writer before.
bool CoreImpl::MayLock(SessionId session, const v1::FileLock& lock) const {
  return lock.type() == v1::LOCK_NONE || lock.kind() == v1::LOCK_WRITER ||
         !Restricts(sessions_.all().at(session)->exported) ||
         holdings_.opens.IsOpenBy(session, InodeNumber(lock.inode())) ||
         holdings_.attr_tokens.Held(session, InodeNumber(lock.inode())) != v1::TOKEN_NONE;
}

absl::Status CoreImpl::CheckAllowed(const Pending& op, OpContext& ctx) const {
  const Export& exported = sessions_.all().at(op.session)->exported;
  if (exported.access == Export::Access::kReadOnly && Is(op.request, kChangesVolume)) {
    return ErrnoStatus(EROFS, "the volume is exported read-only to this client");
  }
  if (op.request.has_set_lock() && !MayLock(op.session, op.request.set_lock().lock())) {
    return ErrnoStatus(EPERM, absl::StrCat("a lock of inode ", op.request.set_lock().lock().inode(),
                                           ", which the client has not open"));
  }
  return Squashes(exported) ? CheckAccess(ctx, op.request) : absl::OkStatus();
}

CoreImpl::Outcome CoreImpl::Run(const PendingRef& op, bool from_queue) {
  // Each answer to its recalls has queued another step, and the first one was enough.
  if (op->reap != InodeNumber(0) && !work_.orphans.Contains(op->reap)) {
    work_.orphans.EndStep();
    return Outcome::kDone;
  }
  // An open answers without its token rather than wait; LayoutGet waits its turn.
  if (!from_queue && op->request.has_layout_get() && WaitsInOrder(*op)) {
    op->blocked_on = InodeNumber(op->request.layout_get().inode());
    return Outcome::kBlocked;
  }
  if (op->job != JobId(0) && op->job != work_.moves.stepping) return Outcome::kDone;
  const StoreRoom::Wait wait = store_room_.WaitOf(*op, work_.orphans.all());
  if (wait != StoreRoom::Wait::kNone) {
    store_room_.Hold(op, wait, clock_.NowMs());
    return wait == StoreRoom::Wait::kToGrow ? Outcome::kMissed : Outcome::kBlocked;
  }
  const Tier tier = op->misses >= kMaxMisses ? Tier::kAll : Tier::kMemory;
  if (tier == Tier::kAll) ++counters_.inline_reads;
  Txn txn(db_, in_flight_, tier, op->session);
  OpContext ctx = MakeContext(txn, op->session, op->request.credentials());
  ctx.progress = op->progress;
  ctx.walks = &op->walks;
  const bool of_request = op->reap == InodeNumber(0) && op->job == JobId(0);
  const bool full = store_room_.full() && of_request;
  const std::uint64_t walked = op->walks[0].levels + op->walks[1].levels;
  const bool seen_by = op->request.has_delegated() || op->request.has_replay();
  absl::Status may_be;
  if (op->request.has_replay()) may_be = TakeReplay(*op, ctx);
  if (op->request.has_delegated()) may_be = TakeDelegated(*op, ctx);
  ctx.store.full = full && !seen_by;
  ctx.store.spent = ctx.store.full && store_room_.spent();
  ctx.store.removing_blocks = work_.orphans.removing().blocks;
  ctx.others.cached = op->blocked_on != InodeNumber(0);
  ctx.others.wait = OthersWait(*op);
  v1::Reply reply;
  absl::Status status;
  absl::StatusOr<Reaped> reaped = Reaped::kMore;
  MoveFound found;
  if (op->reap != InodeNumber(0)) {
    reaped = ReapOrphan(ctx, op->reap, work_.quotas.freeing().contains(op->reap));
    status = reaped.status();
  } else if (op->job != JobId(0)) {
    status = StepJob(*op, ctx, found);
  } else if (!may_be.ok()) {
    status = std::move(may_be);
  } else if (ctx.store.full && KindOf(op->request).store == StoreUse::kGrows &&
             !op->request.has_layout_get()) {
    status = StoreIsFull();
  } else {
    status = CheckAllowed(*op, ctx);
    if (status.ok()) status = OperationFor(op->request.op_case())(ctx, op->request, reply);
    if (!txn.missed() && !ctx.blocked.on) {
      if (absl::Status undelegated = RequireUndelegated(*op, ctx); !undelegated.ok())
        status = undelegated;
    }
    if (status.ok()) status = RequireUncached(ctx);
  }
  if (status.ok() && !txn.missed()) status = ChargeQuotas(*op, ctx);
  if (txn.missed()) {
    allocator_->Abandon();
    // A walk up the directories may miss each of them, and goes on from there.
    op->misses = op->walks[0].levels + op->walks[1].levels == walked ? op->misses + 1 : 1;
    Fetch(*txn.missed(), op);
    return Outcome::kMissed;
  }
  op->waits_for_removal = false;
  if (!status.ok() && ctx.blocked.by_removal) {
    allocator_->Abandon();
    op->blocked_on = *ctx.blocked.on;
    status = AwaitRemoval(op->blocked_on);
    op->waits_for_removal = status.ok();
    if (status.ok()) return Outcome::kBlocked;
    ctx.blocked.on.reset();
  }
  const bool of_quota = ErrnoOf(status) == EDQUOT;
  const bool no_space = ErrnoOf(status) == ENOSPC || of_quota;
  if (no_space && of_request && !op->request.has_set_xattr() &&
      (AwaitQuota(op, ctx) || AwaitSpace(op, of_quota))) {
    return Outcome::kBlocked;
  }
  op->waits_for_lock_token = ctx.waits_for_lock_token.has_value();
  if (op->waits_for_lock_token) {
    op->blocked_on = *ctx.waits_for_lock_token;
    RecallLocks(op->blocked_on, holdings_.lock_tokens.Find(op->blocked_on)->session != op->session);
    return Outcome::kBlocked;
  }
  if (!status.ok() && ctx.waits_for_lock) return Outcome::kBlocked;
  // What nobody waits for takes nothing from others, and is granted nothing beside them: EAGAIN.
  const bool ahead = op->request.lookup().ahead() || op->request.read_dir().layouts() > 0;
  if (!status.ok() && ctx.blocked.on && ahead) ctx.effects.described.clear();
  if (!status.ok() && ctx.blocked.on && !ahead) {
    allocator_->Abandon();
    ++counters_.blocked;
    if (ctx.blocked.by_attr) {
      if (!holdings_.attr_tokens.OthersAtMost(op->session, *ctx.blocked.on, v1::TOKEN_SHARED)) {
        delegations_.shared().Note(*ctx.blocked.on, clock_.NowMs());
      }
      RecallSiblings(*op, *ctx.blocked.on);
      SendAttrRecalls(
          holdings_.attr_tokens.RecallOthers(op->session, *ctx.blocked.on, ctx.blocked.at_most));
    } else {
      const SessionId spared = ctx.blocked.by_all ? SessionId(0) : op->session;
      SendRecalls(holdings_.tokens.RecallOthers(spared, *ctx.blocked.on, ctx.blocked.at_most,
                                                ctx.blocked.span));
    }
    op->blocked_on = *ctx.blocked.on;
    return Outcome::kBlocked;
  }
  if (status.ok() && ctx.unfinished) {
    CommitStep(op, ctx);
    // Done again in sending order; else what follows may pass: nobody was told of it.
    return op->request.has_replay() ? Outcome::kMissed : Outcome::kBlocked;
  }
  if (op->reap != InodeNumber(0)) {
    FinishReap(op->reap, ctx, reaped);
  } else if (op->job != JobId(0)) {
    FinishJobStep(op, ctx, status, std::move(found));
  } else {
    Finish(*op, ctx, std::move(status), std::move(reply));
  }
  return Outcome::kDone;
}

// Applies what the operation staged, and settles the tables. Returns the commit's sequence; 0 when
// there was nothing to commit, or when the store has failed.
Sequence CoreImpl::Commit(OpContext& ctx, const WriteBatch& batch, Haste haste, SessionId seen_by) {
  Sequence sequence;
  if (!batch.empty() && !Apply(batch, &sequence, haste, seen_by)) {
    allocator_->Abandon();
    return sequence;
  }
  allocator_->Committed(sequence);
  TellQuotaEvents(ctx, /*committed=*/true);
  NoteAhead(ctx);
  for (const auto& action : ctx.effects.on_commit) action();
  for (const InodeNumber inode : ctx.effects.orphans) {
    work_.orphans.Add(inode);
    NoteOrphanSpace(ctx, inode);
    work_.orphans.Queue(inode);
  }
  return sequence;
}

void CoreImpl::Finish(Pending& op, OpContext& ctx, absl::Status status, v1::Reply reply) {
  Session& session = *sessions_.Find(op.session);
  --session.waiting;
  session.waiting_bytes -= op.bytes;
  ++session.operations;
  counters_.Ended(op.request.op_case());
  Sequence waits_for = ctx.txn.seen();
  if (op.request.has_sync()) waits_for = db_.last_applied();
  const bool early = status.ok() && MayReplyEarly(op, ctx);
  Slot* slot = op.request.slot() != 0 ? &session.slots[op.request.slot()] : nullptr;
  if (status.ok()) {
    // Stored too: who asks once more has to learn that the blocks are others than it was told.
    if (op.request.has_replay()) reply.set_replayed(true);
    if (slot != nullptr) slot->reply = StoredForm(reply);
    FillChanged(op, ctx, reply);
    // Ahead of the reply: nothing is made there any more by the time that its caller goes on.
    for (const InodeNumber inode : ctx.effects.stale_reservations) {
      SendAttrRecalls(holdings_.attr_tokens.RecallOthers(SessionId(0), inode, v1::TOKEN_SHARED));
    }
    GrantCaching(op, ctx, reply);
    GrantDelegations(op, ctx, reply);
    if (ctx.decided.delegated != nullptr) ++counters_.delegated;
    if (ctx.decided.replay != nullptr) ++counters_.replayed;
    for (const InodeNumber inode : ctx.effects.soon_wanted) {
      SendRecalls(holdings_.tokens.RecallOthers(session.id, inode, v1::TOKEN_SHARED));
    }
    WriteBatch batch = ctx.txn.TakeBatch();
    if (slot != nullptr) {
      if (!batch.empty()) {
        v1::StoredReply record;
        record.set_sequence(op.request.slot_sequence());
        record.set_reply(slot->reply);
        batch.Put(schema::ReplyKey(session.id, op.request.slot()), record.SerializeAsString());
      }
    }
    // (Of access times nobody is promised anything: they take no sync of their own.)
    const bool promises = !op.request.has_accessed();
    const bool hurries = promises && !early && ctx.decided.delegated == nullptr;
    const Haste haste = hurries ? Haste::kNow : Haste::kWhenAsked;
    const Sequence committed = Commit(ctx, batch, haste, early ? op.session : SessionId());
    if (promises) waits_for = std::max(waits_for, committed);
    if (!health_.ok()) return;
    KeepForLateOpens(ctx.effects.late_opens);
  } else {
    allocator_->Abandon();
    TellQuotaEvents(ctx, /*committed=*/false);
    ++counters_.errors;
    reply.Clear();
    reply.set_error(ErrnoOf(status));
    reply.set_message(std::string(status.message()));
    if (reply.error() == EIO) {
      spdlog::error("{} for session {}: {}", NameOf(op.request.op_case()), session.id.value(),
                    status.ToString());
    }
    if (slot != nullptr) slot->reply = reply.SerializeAsString();
    if (op.request.has_delegated()) QuarantineReservedInode(op);
    GrantCaching(op, ctx, reply);  // of a name that is absent
  }
  if (slot != nullptr) {
    slot->sequence = op.request.slot_sequence();
    slot->running = 0;
    slot->resumed = false;
    slot->waits_for = waits_for;
  }
  reply.set_sequence(term_.VolumeSequence(std::max(waits_for, outbox_.queue.durable())).value());
  if (early && waits_for > outbox_.queue.durable()) {
    v1::EarlyReply& early = *reply.mutable_early();
    early.set_durable(term_.VolumeSequence(outbox_.queue.durable()).value());
    *early.mutable_time() = ToProto(ctx.now);
    waits_for = Sequence();
  }
  if (op.request.has_replay() && --session.reclaim.replays_left == 0) grace_.DidAgain(session.id);
  if (const auto token = KindOf(op.request).token_inode) {
    // Others may wait for a token that came down; an orphan, for its last close or token.
    if (op.request.has_layout_return() || op.request.close().lowers_token()) parked_.Wake(*token);
    work_.orphans.Queue(*token);
  }
  if (op.request.has_set_lock()) {
    holdings_.lock_waits.Wake(InodeNumber(op.request.set_lock().lock().inode()));
  }
  if (op.request.has_lock_return()) {
    holdings_.lock_waits.Wake(InodeNumber(op.request.lock_return().inode()));
  }
  if (op.request.has_cancel_lock() && status.ok())
    CancelLockWait(session.id, op.request.cancel_lock().wait());
  if (op.request.has_attr_return()) {
    for (const std::uint64_t inode : op.request.attr_return().inodes()) {
      DropReservedInodes(op.session, InodeNumber(inode));
      parked_.Wake(InodeNumber(inode));
    }
    reply.set_id(op.request.id());
    outbox_.queue.EmitLast(session.stream, std::move(reply));
    return;
  }
  if (op.request.has_close() && waits_for == Sequence()) {
    reply.set_id(op.request.id());
    outbox_.queue.EmitIdle(session.stream, std::move(reply));
    return;
  }
  Answer(session, op.request, std::move(reply), waits_for);
}

void CoreImpl::Answer(const Session& session, const v1::Request& request, v1::Reply reply,
                      Sequence waits_for) {
  reply.set_id(request.id());
  std::vector<OutputQueue::TokenOf> tokens;
  if (const auto inode = KindOf(request).token_inode) tokens.emplace_back(session.id, *inode);
  if (reply.entry().has_layout()) {  // granted to the file that the operation has made, or found
    tokens.emplace_back(session.id, InodeNumber(reply.entry().attr().inode()));
  }
  for (const v1::ReadDirReply::Entry& entry : reply.read_dir().entries()) {
    if (entry.has_layout()) tokens.emplace_back(session.id, InodeNumber(entry.inode()));
  }
  // The session that sent it goes on already.
  const auto wanted =
      request.has_delegated() ? OutputQueue::Wanted::kNo : OutputQueue::Wanted::kYes;
  outbox_.queue.Emit(session.stream, std::move(reply), waits_for, tokens, wanted);
}

}  // namespace reel::mdc
