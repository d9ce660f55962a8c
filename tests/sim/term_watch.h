// Watches from the LUNs' side that the controllers of a volume follow each other: once one of a
// later epoch has begun to write metadata, nothing of an earlier one lands any more.
//
// Whose epoch is which the arbitration block says, as each controller writes it. Only that block
// itself may still be written by one that is over, where there are no reservations
// (docs/failover.md); and there, what a process had under way when it was killed may still land, in
// segments of its own. Threads: timers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>

#include "tests/sim/luns.h"
#include "volume/format/arbitration_block.h"

namespace reel::sim {

class TermWatch {
 public:
  TermWatch(const Scheduler& scheduler, bool reservations, std::function<void(std::string)> violate)
      : scheduler_(scheduler), reservations_(reservations), violate_(std::move(violate)) {}

  // Told of every write of a controller's process that lands. `machine`: its number.
  void OnWritten(const Disk& disk, std::uint64_t offset_bytes, std::span<const std::byte> bytes,
                 int host, int machine);

  // Told of whatever a controller says to a client: once one of a later epoch has said something,
  // an earlier one says nothing.
  void OnAnswered(Epoch epoch, int machine);

  // Another volume lies there from now on, whose epochs begin anew.
  void Remade() {
    epochs_.clear();
    epoch_ = answered_ = Epoch();
    machine_ = 0;
  }

  std::uint64_t epoch() const { return epoch_.value(); }  // that writes
  // Times that another machine than the last one began to write.
  std::uint64_t takeovers() const { return takeovers_; }
  std::uint64_t terms() const { return terms_; }
  // Words in the arbitration block that no term followed.
  std::uint64_t claims() const { return claims_; }

 private:
  const Scheduler& scheduler_;
  const bool reservations_;
  const std::function<void(std::string)> violate_;
  std::map<int, Epoch> epochs_;  // by host
  Epoch epoch_, answered_;
  int machine_ = 0;
  std::uint64_t takeovers_ = 0, terms_ = 0, claims_ = 0;
};

}  // namespace reel::sim
