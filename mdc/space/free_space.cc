#include "mdc/space/free_space.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "mdc/metadb/schema.h"
#include "proto/records.pb.h"

namespace reel::mdc {
namespace {

// A window holds this many files like the one that opened it, between the two bounds; each time it
// is used up, the next one is twice as large.
constexpr std::uint64_t kWindowFiles = 32;
constexpr std::uint64_t kMinWindowBytes = 32 * kMiB;
constexpr std::uint64_t kMaxWindowBytes = 1 * kGiB;
// … and at most this part of the pool's free space, so that windows do not cut up a small pool.
constexpr std::uint64_t kWindowShare = 32;
// A continuation is taken in pieces of at least this: less would only fragment the file.
constexpr std::uint64_t kMinContinuationBytes = 1 * kMiB;

std::string EncodeFree(std::uint64_t length_blocks) {
  v1::FreeRecord record;
  record.set_length_blocks(length_blocks);
  return record.SerializeAsString();
}

}  // namespace

FreeSpace::FreeSpace(PoolId pool, const VolumeDescriptor& descriptor)
    : id_(pool), block_bytes_(descriptor.block_bytes) {
  TakeMap(descriptor);
}

void FreeSpace::TakeMap(const VolumeDescriptor& descriptor) {
  pool_ = descriptor.pools[id_.value()];
  size_blocks_ = pool_.size_blocks();
  sets_.clear();
  std::uint64_t first = 0;
  for (const StripeSet& set : pool_.sets) {
    const std::uint64_t stripe = std::uint64_t{pool_.BreadthOf(set)} * set.luns.size();
    sets_.push_back({.first_block = first,
                     .end_block = first + pool_.BlocksOf(set),
                     .stripe_blocks = std::max<std::uint64_t>(stripe, 1),
                     .is_gap = set.is_gap()});
    first = sets_.back().end_block;
  }
  for (const auto& [start, length] : stored_.runs()) Count({start, length}, true);
}

void FreeSpace::Count(FreeRun run, bool free) {
  for (SetGeometry& set : sets_) {
    const std::uint64_t from = std::max(run.start, set.first_block);
    const std::uint64_t to = std::min(run.end(), set.end_block);
    if (from < to) set.free = free ? set.free + (to - from) : set.free - (to - from);
  }
}

void FreeSpace::SetClosed(std::vector<FreeRun> runs) {
  DropWindows(std::nullopt);
  closed_runs_ = std::move(runs);
  std::vector<FreeRun> free;
  for (FreeIndex* const index : {&available_, &closed_}) {
    for (const auto& [start, length] : index->runs()) free.push_back({start, length});
    *index = FreeIndex(/*by_size=*/index == &available_);
  }
  for (const FreeRun& run : free) Give(run);
}

bool FreeSpace::AnyClosed(FreeRun run) const {
  return std::ranges::any_of(closed_runs_, [&](const FreeRun& closed) {
    return closed.start < run.end() && run.start < closed.end();
  });
}

void FreeSpace::Give(FreeRun run) {
  for (const FreeRun& closed : closed_runs_) {
    const std::uint64_t from = std::max(run.start, closed.start);
    const std::uint64_t to = std::min(run.end(), closed.end());
    if (from >= to) continue;
    if (run.start < from) available_.Insert(run.start, from - run.start);
    closed_.Insert(from, to - from);
    run = {to, run.end() - to};
  }
  if (run.length_blocks > 0) available_.Insert(run.start, run.length_blocks);
}

absl::Status FreeSpace::Load(std::uint64_t start, std::uint64_t length_blocks) {
  if (length_blocks == 0 || start >= size_blocks_ || length_blocks > size_blocks_ - start) {
    return absl::DataLossError(absl::StrCat("free run [", start, ", +", length_blocks,
                                            ") lies outside pool ", pool_.name,
                                            "; run fsck.reelfs"));
  }
  if (stored_.Overlaps(start, length_blocks)) {
    return absl::DataLossError(absl::StrCat("free run [", start, ", +", length_blocks, ") of pool ",
                                            pool_.name, " overlaps another; run fsck.reelfs"));
  }
  stored_.Insert(start, length_blocks);
  Count({start, length_blocks}, true);
  available_.Insert(start, length_blocks);
  return absl::OkStatus();
}

void FreeSpace::StoreTake(Txn* txn, FreeRun run) {
  const FreeRun whole = *stored_.Containing(run.start);
  stored_.Remove(run.start, run.length_blocks);
  Count(run, false);
  if (txn == nullptr) return;
  if (whole.start < run.start) {
    txn->Put(schema::FreeKey(id_, PoolBlock(whole.start)), EncodeFree(run.start - whole.start));
  } else {
    txn->Delete(schema::FreeKey(id_, PoolBlock(whole.start)));
  }
  if (run.end() < whole.end()) {
    txn->Put(schema::FreeKey(id_, PoolBlock(run.end())), EncodeFree(whole.end() - run.end()));
  }
}

void FreeSpace::StoreFree(Txn* txn, FreeRun run) {
  if (txn != nullptr && stored_.StartingAt(run.end())) {
    txn->Delete(schema::FreeKey(id_, PoolBlock(run.end())));
  }
  stored_.Insert(run.start, run.length_blocks);
  Count(run, true);
  if (txn == nullptr) return;
  const FreeRun merged = *stored_.Containing(run.start);
  txn->Put(schema::FreeKey(id_, PoolBlock(merged.start)), EncodeFree(merged.length_blocks));
}

bool FreeSpace::IsAllocated(FreeRun run) const {
  return run.length_blocks > 0 && run.start < size_blocks_ &&
         run.length_blocks <= size_blocks_ - run.start &&
         !stored_.Overlaps(run.start, run.length_blocks);
}

std::uint64_t FreeSpace::StripeAt(std::uint64_t block) const {
  for (const SetGeometry& set : sets_) {
    if (block < set.end_block) return set.stripe_blocks;
  }
  return 1;
}

std::uint64_t FreeSpace::AlignUp(std::uint64_t block) const {
  for (const SetGeometry& set : sets_) {
    if (block < set.end_block) {
      return set.first_block + RoundUp(block - set.first_block, set.stripe_blocks);
    }
  }
  return block;
}

// Where all of it fits best: large ones at the start of a full stripe if possible, others where the
// units that they are in are free, so that the file can go on there.
std::optional<FreeSpace::FreeRun> FreeSpace::Find(const Wish& wish) const {
  const std::uint64_t length = wish.blocks;
  const auto tight = available_.Fit(length);
  if (!tight) return std::nullopt;
  const std::uint64_t stripe = StripeAt(tight->start);
  const std::uint64_t behind = wish.file_block % unit_;
  if (length >= stripe && behind == 0) {
    for (const auto& candidate : {tight, available_.Fit(length + stripe - 1)}) {
      if (!candidate) continue;
      const std::uint64_t start = AlignUp(candidate->start);
      if (start % unit_ == 0 && start < candidate->end() && candidate->end() - start >= length) {
        return FreeRun{start, length};
      }
    }
  }
  const std::uint64_t units = RoundUp(behind + length, unit_);
  for (const std::uint64_t enough : {units, units + unit_ - 1}) {
    const auto candidate = available_.Fit(enough);
    if (!candidate) break;
    const std::uint64_t start = RoundUp(candidate->start, unit_);
    if (start < candidate->end() && candidate->end() - start >= units) {
      return FreeRun{start + behind, length};
    }
  }
  if (wish.in_units) return std::nullopt;
  return FreeRun{tight->start, length};
}

std::optional<FreeSpace::FreeRun> FreeSpace::PartFor(FreeRun run, const Wish& wish) const {
  const std::uint64_t behind = wish.file_block % unit_;
  const std::uint64_t skipped = (behind + unit_ - run.start % unit_) % unit_;
  if (skipped < run.length_blocks) {
    FreeRun part{run.start + skipped, std::min(run.length_blocks - skipped, wish.blocks)};
    const std::uint64_t over = part.length_blocks < wish.blocks ? part.end() % unit_ : 0;
    if (over < part.length_blocks) {
      part.length_blocks -= over;
      return part;
    }
  }
  if (wish.in_units) return std::nullopt;
  return FreeRun{run.start, std::min(run.length_blocks, wish.blocks)};
}

std::vector<FreeSpace::FreeRun> FreeSpace::PartsIn(const FreeIndex& index, FreeRun area) {
  std::vector<FreeRun> parts;
  const auto containing = index.Containing(area.start);
  auto at = index.runs().lower_bound(containing ? containing->start : area.start);
  for (; at != index.runs().end() && at->first < area.end(); ++at) {
    const std::uint64_t from = std::max(at->first, area.start);
    parts.push_back({from, std::min(at->first + at->second, area.end()) - from});
  }
  return parts;
}

std::uint64_t FreeSpace::SumIn(const FreeIndex& index, FreeRun area) {
  std::uint64_t blocks = 0;
  for (const FreeRun& part : PartsIn(index, area)) blocks += part.length_blocks;
  return blocks;
}

bool FreeSpace::IsEmpty(FreeRun area) const {
  const auto free = closed_.Containing(area.start);
  return free && free->end() >= area.end();
}

void FreeSpace::Drop(Txn& txn, FreeRun area) {
  for (FreeIndex* const index : {&closed_, &available_}) {
    for (const FreeRun& part : PartsIn(*index, area)) index->Remove(part.start, part.length_blocks);
  }
  for (const FreeRun& part : PartsIn(stored_, area)) StoreTake(&txn, part);
}

std::optional<FreeSpace::FreeRun> FreeSpace::TakeWithin(FreeRun area, const Wish& wish) {
  std::optional<FreeRun> best;
  std::uint64_t best_whole = 0;  // of the run that it is cut out of
  for (const FreeRun& run : PartsIn(available_, area)) {
    const auto part = PartFor(run, wish);
    if (!part) continue;
    const bool all = part->length_blocks == wish.blocks;
    const bool best_all = best && best->length_blocks == wish.blocks;
    const bool better = !best || (best_all ? all && run.length_blocks < best_whole
                                           : part->length_blocks > best->length_blocks);
    if (!better) continue;
    best = part;
    best_whole = run.length_blocks;
  }
  if (!best) return std::nullopt;
  available_.Remove(best->start, best->length_blocks);
  return best;
}

std::optional<FreeSpace::FreeRun> FreeSpace::TakeAt(std::uint64_t block, const Wish& wish,
                                                    SessionId session) {
  const std::uint64_t want = wish.blocks;
  const std::uint64_t least = std::min(want, DivideUp(kMinContinuationBytes, block_bytes_));
  if (wish.in_units && block % unit_ != wish.file_block % unit_) return std::nullopt;
  if (const auto found = available_.Containing(block)) {
    const auto run = PartFor({block, found->end() - block},
                             {.blocks = want, .file_block = block, .in_units = wish.in_units});
    if (!run || run->length_blocks < least) return std::nullopt;
    available_.Remove(run->start, run->length_blocks);
    return run;
  }
  const auto window = window_starts_.find(block);
  if (window == window_starts_.end() || window->second.session != session) return std::nullopt;
  const WindowKey key = window->second;
  if (std::min(want, windows_.at(key).run.length_blocks) < least) return std::nullopt;
  return CutWindow(key, want);
}

std::optional<FreeSpace::FreeRun> FreeSpace::TakeFromWindow(const WindowKey& key,
                                                            std::uint64_t need) {
  std::uint64_t last_size = 0;
  const auto found = windows_.find(key);
  if (found != windows_.end()) {
    last_size = found->second.size_blocks;
    const bool aligned = AlignWindow(key);
    if (aligned && windows_.at(key).run.length_blocks >= need) return CutWindow(key, need);
    if (aligned) CloseWindow(key);
  }
  if (!OpenWindow(key, need, last_size)) return std::nullopt;
  return CutWindow(key, need);
}

bool FreeSpace::AlignWindow(const WindowKey& key) {
  Window& window = windows_.at(key);
  const std::uint64_t skipped = RoundUp(window.run.start, unit_) - window.run.start;
  if (skipped == 0 && window.run.length_blocks > 0) return true;
  if (skipped >= window.run.length_blocks) {
    CloseWindow(key);
    return false;
  }
  available_.Insert(window.run.start, skipped);
  window_starts_.erase(window.run.start);
  window.run.start += skipped;
  window.run.length_blocks -= skipped;
  window_starts_[window.run.start] = key;
  window_blocks_ -= skipped;
  return true;
}

bool FreeSpace::OpenWindow(const WindowKey& key, std::uint64_t need,
                           std::uint64_t last_size_blocks) {
  const std::uint64_t most =
      std::min(kMaxWindowBytes / block_bytes_, available_.total_blocks() / kWindowShare);
  const std::uint64_t least = std::min(DivideUp(kMinWindowBytes, block_bytes_), most);
  if (need == 0 || need > most) return false;
  const std::uint64_t wish =
      std::clamp(std::max(need * kWindowFiles, 2 * last_size_blocks), least, most);
  auto run = Find({.blocks = wish});
  if (!run) {
    // Free space is fragmented: the largest run that holds a few such files is still worth it.
    const auto largest = available_.Largest();
    if (!largest || largest->length_blocks < 2 * need) return false;
    run = largest;
  }
  if (windows_.size() >= kMaxWindows) {
    const auto oldest = std::min_element(
        windows_.begin(), windows_.end(),
        [](const auto& a, const auto& b) { return a.second.used < b.second.used; });
    CloseWindow(WindowKey(oldest->first));
  }
  available_.Remove(run->start, run->length_blocks);
  windows_[key] = {*run, run->length_blocks, ++window_uses_};
  window_starts_[run->start] = key;
  window_blocks_ += run->length_blocks;
  return true;
}

void FreeSpace::CloseWindow(const WindowKey& key) {
  const auto found = windows_.find(key);
  const FreeRun rest = found->second.run;
  windows_.erase(found);
  if (rest.length_blocks == 0) return;
  window_starts_.erase(rest.start);
  window_blocks_ -= rest.length_blocks;
  available_.Insert(rest.start, rest.length_blocks);
}

FreeSpace::FreeRun FreeSpace::CutWindow(const WindowKey& key, std::uint64_t want) {
  Window& window = windows_.at(key);
  const FreeRun run{window.run.start, std::min(want, window.run.length_blocks)};
  window_starts_.erase(run.start);
  window_blocks_ -= run.length_blocks;
  window.run.start += run.length_blocks;
  window.run.length_blocks -= run.length_blocks;
  window.used = ++window_uses_;
  // (One that is used up stays for its size.)
  if (window.run.length_blocks > 0) window_starts_[window.run.start] = key;
  return run;
}

std::optional<FreeSpace::FreeRun> FreeSpace::TakeRun(const Wish& wish, std::uint64_t preallocated) {
  Wish more = wish;
  more.blocks += preallocated;
  auto run = preallocated > 0 ? Find(more) : std::nullopt;
  if (!run) run = Find(wish);
  if (!run) return std::nullopt;
  run->length_blocks = wish.blocks;
  available_.Remove(run->start, run->length_blocks);
  return run;
}

std::optional<FreeSpace::FreeRun> FreeSpace::TakeLargest(const Wish& wish) {
  const auto largest = available_.Largest();
  const auto run = largest ? PartFor(*largest, wish) : std::nullopt;
  if (!run) return std::nullopt;
  available_.Remove(run->start, run->length_blocks);
  return run;
}

void FreeSpace::Release(FreeRun run) {
  // What was taken ahead and not used lies right before the rest of its window: put back there, the
  // directory's next file continues where this one really ended.
  const auto window = window_starts_.find(run.end());
  if (window == window_starts_.end() || AnyClosed(run)) return Give(run);
  const WindowKey key = window->second;
  window_starts_.erase(window);
  Window& grown = windows_.at(key);
  grown.run.start = run.start;
  grown.run.length_blocks += run.length_blocks;
  window_blocks_ += run.length_blocks;
  window_starts_[run.start] = key;
}

bool FreeSpace::DropWindows(std::optional<SessionId> session) {
  std::vector<WindowKey> keys;
  for (const auto& [key, window] : windows_) {
    if (!session || key.session == *session) keys.push_back(key);
  }
  for (const WindowKey& key : keys) CloseWindow(key);
  return !keys.empty();
}

absl::Status FreeSpace::Check(std::uint64_t pending_blocks) const {
  if (!stored_.Consistent() || !available_.Consistent()) {
    return absl::InternalError("a free index contradicts itself");
  }
  std::uint64_t windows = 0, used_up = 0;
  const auto in_store = [&](FreeRun part) {
    const auto whole = stored_.Containing(part.start);
    return whole && whole->end() >= part.end();
  };
  for (const auto& [key, window] : windows_) {
    windows += window.run.length_blocks;
    if (window.run.length_blocks == 0 && ++used_up > 0) continue;
    if (!in_store(window.run) || available_.Overlaps(window.run.start, window.run.length_blocks)) {
      return absl::InternalError("a window is not free, or free twice");
    }
    const auto start = window_starts_.find(window.run.start);
    if (start == window_starts_.end() || start->second != key) {
      return absl::InternalError("a window cannot be found by its start");
    }
  }
  for (const auto& [start, length] : available_.runs()) {
    if (!in_store({start, length})) return absl::InternalError("available, but not free");
  }
  if (windows != window_blocks_ || window_starts_.size() + used_up != windows_.size()) {
    return absl::InternalError("the windows do not add up");
  }
  if (usable_blocks() + closed_.total_blocks() + pending_blocks != stored_.total_blocks()) {
    return absl::InternalError("available, windows and pending frees do not sum to what is free");
  }
  return absl::OkStatus();
}

}  // namespace reel::mdc
