// A simulated LUN: one disk that all hosts share, and each host's path to it.
//
// The disk takes writes whole by logical block, late, and sometimes in two parts. What was written
// is safe from a failure of power only after a flush that began later. Fresh blocks hold rubbish.
// A path carries the requests of one host; when that host dies, each write under way happens or
// does not, block by block. A disk may have persistent reservations (type 5): then a write is
// judged as it comes in, and may land long after, until a reset ends it.
// Threads: timers and fibers of one scheduler.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/sim/scheduler.h"
#include "volume/lun.h"
#include "volume/reservation.h"

namespace reel::sim {

class Disk {
 public:
  static constexpr std::uint32_t kBlockBytes = 512;

  // REQUIRES: size is a multiple of a block.
  Disk(std::string name, std::uint64_t size_bytes, bool reserves);
  const std::string& name() const { return name_; }
  std::uint64_t size_bytes() const { return size_bytes_; }

  void Write(std::uint64_t offset_bytes, const std::byte* data, std::uint64_t length_bytes);
  void Read(std::uint64_t offset_bytes, std::byte* data, std::uint64_t length_bytes) const;
  void Flush();
  // Of the blocks that were not flushed some are as they were before. Returns how many.
  std::size_t PowerFails(Random& random);

  // ---- reservations, by the number of the host whose path it is
  struct Keys {
    std::map<int, std::uint64_t> registered;
    std::uint64_t holder = 0;
    std::uint32_t generation = 0;
  };
  bool reserves() const { return reserves_; }
  Keys& keys() { return keys_; }
  bool MayWrite(int host) const { return keys_.holder == 0 || keys_.registered.contains(host); }
  // A request on its way; over when it has been carried out or ended.
  struct Flight {
    LunRequest* request = nullptr;
    int host = 0;
    bool over = false;
  };
  // In the order in which they came.
  std::list<std::shared_ptr<Flight>>& flights() { return flights_; }
  // Ends them all.
  void Reset();

 private:
  struct Free {
    void operator()(std::byte* bytes) const;
  };
  const std::string name_;
  const std::uint64_t size_bytes_;
  const bool reserves_;
  Keys keys_;
  std::list<std::shared_ptr<Flight>> flights_;
  const std::unique_ptr<std::byte, Free> bytes_;               // pages come as they are touched
  std::vector<bool> written_;                                  // by block; the others hold rubbish
  std::map<std::uint64_t, std::vector<std::byte>> unflushed_;  // blocks → what is safe of them
};

class Path final : public Lun {
 public:
  // What a history does to the requests of a host.
  struct Weather {
    bool slow = false;  // much, but less than what a lease's margin pays for, where that protects
    // The session that a write is submitted under; and what is told when one lands.
    std::function<std::uint64_t()> on_submit;
    std::function<void(std::uint64_t session)> on_land;
  };
  Path(Disk& disk, int host, const Weather& weather) : disk_(disk), host_(host), weather_(weather) {
    if (disk.reserves()) reservations_ = NewReservations(disk, host);
  }

  const std::string& name() const override { return disk_.name(); }
  std::uint64_t size_bytes() const override { return disk_.size_bytes(); }
  std::uint32_t logical_block_bytes() const override { return Disk::kBlockBytes; }
  void Start(LunRequest& request) override;
  absl::Status Flush() override;
  absl::Status Discard(std::uint64_t, std::uint64_t) override;
  absl::Status ClaimForThisProcess() override { return absl::OkStatus(); }
  Reservations* reservations() const override { return reservations_.get(); }

 private:
  static std::unique_ptr<Reservations> NewReservations(Disk& disk, int host);
  Micros Delay();
  Micros WriteDelay();
  void Land(Disk::Flight& flight, std::uint64_t from_bytes);
  void Perform(LunRequest& request, std::uint64_t from_bytes, std::uint64_t to_bytes);

  Disk& disk_;
  const int host_;
  const Weather& weather_;
  std::unique_ptr<Reservations> reservations_;
};

}  // namespace reel::sim
