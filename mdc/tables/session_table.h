// The sessions of one epoch: registration, stream, lease, slots, and the operations that wait.
//
// Plain data with three ways to find it (by id, by stream, by client); what happens to a session is
// core_sessions.cc. Invariants: a stream belongs to at most one session and a session has at most
// one stream; one client incarnation has at most one session. Threads: the core thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "mdc/base/fence_run.h"
#include "mdc/base/ids.h"
#include "mdc/base/progress.h"
#include "mdc/base/recall_clock.h"
#include "mdc/metadb/txn.h"
#include "mdc/tables/exports.h"
#include "proto/mdc.pb.h"
#include "proto/records.pb.h"
#include "volume/base/types.h"
#include "volume/base/uuid.h"

namespace reel::mdc {

inline constexpr StreamId kNoStream{0};

// An operation on its way: running, waiting in its session's lane, for a fetch, or for tokens.
struct Pending {
  v1::Request request;
  SessionId session;
  StreamId stream;
  bool ordered = false;   // takes effect in sending order
  std::size_t bytes = 0;  // of memory, by the request
  bool fetching = false;
  bool cancelled = false;  // its stream or session ended before it took effect
  std::uint32_t misses = 0;
  InodeNumber blocked_on;  // whose tokens stood in the way of its last run
  InodeNumber
      queued_on;  // stands in the queue of those who wait for this inode's tokens; 0: in none
  std::uint64_t lock_wait = 0;        // its number among those who wait for locks; 0: it does not
  bool waits_for_lock_token = false;  // its last run did
  bool gives_up = false;              // it is to wait no longer than for its own session's token
  bool waits_for_removal = false;     // likewise, of what a truncation has left
  InodeNumber reap;                   // not a request but the next step of this orphan's removal
  JobId job;                          // likewise of this job
  Progress progress;                  // what of it is committed
  LoopWalks walks;                    // of a rename
  bool unfinished = false;            // its last run did a part of it
  std::uint64_t held_since_ms = 0;    // as a commit that waits for the metadata store
  std::uint64_t space_until_ms = 0;   // how long it waits for space at most; 0: it has found some
  std::uint64_t quota_until_ms = 0;   // likewise, for what others have ahead of a quota's limit
};
using PendingRef = std::shared_ptr<Pending>;

// One operation at a time, and the reply of the last one.
struct Slot {
  std::uint64_t sequence = 0;  // of the last operation that took effect or failed
  std::uint64_t running = 0;   // of the one in work; 0: none
  bool resumed = false;        // from the store: failed operations since then are not in it
  std::string reply;           // serialised, without grants
  Sequence waits_for;          // when that reply may leave
};

// As a client has said last, with a renewal.
struct SaidForPeople {
  std::vector<v1::LunReport> luns;
  std::uint64_t luns_at_ms = 0;
  v1::FuseWay fuse = v1::FUSE_WAY_UNKNOWN;
};

struct Session {
  enum class Phase {
    kMustReclaim,  // known from an earlier epoch, has not said what it holds
    kServing,
    kEnding,  // evicted, or it said Goodbye; keeps what it held until it can do no more harm
  };
  // A key for a new path to one LUN, on its way.
  struct Rekey {
    FenceRun run;  // of the keys that it replaces
    std::uint64_t key = 0;
    StreamId stream;  // who waits for it
    std::uint64_t request = 0;
  };
  // How far it is with what it has to say again in this epoch.
  struct Reclaiming {
    std::uint64_t bytes = 0;         // of what it has said it holds
    bool done = false;               // … and that this was all
    std::uint32_t replays_left = 0;  // of what an earlier epoch replied to early, not done yet
  };
  // What was agreed with its stream's Hello.
  struct Spoken {
    bool caches_attributes = false;
    std::uint32_t protocol = 1;  // the version that is spoken
    std::uint64_t features = 0;  // Feature bits that both know
    std::string program;         // its release
    // The map of the volume by which it reaches the LUNs; and why not by the newest, as it says.
    std::uint64_t map_generation = 0;
    std::string map_problem{};
  };
  SessionId id;
  v1::SessionRecord record;
  Export exported;  // of its last Hello
  Uuid client;
  Phase phase = Phase::kServing;
  StreamId stream = kNoStream;
  std::uint64_t lease_until_ms = 0;    // by the SessionClock
  std::uint32_t renews_within_ms = 0;  // as it has said; 0: it knows no other controller
  // Its stream ended while all were silent, since then (SessionClock::HeardMs): by whatever noticed
  // that first.
  std::optional<std::uint64_t> ended_in_silence_ms;
  std::vector<Slot> slots;      // by number; [0] is unused
  std::deque<PendingRef> lane;  // ordered operations that have not taken effect; all, during grace
  std::uint32_t waiting = 0;    // operations anywhere but done …
  std::size_t waiting_bytes = 0;  // … and their memory
  std::uint64_t operations = 0;
  Reclaiming reclaim;  // kMustReclaim
  Spoken spoken;
  RecallClock recalls;  // that are out
  // As its client has said last, and when: how its work on them stands; nothing: it never has.
  std::optional<v1::RecallWork> recall_work;
  SaidForPeople said;
  bool gave_up = false;                  // its lease is over by its client's own clock
  std::optional<v1::Request> hello;      // kMustReclaim: answered when its earlier claims are gone
  std::vector<Rekey> rekeys;             // one a LUN
  FenceRun ending;                       // kEnding
  std::optional<Sequence> forgotten_at;  // kEnding: its record is gone when that is durable
};

class SessionTable {
 public:
  Session* Find(SessionId id);
  Session* FindByStream(StreamId stream);
  Session* FindByClient(const Uuid& client);

  Session& Add(Session session);
  // REQUIRES: no operation of it runs.
  void Remove(SessionId id);
  // Makes the stream the session's; returns the one it had before.
  StreamId Attach(Session& session, StreamId stream);
  void Detach(Session& session);

  std::size_t size() const { return sessions_.size(); }
  // By id, so that everything done to all of them is done in one order.
  std::map<SessionId, std::unique_ptr<Session>>& all() { return sessions_; }
  const std::map<SessionId, std::unique_ptr<Session>>& all() const { return sessions_; }

 private:
  std::map<SessionId, std::unique_ptr<Session>> sessions_;
  absl::flat_hash_map<StreamId, Session*> by_stream_;
  absl::flat_hash_map<Uuid, Session*> by_client_;
};

}  // namespace reel::mdc
