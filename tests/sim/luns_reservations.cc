// Persistent reservations of simulated disks, as one path sees them. Each change takes its time, on
// the way there and back.
#include <memory>
#include <utility>

#include "tests/sim/luns.h"
#include "volume/lun_fault.h"

namespace reel::sim {
namespace {

constexpr Micros kLongestReset = 400 * kMs;

class PathReservations final : public Reservations {
 public:
  PathReservations(Disk& disk, int host) : disk_(disk), host_(host) {}

  ReservationResult Register(std::uint64_t key) override {
    return Change([&](Disk::Keys& keys) { return keys.registered.try_emplace(host_, key).second; });
  }
  ReservationResult Unregister(std::uint64_t key) override {
    return Change([&](Disk::Keys& keys) {
      if (!Is(key)) return false;
      keys.registered.erase(host_);
      if (keys.holder == key) keys.holder = 0;
      return true;
    });
  }
  ReservationResult Reserve(std::uint64_t key) override {
    return Change([&](Disk::Keys& keys) {
      if (!Is(key) || (keys.holder != 0 && keys.holder != key)) return false;
      keys.holder = key;
      return true;
    });
  }
  ReservationResult Preempt(std::uint64_t key, std::uint64_t victim) override {
    return Change([&](Disk::Keys& keys) {
      if (!Is(key)) return false;
      const auto gone =
          std::erase_if(keys.registered, [&](const auto& entry) { return entry.second == victim; });
      if (gone > 0 && keys.holder == victim) keys.holder = key;
      return gone > 0;
    });
  }
  ReservationResult Clear(std::uint64_t key) override {
    return Change([&](Disk::Keys& keys) {
      if (!Is(key)) return false;
      keys.registered.clear();
      keys.holder = 0;
      return true;
    });
  }
  absl::StatusOr<Registrations> ReadKeys() override {
    Wait();
    Registrations registrations;
    registrations.generation = disk_.keys().generation;
    for (const auto& [host, key] : disk_.keys().registered) registrations.keys.push_back(key);
    return registrations;
  }
  absl::StatusOr<std::optional<ReservationHolder>> ReadHolder() override {
    Wait();
    if (disk_.keys().holder == 0) return std::nullopt;
    return ReservationHolder{.key = disk_.keys().holder, .write_exclusive_registrants_only = true};
  }
  ReservationResult ResetLun() override {
    Scheduler& scheduler = Scheduler::Get();
    scheduler.Sleep(scheduler.random().Between(kMs, kLongestReset));
    disk_.Reset();
    Wait();
    return {.outcome = ReservationResult::Outcome::kDone, .status = absl::OkStatus()};
  }

 private:
  bool Is(std::uint64_t key) const {
    const auto mine = disk_.keys().registered.find(host_);
    return mine != disk_.keys().registered.end() && mine->second == key;
  }
  static void Wait() {
    Scheduler& scheduler = Scheduler::Get();
    scheduler.Sleep(scheduler.random().Between(50, scheduler.random().OneIn(8) ? 20 * kMs : 500));
  }
  template <typename Act>
  ReservationResult Change(Act act) {
    Wait();
    const bool done = act(disk_.keys());
    if (done) ++disk_.keys().generation;
    Wait();
    if (done) return {.outcome = ReservationResult::Outcome::kDone, .status = absl::OkStatus()};
    return {.outcome = ReservationResult::Outcome::kConflict,
            .status = LunFaultStatus(LunFault::kFenced, "RESERVATION CONFLICT")};
  }

  Disk& disk_;
  const int host_;
};

}  // namespace

std::unique_ptr<Reservations> Path::NewReservations(Disk& disk, int host) {
  return std::make_unique<PathReservations>(disk, host);
}

}  // namespace reel::sim
