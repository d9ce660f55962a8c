// Persistent reservations of simulated disks, as one path sees them. Each change takes its time, on
// the way there and back.
#include <memory>
#include <utility>

#include "tests/sim/luns.h"
#include "volume/lun/lun_fault.h"

namespace reel::sim {
namespace {

constexpr Micros kLongestReset = 400 * kMs;

class PathReservations final : public Reservations {
 public:
  explicit PathReservations(Path& path) : path_(path), disk_(path.disk()) {}

  ReservationResult Register(std::uint64_t key) override {
    return Change([&](Disk::Keys& keys) {
      return keys.registered.try_emplace(path_.connection(), key).second;
    });
  }
  ReservationResult Unregister(std::uint64_t key) override {
    return Change([&](Disk::Keys& keys) {
      if (!Is(key)) return false;
      keys.registered.erase(path_.connection());
      if (keys.holder_connection == path_.connection()) keys.holder = 0;
      return true;
    });
  }
  ReservationResult Reserve(std::uint64_t key) override {
    return Change([&](Disk::Keys& keys) {
      const bool held = keys.holder != 0;
      if (!Is(key) || (held && keys.holder_connection != path_.connection())) return false;
      keys.holder = key;
      keys.holder_connection = path_.connection();
      return true;
    });
  }
  ReservationResult Preempt(std::uint64_t key, std::uint64_t victim) override {
    return Change([&](Disk::Keys& keys) {
      if (!Is(key)) return false;
      const auto gone =
          std::erase_if(keys.registered, [&](const auto& entry) { return entry.second == victim; });
      if (gone > 0 && keys.holder == victim) {
        keys.holder = key;
        keys.holder_connection = path_.connection();
      }
      if (gone > 0) ++disk_.preemptions;
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
    if (absl::Status s = path_.Look(); !s.ok()) return s;
    Registrations registrations;
    registrations.generation = disk_.keys().generation;
    for (const auto& [connection, key] : disk_.keys().registered) registrations.keys.push_back(key);
    return registrations;
  }
  absl::StatusOr<std::optional<ReservationHolder>> ReadHolder() override {
    Wait();
    if (absl::Status s = path_.Look(); !s.ok()) return s;
    if (disk_.keys().holder == 0) return std::nullopt;
    return ReservationHolder{.key = disk_.keys().holder, .write_exclusive_registrants_only = true};
  }
  ReservationResult ResetLun() override {
    Scheduler& scheduler = Scheduler::Get();
    if (absl::Status s = path_.Look(); !s.ok()) return NotDone(s);
    scheduler.Sleep(scheduler.random().Between(kMs, kLongestReset));
    disk_.Reset();
    Wait();
    if (absl::Status s = path_.Look(); !s.ok()) return Unknown();
    return {.outcome = ReservationResult::Outcome::kDone, .status = absl::OkStatus()};
  }

 private:
  static ReservationResult NotDone(absl::Status status) {
    return {.outcome = ReservationResult::Outcome::kNotDone, .status = std::move(status)};
  }
  ReservationResult Unknown() {
    ++disk_.unknowns;
    return {.outcome = ReservationResult::Outcome::kUnknown,
            .status = LunFaultStatus(LunFault::kUnknown, "no answer that says so")};
  }
  ReservationResult Lost() {
    if (Scheduler::Get().random().OneIn(3)) path_.Lose();
    return Unknown();
  }
  bool Is(std::uint64_t key) const {
    const auto mine = disk_.keys().registered.find(path_.connection());
    return mine != disk_.keys().registered.end() && mine->second == key;
  }
  static void Wait() {
    Scheduler& scheduler = Scheduler::Get();
    scheduler.Sleep(scheduler.random().Between(50, scheduler.random().OneIn(8) ? 20 * kMs : 500));
  }
  template <typename Act>
  ReservationResult Change(Act act) {
    Wait();
    if (absl::Status s = path_.Look(); !s.ok()) return NotDone(s);
    // Where outcomes are lost a change is carried out or not, and its path may be gone.
    const bool lost = path_.LosesChange();
    if (lost && Scheduler::Get().random().OneIn(2)) return Lost();
    const bool done = act(disk_.keys());
    if (done) ++disk_.keys().generation;
    if (lost) return Lost();
    Wait();
    if (absl::Status s = path_.Look(); !s.ok()) return Unknown();
    if (done) return {.outcome = ReservationResult::Outcome::kDone, .status = absl::OkStatus()};
    return {.outcome = ReservationResult::Outcome::kConflict,
            .status = LunFaultStatus(LunFault::kFenced, "RESERVATION CONFLICT")};
  }

  Path& path_;
  Disk& disk_;
};

}  // namespace

std::unique_ptr<Reservations> Path::NewReservations(Path& path) {
  return std::make_unique<PathReservations>(path);
}

}  // namespace reel::sim
