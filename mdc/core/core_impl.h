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
//   core_quota.cc     usage is charged and counted, limits are set
//   core_dump.cc      dumps of the metadata, and blocks that wait for them
//   core_free.cc      free space, as people are told of it, and before it runs out
//   core_scrub.cc     scrubs: what is to be checked, what was found, and by which schedule
//   core_fencing.cc   eviction, reservation keys, and fences
//   core_recalls.cc   recalls that are not answered, and sessions that give up
//   core_map.cc       changes of the volume's map
//   core_grace.cc     what clients claim again in a new epoch
//   core_reports.cc   what administration asks of sessions
//   core_bandwidth.cc     bandwidth that is reserved, and dealt out
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
#include "mdc/core/long_work.h"
#include "mdc/core/outbox.h"
#include "mdc/core/space/store_room.h"
#include "mdc/core/term.h"
#include "mdc/ops/operation.h"
#include "mdc/ops/orphans.h"
#include "mdc/ops/quota_admin.h"
#include "mdc/sessions/counters.h"
#include "mdc/sessions/delegations.h"
#include "mdc/sessions/fencing.h"
#include "mdc/sessions/fetch_table.h"
#include "mdc/sessions/grace.h"
#include "mdc/sessions/holdings.h"
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
  void OnCopied(CopyId copy, const absl::Status& outcome, bool may_land) override;
  void OnRestriped(JobId job, const absl::Status& outcome) override;
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
  absl::Status MayGrow() const override;
  absl::Status TakeMap(const VolumeDescriptor& next, std::uint64_t keyless_quarantine_ms) override;
  absl::StatusOr<Sequence> SetClosed(const std::vector<mdc::Run>& areas, bool closed) override;
  absl::StatusOr<ChangedJob> StartJob(
      const v1::StartJobRequest& request,
      const std::optional<Replacement>& instead = std::nullopt) override;
  absl::StatusOr<ChangedJob> ChangeJob(JobId job, v1::JobState state) override;
  std::optional<ScrubOrder> BeginScrub() const override;
  bool NoteScrub(JobId job, std::uint64_t looked, std::uint64_t total) override;
  void EndScrub(JobId job, const absl::StatusOr<v1::ScrubRecord>& found) override;
  absl::Status PrepareStop() override;
  void Describe(v1::ShowReply& reply) const override;
  void Describe(v1::StatReply& reply) const override;
  void Describe(v1::WhoReply& reply) const override;
  void Describe(v1::LocksReply& reply) const override;
  void DescribeLuns(v1::WhoReply& reply) const override;
  void DescribeOpenFiles(InodeNumber only, v1::OpenFilesReply& reply) const override;
  std::vector<Connected> connected() const override;
  void SetExports(std::vector<Export> exports) override;
  void Describe(v1::JobsReply& reply) const override;
  void Describe(v1::FreeReply& reply) const override;
  void FetchLocks(std::optional<InodeNumber> inode,
                  std::function<void(bool answered)> then) override;
  void AwaitDurable(Sequence sequence, std::function<void(bool durable)> then) override {
    outbox_.waits.Await(sequence, std::move(then));
  }
  void EndFetches() override;
  void BreakLocks(InodeNumber inode, std::optional<SessionId> session,
                  v1::LocksReply& reply) override;
  absl::Status Describe(const v1::QuotasRequest& request, v1::QuotasReply& reply) const override;
  void SetQuotas(const v1::SetQuotasRequest& request, v1::SetQuotasReply& reply,
                 std::function<void(const absl::Status&)> then) override;
  void Describe(v1::BandwidthReply& reply) const override;
  void SetBandwidth(const v1::SetBandwidthRequest& request, v1::SetBandwidthReply& reply,
                    std::function<void(const absl::Status&)> then) override;
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

  // space/core_reap.cc
  // The next steps of removal.
  void Reap();
  void KeepForLateOpens(const std::vector<InodeNumber>& inodes, bool promised = false);
  void KeepForRepetitions();
  void EndLateOpens(const std::vector<InodeNumber>& inodes);
  // What the orphan holds after this step or operation.
  void NoteOrphanSpace(OpContext& ctx, InodeNumber inode);
  void FinishReap(InodeNumber inode, OpContext& ctx, const absl::StatusOr<Reaped>& reaped);
  // Space of what was removed, or freed otherwise, has yet to come back.
  bool SpaceComesBack() const;
  // Of an operation that found no space: false when none comes back in time, else it is blocked
  // until all of that has.
  bool AwaitSpace(const PendingRef& op, bool of_quota);
  void EndWaitsForSpace();
  void WakeForSpace();

  // space/core_ahead.cc
  void NoteAhead(const OpContext& ctx);
  // Of an operation that a quota's limit stopped: false when others have nothing ahead of it, or
  // when it has waited for that long enough; else it is blocked until some of it has come back.
  bool AwaitQuota(const PendingRef& op, const OpContext& ctx);
  // What files charged to one of the ids have ahead is to come back, but for one file.
  void RecallAhead(const std::vector<QuotaId>& ids, InodeNumber but);
  // Has the controller free what a file has ahead, unless a session holds a token of it by then.
  void FreeAhead(InodeNumber inode);
  // The steps for the inode have come to their end: whoever waits for that looks again.
  void NoteAheadFreed(InodeNumber inode);
  void EndWaitsForQuota();

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

  // space/core_jobs.cc
  // The next step of the job that runs now, where it is due.
  void RunJobs();
  // An operation's part of it.
  absl::Status StepJob(const Pending& op, OpContext& ctx, MoveFound& found);
  void FinishJobStep(const PendingRef& op, OpContext& ctx, const absl::Status& status,
                     MoveFound found);
  void BeginMove(JobId job, OpContext& ctx, MoveFound found);
  void FinishSwitch(OpContext& ctx, const absl::Status& status);
  // What was found, or is under way, stays where it is.
  void GiveUpMove(bool keeps_targets);
  void EndJob(JobId job, v1::JobState state, std::string problem);
  // Others wait for what it holds of the inode.
  void BreakMove(InodeNumber inode);
  std::uint64_t UsedDataBlocks() const;

  // space/core_restripe.cc
  absl::Status MayRestripe(const v1::JobRecord& job) const;
  // True: there is something to be moved for the job, or for one of another kind.
  bool AdvanceRestripe(JobId job);
  bool ChooseSlice(JobId job);
  // All files have been looked at.
  void FinishSlice(JobId job);
  // Files may have the slice again. False: the store has failed.
  bool ReopenSlice(JobId job, WriteBatch& batch);
  void RecallReserved(const mdc::Run& area);
  // A job empties some of the area, and must not be disturbed: which one.
  std::optional<JobId> EmptiedBy(const std::vector<mdc::Run>& areas) const;
  // At start: what was free of blocks that are in the map no longer.
  absl::Status ForgetGaps();
  void DropGaps(Txn& txn);

  // space/core_scrub.cc
  // The scrub that runs under that number; null: none does.
  v1::JobRecord* RunningScrub(JobId job);
  void RunScrubSchedule();

  // space/core_free.cc
  // Of the pools that files of that affinity may lie in; empty: files without one.
  v1::FreeReply::Use UseOf(const std::string& affinity) const;
  // Says once when it runs out.
  void WatchFreeSpace();
  void DescribeScrub(v1::ShowReply& reply) const;

  // space/core_full.cc
  void AnswerRenewal(const Session& session, const v1::Request& request);
  void DescribeFullStore(v1::ShowReply& reply) const;

  // space/core_dump.cc
  void LoadDumps(const v1::VolumeRecord& volume);
  absl::StatusOr<v1::VolumeRecord> ReadVolumeRecord();
  absl::StatusOr<Sequence> CommitVolumeRecord(const v1::VolumeRecord& volume);
  // The next step of giving blocks back that waited for dumps which are not valid any more.
  void FreeWaiting();
  void DescribeDumps(v1::ShowReply& reply) const;

  // space/core_map.cc
  // Of the map that is in force, at start and when another comes; what the record does not say is
  // filled in.
  absl::Status LoadMap(v1::VolumeRecord& volume);
  void TellMap(const Session& session);
  void NoteMapOf(Session& session, const v1::Hello& hello) const;
  void OnMapTaken(Session& session, const v1::Request& request);
  // Gives what pools have gained to files, if all sessions know the map.
  void OpenNewSpace();
  // Puts them on the record's list, or takes them off it. FAILED_PRECONDITION: nothing is left.
  absl::Status ChangeClosed(const std::vector<mdc::Run>& areas, bool closed,
                            v1::VolumeRecord& volume) const;
  void ApplyClosed();
  void DescribeMap(v1::ShowReply& reply) const;

  // space/core_quota.cc
  absl::Status LoadQuotas();
  // Charges what the operation has staged; EDQUOT.
  absl::Status ChargeQuotas(const Pending& op, OpContext& ctx);
  void TellQuotaEvents(const OpContext& ctx, bool committed);
  // As many numbers are reserved for files of one directory where they are charged to somebody, or
  // blocks are kept from others for each; else kMaxReservedInodes.
  static constexpr std::size_t kMaxReservedWithRoom = 16;
  // For how many files of the owner's numbers may be reserved, each with so many blocks; nullopt:
  // for none, as nobody knows.
  static std::optional<std::uint64_t> ReservableFiles(OpContext& ctx, const QuotaOwner& owner,
                                                      std::uint64_t blocks_each);
  // The next step of counting what there was when it was switched on.
  void CountQuotas();
  QuotaView ViewOfQuotas() const;

  // space/core_bandwidth.cc
  void OnTraffic(Session& session, const v1::Request& request);
  // Tells sessions what they may send to LUNs, where that is due.
  void DealBandwidth();
  // Streams are reserved for no more: they were closed, or their sessions are gone.
  void EndStreams(const std::vector<std::uint64_t>& reservations);
  absl::StatusOr<BandwidthBook::Change> ChangeOf(const v1::SetBandwidthRequest& request) const;
  // The mover stands back behind programs, for as long as their rates ask for.
  void PaceMover(const Move& move);

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
  bool ChangesDelegatedNames(const Pending& op, const OpContext& ctx) const;
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
  void FillChanged(const Pending& op, OpContext& ctx, v1::Reply& reply);

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
  // Whether the request asks which files beside it are sole, and the session may know.
  bool AsksForSiblings(const Pending& op) const;
  // Takes from the others what they know of those files, beside that of the file itself.
  void RecallSiblings(const Pending& op, InodeNumber file);
  void TellSole(const Pending& op, v1::Reply& reply) const;
  void GrantReservedInodes(const Pending& op, OpContext& ctx, v1::Reply& reply);
  // Lets others look at directories in which nothing was made for long.
  void RecallIdle();
  // Ends the delegation of that directory, whoever has it.
  void ShareDelegated(InodeNumber directory);
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
  // Of a session whose client has these features.
  std::uint32_t SlotsFor(std::uint64_t features) const;
  void AnswerHello(const Session& session, const v1::Request& request, Sequence waits_for);
  // How large files are that lie in the metadata, for that session. The first time the volume is
  // marked as one that has such files, if all sessions know them: what that waits for is added.
  std::uint32_t OfferSmallFiles(const Session& session, Sequence& waits_for);
  void OnReclaim(Session& session, const v1::Request& request);
  // Takes over what the session says it holds. Empty; or why no session can hold that.
  std::string TakeClaims(Session& session, const v1::Reclaim& claims);
  void OnGoodbye(Session& session, const v1::Request& request);
  void RenewLease(Session& session);
  bool IsMissed(const Session& session) const;
  std::uint32_t TimesUnheard() const;  // 0: it is not
  // An answer with an error, and the end of the stream: for what no correct client sends.
  void Refuse(StreamId stream, std::uint64_t id, int error, std::string_view message);
  void RefuseHello(StreamId stream, std::uint64_t id, int error, std::string_view message);
  void DropOperations(Session& session);
  // Its record goes and others get what it held, at once; returns the commit's sequence.
  Sequence Forget(Session& session);
  void OnGraceOver();

  // core_reports.cc
  void TakeReports(Session& session, const v1::Renew& renew) const;

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
  VolumeDescriptor descriptor_;
  const Clock& clock_;
  CoreOptions options_;  // all but the exports and what a new map changes stay as they are
  bool maintenance_ = options_.maintenance;
  struct SmallFiles {
    bool allowed = false;  // by the volume's record, …
    Sequence since;        // … which says so durably when so much is
  };
  SmallFiles small_files_;
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
