// Allocator over the pools of a volume (allocator.h): what its parts share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <numeric>
#include <optional>
#include <vector>

#include "mdc/space/allocator.h"
#include "mdc/space/free_space.h"

namespace reel::mdc {

class PoolAllocator : public Allocator {
 public:
  explicit PoolAllocator(const VolumeDescriptor& descriptor) : strategy_(descriptor.strategy) {
    PoolAllocator::TakeMap(descriptor);
  }

  absl::Status LoadFrom(const MetaDb& db);

  absl::StatusOr<std::vector<Run>> Allocate(Txn& txn, const AllocationRequest& request) override;
  absl::Status Free(Txn& txn, const Run& run, Sequence birth) override;
  void SetPin(std::optional<DumpPin> pin) override { pin_ = pin; }
  absl::Status FreeWaiting(Txn& txn, const Run& run) override;
  std::uint64_t waiting_blocks() const override {
    return std::accumulate(waiting_blocks_.begin(), waiting_blocks_.end(), std::uint64_t{0});
  }
  bool lacks_waiting() const override { return lacks_waiting_; }
  void TakeMap(const VolumeDescriptor& descriptor) override;
  void SetClosed(const std::vector<Run>& runs) override;
  void SetUnits(const std::vector<std::uint64_t>& unit_blocks) override;
  std::uint64_t unit_blocks(PoolId pool) const override {
    return pools_[pool.value()].unit_blocks();
  }
  std::uint64_t largest_unit_blocks() const override { return largest_unit_; }
  absl::StatusOr<std::vector<Run>> Look(const AllocationRequest& request) override;
  absl::StatusOr<std::vector<Run>> Reserve(const AllocationRequest& request) override;
  void SetGrace(bool in_grace) override { in_grace_ = in_grace; }
  absl::Status ReserveAgain(const Run& run) override;
  void Claim(Txn& txn, const Run& run) override;
  void Unreserve(const Run& run) override;
  void Committed(Sequence sequence) override;
  void Abandon() override;
  void Durable(Sequence sequence) override;
  void DropWindows(SessionId session) override;

  std::vector<SetSpace> sets() const override;
  bool Belongs(std::string_view affinity, PoolId pool) const override;
  std::uint64_t free_in(const Run& area) const override {
    return pools_[area.pool.value()].free_in(ToFree(area));
  }
  std::uint64_t open_in(const Run& area) const override {
    return pools_[area.pool.value()].open_in(ToFree(area));
  }
  std::uint64_t usable_blocks(PoolId pool) const override {
    return pools_[pool.value()].usable_blocks();
  }
  bool more_comes() const override { return !pending_.empty(); }
  bool IsEmpty(const Run& area) const override {
    return pools_[area.pool.value()].IsEmpty(ToFree(area));
  }
  void Drop(Txn& txn, const Run& area) override {
    pools_[area.pool.value()].Drop(txn, ToFree(area));
  }

  std::uint64_t free_blocks(PoolId pool) const override {
    if (pool.value() >= pools_.size()) return 0;
    return pools_[pool.value()].free_blocks() - pools_[pool.value()].closed_blocks();
  }
  std::uint64_t total_free_blocks() const override {
    std::uint64_t sum = waiting_blocks();
    for (const FreeSpace& pool : pools_) {
      sum += IsData(pool) ? pool.free_blocks() - pool.closed_blocks() : 0;
    }
    return sum;
  }
  std::uint64_t total_blocks() const override {
    std::uint64_t sum = 0;
    for (const FreeSpace& pool : pools_) sum += IsData(pool) ? pool.capacity_blocks() : 0;
    return sum;
  }
  FreeFacts space_of(PoolId pool) const override {
    if (pool.value() >= pools_.size()) return {};
    FreeFacts space = pools_[pool.value()].space();
    space.reserved = reserved_blocks_[pool.value()];
    return space;
  }
  absl::Status Check() const override;

 private:
  struct Change {
    enum class Kind : std::uint8_t { kTaken, kClaimed, kFreed, kWaits, kWaitedFor };
    Kind kind = Kind::kTaken;
    Run run;
  };
  struct PendingFree {
    Sequence sequence;
    Run run;
  };

  static FreeSpace::FreeRun ToFree(const Run& run) {
    return {run.start.value(), run.length_blocks};
  }
  absl::Status LoadWaiting(const MetaDb& db);
  // DATA_LOSS: not all of it is in use.
  absl::Status CheckInUse(const Run& run) const;
  // What it took and freed is settled.
  void EndOperation();
  static bool IsData(const FreeSpace& pool) { return (pool.pool().flags & Pool::kData) != 0; }
  // Cuts runs out of what may be allocated.
  absl::StatusOr<std::vector<Run>> Cut(const AllocationRequest& request);
  std::vector<FreeSpace*> Order(const AllocationRequest& request);
  static bool HasAffinity(const FreeSpace& pool, std::string_view affinity) {
    const std::vector<std::string>& all = pool.pool().affinities;
    return !affinity.empty() && std::find(all.begin(), all.end(), affinity) != all.end();
  }
  void OrderByStrategy(std::vector<FreeSpace*>& pools) const;
  void Take(const AllocationRequest& request, const std::vector<FreeSpace*>& order,
            std::uint64_t& need, std::vector<Run>& runs);
  void TakeAtGoal(const AllocationRequest& request, const std::vector<FreeSpace*>& order,
                  std::uint64_t& need, std::vector<Run>& runs);
  void TakePreallocation(const AllocationRequest& request, std::vector<Run>& runs);
  // Books a run that was cut out of its pool, joining it to the last one where it continues that.
  static void Add(std::vector<Run>& runs, const FreeSpace& pool, FreeSpace::FreeRun run);

  AllocationStrategy strategy_;
  std::vector<FreeSpace> pools_;
  std::uint64_t round_ = 0;
  std::uint64_t largest_unit_ = 1;
  std::vector<Change> changes_;  // of the current operation, in order
  std::deque<PendingFree> pending_;
  std::vector<std::uint64_t> reserved_blocks_;  // by pool
  std::vector<std::uint64_t> waiting_blocks_;   // by pool
  std::optional<DumpPin> pin_;
  bool lacks_waiting_ = false;
  bool in_grace_ = false;
};

}  // namespace reel::mdc
