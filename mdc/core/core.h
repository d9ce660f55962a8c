// The metadata controller of one volume: a state machine on one thread.
//
// Events in (a request, a stream that ended, a tick, a commit that became durable, a fetch that is
// done), outputs out (replies, callbacks, streams to end, keys to fetch, a wish to sync). No
// thread, clock read or I/O inside but memory reads of the store and Apply. Invariants:
//   1. One session's mutations take effect in sending order; a mutation takes effect once per
//   (session,
//      slot, sequence), and a repetition is answered from the stored reply.
//   2. No reply, grant or recall leaves before everything it saw is durable; outputs to one session
//   leave
//      in the order in which the core made them whenever they concern the same inode's tokens.
//   3. In a new epoch nothing but reclaims and replays is served until every known session has
//   reclaimed
//      or its lease is over.
// Threads: one thread at a time calls everything (the server's core thread, or a test).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "mdc/base/fence_outcome.h"
#include "mdc/base/fence_run.h"
#include "mdc/base/ids.h"
#include "mdc/base/name_replies.h"
#include "mdc/base/progress.h"
#include "mdc/base/quota_notice.h"
#include "mdc/metadb/meta_db.h"
#include "mdc/metadb/txn.h"
#include "mdc/moves/move.h"
#include "mdc/moves/restripe.h"
#include "mdc/space/allocator.h"
#include "mdc/space/space_watch.h"
#include "mdc/tables/exports.h"
#include "proto/admin.pb.h"
#include "proto/mdc.pb.h"
#include "proto/protocol.h"
#include "volume/base/env.h"
#include "volume/base/uuid.h"
#include "volume/format/descriptor.h"

namespace reel::mdc {

struct CoreOptions {
  std::uint32_t session_lease_ms = 10'000;
  static constexpr std::uint32_t kMostSlots = 256;
  std::uint32_t slots = kMostSlots;  // a session's, at most (CoreImpl::SlotsFor)
  Epoch epoch{};                     // of the seat; the next one, where that is higher
  std::uint32_t max_sessions = 4096;
  // LUNs of the volume can cut hosts off: each session gets a key, and is fenced by it before
  // others get what it held. Else its lease alone protects.
  bool reservations = false;
  // What a session has sent to LUNs that cannot cut it off may be executed for that long after it
  // was sent. 0: there are no such LUNs, or nothing can be on its way to them.
  std::uint64_t keyless_quarantine_ms = 0;
  // Clients that know other controllers, and that have all been silent for that long, are taken for
  // cut off from this one (CoreOutputs::times_unheard). 0: never.
  std::uint64_t unheard_limit_ms = 0;
  // This controller has passed the seat on for that so often, one time after the other. Where it
  // has it again, and still nobody comes, it does so again, each time after twice as long.
  std::uint32_t unheard_before = 0;
  // When a client of any volume of this daemon was heard last, by the clock, in ms: its cable is
  // whole then. Null: there is no other volume.
  std::shared_ptr<std::atomic<std::uint64_t>> heard_ms{};
  std::vector<Export> exports;  // the first that matches rules; none: rw, nobody squashed
  bool maintenance = false;     // as SetMaintenance
  // Whoever follows in the seat must know of it, too, but with kDurable.
  NameReplies names = NameReplies::kDurable;
  // The bytes of files of at most this size lie in the metadata, from now on; 0: none. Once it was
  // not, clients that do not know such files are refused. Nothing: kDefaultSmallFileBytes where
  // the volume was made for such files, or had them, else 0.
  std::optional<std::uint32_t> small_file_bytes;
  // A directory that another session wanted to see is not delegated for so long: hosts that take
  // turns there would else wait for a recall each time.
  std::uint64_t shared_ms = 2'000;
  StepSizes steps{};
  ProtocolRange protocol = SpokenProtocol();
  std::string host{};  // this controller's, for people
  SpaceLimits space_limits{};
  bool quota_notices = false;             // are wanted
  std::uint64_t scrub_every_seconds = 0;  // 0: when an administrator says so
};

struct CoreOutputs {
  struct Send {
    StreamId stream;
    std::variant<v1::Reply, v1::Callback> message;
  };
  using Fetch = mdc::Fetch;
  using Fence = FenceOrder;  // OnFenced follows
  std::vector<Send> sends;
  std::vector<StreamId> ends;  // streams to end after the sends
  std::vector<Fetch> fetches;
  std::vector<Fence> fences;
  std::vector<CopyOrder> copies;            // OnCopied follows
  std::optional<RestripeOrder> restripe{};  // TakeMap follows, and OnRestriped
  bool scrub_changed = false;               // BeginScrub may have something else to say
  std::vector<QuotaNotice> quota_notices;   // only where somebody wants them
  bool void_dumps = false;  // their blocks are needed: EndDumps follows, or OnVoidFailed
  // Not 0: nobody is heard any more, and a standby might be; so often now, one time after the
  // other.
  std::uint32_t times_unheard = 0;
  bool wants_sync = false;  // batches were applied: a Sync, then OnDurable
};

class Core {
 public:
  // Reads what must be in memory (volume record, free space, sessions, orphans) and commits the new
  // epoch. DATA_LOSS names a damaged record.
  static absl::StatusOr<std::unique_ptr<Core>> Start(MetaDb& db, const VolumeDescriptor& descriptor,
                                                     const Clock& clock,
                                                     const CoreOptions& options);
  virtual ~Core() = default;

  // Before the stream's first request, when its peer has shown a certificate of that name.
  virtual void OnStreamOpened(StreamId stream, std::string certificate) = 0;
  virtual void OnRequest(StreamId stream, v1::Request request) = 0;
  virtual void OnStreamEnded(StreamId stream) = 0;
  virtual void OnTick() = 0;  // at least every 100 ms: leases, grace
  virtual void OnDurable(Sequence sequence) = 0;
  virtual void OnFetched(TicketId ticket) = 0;
  virtual void OnFenced(FenceId fence, const FenceOutcome& outcome) = 0;
  // The new blocks hold what the old ones do, and durably. Not OK: why not; with `may_land` some of
  // them may yet change.
  virtual void OnCopied(CopyId copy, const absl::Status& outcome, bool may_land) = 0;
  // The map has changed as it was ordered, and is taken; or why not.
  virtual void OnRestriped(JobId job, const absl::Status& outcome) = 0;
  // Session keys that were seen registered on LUNs: those of no session are fenced.
  virtual void OnKeysSeen(const std::vector<std::uint64_t>& keys) = 0;
  // A look at all LUNs that have reservations is done: those for data that it could not reach.
  virtual void OnLunsSeen(const std::vector<Uuid>& lost) = 0;
  virtual CoreOutputs TakeOutputs() = 0;

  // What makes the metadata store grow is executed, held back, or refused with ENOSPC, until told
  // otherwise; so there is always room to delete. `commits_wait`: what completes grants waits, too.
  // kTight: files' bytes had better lie elsewhere.
  enum class StoreSpace { kAmple, kTight, kGrowing, kFull };
  virtual void OnStoreSpace(StoreSpace space, bool commits_wait) = 0;
  // Takes one run of free blocks out of `pool` for the metadata store: at most `most_blocks`, and
  // if there is no such run a smaller one. It is the store's when `sequence` is durable. ENOSPC:
  // none has `least_blocks`. UNAVAILABLE: not before all sessions of the last epoch have reclaimed.
  struct Region {
    Run run;
    Sequence sequence;
  };
  virtual absl::StatusOr<Region> TakeRegion(PoolId pool, std::uint64_t least_blocks,
                                            std::uint64_t most_blocks) = 0;

  // The dumps of the metadata that are valid: while one is, blocks that it names are given to no
  // other file (docs/backup.md).
  struct ValidDumps {
    std::optional<Uuid> kept;   // by who has it
    std::optional<Uuid> begun;  // since; its end is not known
    bool any() const { return kept || begun; }
  };
  virtual ValidDumps valid_dumps() const = 0;
  // The store as it is when this returns may be dumped. FAILED_PRECONDITION: another one has begun.
  struct BegunDump {
    Sequence applied;   // it is valid when this is durable
    Sequence sequence;  // of the volume
    WallTime taken;
  };
  virtual absl::StatusOr<BegunDump> BeginDump(const Uuid& dump) = 0;
  // No dump is valid any more but this one, which is kept from now on; none: no dump at all.
  // REQUIRES: durably, each mark on the LUNs names no other. NOT_FOUND: it is not valid.
  virtual absl::StatusOr<Sequence> EndDumps(const std::optional<Uuid>& kept) = 0;
  // The marks could not be written: what needs the blocks ends with ENOSPC.
  virtual void OnVoidFailed() = 0;

  // ---- the volume's map ------------------------------------------------------------------------
  // That all sessions can be told of a map that grows. FAILED_PRECONDITION: the hosts that cannot.
  virtual absl::Status MayGrow() const = 0;
  // The LUNs hold this map durably, and this controller has a hold on them: it is in force.
  // Sessions are told; what pools have more is given to files when all have taken it.
  // `keyless_quarantine_ms` as in CoreOptions. REQUIRES: a later generation; all that was there
  // lies where it did.
  virtual absl::Status TakeMap(const VolumeDescriptor& next,
                               std::uint64_t keyless_quarantine_ms) = 0;
  // From now on nothing is allocated in these areas, or it is again; what lies there stays. Durable
  // with that sequence. FAILED_PRECONDITION: nothing would be left. REQUIRES: blocks of data pools.
  virtual absl::StatusOr<Sequence> SetClosed(const std::vector<Run>& areas, bool closed) = 0;

  // Jobs (mdc/moves/job_table.h). StartJob (`instead`: the LUN that takes the place of the
  // request's): NOT_FOUND: no such file or pool; INVALID_ARGUMENT;
  // FAILED_PRECONDITION: too many, or a pool that cannot be drained. `ChangeJob`: as
  // JobTable::Change. The sequence is that of the commit which tells of it.
  struct ChangedJob {
    JobId job;
    Sequence sequence;
  };
  virtual absl::StatusOr<ChangedJob> StartJob(
      const v1::StartJobRequest& request,
      const std::optional<Replacement>& instead = std::nullopt) = 0;
  virtual absl::StatusOr<ChangedJob> ChangeJob(JobId job, v1::JobState state) = 0;

  // A scrub: the metadata are checked as they are in one moment, elsewhere
  // (mdc/serve/beside/scrubber.h). It begins anew wherever it was, so nothing of it is kept before
  // its end.
  struct ScrubOrder {
    JobId job;
    std::uint64_t rate_records = 0;  // in a second; 0: as JobRecord says
    WallTime as_of;
    VolumeDescriptor volume;
    std::shared_ptr<Snapshot> view;
  };
  // The one that is to run, on the store as it is now; nullopt: none is.
  virtual std::optional<ScrubOrder> BeginScrub() const = 0;
  // It is so far. False: it is to run no longer.
  virtual bool NoteScrub(JobId job, std::uint64_t looked, std::uint64_t total) = 0;
  // What it has found, or why it has come to no end; nothing where it is to run no longer.
  virtual void EndScrub(JobId job, const absl::StatusOr<v1::ScrubRecord>& found) = 0;

  // Marks the volume clean when no session is left; called last, before a final Sync.
  virtual absl::Status PrepareStop() = 0;

  // For administration; called on the core thread too.
  virtual void Describe(v1::ShowReply& reply) const = 0;
  virtual void Describe(v1::StatReply& reply) const = 0;
  virtual void Describe(v1::WhoReply& reply) const = 0;
  virtual void Describe(v1::LocksReply& reply) const = 0;
  // Adds what clients say of LUNs to the sessions in the reply.
  virtual void DescribeLuns(v1::WhoReply& reply) const = 0;
  // Which inodes sessions have open or hold tokens of, without what the store knows of them;
  // `only`: that one, 0: all.
  virtual void DescribeOpenFiles(InodeNumber only, v1::OpenFilesReply& reply) const = 0;
  // The sessions that have a stream.
  struct Connected {
    SessionId session;
    StreamId stream;
    std::string host;
    bool knows_ping = false;
  };
  virtual std::vector<Connected> connected() const = 0;
  // For every Hello from now on; sessions keep what they were given with their last one.
  virtual void SetExports(std::vector<Export> exports) = 0;
  virtual void Describe(v1::JobsReply& reply) const = 0;
  // Without the metadata store.
  virtual void Describe(v1::FreeReply& reply) const = 0;

  // Asks the sessions that decide about locks by themselves what is locked, of one inode or of all;
  // `then(true)` runs on the core thread when they have answered, or after a second; then(false)
  // from EndFetches on.
  virtual void FetchLocks(std::optional<InodeNumber> inode,
                          std::function<void(bool answered)> then) = 0;
  // `then(true)` runs on the core thread when that commit is durable; then(false) from EndFetches
  // on. REQUIRES: the commit is this core's last one.
  virtual void AwaitDurable(Sequence sequence, std::function<void(bool durable)> then) = 0;
  // Nobody waits for such answers any more: this controller stops.
  virtual void EndFetches() = 0;
  // Takes away what clients have locked of the inode, of one session or of all, and tells them;
  // fills in what it was.
  virtual void BreakLocks(InodeNumber inode, std::optional<SessionId> session,
                          v1::LocksReply& reply) = 0;

  // Quotas, what is counted and what is allowed. INVALID_ARGUMENT; NOT_FOUND: no such tree.
  virtual absl::Status Describe(const v1::QuotasRequest& request, v1::QuotasReply& reply) const = 0;
  // Changes one thing of them. `then` runs when that is durable, or with an error: as above,
  // ALREADY_EXISTS, or UNAVAILABLE from EndFetches on.
  virtual void SetQuotas(const v1::SetQuotasRequest& request, v1::SetQuotasReply& reply,
                         std::function<void(const absl::Status&)> then) = 0;

  // Guaranteed bandwidth, and what each gets now.
  virtual void Describe(v1::BandwidthReply& reply) const = 0;
  // Changes one thing of it; errors as SetBandwidthRequest says. `then` as above.
  virtual void SetBandwidth(const v1::SetBandwidthRequest& request, v1::SetBandwidthReply& reply,
                            std::function<void(const absl::Status&)> then) = 0;

  // Keys that may be registered on LUNs, with the session that each belongs to.
  virtual std::map<std::uint64_t, SessionId> KnownKeys() const = 0;
  // As if the session's lease had run out. NOT_FOUND.
  virtual absl::Status EvictSession(SessionId session, std::string_view reason) = 0;

  // Whoever is at the other end may no longer be: its session is evicted, or none begins by it.
  virtual void EndStream(StreamId stream, std::string_view reason) = 0;

  // In maintenance no new sessions are registered; those that there are go on, and resume.
  virtual void SetMaintenance(bool on) = 0;
  // Tells the clients that know such a word that this controller is about to end their streams;
  // `stopped`: nobody serves the volume before an administrator starts it.
  virtual void SayFarewell(const std::string& reason, bool stopped) = 0;

  // Not OK once the store has failed: the process must end.
  virtual absl::Status health() const = 0;
};

// What mkfs commits into an empty store: volume record, root directory (mode 0755, root), free
// space without `used` (the metadata store's own blocks). `small_files`: whether bytes of small
// files may lie in the metadata from the beginning.
absl::Status FormatVolume(MetaDb& db, const VolumeDescriptor& descriptor,
                          const std::vector<Run>& used, WallTime now, bool small_files = false);

}  // namespace reel::mdc
