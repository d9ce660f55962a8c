#include "mdc/metafs/chunks.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace reel::metafs {

std::uint64_t CountChunks(const std::vector<ChunkRun>& runs) {
  std::uint64_t count = 0;
  for (const ChunkRun& run : runs) count += run.count;
  return count;
}

void AppendRun(std::vector<ChunkRun>& runs, ChunkRun run) {
  if (!runs.empty() && runs.back().end() == run.first) {
    runs.back().count += run.count;
  } else {
    runs.push_back(run);
  }
}

Chunks::Chunks(std::uint64_t total, std::uint64_t fixed, Reserves reserves, std::uint64_t epoch)
    : reserves_(reserves) {
  Grow(total);
  for (std::uint64_t chunk = 0; chunk < std::min(fixed, total); ++chunk) {
    state_[chunk].taken = true;
    fresh_.erase(chunk);
  }
  // Neighbouring epochs start far apart: an epoch that died while it mounted has claimed durably
  // nothing of what it wrote to.
  cursor_ = total == 0 ? 0 : (epoch * 0x9e3779b97f4a7c15ull >> 32) % total;
}

std::set<std::uint64_t>& Chunks::SetOf(std::uint64_t chunk) {
  const State& state = state_[chunk];
  if (!state.claimed) return state.old ? retired_ : fresh_;
  if (state.old) return table_;
  return state.framed ? framed_ : ready_;
}

void Chunks::Grow(std::uint64_t total) {
  for (std::uint64_t chunk = state_.size(); chunk < total; ++chunk) fresh_.insert(chunk);
  if (total > state_.size()) state_.resize(total);
}

absl::Status Chunks::Use(ChunkRun run) {
  if (run.first >= total() || run.count > total() - run.first) {
    return absl::DataLossError(absl::StrCat("chunks ", run.first, " +", run.count,
                                            " lie beyond the store's ", total(), " chunks"));
  }
  for (std::uint64_t chunk = run.first; chunk < run.end(); ++chunk) {
    if (state_[chunk].taken) {
      return absl::DataLossError(absl::StrCat("chunk ", chunk, " is used twice"));
    }
  }
  for (std::uint64_t chunk = run.first; chunk < run.end(); ++chunk) {
    SetOf(chunk).erase(chunk);
    state_[chunk].taken = true;
  }
  used_ += run.count;
  return absl::OkStatus();
}

void Chunks::MarkOld(ChunkRun run) {
  for (std::uint64_t chunk = run.first; chunk < run.end(); ++chunk) {
    if (!state_[chunk].taken) SetOf(chunk).erase(chunk);
    state_[chunk].old = true;
    if (!state_[chunk].taken) SetOf(chunk).insert(chunk);
  }
}

void Chunks::TakeFrom(std::set<std::uint64_t>& from, std::uint64_t count,
                      std::vector<ChunkRun>& runs) {
  // The first contiguous run that is long enough, else the lowest chunks.
  auto start = from.begin();
  std::uint64_t length = 0;
  for (auto it = from.begin(); it != from.end() && length < count; ++it) {
    if (length > 0 && *it == *start + length) {
      ++length;
    } else {
      start = it;
      length = 1;
    }
  }
  if (length < count) start = from.begin();
  for (; count > 0; --count) {
    AppendRun(runs, {*start, 1});
    state_[*start].taken = true;
    ++used_;
    start = from.erase(start);
  }
}

bool Chunks::Take(std::uint64_t count, ChunkUse use, std::vector<ChunkRun>& runs,
                  std::vector<ChunkRun>& unclean) {
  const Room room = RoomFor(use);
  if (room.claimed < count && (room.fresh > 0 || room.claimed + room.old < count)) return false;
  // Tables spare the framed chunks, which logs can use without zeroing.
  std::vector<std::set<std::uint64_t>*> order = {&framed_, &ready_};
  if (use != ChunkUse::kLog) order = {&ready_, &framed_};
  std::uint64_t not_old = std::min(count, room.claimed);
  const std::uint64_t old = count - not_old;
  for (auto* set : order) {
    std::vector<ChunkRun> part;
    const std::uint64_t n = std::min<std::uint64_t>(not_old, set->size());
    TakeFrom(*set, n, part);
    not_old -= n;
    for (const ChunkRun& run : part) {
      AppendRun(runs, run);
      if (set != &framed_) AppendRun(unclean, run);
    }
  }
  std::vector<ChunkRun> part;
  TakeFrom(table_, old, part);
  for (const ChunkRun& run : part) {
    AppendRun(runs, run);
    AppendRun(unclean, run);
  }
  return true;
}

void Chunks::Free(const std::vector<ChunkRun>& runs, bool framed) {
  for (const ChunkRun& run : runs) {
    for (std::uint64_t chunk = run.first; chunk < run.end(); ++chunk) {
      state_[chunk].taken = false;
      state_[chunk].framed = framed;
      SetOf(chunk).insert(chunk);
      --used_;
    }
  }
}

std::uint64_t Chunks::Claimable() const {
  const std::uint64_t unclaimed = fresh_.size() + retired_.size();
  const std::uint64_t left = starting_ ? reserves_.epoch / 2 : reserves_.epoch;
  return unclaimed > left ? unclaimed - left : 0;
}

// Of what is worth least.
void Chunks::Keep(std::uint64_t reserve, Room& room) {
  for (std::uint64_t* part : {&room.retired, &room.old, &room.fresh, &room.claimed}) {
    const std::uint64_t kept = std::min(reserve, *part);
    *part -= kept;
    reserve -= kept;
  }
}

Chunks::Room Chunks::RoomFor(ChunkUse use) const {
  const std::uint64_t claimable = Claimable();
  Room room{.claimed = ready_.size() + framed_.size(),
            .fresh = std::min<std::uint64_t>(fresh_.size(), claimable),
            .old = table_.size()};
  // What logs may still claim comes before the retired ones.
  room.retired = std::min<std::uint64_t>(retired_.size(), claimable - room.fresh);
  if (!starting_) Keep(reserves_.start, room);
  if (use == ChunkUse::kLog) return {.claimed = room.claimed, .fresh = room.fresh};
  const std::uint64_t for_logs = starting_ ? reserves_.log / 2 : reserves_.log;
  const std::uint64_t not_old = room.claimed + room.fresh;
  const std::uint64_t left = not_old - std::min(for_logs, not_old);
  room.claimed = std::min(left, room.claimed);
  room.fresh = left - room.claimed;
  if (use == ChunkUse::kCompaction) Keep(reserves_.flush, room);
  return room;
}

std::uint64_t Chunks::available(ChunkUse use) const {
  return RoomFor(use).all();
}

std::vector<ChunkRun> Chunks::PlanClaim(std::uint64_t count, ChunkUse use) {
  std::vector<ChunkRun> planned;
  const Room room = RoomFor(use);
  const bool retired = room.fresh == 0;
  std::set<std::uint64_t>& from = retired ? retired_ : fresh_;
  count = std::min(count, retired ? room.retired : room.fresh);
  auto it = from.lower_bound(cursor_);
  for (; count > 0; --count) {
    if (it == from.end()) it = from.begin();
    cursor_ = *it + 1;
    AppendRun(planned, {*it, 1});
    state_[*it].taken = true;
    state_[*it].claimed = true;
    it = from.erase(it);
  }
  return planned;
}

void Chunks::Claim(const std::vector<ChunkRun>& planned) {
  for (const ChunkRun& run : planned) {
    for (std::uint64_t chunk = run.first; chunk < run.end(); ++chunk) {
      state_[chunk].taken = false;
      SetOf(chunk).insert(chunk);
    }
  }
}

std::vector<ChunkRun> Chunks::claimed() const {
  std::vector<ChunkRun> runs;
  for (std::uint64_t chunk = 0; chunk < total(); ++chunk) {
    if (state_[chunk].claimed) AppendRun(runs, {chunk, 1});
  }
  return runs;
}

}  // namespace reel::metafs
