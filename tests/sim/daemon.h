// A machine with a metadata controller: the product from the candidate for the seat to the threads
// around the core, as fibers, and around it what reel-mdcd and its gRPC service are. One process
// after the other: each that ends is started again some time later, as by systemd.
//
// What a process that ended held stays where it is: its fibers never run again.
// Threads: a history's fibers and timers.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mdc/core/core.h"
#include "mdc/metafs/metafs.h"
#include "mdc/serve/candidate.h"
#include "mdc/serve/volume_role.h"
#include "mdc/serve/volume_server.h"
#include "tests/sim/host_clock.h"
#include "tests/sim/luns.h"
#include "tests/sim/network.h"
#include "tests/sim/scheduler.h"

namespace reel::sim {

class Daemon final : public StreamServer {
 public:
  struct Options {
    int number = 1;
    std::string address;
    std::uint32_t session_lease_ms = 2000;
    bool changing_leases = false;  // each process grants this one, or twice as much
    std::uint32_t seat_ms = 600;
    std::uint64_t claim_write_ms = 60;
    std::vector<std::string> luns;
    mdc::NameReplies names =
        mdc::NameReplies::kDurable;  // else all controllers are of this release
    mdc::StepSizes steps{};
    std::uint32_t small_file_bytes = 0;  // else all programs are of this release
    std::function<std::uint64_t(const metafs::MetaFs&)> free_store_bytes{};
    // Of a controller in that epoch, when it says something to a client.
    std::function<void(Epoch)> on_answer{};
    std::function<void(const std::string&)> log{};  // when each message is to be told
  };
  Daemon(Scheduler& scheduler, Network& network, Options options);

  // ---- its process
  void Start();
  // Ends it wherever it is; the next one starts after that time.
  void Kill(Micros down_for);
  // As by SIGTERM, or with `offer` as by `reeladm fail`; from a fiber. The next one starts after a
  // while, but for the last time.
  void Stop(bool offer, bool last);
  void Pause();
  void Resume();
  // Its core stands still from now on, for so long.
  void HoldCore(Micros time);
  // As an administrator does it. Each soon, where it serves; what comes of it nobody waits for.
  void StartJob(const v1::StartJobRequest& request);
  void ChangeJobs(v1::JobState state);
  void OpenPool(const std::string& pool);
  // What each that came to its end has found, by its job's number.
  using Scrubs = std::map<std::uint64_t, std::vector<std::string>>;
  // Soon. REQUIRES: `scrubs` outlives the history.
  void ReadScrubs(Scrubs& scrubs);
  // As by `reeladm evict`.
  void Evict(std::uint64_t session);

  // Sets it when the core has come to that.
  void Ask(std::shared_ptr<bool> answered);

  bool running() const { return process_ != nullptr; }
  bool paused() const { return paused_; }
  // It serves the volume, as far as it knows.
  bool serves() const { return process_ != nullptr && process_->role.server() != nullptr; }
  // The map that it goes by; none: it does not serve the volume, which may end while this looks.
  std::optional<VolumeDescriptor> map() const {
    if (!serves()) return std::nullopt;
    return process_->server->descriptor();
  }
  // It waits for a LUN, or is about to write to one because a look at its clock allowed that.
  bool Writes() const;
  // A write of its is allowed, and not yet sent.
  bool IsAboutToWrite() const;
  int host() const { return process_ == nullptr ? 0 : process_->host; }
  int number() const { return options_.number; }
  Path::FaultRates& fault_rates() { return fault_rates_; }

  // ---- the server of its address
  bool up() const override { return process_ != nullptr && process_->listens; }
  bool answers() const override { return up() && !paused_; }
  client::MdcPlace Where() const override;
  void AskToPromise(std::shared_ptr<mdc::PeerAnswer> answer,
                    std::shared_ptr<bool> answered) override;
  void OnOpened(std::uint64_t stream) override;
  void OnFrame(std::uint64_t stream, v1::ClientFrame frame) override;
  void OnEnded(std::uint64_t stream) override;

  // ---- the record
  std::uint64_t Counter(const std::string& name) const;
  struct Totals {
    std::uint64_t starts = 0, epochs = 0;
    std::uint64_t early = 0;  // of these epochs: begun within the term of the one before
    // Ends of processes, by reason.
    std::uint64_t kills = 0, failures = 0, seats_lost = 0, expiries = 0, refusals = 0;
    std::uint64_t refused_writes = 0;
    std::uint64_t evictions = 0, recalls = 0, repetitions = 0, delegated = 0, replayed = 0,
                  blocked = 0, misses = 0, reaped = 0, broken_moves = 0;
    std::array<std::uint64_t, v1::JobKind_ARRAYSIZE> moved{};  // blocks, by the kind of job
  };
  Totals totals() const;

 private:
  class Peer;
  // Its way to the controller that it stands by for.
  class Others final : public mdc::PeerPort {
   public:
    explicit Others(Daemon& daemon) : daemon_(daemon) {}
    mdc::PeerAnswer Ask(const std::string& address, const std::string&,
                        std::uint64_t wait_ms) override {
      return daemon_.network_.Ask(daemon_, address, wait_ms * kMs);
    }

   private:
    Daemon& daemon_;
  };
  struct Process {
    Process(Daemon& daemon, int its_host, const Options& options, const Scheduler& scheduler,
            Random& random)
        : host(its_host),
          others(daemon),
          is_new(options.names != mdc::NameReplies::kDurable || host % 2 != 0),
          clock(scheduler, random),
          session_lease_ms(options.session_lease_ms
                           << (options.changing_leases ? random.Below(2) : 0)) {}
    // Releases come and go: every other one may be of before versions were negotiated.
    ProtocolRange Protocol() const {
      return !is_new ? ProtocolRange{.oldest = 1, .newest = 1} : SpokenProtocol();
    }
    const int host;
    Others others;
    const bool is_new;
    const HostClock clock;
    const std::uint32_t session_lease_ms;
    mdc::VolumeRole role{"reel"};
    bool listens = false;
    bool stopping = false;
    std::unique_ptr<mdc::Candidate> candidate;
    std::unique_ptr<mdc::VolumeServer> server;
    const mdc::Core* core = nullptr;
    // What the network brought, in its order.
    std::deque<std::function<void()>> calls;
    std::map<std::uint64_t, mdc::StreamId> streams;  // that the server has
  };

  void Main(Process& process);
  void HandleCalls(Process& process);
  void Call(std::function<void()> call);
  void HandleFrame(Process& process, std::uint64_t stream, v1::ClientFrame frame);
  void SendOn(const Process& process, std::uint64_t stream, const v1::ClientFrame& frame);
  mdc::VolumeServerOptions ServerOptions(Process& process);
  mdc::SeatOptions SeatOptions(const Process& process) const;
  // The process is over, at once; does not return when it is the caller's own.
  void End(Process& process, std::uint64_t& reason, const std::string& why, Micros down_for);
  Micros RestartDelay();
  template <typename Message>
  void Log(const char* what, std::uint64_t stream, const Message& message) const;

  Scheduler& scheduler_;
  Network& network_;
  const Options options_;
  Path::FaultRates fault_rates_;
  Process* process_ = nullptr;  // never destroyed
  bool paused_ = false;
  bool stopped_ = false;
  std::uint64_t starts_ = 0;  // a restart that another one overtook is void
  Totals totals_;
};

}  // namespace reel::sim
