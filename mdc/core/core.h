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
#include "mdc/base/progress.h"
#include "mdc/core/name_replies.h"
#include "mdc/metadb/meta_db.h"
#include "mdc/metadb/txn.h"
#include "mdc/space/allocator.h"
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
  std::uint32_t slots = 64;
  Epoch epoch{};  // of the seat; the next one, where that is higher
  std::uint32_t max_sessions = 4096;
  // LUNs of the volume can cut hosts off: each session gets a key, and is fenced by it before
  // others get what it held. Else its lease alone protects.
  bool reservations = false;
  // What a session has sent to LUNs that cannot cut it off may be executed for that long after it
  // was sent. 0: there are no such LUNs, or nothing can be on its way to them.
  std::uint64_t keyless_quarantine_ms = 0;
  // Clients that know other controllers, and that have all been silent for that long, are taken for
  // cut off from this one (CoreOutputs::unheard). 0: never.
  std::uint64_t unheard_limit_ms = 0;
  std::vector<Export> exports;  // the first that matches rules; none: rw, nobody squashed
  bool maintenance = false;     // as SetMaintenance
  // Whoever follows in the seat must know of it, too, but with kDurable.
  NameReplies names = NameReplies::kDurable;
  // A directory that another session wanted to see is not delegated for so long: hosts that take
  // turns there would else wait for a recall each time.
  std::uint64_t shared_ms = 2'000;
  StepSizes steps{};
  ProtocolRange protocol = SpokenProtocol();
  std::string host{};  // this controller's, for people
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
  bool void_dumps = false;  // their blocks are needed: EndDumps follows, or OnVoidFailed
  bool unheard = false;     // nobody is heard any more, and a standby might be
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
  // Session keys that were seen registered on LUNs: those of no session are fenced.
  virtual void OnKeysSeen(const std::vector<std::uint64_t>& keys) = 0;
  // A look at all LUNs that have reservations is done: those for data that it could not reach.
  virtual void OnLunsSeen(const std::vector<Uuid>& lost) = 0;
  virtual CoreOutputs TakeOutputs() = 0;

  // What makes the metadata store grow is executed, held back, or refused with ENOSPC, until told
  // otherwise; so there is always room to delete. `commits_wait`: what completes grants waits, too.
  enum class StoreSpace { kAmple, kGrowing, kFull };
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

  // Marks the volume clean when no session is left; called last, before a final Sync.
  virtual absl::Status PrepareStop() = 0;

  // For administration; called on the core thread too.
  virtual void Describe(v1::ShowReply& reply) const = 0;
  virtual void Describe(v1::StatReply& reply) const = 0;
  virtual void Describe(v1::WhoReply& reply) const = 0;
  virtual void Describe(v1::LocksReply& reply) const = 0;

  // Asks the sessions that decide about locks by themselves what is locked, of one inode or of all;
  // `then(true)` runs on the core thread when they have answered, or after a second; then(false)
  // from EndFetches on.
  virtual void FetchLocks(std::optional<InodeNumber> inode,
                          std::function<void(bool answered)> then) = 0;
  // Nobody waits for such answers any more: this controller stops.
  virtual void EndFetches() = 0;
  // Takes away what clients have locked of the inode, of one session or of all, and tells them;
  // fills in what it was.
  virtual void BreakLocks(InodeNumber inode, std::optional<SessionId> session,
                          v1::LocksReply& reply) = 0;

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
// space without `used` (the metadata store's own blocks).
absl::Status FormatVolume(MetaDb& db, const VolumeDescriptor& descriptor,
                          const std::vector<Run>& used, WallTime now);

}  // namespace reel::mdc
