// A simulated LUN: one disk that all hosts share, and each host's path to it.
//
// The disk takes writes whole by logical block, late, and sometimes in two parts. What was written
// is safe from a failure of power only after a flush that began later. Fresh blocks hold rubbish.
// A path carries the requests of one host; when that host dies, each write under way happens or
// does not, block by block. A write may have landed long before its answer comes, with a reset or a
// lost path in between. A disk may have persistent reservations (type 5): then a write is
// judged as it comes in, and may land long after, until a reset ends it; and a path that is lost
// stays lost until it is opened anew, with what was on its way landing late, or not at all.
// Threads: timers and fibers of one scheduler.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tests/sim/scheduler.h"
#include "volume/lun/lun.h"
#include "volume/lun/reservation.h"

namespace reel::sim {

class Disk {
 public:
  static constexpr std::uint32_t kBlockBytes = 512;

  // REQUIRES: size is a multiple of a block.
  Disk(std::string name, std::uint64_t size_bytes, bool reserves);
  // With the content of another one, which is of no use any more.
  Disk(Disk&& content, bool reserves);
  const std::string& name() const { return name_; }
  std::uint64_t size_bytes() const { return size_bytes_; }

  // Whose flush makes safe what was written: less than what LUNs do, so that no flush hides that
  // another one is missing.
  static constexpr int kControllers = 0;  // all of them; else a host
  void Write(int writer, std::uint64_t offset_bytes, const std::byte* data,
             std::uint64_t length_bytes);
  void Read(std::uint64_t offset_bytes, std::byte* data, std::uint64_t length_bytes) const;
  void Flush();
  void FlushOf(int writer);
  // Of what only this one has written and nobody flushed, some is as it was before.
  void LoseOf(int writer, Random& random);
  // Writes all that was ever written to this one to another of the same size, and flushes that.
  void CopyTo(Disk& other) const;
  // Of the blocks that were not flushed some are as they were before. Returns how many.
  std::size_t PowerFails(Random& random);

  // ---- reservations, by the number of the connection
  struct Keys {
    std::map<int, std::uint64_t> registered;
    std::uint64_t holder = 0;
    int holder_connection = 0;
    std::uint32_t generation = 0;
  };
  bool reserves() const { return reserves_; }
  Keys& keys() { return keys_; }
  bool MayWrite(int connection) const {
    return keys_.holder == 0 || keys_.registered.contains(connection);
  }
  int NewConnection() { return ++last_connection_; }
  void NoteRefusal() { ++refusals_; }
  std::uint64_t refusals() const { return refusals_; }  // writes that met a conflict
  // A request on its way; over when it has been carried out or ended.
  struct Flight {
    LunRequest* request = nullptr;  // null: a write whose path was lost, with `bytes` of its own
    int host = 0;
    int connection = 0;
    bool over = false;
    bool landed = false;  // and not answered
    std::vector<std::byte> bytes{};
  };
  // In the order in which they came.
  std::list<std::shared_ptr<Flight>>& flights() { return flights_; }
  // Ends them all.
  void Reset();

  // ---- what a process of a machine holds against that machine's other ones
  bool Claim(int machine, int process);
  void GiveUpClaim(int machine, int process);

  // ---- counters
  std::uint64_t preemptions = 0;
  std::uint64_t unknowns = 0;  // outcomes that nobody was told
  std::map<int, int> held;     // writes that are still in their host, by that

 private:
  const std::string name_;
  const std::uint64_t size_bytes_;
  const bool reserves_;
  Keys keys_;
  int last_connection_ = 0;
  std::map<int, int> claims_;  // machines → processes
  std::uint64_t refusals_ = 0;
  std::list<std::shared_ptr<Flight>> flights_;
  std::byte* const bytes_;     // pages come as they are touched
  std::vector<bool> written_;  // by block; the others hold rubbish
  struct Unflushed {
    std::vector<std::byte> safe;
    std::vector<int> writers;
  };
  std::map<std::uint64_t, Unflushed> unflushed_;  // by block
};

class Path final : public Lun {
 public:
  // What a history does to the requests of a host.
  struct FaultRates {
    bool slow = false;   // much, but less than what a lease's margin pays for, where that protects
    bool stuck = false;  // writes to LUNs with reservations stay in the host for long
    // A controller's: late only when it is slow, and where the lease protects never later than what
    // the margin of its seat pays for.
    bool controller = false;
    bool cut = false;           // nothing passes
    bool flushes_fail = false;  // some, and lose what they were to make safe
    Micros cut_until = 0;       // of a client, the last time
    // What becomes of writes to the arbitration block is not told: of some of them, and they may be
    // carried out; or of all, and none is.
    bool lossy = false, void_writes = false;
    bool lossy_fences = false;          // … and of many changes of reservations
    bool late_beats = false;            // writes to that block land, and are answered late
    std::uint64_t* refusals = nullptr;  // counts writes that met a conflict
    // The session that a write is submitted under; and what is told when one lands.
    std::function<std::uint64_t()> on_submit;
    std::function<void(const Disk& disk, std::uint64_t session, bool answered)> on_land;
    std::function<void()> on_flush_failed;
    // Told of each write that lands, or a part of it does.
    std::function<void(const Disk& disk, int host, std::uint64_t offset_bytes,
                       std::span<const std::byte>)>
        on_written;
  };
  // `machine`: whose claims it shares; -1: nobody claims.
  Path(Disk& disk, int host, const FaultRates& fault_rates, int machine = -1);
  ~Path() override;

  const std::string& name() const override { return disk_.name(); }
  std::uint64_t size_bytes() const override { return disk_.size_bytes(); }
  std::uint32_t logical_block_bytes() const override { return Disk::kBlockBytes; }
  void Start(LunRequest& request) override;
  absl::Status Flush() override;
  absl::Status Discard(std::uint64_t, std::uint64_t) override;
  absl::Status ClaimForThisProcess() override;
  absl::Status Reopen() override;
  Reservations* reservations() const override { return reservations_.get(); }

  // ---- for its reservations
  Disk& disk() const { return disk_; }
  int connection() const { return connection_; }
  // OK: it can carry a request. Looks at the weather first.
  absl::Status Look();
  // What becomes of a change of reservations now is not told.
  bool LosesChange() const;
  // All that is on its way ends as unknown.
  void Lose();

 private:
  static std::unique_ptr<Reservations> NewReservations(Path& path);
  int writer() const { return fault_rates_.controller ? Disk::kControllers : host_; }
  Micros Delay();
  Micros WriteDelay();
  Micros AnswerDelay(const LunRequest& request);
  // In its host.
  void Hold(LunRequest& request, Micros time);
  // At the target.
  void Arrive(LunRequest& request, std::uint64_t session);
  void Land(Disk::Flight& flight, std::uint64_t from_bytes);
  void Answer(const std::shared_ptr<Disk::Flight>& flight);
  void LandLate(const std::shared_ptr<Disk::Flight>& flight, LunRequest& request);
  void Perform(LunRequest& request, std::uint64_t from_bytes, std::uint64_t to_bytes);
  bool LoseOne(LunRequest& request);

  Disk& disk_;
  const int host_;
  const FaultRates& fault_rates_;
  const int machine_;
  bool claimed_ = false;
  int connection_;
  bool lost_ = false;
  std::unique_ptr<Reservations> reservations_;
};

// The disks of a history, for code that opens LUNs by their names (OpenLun): a controller's, or the
// history's own, on whose host that runs.
struct LunRack {
  struct Place {
    const Path::FaultRates* fault_rates = nullptr;
    int machine = -1;
  };
  std::vector<Disk*> disks;
  std::map<int, Place> places;  // by host
  static LunRack& Get();
};

// A LUN that is about to come, or that has gone, is the volume's only in one controller's hands:
// the next one cuts that off before it takes the LUN itself.
bool IsOfTheVolume(const Disk& disk);

}  // namespace reel::sim
