// A simulated LUN: one disk that all hosts share, and each host's path to it.
//
// The disk takes writes whole by logical block, late, and sometimes in two parts. What was written
// is safe from a failure of power only after a flush that began later. Fresh blocks hold rubbish.
// A path carries the requests of one host; when that host dies, each write under way happens or
// does not, block by block. Threads: timers and fibers of one scheduler.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/sim/scheduler.h"
#include "volume/lun.h"

namespace reel::sim {

class Disk {
 public:
  static constexpr std::uint32_t kBlockBytes = 512;

  // REQUIRES: size is a multiple of a block.
  Disk(std::string name, std::uint64_t size_bytes);
  const std::string& name() const { return name_; }
  std::uint64_t size_bytes() const { return size_bytes_; }

  void Write(std::uint64_t offset_bytes, const std::byte* data, std::uint64_t length_bytes);
  void Read(std::uint64_t offset_bytes, std::byte* data, std::uint64_t length_bytes) const;
  void Flush();
  // Of the blocks that were not flushed some are as they were before. Returns how many.
  std::size_t PowerFails(Random& random);

 private:
  struct Free {
    void operator()(std::byte* bytes) const;
  };
  const std::string name_;
  const std::uint64_t size_bytes_;
  const std::unique_ptr<std::byte, Free> bytes_;               // pages come as they are touched
  std::vector<bool> written_;                                  // by block; the others hold rubbish
  std::map<std::uint64_t, std::vector<std::byte>> unflushed_;  // blocks → what is safe of them
};

class Path final : public Lun {
 public:
  // What a history does to the requests of a host.
  struct Weather {
    bool slow = false;  // much, but less than what a lease's margin pays for
    // Told of each write as it is submitted.
    std::function<void()> on_write;
  };
  Path(Disk& disk, int host, const Weather& weather)
      : disk_(disk), host_(host), weather_(weather) {}

  const std::string& name() const override { return disk_.name(); }
  std::uint64_t size_bytes() const override { return disk_.size_bytes(); }
  std::uint32_t logical_block_bytes() const override { return Disk::kBlockBytes; }
  void Start(LunRequest& request) override;
  absl::Status Flush() override;
  absl::Status Discard(std::uint64_t, std::uint64_t) override;
  absl::Status ClaimForThisProcess() override { return absl::OkStatus(); }

 private:
  Micros Delay();
  void Perform(LunRequest& request, std::uint64_t from_bytes, std::uint64_t to_bytes);

  Disk& disk_;
  const int host_;
  const Weather& weather_;
};

}  // namespace reel::sim
