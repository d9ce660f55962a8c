#include "mdc/space/allocator.h"

#include <algorithm>
#include <deque>
#include <numeric>
#include <optional>

#include "absl/strings/str_cat.h"
#include "mdc/metadb/schema.h"
#include "mdc/space/free_space.h"
#include "proto/records.pb.h"
#include "proto/status.h"

namespace reel::mdc {
namespace {

using FreeRun = FreeIndex::Run;

// Preallocation never takes more than this part of what is left.
constexpr std::uint64_t kPreallocationShare = 16;
// All that is reserved of a pool is at most that part of what is free there.
constexpr std::uint64_t kReserveShare = 64;

class PoolAllocator : public Allocator {
 public:
  explicit PoolAllocator(const VolumeDescriptor& descriptor) : strategy_(descriptor.strategy) {
    pools_.reserve(descriptor.pools.size());
    reserved_blocks_.resize(descriptor.pools.size());
    waiting_blocks_.resize(descriptor.pools.size());
    for (std::uint32_t i = 0; i < descriptor.pools.size(); ++i) {
      pools_.emplace_back(PoolId(i), descriptor);
    }
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
  absl::StatusOr<std::vector<Run>> Reserve(const AllocationRequest& request) override;
  void SetGrace(bool in_grace) override { in_grace_ = in_grace; }
  absl::Status ReserveAgain(const Run& run) override;
  void Claim(Txn& txn, const Run& run) override;
  void Unreserve(const Run& run) override;
  void Committed(Sequence sequence) override;
  void Abandon() override;
  void Durable(Sequence sequence) override;
  void DropWindows(SessionId session) override;

  std::uint64_t free_blocks(PoolId pool) const override {
    return pool.value() < pools_.size() ? pools_[pool.value()].free_blocks() : 0;
  }
  std::uint64_t total_free_blocks() const override {
    std::uint64_t sum = waiting_blocks();
    for (const FreeSpace& pool : pools_) sum += IsData(pool) ? pool.free_blocks() : 0;
    return sum;
  }
  std::uint64_t total_blocks() const override {
    std::uint64_t sum = 0;
    for (const FreeSpace& pool : pools_) sum += IsData(pool) ? pool.size_blocks() : 0;
    return sum;
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

  absl::Status LoadWaiting(const MetaDb& db);
  // DATA_LOSS: not all of it is in use.
  absl::Status CheckInUse(const Run& run) const;
  // What it took and freed is settled.
  void EndOperation();
  static bool IsData(const FreeSpace& pool) { return (pool.pool().flags & Pool::kData) != 0; }
  // Cuts runs out of what may be allocated.
  absl::StatusOr<std::vector<Run>> Cut(const AllocationRequest& request);
  std::vector<FreeSpace*> Order(const AllocationRequest& request);
  void OrderByStrategy(std::vector<FreeSpace*>& pools) const;
  void Take(const AllocationRequest& request, const std::vector<FreeSpace*>& order,
            std::uint64_t& need, std::vector<Run>& runs);
  void TakePreallocation(const AllocationRequest& request, std::vector<Run>& runs);
  // Books a run that was cut out of its pool, joining it to the last one where it continues that.
  static void Add(std::vector<Run>& runs, const FreeSpace& pool, FreeRun run);

  AllocationStrategy strategy_;
  std::vector<FreeSpace> pools_;
  std::uint64_t round_ = 0;
  std::vector<Change> changes_;  // of the current operation, in order
  std::deque<PendingFree> pending_;
  std::vector<std::uint64_t> reserved_blocks_;  // by pool
  std::vector<std::uint64_t> waiting_blocks_;   // by pool
  std::optional<DumpPin> pin_;
  bool lacks_waiting_ = false;
  bool in_grace_ = false;
};

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
std::vector<FreeSpace*> PoolAllocator::Order(const AllocationRequest& request) {
  if (request.goal_pool_only) {
    const std::uint32_t goal = request.goal_pool.value();
    if (goal >= pools_.size() || !IsData(pools_[goal])) return {};
    return {&pools_[goal]};
  }
  std::vector<FreeSpace*> preferred, others;
  for (FreeSpace& pool : pools_) {
    if (!IsData(pool)) continue;
    const std::vector<std::string>& affinities = pool.pool().affinities;
    if (!request.affinity.empty() &&
        std::find(affinities.begin(), affinities.end(), request.affinity) != affinities.end()) {
      preferred.push_back(&pool);
    } else if ((pool.pool().flags & Pool::kExclusive) == 0) {
      others.push_back(&pool);
    }
  }
  OrderByStrategy(preferred);
  OrderByStrategy(others);
  if (!request.has_goal) ++round_;
  // A file that got its affinity when it had blocks elsewhere goes on where it belongs.
  const bool goal_counts =
      request.has_goal &&
      (std::none_of(preferred.begin(), preferred.end(),
                    [](const FreeSpace* p) { return p->usable_blocks() > 0; }) ||
       std::any_of(preferred.begin(), preferred.end(),
                   [&](const FreeSpace* p) { return p->id() == request.goal_pool; }));
  preferred.insert(preferred.end(), others.begin(), others.end());
  if (goal_counts) {
    const auto goal = std::find_if(preferred.begin(), preferred.end(), [&](const FreeSpace* p) {
      return p->id() == request.goal_pool;
    });
    if (goal != preferred.end()) std::rotate(preferred.begin(), goal, goal + 1);
  }
  return preferred;
}

void PoolAllocator::OrderByStrategy(std::vector<FreeSpace*>& pools) const {
  if (pools.size() < 2) return;
  switch (strategy_) {
    case AllocationStrategy::kRound:
      std::rotate(pools.begin(), pools.begin() + static_cast<std::ptrdiff_t>(round_ % pools.size()),
                  pools.end());
      return;
    case AllocationStrategy::kFill:
      return;
    case AllocationStrategy::kBalance:
      std::stable_sort(pools.begin(), pools.end(), [](const FreeSpace* a, const FreeSpace* b) {
        // a's free fraction > b's, without division; sizes are at most 2^48.
        return static_cast<unsigned __int128>(a->free_blocks()) * b->size_blocks() >
               static_cast<unsigned __int128>(b->free_blocks()) * a->size_blocks();
      });
      return;
  }
}

void PoolAllocator::Add(std::vector<Run>& runs, const FreeSpace& pool, FreeRun run) {
  if (!runs.empty() && runs.back().pool == pool.id() &&
      runs.back().start + runs.back().length_blocks == PoolBlock(run.start)) {
    runs.back().length_blocks += run.length_blocks;
  } else {
    runs.push_back({pool.id(), PoolBlock(run.start), run.length_blocks});
  }
}

void PoolAllocator::Take(const AllocationRequest& request, const std::vector<FreeSpace*>& order,
                         std::uint64_t& need, std::vector<Run>& runs) {
  for (FreeSpace* pool : order) {
    if (const auto run = pool->TakeRun(need, request.preallocated_blocks)) {
      Add(runs, *pool, *run);
      need = 0;
      return;
    }
  }
  for (FreeSpace* pool : order) {
    while (need > 0 && runs.size() < request.max_runs) {
      const auto run = pool->TakeLargest(need);
      if (!run) break;
      Add(runs, *pool, *run);
      need -= run->length_blocks;
    }
  }
}

void PoolAllocator::TakePreallocation(const AllocationRequest& request, std::vector<Run>& runs) {
  Run& last = runs.back();
  FreeSpace& pool = pools_[last.pool.value()];
  const std::uint64_t want =
      std::min(request.preallocated_blocks, pool.usable_blocks() / kPreallocationShare);
  if (want == 0) return;
  const std::uint64_t end = last.start.value() + last.length_blocks;
  if (const auto run = pool.TakeAt(end, want, request.session)) {
    last.length_blocks += run->length_blocks;
  }
}

absl::StatusOr<std::vector<Run>> PoolAllocator::Cut(const AllocationRequest& request) {
  if (request.length_blocks == 0 || request.max_runs == 0) {
    return ErrnoStatus(EINVAL, "an allocation of no blocks");
  }
  if (in_grace_) return ErrnoStatus(EAGAIN, "blocks of the last epoch are still to be claimed");
  const std::vector<FreeSpace*> order = Order(request);
  std::uint64_t usable = 0, waiting = 0;
  for (const FreeSpace* pool : order) {
    usable += pool->usable_blocks();
    waiting += waiting_blocks_[pool->id().value()];
  }
  lacks_waiting_ = false;
  if (usable < request.length_blocks) {
    lacks_waiting_ = usable + waiting >= request.length_blocks;
    return ErrnoStatus(ENOSPC, absl::StrCat("no space left: ", request.length_blocks,
                                            " blocks asked for, ", usable, " free"));
  }

  std::vector<Run> runs;
  std::uint64_t need = request.length_blocks;
  const auto goal = request.goal_pool.value();
  if (request.has_goal && !order.empty() && order.front()->id() == request.goal_pool) {
    if (const auto run = pools_[goal].TakeAt(request.goal_block.value(), need, request.session)) {
      Add(runs, pools_[goal], *run);
      need -= run->length_blocks;
    }
  }
  if (need > 0 && request.directory != InodeNumber(0)) {
    if (const auto run =
            order.front()->TakeFromWindow({request.session, request.directory}, need)) {
      Add(runs, *order.front(), *run);
      need = 0;
    }
  }
  if (need > 0) Take(request, order, need, runs);
  if (need > 0 && runs.size() < request.max_runs) {
    for (FreeSpace* pool : order) pool->DropWindows(std::nullopt);
    Take(request, order, need, runs);
  }
  if (need == 0 && request.preallocated_blocks > 0) TakePreallocation(request, runs);
  return runs;
}

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

absl::StatusOr<std::vector<Run>> PoolAllocator::Reserve(const AllocationRequest& request) {
  absl::StatusOr<std::vector<Run>> runs = Cut(request);
  if (!runs.ok()) return runs;
  bool room = true;
  for (const Run& run : *runs) {
    std::uint64_t& reserved = reserved_blocks_[run.pool.value()];
    reserved += run.length_blocks;
    room = room && reserved <= pools_[run.pool.value()].free_blocks() / kReserveShare;
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
  const auto taken = pool.TakeAt(run.start.value(), run.length_blocks, SessionId());
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

}  // namespace

absl::StatusOr<std::unique_ptr<Allocator>> Allocator::Load(const MetaDb& db,
                                                           const VolumeDescriptor& descriptor) {
  auto allocator = std::make_unique<PoolAllocator>(descriptor);
  if (auto s = allocator->LoadFrom(db); !s.ok()) return s;
  return allocator;
}

void Allocator::Format(const VolumeDescriptor& descriptor, const std::vector<Run>& used,
                       WriteBatch& batch) {
  for (std::uint32_t i = 0; i < descriptor.pools.size(); ++i) {
    if ((descriptor.pools[i].flags & Pool::kData) == 0) continue;
    std::vector<std::pair<std::uint64_t, std::uint64_t>> taken;  // start, end
    for (const Run& run : used) {
      if (run.pool != PoolId(i)) continue;
      taken.emplace_back(run.start.value(), run.start.value() + run.length_blocks);
    }
    const std::uint64_t size = descriptor.pools[i].size_blocks();
    taken.emplace_back(size, size);
    std::sort(taken.begin(), taken.end());
    std::uint64_t next = 0;
    for (const auto& [start, end] : taken) {
      if (start > next) {
        v1::FreeRecord record;
        record.set_length_blocks(start - next);
        batch.Put(schema::FreeKey(PoolId(i), PoolBlock(next)), record.SerializeAsString());
      }
      next = std::max(next, end);
    }
  }
}

}  // namespace reel::mdc
