// The core's inside; core.h is its face. What waits or goes on in turns has classes of its own
// (mdc/sessions)
//   core.cc           start, ticks, durability, what administration sees
//   core_run.cc       the one path of every operation: slot → run → miss, block or commit → reply
//   core_full.cc      a metadata store with little room left (store_room.h: what waits for it)
//   core_steps.cc     operations that take more than one step
//   core_early_replies.cc      what a session is told before it is durable
//   core_tokens.cc    those who wait for data tokens, and recalls
//   core_cache.cc     attribute tokens: what sessions may cache
//   core_delegations.cc     what a session may do in a directory before the controller knows
//   core_locks.cc     those who wait for advisory locks run again; recalls of lock tokens
//   core_reap.cc      the removal of orphans, and who waits for their space
//   core_sessions.cc  Hello, Reclaim and grace, Goodbye
//   core_dump.cc      dumps of the metadata, and blocks that wait for them
//   core_fencing.cc   eviction, reservation keys, and fences
//   core_recalls.cc   recalls that are not answered, and sessions that give up
//   core_grace.cc     what clients claim again in a new epoch
//   core_release.cc   what ended sessions held, and what resumed ones are told again
//
// The order of one session's operations. All but pure reads take effect in sending order: they go
// through the session's *lane*, and one that missed keeps those behind it waiting while its key is
// fetched. (LayoutGet and LayoutReturn must not change places: the client would believe in a token
// that it has just given back.) Two kinds pass: reads, which a client that depends on an earlier
// operation sends only after that one's reply (so not past delegated changes); and whatever follows
// an operation that is *blocked*, because the answer that unblocks it may be behind it in the same
// lane. Passing a blocked operation is safe: it has not taken effect and was not acknowledged, so
// nobody can have acted on it yet.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "mdc/base/log_limit.h"
#include "mdc/base/session_clock.h"
#include "mdc/core/core.h"
#include "mdc/core/counters.h"
#include "mdc/core/outbox.h"
#include "mdc/core/store_room.h"
#include "mdc/core/term.h"
#include "mdc/ops/operation.h"
#include "mdc/ops/orphans.h"
#include "mdc/sessions/delegations.h"
#include "mdc/sessions/fencing.h"
#include "mdc/sessions/fetch_table.h"
#include "mdc/sessions/grace.h"
#include "mdc/sessions/holdings.h"
#include "mdc/sessions/long_work.h"
#include "mdc/sessions/parked_operations.h"
#include "mdc/sessions/stream_table.h"
#include "mdc/space/allocator.h"
#include "mdc/tables/session_table.h"

namespace reel::mdc {

class CoreImpl final : public Core {
 public:
  CoreImpl(MetaDb& db, const VolumeDescriptor& descriptor, const Clock& clock,
           const CoreOptions& options);
  absl::Status Begin();

  void OnStreamOpened(StreamId stream, std::string certificate) override;
  void OnRequest(StreamId stream, v1::Request request) override;
  void OnStreamEnded(StreamId stream) override;
  void OnTick() override;
  void OnDurable(Sequence sequence) override;
  void OnFetched(TicketId ticket) override;
  void OnFenced(FenceId fence, const FenceOutcome& outcome) override;
  void OnKeysSeen(const std::vector<std::uint64_t>& keys) override;
  void OnLunsSeen(const std::vector<Uuid>& lost) override;
  CoreOutputs TakeOutputs() override;
  void OnStoreSpace(StoreSpace space, bool commits_wait) override;
  absl::StatusOr<Region> TakeRegion(PoolId pool, std::uint64_t least_blocks,
                                    std::uint64_t most_blocks) override;
  ValidDumps valid_dumps() const override;
  absl::StatusOr<BegunDump> BeginDump(const Uuid& dump) override;
  absl::StatusOr<Sequence> EndDumps(const std::optional<Uuid>& kept) override;
  void OnVoidFailed() override;
  absl::Status PrepareStop() override;
  void Describe(v1::ShowReply& reply) const override;
  void Describe(v1::StatReply& reply) const override;
  void Describe(v1::WhoReply& reply) const override;
  void Describe(v1::LocksReply& reply) const override;
  void FetchLocks(std::optional<InodeNumber> inode,
                  std::function<void(bool answered)> then) override;
  void EndFetches() override;
  void BreakLocks(InodeNumber inode, std::optional<SessionId> session,
                  v1::LocksReply& reply) override;
  std::map<std::uint64_t, SessionId> KnownKeys() const override;
  absl::Status EvictSession(SessionId id, std::string_view reason) override;
  void EndStream(StreamId stream, std::string_view reason) override;
  void SetMaintenance(bool on) override { maintenance_ = on; }
  void SayFarewell(const std::string& reason, bool stopped) override;
  absl::Status health() const override { return health_; }

 private:
  enum class Outcome { kDone, kMissed, kBlocked };

  // core.cc
  // `batch` gets the records of those whose lease is longer from now on.
  absl::Status LoadSessions(WriteBatch& batch);
  absl::Status LoadReplies();
  absl::Status LoadOrphans();
  bool Apply(const WriteBatch& batch, Sequence* sequence, Haste haste = Haste::kNow,
             SessionId seen_by = SessionId());
  // Runs whatever waits for tokens that have changed, until nothing more changes.
  void RunWoken();

  // core_reap.cc
  // The next steps of removal.
  void Reap();
  void KeepForLateOpens(const std::vector<InodeNumber>& inodes);
  void KeepForRepetitions();
  void EndLateOpens(std::uint64_t now_ms);
  void FinishReap(InodeNumber inode, OpContext& ctx, const absl::StatusOr<Reaped>& reaped);
  // Space of what was removed has yet to come back.
  bool SpaceComesBack() const;
  // Of an operation that found no space: false when none comes back in time, else it is blocked
  // until all of that has.
  bool AwaitSpace(const PendingRef& op);
  void EndWaitsForSpace();
  void WakeForSpace();

  // core_run.cc
  void Operate(Session& session, v1::Request request);
  bool AdmitToSlot(Session& session, const v1::Request& request, const char* name);
  void Repeat(Session& session, Slot& slot, const v1::Request& request);
  void RunLane(Session& session);
  // Runs an operation that is in no queue, and puts it into one if it has to wait.
  void Advance(const PendingRef& op);
  Outcome Run(const PendingRef& op, bool from_queue);
  void Finish(Pending& op, OpContext& ctx, absl::Status status, v1::Reply reply);
  Sequence Commit(OpContext& ctx, const WriteBatch& batch, Haste haste,
                  SessionId seen_by = SessionId());
  void Prefetch(const Pending& op);
  bool MayLock(SessionId session, const v1::FileLock& lock) const;
  // What the session's export allows, and where that squashes, the caller's rights.
  absl::Status CheckAllowed(const Pending& op, OpContext& ctx) const;
  OpContext MakeContext(Txn& txn, SessionId session, const v1::Credentials& credentials);
  // Runs those whose wait for the store is over.
  void Resume(const std::vector<PendingRef>& waiters);
  // `waiter` may be null: nothing waits for it yet.
  void Fetch(Miss miss, const PendingRef& waiter);
  void Answer(const Session& session, const v1::Request& request, v1::Reply reply,
              Sequence waits_for);

  // core_full.cc
  void AnswerRenewal(const Session& session, const v1::Request& request);
  void DescribeFullStore(v1::ShowReply& reply) const;

  // core_dump.cc
  void LoadDumps(const v1::VolumeRecord& volume);
  absl::StatusOr<v1::VolumeRecord> ReadVolumeRecord();
  absl::StatusOr<Sequence> CommitVolumeRecord(const v1::VolumeRecord& volume);
  // The next step of giving blocks back that waited for dumps which are not valid any more.
  void FreeWaiting();
  void DescribeDumps(v1::ShowReply& reply) const;

  // core_steps.cc
  // Commits what a step has done; the next one is due.
  void CommitStep(const PendingRef& op, OpContext& ctx);
  // Runs the next steps.
  void RunUnfinished();
  // The operation waits for the rest of a truncation. EIO: nobody removes that.
  absl::Status AwaitRemoval(InodeNumber inode);

  // core_early_replies.cc
  // Whether the outcome may be told before it is durable.
  bool MayReplyEarly(const Pending& op, const OpContext& ctx) const;
  static bool MayReplay(const Session& session, const v1::Request& request);
  absl::Status TakeReplay(const Pending& op, OpContext& ctx);
  absl::StatusOr<ReservedInode> ReserveAgain(SessionId session, const v1::Replay& replay);
  // The session is served once it has said what it holds, and done again what was lost.
  void EndReclaim(Session& session);

  // core_tokens.cc
  void Park(const PendingRef& op, InodeNumber inode);
  // Runs those parked on the inode, in their order, until one has to wait on.
  void RunParked(InodeNumber inode);
  bool WaitsInOrder(const Pending& op) const;
  // Somebody else stands in line for the inode of a LayoutGet.
  bool OthersWait(const Pending& op) const;
  void SendRecalls(const std::vector<Recall>& recalls);

  // core_cache.cc
  void SendAttrRecalls(const std::vector<Recall>& recalls);
  // Blocks the operation while another session caches an inode that it changes.
  absl::Status RequireUncached(OpContext& ctx);
  // Grants attribute tokens of what the reply describes, and says so in it.
  void GrantCaching(const Pending& op, OpContext& ctx, v1::Reply& reply);
  // Says what became of inodes that the session caches, and forgets tokens of those that are gone.
  void FillChanged(const Session& session, OpContext& ctx, v1::Reply& reply);

  // core_delegations.cc
  // Blocks the operation while another session holds alone what it has looked at.
  absl::Status RequireUndelegated(const Pending& op, OpContext& ctx);
  // Makes the context of a delegated operation; EPROTO: its session may not delegate it.
  absl::Status TakeDelegated(const Pending& op, OpContext& ctx);
  void QuarantineReservedInode(const Pending& op);
  // Some of what waits in its lane is delegated.
  static bool AnyDelegated(const Session& session);
  bool MayDelegate(const Session& session, InodeNumber directory) const;
  // Grants the directories that the operation has changed exclusively, and what may be made in
  // them, where the request asks for that; and says so in the reply.
  void GrantDelegations(const Pending& op, OpContext& ctx, v1::Reply& reply);
  void GrantReservedInodes(const Pending& op, OpContext& ctx, v1::Reply& reply);
  // Lets others look at directories in which nothing was made for long.
  void RecallIdle();
  void DropReservedInodes(SessionId session, InodeNumber directory);

  // core_locks.cc
  void RunLockWaits(InodeNumber inode);
  void CancelLockWait(SessionId session, std::uint64_t wait);
  void GiveUpLockWait(const Pending& op);
  bool WaitsForOwnLockToken(const Pending& op) const;
  void RecallLocks(InodeNumber inode, bool contended);
  void SendLockRecall(const LockToken& token);
  // Runs those who have waited for the inode's lock token, once it is back.
  void RunLockTokenWaits(InodeNumber inode);

  // core_sessions.cc
  void OnHello(StreamId stream, const v1::Request& request);
  // The protocol version that is spoken with who says this Hello.
  absl::StatusOr<std::uint32_t> Negotiate(const v1::Hello& hello) const;
  void TakeHello(Session& session, const v1::Hello& hello);
  // The export of a client that says Hello; false: it gets none, and has been told so.
  bool FindExport(StreamId stream, const v1::Request& request, std::string_view host,
                  Export& found);
  void Register(StreamId stream, const v1::Request& request, const Uuid& client);
  void Resume(StreamId stream, const v1::Request& request, const Uuid& client);
  void AnswerHello(const Session& session, const v1::Request& request, Sequence waits_for);
  void OnReclaim(Session& session, const v1::Request& request);
  // Takes over what the session says it holds. Empty; or why no session can hold that.
  std::string TakeClaims(Session& session, const v1::Reclaim& claims);
  void OnGoodbye(Session& session, const v1::Request& request);
  void RenewLease(Session& session);
  bool IsUnheard() const;
  // An answer with an error, and the end of the stream: for what no correct client sends.
  void Refuse(StreamId stream, std::uint64_t id, int error, std::string_view message);
  void RefuseHello(StreamId stream, std::uint64_t id, int error, std::string_view message);
  void DropOperations(Session& session);
  // Its record goes and others get what it held, at once; returns the commit's sequence.
  Sequence Forget(Session& session);
  void OnGraceOver();

  // core_release.cc
  // The session goes, and others get what it held. REQUIRES: its record is gone.
  void Release(Session& session);
  // A session begins to claim anew: its Hello is answered when what it had claimed is forgotten.
  void ReleaseClaims(Session& session);
  // Gives away what is left of them, as much as this turn may.
  void ReleaseSome();
  // False: the turn was too short, and there is more.
  bool ReleaseHoldings(SessionId session);
  bool ReleaseReservedInodes(SessionId session);
  // Sends the recalls of resumed sessions again.
  void ResendRecalls(Resends::Turn turn);
  void Resend(const Resends::Slice& slice);

  // core_fencing.cc
  bool MustFence(const Session& session) const {
    return options_.reservations && !session.record.keys().empty();
  }
  // It ends at once: it holds nothing, and nothing that it had sent can still be executing where no
  // key keeps it out. `drain` as below.
  bool MayForget(const Session& session, bool drain) const {
    return !MustFence(session) && (!drain || options_.keyless_quarantine_ms == 0);
  }
  // What keeps it off the LUNs for good, once its record says that it is over. `drain` as below.
  FenceRun FenceOf(const Session& session, bool drain) const;
  // Records that the session is over. `drain`: what it had sent may still be executing, even where
  // its keys are gone, or where it had none.
  bool BeginEnding(Session& session, bool drain);
  void Evict(Session& session, std::string_view reason);
  void ForgetRecord(Session& session);
  void AdvanceFences();
  void AdvanceEnding(Session& session, std::uint64_t now_ms);
  // The session's run that waits for the outcome of this order; null: none does.
  static FenceRun* FindFence(Session& session, FenceId fence);
  void OnNewKey(Session& session, const v1::Request& request);
  void AdvanceRekeys(Session& session, std::uint64_t now_ms);
  static std::string StateOf(const Session& session);
  void DescribeAlarms(v1::ShowReply& reply) const;

  // core_recalls.cc
  void NoteRecalls(const std::vector<Recall>& recalls, RecallClock::Kind kind);
  // For how long the session's oldest recall has been out; 0: none is.
  std::uint64_t RecallAgeMs(Session& session) const;
  // Why a session must be evicted that does not answer a recall; empty: it need not.
  std::string OverdueRecall(Session& session) const;
  void OnGiveUp(Session& session, const v1::Request& request);
  // The controller has looked at that LUN a moment ago, and has reached it.
  bool Reaches(const std::string& lun) const;
  void NoteCutOff(const Session& session, std::string_view reason);
  void DescribeRecallAlarms(v1::ShowReply& reply) const;

  MetaDb& db_;
  const VolumeDescriptor descriptor_;
  std::string framed_descriptor_;
  const Clock& clock_;
  const CoreOptions options_;
  bool maintenance_ = options_.maintenance;
  absl::Status health_;

  Term term_;
  SessionClock session_clock_{clock_, options_.session_lease_ms};
  Grace grace_;
  Fencing fencing_;

  InFlight in_flight_;
  std::unique_ptr<Allocator> allocator_;
  std::unique_ptr<InodeNumbers> inode_numbers_;
  Holdings holdings_;
  Delegations delegations_{options_.shared_ms};
  SessionTable sessions_;
  StreamTable streams_;
  Outbox outbox_;
  StoreRoom store_room_;

  FetchTable fetches_;
  ParkedOperations parked_;
  LongWork work_{kStepHoldings, options_.steps.reaped};

  Counters counters_;
  LogLimit refusals_;
};

}  // namespace reel::mdc
