// A client's registration with the metadata controller: calls, retries, lease, reconnection.
//
// Invariants:
//   1. A mutation that was sent is answered exactly once: after a reconnection it is sent again
//   with the same slot and sequence, never under another session.
//   2. Replies and callbacks of one stream are handed over in the order in which they came, on the
//   one receiving thread: `on_reply` and SessionEvents run there and must not block.
//   3. LeaseHolds() turns false before the controller may give away what this client holds: it
//   counts from the *sending* of the last answered renewal, on CLOCK_BOOTTIME, less a margin.
//   4. What the controller replied to early is sent again in a new epoch, until it is durable; it
//   is lost only with the session.
// Threads: all public methods may be called concurrently.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/base/interrupt.h"
#include "client/session/mdc_stream.h"
#include "proto/mdc.pb.h"
#include "proto/protocol.h"
#include "proto/token_ranges.h"
#include "volume/base/env.h"
#include "volume/format/descriptor.h"

namespace reel::client {

// How the work on what the controller has recalled stands.
struct RecallWork {
  bool any = false;
  std::uint64_t stalled_ms = 0;  // of the recall that has stood still for longest
  // The path to a LUN that is lost for longest; empty: none is.
  std::string trouble{};
  std::string lost_lun{};  // its UUID's bytes
  std::uint64_t lost_ms = 0;
};

// What a session tells its owner. On the receiving thread, except where said.
class SessionEvents {
 public:
  virtual ~SessionEvents() = default;
  virtual void OnRecall(std::uint64_t inode, v1::TokenMode mode, const TokenSpan& span) = 0;
  // An attribute token is wanted back, or shared, by AttrReturn; only with
  // Options::caches_attributes.
  virtual void OnRecallAttr(std::uint64_t /*inode*/, bool /*to_shared*/) {}
  // A lock token is wanted back, by LockReturn; `contended`: by another session.
  virtual void OnRecallLocks(std::uint64_t /*inode*/, std::uint64_t /*token*/, bool /*contended*/) {
  }
  // An administrator took away what this client had locked of the inode.
  virtual void OnLocksBroken(std::uint64_t /*inode*/) {}
  // Every reply to a request of ours, errors too, before all else that is done with it.
  virtual void OnReply(const v1::Request& /*request*/, const v1::Reply& /*reply*/) {}
  // What was told of this request was lost with its epoch, and has been done again: like this. With
  // an error, it could not be.
  virtual void OnReplayed(const v1::Request& /*request*/, const v1::Reply& /*reply*/) {}
  // What the stream still had to bring is lost; it will be asked for again on the next one.
  virtual void OnStreamLost() {}
  // A new session was registered, with this reservation key (0: none). Before anything is granted
  // to it.
  virtual void OnRegistered(std::uint64_t /*session*/, std::uint64_t /*key*/) {}
  // What was told under this number, and later, may be lost with the session: OnEvicted follows.
  virtual void OnEarlyLost(std::uint64_t /*first*/) {}
  // The volume has this map now. Also where this host has it: TookMap is the answer. Nothing that
  // is placed by it was handed over before.
  virtual void OnNewMap(const VolumeDescriptor& /*map*/) {}
  // What this client may send to LUN sets from now on; Traffic is the answer, from time to time.
  virtual void OnDeal(const v1::Deal& /*deal*/) {}
  // The session is over: everything held is void. A new one is registered by itself afterwards.
  virtual void OnEvicted() = 0;
  // Any thread, with no lock held; several times a second.
  virtual RecallWork LookAtRecalls() const { return {}; }
  // Puts in what each renewal says for people: Renew.luns, Renew.fuse. As above.
  virtual void Describe(v1::Renew& /*renewal*/) const {}
  // After a reconnection into a new epoch: what this client holds, to be claimed again. For each
  // open it calls Session::Claims, with no close of it posted between the look and that call.
  virtual std::vector<v1::Reclaim> CollectReclaims() = 0;
};

struct CallOptions {
  const v1::Credentials* credentials = nullptr;
  // Runs on the receiving thread before the next message is looked at: for grants, which a recall
  // behind them must find installed. Only for a reply without error; also when the call itself was
  // interrupted meanwhile, so it must own what it touches.
  std::function<void(const v1::Reply&)> on_reply;
  // Runs once, however the call ends, and then also when Call returned before (EINTR, ETIMEDOUT):
  // on the receiving thread, or on the calling one when nothing was sent.
  std::function<void(const absl::StatusOr<v1::Reply>&)> on_done;
  const Interrupt* interrupt = nullptr;
  std::uint64_t session = 0;  // ESTALE under another one; 0: under any
  // This host holds the file's token for it, so it waits for no other host, and a recall may wait
  // for it: it gets a slot also when all others wait.
  bool under_token = false;
};

class Session {
 public:
  struct Options {
    std::string volume;
    std::vector<std::string> mdcs;  // HOST:PORT, tried in turn
    std::string host;               // shown by reeladm who
    std::string mount_point;
    // 0: wait for the controller for ever; else a call fails with ETIMEDOUT after that long without
    // one.
    std::uint32_t soft_timeout_ms = 0;
    bool caches_attributes = false;  // the controller may grant attribute tokens
    bool early_replies = true;       // of changes of names and attributes, before they are durable
    ProtocolRange protocol = SpokenProtocol();
    std::string program{};  // this client's release, for people
  };

  // Connects and registers, with one try per controller: NOT_FOUND (no such volume), UNAVAILABLE
  // (no controller answers; the message names each and why), UNIMPLEMENTED (no common protocol).
  // `events`, `connector` and `clock` outlive the session.
  static absl::StatusOr<std::unique_ptr<Session>> Connect(Options options, MdcConnector& connector,
                                                          SessionEvents& events,
                                                          const Clock& clock);
  virtual ~Session() = default;

  // Sends the request and waits for its reply. A reply with an error becomes its errno status.
  // While the controller is away the call waits; EINTR when interrupted (a mutation that was sent
  // is then still carried out once, its reply dropped), ETIMEDOUT under soft_timeout_ms. Slots and
  // sequences are the session's own.
  virtual absl::StatusOr<v1::Reply> Call(v1::Request request, const CallOptions& options) = 0;
  // Sends a request that nobody waits for (Close, LayoutReturn); resent like the others.
  virtual void Post(v1::Request request) = 0;
  // Sends a request without waiting; `on_done` runs once, on the receiving thread (like on_reply,
  // it must not block), or at once on the calling thread when the session cannot send any more.
  // With `session` not 0: only as that session, else ESTALE. `under_token` as in CallOptions. A
  // session that cannot do so (a test's) does it by Call.
  virtual void Start(v1::Request request,
                     std::function<void(const absl::StatusOr<v1::Reply>&)> on_done,
                     std::uint64_t session = 0, bool under_token = false);

  // ---- what was told before it was durable ----
  // Whether the controller takes delegated changes: of regular files that this client has made; of
  // names, whoever has made what they lead to.
  virtual bool delegates() const { return false; }
  virtual bool delegates_names() const { return false; }
  // Sends a change of which the caller's program is told now that it is done, as `decided` says:
  // the caller holds alone what it takes for that. Its number among what was told; 0: it cannot be
  // sent at once, nothing was done. Waits for nothing. SessionEvents::OnReply brings its answer.
  virtual std::uint64_t SendDelegated(v1::Request /*request*/, const v1::Replay& /*decided*/) {
    return 0;
  }
  // On the receiving thread: the number of the reply that is being handed over, if it is
  // early; else 0.
  virtual std::uint64_t early_number() const { return 0; }
  virtual std::uint64_t last_early_number() const { return 0; }
  // Whether what was told under this number, and before, is durable. Takes no lock.
  virtual bool Confirmed(std::uint64_t /*told*/) const { return true; }
  // How often something that was told of was lost.
  virtual std::uint64_t losses() const { return 0; }
  // Waits until it is durable. Errors as Call's; EIO if something was lost since losses() was
  // `losses`, or before and nobody has been told of that.
  virtual absl::Status Sync(std::uint64_t /*told*/, std::uint64_t /*losses*/,
                            const Interrupt* /*interrupt*/) {
    return absl::OkStatus();
  }

  // True while the controller has been away for longer than soft_timeout_ms allows.
  virtual bool TimedOut() const { return false; }
  // From now on; a call that waits already without any bound goes on so.
  virtual void SetSoftTimeout(std::uint32_t /*soft_timeout_ms*/) {}
  // True while no controller answers: calls wait. Takes no lock, so an Interrupt may ask.
  virtual bool Away() const { return false; }
  virtual bool LeaseHolds() const = 0;
  // For how many milliseconds it will hold, whatever happens.
  virtual std::uint64_t LeaseLeftMs() const { return 0; }
  // How busy it is.
  struct Load {
    std::size_t slots = 0, free_slots = 0;
    std::size_t waiting = 0;      // requests that wait for a slot, or to be sent
    std::size_t unanswered = 0;   // that are sent
    std::size_t unconfirmed = 0;  // changes that programs were told of, and that may be lost yet
  };
  virtual Load load() const { return {}; }
  virtual std::uint64_t session_id() const = 0;  // 0 while there is none
  // The reservation key that the session began with; 0: none.
  virtual std::uint64_t key() const { return 0; }
  // How the controller exports the volume, as of the last registration: every change is EROFS;
  // opens have to ask it, because it knows callers by other identities than the kernel does.
  virtual bool read_only() const { return false; }
  virtual bool checks_opens() const { return false; }
  // The controller checks modes, so it has to know the callers' groups; and set-id bits and devices
  // on the volume are not to be believed.
  virtual bool squashed() const { return false; }
  // Whether the controller knows delayed attributes
  // (client/inode/delayed_attributes.h).
  virtual bool delays_attributes() const { return false; }
  // Whether it answers Lookup.ahead.
  virtual bool looks_ahead() const { return false; }
  // Whether it knows ReadDir.layouts and ReadDir.behind.
  virtual bool lists_layouts() const { return false; }
  // Whether it knows Accessed.
  virtual bool takes_reads_together() const { return false; }
  // Whether it knows LayoutCommit.attributes.
  virtual bool commits_attributes() const { return false; }
  // Of files of at most this size all bytes may be committed to the controller; 0: of none.
  virtual std::uint32_t small_file_bytes() const { return 0; }
  // Commits have long waited for room in the controller's store, as of the last renewal.
  virtual bool commits_wait() const { return false; }
  // The volume descriptor that the controller sent at the first registration.
  virtual const VolumeDescriptor& descriptor() const = 0;

  // The map of that generation is in use here, or why not yet: the controller is told.
  virtual void TookMap(std::uint64_t /*generation*/, const absl::Status& /*status*/) {}

  // Within CollectReclaims: the inode is claimed as open. Closes of it that were posted before are
  // void, since it was opened again without a word to anybody; those that come later are not.
  virtual void Claims(std::uint64_t /*inode*/) {}

  // What was sent to LUNs on lost paths may still be executed: Goodbye says so.
  virtual void NoteUnfinished() {}

  // Says Goodbye (if a controller answers within a second) and ends the threads. Calls in progress
  // and later ones fail with ESHUTDOWN.
  virtual void Shutdown() = 0;
};

}  // namespace reel::client
