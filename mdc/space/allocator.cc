#include "mdc/space/allocator.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "mdc/metadb/schema.h"
#include "mdc/space/pool_allocator.h"
#include "proto/records.pb.h"
#include "proto/status.h"

namespace reel::mdc {
namespace {

using FreeRun = FreeIndex::Run;

// All that is reserved of a pool is at most that part of what is free there.
constexpr std::uint64_t kReserveShare = 64;
constexpr std::uint64_t kMoveShare = 4;  // … where that comes back at once

}  // namespace

void PoolAllocator::TakeMap(const VolumeDescriptor& descriptor) {
  for (FreeSpace& pool : pools_) pool.TakeMap(descriptor);
  for (std::size_t i = pools_.size(); i < descriptor.pools.size(); ++i) {
    pools_.emplace_back(PoolId(static_cast<std::uint32_t>(i)), descriptor);
  }
  reserved_blocks_.resize(pools_.size());
  waiting_blocks_.resize(pools_.size());
}

void PoolAllocator::SetUnits(const std::vector<std::uint64_t>& unit_blocks) {
  largest_unit_ = 1;
  for (std::size_t i = 0; i < pools_.size(); ++i) {
    const std::uint64_t unit = i < unit_blocks.size() ? unit_blocks[i] : 1;
    pools_[i].SetUnit(unit);
    largest_unit_ = std::max(largest_unit_, unit);
  }
}

void PoolAllocator::SetClosed(const std::vector<Run>& runs) {
  for (FreeSpace& pool : pools_) {
    std::vector<FreeRun> of_pool;
    for (const Run& run : runs) {
      if (run.pool == pool.id()) of_pool.push_back({run.start.value(), run.length_blocks});
    }
    pool.SetClosed(std::move(of_pool));
  }
}

absl::Status PoolAllocator::LoadFrom(const MetaDb& db) {
  const std::string prefix = schema::Prefix(schema::Family::kFree);
  auto cursor = db.Scan(prefix, prefix, Tier::kAll);
  for (; cursor->Valid(); cursor->Next()) {
    auto key = schema::Parse(cursor->key());
    if (!key.ok()) return key.status();
    v1::FreeRecord record;
    if (!record.ParseFromArray(cursor->value().data(), static_cast<int>(cursor->value().size()))) {
      return absl::DataLossError(absl::StrCat("free run record of pool ", key->first, " block ",
                                              key->second, " is damaged; run fsck.reelfs"));
    }
    if (key->first >= pools_.size() || !IsData(pools_[key->first])) {
      return absl::DataLossError(absl::StrCat("a free run names pool ", key->first,
                                              ", which is no data pool; run fsck.reelfs"));
    }
    if (auto s = pools_[key->first].Load(key->second, record.length_blocks()); !s.ok()) return s;
  }
  if (!cursor->status().ok()) return cursor->status();
  return LoadWaiting(db);
}

absl::Status PoolAllocator::LoadWaiting(const MetaDb& db) {
  const std::string prefix = schema::Prefix(schema::Family::kWaiting);
  auto cursor = db.Scan(prefix, prefix, Tier::kAll);
  for (; cursor->Valid(); cursor->Next()) {
    auto key = schema::Parse(cursor->key());
    if (!key.ok()) return key.status();
    v1::WaitingRecord record;
    if (!record.ParseFromArray(cursor->value().data(), static_cast<int>(cursor->value().size()))) {
      return absl::DataLossError(absl::StrCat("record of waiting blocks of pool ", key->first,
                                              " block ", key->second,
                                              " is damaged; run fsck.reelfs"));
    }
    const PoolId pool(static_cast<std::uint32_t>(key->first));
    if (auto s = CheckInUse({pool, PoolBlock(key->second), record.length_blocks()}); !s.ok()) {
      return s;
    }
    waiting_blocks_[pool.value()] += record.length_blocks();
  }
  return cursor->status();
}

// The pools that may hold the file: those with its affinity first, then those that are not
// exclusive; each group as the volume's strategy orders it.
absl::StatusOr<std::vector<Run>> PoolAllocator::Allocate(Txn& txn,
                                                         const AllocationRequest& request) {
  absl::StatusOr<std::vector<Run>> runs = Cut(request);
  if (!runs.ok()) return runs;
  for (const Run& run : *runs) {
    pools_[run.pool.value()].StoreTake(&txn, {run.start.value(), run.length_blocks});
    changes_.push_back({Change::Kind::kTaken, run});
  }
  return runs;
}

absl::StatusOr<std::vector<Run>> PoolAllocator::Look(const AllocationRequest& request) {
  absl::StatusOr<std::vector<Run>> runs = Cut(request);
  if (!runs.ok()) return runs;
  for (const Run& run : *runs) {
    pools_[run.pool.value()].Release({run.start.value(), run.length_blocks});
  }
  return runs;
}

absl::StatusOr<std::vector<Run>> PoolAllocator::Reserve(const AllocationRequest& request) {
  absl::StatusOr<std::vector<Run>> runs = Cut(request);
  if (!runs.ok()) return runs;
  bool room = true;
  for (const Run& run : *runs) {
    std::uint64_t& reserved = reserved_blocks_[run.pool.value()];
    reserved += run.length_blocks;
    const std::uint64_t share = request.for_move ? kMoveShare : kReserveShare;
    room = room && reserved <= pools_[run.pool.value()].free_blocks() / share;
  }
  if (room) return runs;
  for (const Run& run : *runs) Unreserve(run);
  return ErrnoStatus(ENOSPC, "too little space is left for a reservation");
}

absl::Status PoolAllocator::ReserveAgain(const Run& run) {
  const auto refused = [&] {
    return absl::InvalidArgumentError(absl::StrCat("pool ", run.pool.value(), " blocks [",
                                                   run.start.value(), ", +", run.length_blocks,
                                                   ") are not free"));
  };
  if (run.length_blocks == 0 || run.pool.value() >= pools_.size()) return refused();
  FreeSpace& pool = pools_[run.pool.value()];
  if (!IsData(pool)) return refused();
  const auto taken = pool.TakeAt(run.start.value(), {.blocks = run.length_blocks}, SessionId());
  if (!taken || taken->length_blocks < run.length_blocks) {
    if (taken) pool.Release(*taken);
    return refused();
  }
  reserved_blocks_[run.pool.value()] += run.length_blocks;
  return absl::OkStatus();
}

void PoolAllocator::Claim(Txn& txn, const Run& run) {
  pools_[run.pool.value()].StoreTake(&txn, {run.start.value(), run.length_blocks});
  reserved_blocks_[run.pool.value()] -= run.length_blocks;
  changes_.push_back({Change::Kind::kClaimed, run});
}

void PoolAllocator::Unreserve(const Run& run) {
  reserved_blocks_[run.pool.value()] -= run.length_blocks;
  pools_[run.pool.value()].Release({run.start.value(), run.length_blocks});
}

absl::Status PoolAllocator::CheckInUse(const Run& run) const {
  const FreeRun free{run.start.value(), run.length_blocks};
  if (run.pool.value() < pools_.size() && IsData(pools_[run.pool.value()]) &&
      pools_[run.pool.value()].IsAllocated(free)) {
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrCat("pool ", run.pool.value(), " blocks [", run.start.value(),
                                          ", +", run.length_blocks,
                                          ") are to be freed, but are not all in use; run "
                                          "fsck.reelfs"));
}

absl::Status PoolAllocator::Free(Txn& txn, const Run& run, Sequence birth) {
  if (auto s = CheckInUse(run); !s.ok()) return s;
  if (pin_ && birth <= pin_->sequence) {
    v1::WaitingRecord record;
    record.set_length_blocks(run.length_blocks);
    record.set_dump(pin_->dump);
    txn.Put(schema::WaitingKey(run.pool, run.start), record.SerializeAsString());
    waiting_blocks_[run.pool.value()] += run.length_blocks;
    changes_.push_back({Change::Kind::kWaits, run});
    return absl::OkStatus();
  }
  pools_[run.pool.value()].StoreFree(&txn, {run.start.value(), run.length_blocks});
  changes_.push_back({Change::Kind::kFreed, run});
  return absl::OkStatus();
}

absl::Status PoolAllocator::FreeWaiting(Txn& txn, const Run& run) {
  if (auto s = CheckInUse(run); !s.ok()) return s;
  txn.Delete(schema::WaitingKey(run.pool, run.start));
  pools_[run.pool.value()].StoreFree(&txn, {run.start.value(), run.length_blocks});
  waiting_blocks_[run.pool.value()] -= run.length_blocks;
  changes_.push_back({Change::Kind::kWaitedFor, run});
  return absl::OkStatus();
}

void PoolAllocator::EndOperation() {
  changes_.clear();
  lacks_waiting_ = false;
}

void PoolAllocator::Committed(Sequence sequence) {
  for (const Change& change : changes_) {
    if (change.kind == Change::Kind::kFreed || change.kind == Change::Kind::kWaitedFor) {
      pending_.push_back({sequence, change.run});
    }
  }
  EndOperation();
}

void PoolAllocator::Abandon() {
  for (auto change = changes_.rbegin(); change != changes_.rend(); ++change) {
    FreeSpace& pool = pools_[change->run.pool.value()];
    const FreeRun free{change->run.start.value(), change->run.length_blocks};
    std::uint64_t& waiting = waiting_blocks_[change->run.pool.value()];
    switch (change->kind) {
      case Change::Kind::kFreed:
        pool.StoreTake(nullptr, free);
        break;
      case Change::Kind::kWaits:
        waiting -= free.length_blocks;
        break;
      case Change::Kind::kWaitedFor:
        pool.StoreTake(nullptr, free);
        waiting += free.length_blocks;
        break;
      case Change::Kind::kTaken:
        pool.StoreFree(nullptr, free);
        pool.Release(free);
        break;
      case Change::Kind::kClaimed:
        pool.StoreFree(nullptr, free);
        reserved_blocks_[change->run.pool.value()] += free.length_blocks;
        break;
    }
  }
  EndOperation();
}

void PoolAllocator::Durable(Sequence sequence) {
  for (; !pending_.empty() && pending_.front().sequence <= sequence; pending_.pop_front()) {
    const Run& run = pending_.front().run;
    pools_[run.pool.value()].Release({run.start.value(), run.length_blocks});
  }
}

void PoolAllocator::DropWindows(SessionId session) {
  for (FreeSpace& pool : pools_) pool.DropWindows(session);
}

absl::Status PoolAllocator::Check() const {
  std::vector<std::uint64_t> pending(pools_.size());
  for (const PendingFree& free : pending_) pending[free.run.pool.value()] += free.run.length_blocks;
  for (const Change& change : changes_) {
    const bool freed =
        change.kind == Change::Kind::kFreed || change.kind == Change::Kind::kWaitedFor;
    if (freed) pending[change.run.pool.value()] += change.run.length_blocks;
  }
  for (std::size_t i = 0; i < pools_.size(); ++i) pending[i] += reserved_blocks_[i];
  for (std::size_t i = 0; i < pools_.size(); ++i) {
    if (auto s = pools_[i].Check(pending[i]); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Allocator>> Allocator::Load(const MetaDb& db,
                                                           const VolumeDescriptor& descriptor) {
  auto allocator = std::make_unique<PoolAllocator>(descriptor);
  if (auto s = allocator->LoadFrom(db); !s.ok()) return s;
  return allocator;
}

}  // namespace reel::mdc
