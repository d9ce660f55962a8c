// One volume being served: its LUNs and store, its core, and the threads around it.
//
//   the core's seat takes events from the queue, hands them to the core, delivers what comes out:
//                   held by one thread at a time, the one that brought an event to an idle core (a
//                   visitor, for one batch), else by the resident core thread, which also ticks
//   commit thread   one Sync covers every batch applied before it; the next group gathers meanwhile
//   reader threads  fetch keys that were not in memory; enlarge the store
//   fence thread    cuts sessions off the LUNs, and watches this controller's own hold on them
// Invariants:
//   1. Only who holds the seat touches the core, from Open's return to Stop's last step.
//   2. The queue is bounded by its streams: each lets in no more than it has been told was taken
//      (StreamPeer::Taken), and the other events are bounded by what the core has under way.
//   3. When the store fails, or the LUNs go to another controller, `on_failure` is called once and
//   is expected to end the process:
//      whether the last commit is durable is not known, and nothing may be said about it.
//   4. Nothing is sent to a client unless the seat may answer (HeldSeat::MayAnswer). What comes
//      meanwhile is withheld, in its order: no more than the core has under way.
// Threads: all public methods may be called concurrently, except that Stop comes last and once.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "mdc/base/phase_times.h"
#include "mdc/core/core.h"
#include "mdc/fence/fence_thread.h"
#include "mdc/inspect/file_lookup.h"
#include "mdc/inspect/measurement.h"
#include "mdc/inspect/operation_times.h"
#include "mdc/map/map_keeper.h"
#include "mdc/map/volume_maps.h"
#include "mdc/seat/held_seat.h"
#include "mdc/serve/beside/quota_hook.h"
#include "mdc/serve/beside/scrubber.h"
#include "mdc/serve/block_mover.h"
#include "mdc/serve/core_turns.h"
#include "mdc/serve/dump_keeper.h"
#include "mdc/serve/size_watch.h"
#include "mdc/serve/store_workers.h"
#include "mdc/store/store.h"
#include "mdc/store/store_keeper.h"
#include "mdc/tables/live_exports.h"
#include "volume/base/env.h"
#include "volume/base/mutex.h"
#include "volume/base/thread.h"
#include "volume/format/lun_scan.h"
#include "volume/iscsi/portal_watch.h"

namespace reel::mdc {

// One client's stream, as the core sees it. Its methods are called from the core's seat, possibly
// within the caller's own Post, and must not block.
class StreamPeer {
 public:
  virtual ~StreamPeer() = default;
  // In a frame the replies come first: a callback may be overtaken by a reply, never the other way.
  virtual void Send(v1::ServerFrame frame) = 0;
  // After everything that was sent.
  virtual void End() = 0;
  // So many requests have left the queue.
  virtual void Taken(std::size_t requests) = 0;
};

struct VolumeServerOptions {
  std::string volume;
  std::vector<std::string> luns;  // patterns
  CoreOptions core;
  std::shared_ptr<LiveExports> exports{};  // instead of the core's, where there are any
  std::uint64_t cache_bytes = 512ull << 20;
  std::vector<std::string> quota_hook;  // the program and its arguments; none: there is none
  std::uint64_t scrub_bytes = Scrubber::kMostBytes;  // that a scrub may keep in memory
  std::function<void(const absl::Status&)> on_failure;
  // The seat is another's, or its term is over: expected to end the process. None: on_failure.
  std::function<void(const absl::Status&)> on_seat_lost;
  // From the watchdog (mdc/seat/watchdog.h): to end it at once, whatever else it is doing.
  std::function<void()> on_seat_expired;
  std::function<void()> on_beat;
  // Clients that know other controllers have all fallen silent, so often now: expected to hand the
  // seat over. Called once, on the core's seat.
  std::function<void(std::uint32_t times)> on_unheard;
  // How much of the store counts as free; none: what is. A simulator makes it full by this.
  std::function<std::uint64_t(const metafs::MetaFs& fs)> free_store_bytes;
};

// What a won seat brings with it (mdc/serve/takeover.h).
struct ServingSeat {
  std::unique_ptr<OpenVolume> volume;
  std::unique_ptr<Fencer> fencer;  // of `volume`; holds the LUNs that have reservations
  std::unique_ptr<HeldSeat> seat;  // kept by beats
  // Before that time the holder before may still answer by what it reads in the store's files: none
  // is changed.
  std::uint64_t answers_over_ms = 0;
  // How it was come by so far, and since when.
  WallTime began{};
  std::vector<PhaseTimes::Part> parts{};
};

class VolumeServer {
 public:
  // Recovers the store of a volume whose seat is held, in that seat's epoch, and serves it. What is
  // in `serving` stays there where this fails. `clock` outlives the server.
  static absl::StatusOr<std::unique_ptr<VolumeServer>> Open(VolumeServerOptions options,
                                                            ServingSeat& serving,
                                                            const Clock& clock);
  // As Stop, if that was not called.
  ~VolumeServer();

  const std::string& name() const { return options_.volume; }
  // By the map as it is now; valid as long as the server.
  const VolumeDescriptor& descriptor() const { return volume().descriptor; }
  Epoch epoch() const { return epoch_; }

  // `certificate`: the name of the peer's; empty without TLS.
  StreamId AddStream(std::shared_ptr<StreamPeer> peer, std::string certificate = {});
  void Post(StreamId stream, v1::ClientFrame frame);
  // REQUIRES: nothing is posted for the stream afterwards.
  void StreamEnded(StreamId stream);
  // Runs on the core's seat, soon or at once. False when the server is stopping, and neither runs.
  // `otherwise` runs instead where the store has failed before its turn comes.
  bool RunOnCore(std::function<void(Core&)> action, std::function<void()> otherwise = {});

  // What the core does not know: where the LUNs are; the store's counters.
  void Complete(v1::ShowReply& reply) const;
  void Complete(v1::StatReply& reply) const;
  void Complete(v1::FreeReply& reply) const;
  // What the LUNs say of their reservations, with `known` as of the core, some time later on the
  // fence thread: then `done` runs there. False when the server is stopping, and it never runs.
  bool ListReservations(std::map<std::uint64_t, std::string> known, v1::ReservationsReply& reply,
                        std::function<void()> done);

  // Runs `look` on a thread that may wait for LUNs, soon; where the server stops before that,
  // `otherwise` instead.
  void LookUp(std::function<void(FileLookup&)> look, std::function<void()> otherwise);

  // On the core's seat: begins to measure clients, or only says how long they have waited so far.
  // NOT_FOUND: no such session, or it is not connected. FAILED_PRECONDITION: nothing is measured.
  absl::Status Measure(const Core& core, const v1::MeasureRequest& request,
                       v1::MeasureReply& reply);

  // Takes dumps of the metadata.
  DumpKeeper& dumps() { return *lun_work_.dumps; }
  // Changes the volume's map.
  MapKeeper& map() { return *lun_work_.map; }

  // For the counters "wire.…".
  struct WireCounters {
    std::atomic<std::uint64_t> bytes_in{0}, bytes_out{0}, messages_in{0}, messages_out{0};
  };
  WireCounters& wire() { return wire_; }

  // Writes down that the volume is, or is no longer, in maintenance: no standby takes it over by
  // itself, and no new mounts are admitted. `done` runs when that is durable, on any thread.
  // On the core's seat.
  bool maintenance() const { return maintenance_; }
  void SetMaintenance(Core& core, bool on, std::function<void(const absl::Status&)> done);

  // What a standby that watches this controller is told. Any thread.
  PeerSaid Promise();
  // As HeldSeat's. Any thread.
  bool MayAnswer() const { return seat_->MayAnswer(); }

  // Ends all streams, takes no more events, makes everything durable, closes the store and gives
  // the seat up as `farewell` says.
  absl::Status Stop(const SeatFarewell& farewell = {});

 private:
  struct Opened {
    StreamId stream;
    std::shared_ptr<StreamPeer> peer;
    std::string certificate;
  };
  struct Arrived {
    StreamId stream;
    v1::ClientFrame frame;
    std::uint64_t at_us;
  };
  struct Ended {
    StreamId stream;
  };
  struct Durable {
    Sequence sequence;
  };
  struct Fetched {
    TicketId ticket;
  };
  struct RegionAdded {
    absl::Status outcome;
  };
  struct Compacted {
    absl::Status outcome;
  };
  struct Action {
    std::function<void(Core&)> run;
    std::function<void()> otherwise{};
  };
  using Event =
      std::variant<Opened, Arrived, Ended, Durable, Fetched, RegionAdded, Compacted, Action>;
  struct Outgoing {
    std::shared_ptr<StreamPeer> peer;
    v1::ServerFrame frame;
    std::size_t bytes = 0;
  };

  VolumeServer(VolumeServerOptions options, const Clock& clock);
  OpenVolume& volume() const { return maps_->now(); }
  absl::Status OpenStore(std::unique_ptr<Fencer> fencer, std::uint64_t answers_over_ms);
  void MakeKeepers();
  void StartThreads();
  // The LUNs' sizes and portals are watched by the map as it is now.
  void WatchLuns();
  // The store and the watches go by the map as it is now.
  void OnNewMap();
  void TakeOwnPool();
  absl::Status StartFencing(std::unique_ptr<Fencer> fencer);
  void DescribeStore(v1::ShowReply& reply) const;
  void DescribeFencing(v1::ShowReply& reply) const;
  void DescribeTakeover(v1::StatReply& reply) const;

  void Queue(Event event) { (void)Queue(std::move(event), /*when_stopping=*/true); }
  // False: it is dropped, as the server is stopping.
  bool Queue(Event event, bool when_stopping);
  void CoreMain();
  static void Drop(std::vector<Event>& events);
  // What is in the queue, by the seat's holder; true when more has come meanwhile.
  bool RunBatch();
  void Handle(Event event);
  void Deliver();
  void OrderRestripe(const RestripeOrder& order);
  void Send(CoreOutputs& outputs);
  void Flush(Outgoing& outgoing);
  void SendPings();
  // On the commit thread; false: no more.
  bool Commit();
  void Fetch(const Miss& miss) const;
  void WatchSpace();
  void OnCompacted(const absl::Status& outcome);
  void Fail(const absl::Status& status);  // of the store
  void EndWith(const absl::Status& status);
  // Nothing that this controller knows may leave it, or be made durable, when it holds the seat no
  // longer.
  bool HoldsSeat();
  // The same for whoever is about to write to the store; ABORTED.
  absl::Status CheckTerm();
  void LoseSeat(const std::string& why);
  // What the core wants to be done about hosts that it does not hear.
  void FenceAndGiveWay(CoreOutputs& outputs);

  // Each has a thread of its own, which reads and writes the LUNs.
  struct LunWork {
    std::unique_ptr<DumpKeeper> dumps;
    std::unique_ptr<MapKeeper> map;
    std::unique_ptr<BlockMover> mover;
    std::unique_ptr<Scrubber> scrubber;
    std::unique_ptr<QuotaHook> quota_hook;  // (no LUN work, but beside the core as well)
  };
  struct LunWatches {
    OpenVolume& volume;
    PortalWatch portals;
    SizeWatch sizes;
  };
  struct Watched {
    mutable Mutex mutex;
    std::shared_ptr<LunWatches> now ABSL_GUARDED_BY(mutex);
  };
  std::shared_ptr<const LunWatches> watches() const;

  struct TakenOver {
    WallTime began;
    std::vector<PhaseTimes::Part> parts;
  };

  VolumeServerOptions options_;
  const Clock& clock_;
  TakenOver taken_over_;
  std::unique_ptr<VolumeMaps> maps_;
  Watched watched_;  // it ends late: what does not answer is waited for
  std::unique_ptr<HeldSeat> seat_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<Core> core_;
  std::unique_ptr<FenceThread> fencing_;
  LunWork lun_work_;
  Epoch epoch_;
  WireCounters wire_;
  std::atomic<std::uint64_t> next_stream_{0};
  std::atomic<bool> failed_{false}, maintenance_{false}, compaction_cancelled_{false};

  // Of the seat's holder.
  bool unheard_ = false;  // and on_unheard was called
  std::unique_ptr<StoreKeeper> keeper_;
  struct Withheld {
    std::vector<CoreOutputs::Send> sends;
    std::vector<StreamId> ends;
  } withheld_;
  struct Streams {
    absl::flat_hash_map<StreamId, Outgoing> open;
    OperationTimes times;
    Measurement measured;
  } streams_;

  mutable Mutex queue_mutex_;
  CondVar queue_changed_;
  std::vector<Event> queue_ ABSL_GUARDED_BY(queue_mutex_);
  CoreTurns turns_ ABSL_GUARDED_BY(queue_mutex_);

  SeatFarewell farewell_;  // set before the turns stop
  Thread core_thread_;
  StoreWorkers workers_;
};

}  // namespace reel::mdc
