#include "client/luns/lun_io.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <iterator>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "client/base/interrupt.h"
#include "proto/status.h"
#include "volume/base/aligned_buffer.h"

namespace reel::client {
namespace {

// A thread keeps a bounce buffer up to that size: the largest request of the kernel
// (client/fuse/request/request_bytes.h), and its edges.
constexpr std::size_t kKeptBounceBytes = 6 << 20;
// How often a write is done again for flushes that failed beside it. Then it is lost with the last.
constexpr int kMostRewrites = 3;
// How often a wait for another's flush looks for an interrupt.

// Memory for one transfer of this thread; contents are undefined.
class Bounce {
 public:
  explicit Bounce(std::size_t size_bytes) {
    if (size_bytes > kKeptBounceBytes) {
      own_ = AlignedBuffer(size_bytes);
      data_ = own_.data();
      return;
    }
    AlignedBuffer& kept = ThreadBuffer();
    if (kept.size() < size_bytes) {
      kept = AlignedBuffer(std::max<std::size_t>(RoundUp(size_bytes, kIoAlignment), 256 << 10));
    }
    data_ = kept.data();
  }
  std::byte* data() const { return data_; }

 private:
  AlignedBuffer own_;
  std::byte* data_ = nullptr;
};

bool IsAligned(const std::byte* memory, std::uint32_t unit_bytes) {
  return reinterpret_cast<std::uintptr_t>(memory) % unit_bytes == 0;
}

absl::Status Annotate(const absl::Status& status) {
  return ErrnoStatus(EIO, absl::StrCat("I/O error: ", status.message()));
}

ExtentState StateAt(std::span<const Extent> extents, FileBlock block) {
  for (const Extent& extent : extents) {
    if (extent.file_block <= block && block < extent.end()) return extent.state;
  }
  return ExtentState::kHole;
}

}  // namespace

void MergeMarks(const LunMarks& from, LunMarks& into) {
  for (const LunMark& mark : from) {
    const auto known =
        std::find_if(into.begin(), into.end(), [&](const LunMark& m) { return m.lun == mark.lun; });
    if (known == into.end()) {
      into.push_back(mark);
    } else {
      known->first = std::min(known->first, mark.first);
      known->last = std::max(known->last, mark.last);
    }
  }
}

LunIo::LunIo(OpenVolume& volume, LunPaths& paths, BandwidthGate* gate)
    : paths_(paths), gate_(gate), block_bytes_(volume.descriptor.block_bytes) {
  for (const auto& lun : volume.luns) {
    unit_bytes_ = std::max(unit_bytes_, lun->logical_block_bytes());
  }
  flushers_.reserve(kMaxLunsPerVolume);
  TakeMap(volume);
}

void LunIo::TakeMap(const OpenVolume& volume) {
  std::vector<std::uint32_t> numbers = paths_.TakeLuns(volume);
  MutexLock lock(maps_mutex_);
  for (const std::uint32_t number : numbers) {
    while (flushers_.size() <= number) flushers_.push_back(std::make_unique<Flusher>());
  }
  const std::vector<LunSetId> by_index = LunSetsOf(volume.descriptor);
  std::vector<LunSetId> sets(flushers_.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) sets[numbers[i]] = by_index[i];
  maps_.push_back(std::make_unique<const Map>(
      Map{volume.descriptor.generation, StripeMap(volume.descriptor, numbers), std::move(sets)}));
  map_.store(maps_.back().get(), std::memory_order_release);
}

absl::Status LunIo::Gather(const StripeMap& stripes, LunRequest::Kind kind, const Range& range,
                           IoBatch& batch, LunPaths::LunList& luns, Shares& shares) const {
  const std::uint64_t block_bytes = block_bytes_;
  thread_local std::vector<LunRange> lun_ranges;
  std::uint64_t covered_bytes = range.from_bytes;
  for (const Extent& extent : range.extents) {
    const std::uint64_t start = extent.file_block.value() * block_bytes;
    const std::uint64_t from = std::max(range.from_bytes, start);
    const std::uint64_t to = std::min(range.to_bytes, extent.end().value() * block_bytes);
    if (from >= to) continue;
    covered_bytes = to;
    std::byte* at = range.memory + (from - range.from_bytes);
    if (kind == LunRequest::Kind::kRead && extent.state != ExtentState::kWritten) {
      std::memset(at, 0, to - from);
      continue;
    }
    lun_ranges.clear();
    absl::Status status =
        stripes.Map(extent.pool, extent.pool_block, from - start, to - from, lun_ranges);
    if (!status.ok()) return status;
    for (const LunRange& lun_range : lun_ranges) {
      batch.Add(paths_.lun(lun_range.lun), kind, lun_range.offset_bytes,
                {at, lun_range.length_bytes});
      at += lun_range.length_bytes;
      const auto place = static_cast<std::size_t>(
          std::find(luns.begin(), luns.end(), lun_range.lun) - luns.begin());
      if (place == luns.size()) {
        luns.push_back(lun_range.lun);
        shares.emplace_back();
      }
      Share& share = shares[place];
      ++share.requests;
      share.bytes += lun_range.length_bytes;
      if (share.runs == 0 || share.end_bytes != lun_range.offset_bytes) ++share.runs;
      share.end_bytes = lun_range.offset_bytes + lun_range.length_bytes;
    }
  }
  if (covered_bytes == range.to_bytes) return absl::OkStatus();
  return ErrnoStatus(EIO, absl::StrCat("the layout ends at byte ", covered_bytes, " of ",
                                       range.to_bytes, "; the controller sent it incomplete"));
}

absl::Status LunIo::GatherAll(LunRequest::Kind kind, std::span<const Range> ranges,
                              const IoPermit& permit, IoBatch& batch, LunPaths::LunList& luns,
                              Shares& shares) const {
  for (;;) {
    const Map& map = *map_.load(std::memory_order_acquire);
    absl::Status status;
    for (const Range& range : ranges) {
      status = Gather(map.stripes, kind, range, batch, luns, shares);
      if (!status.ok()) break;
    }
    if (!absl::IsOutOfRange(status)) return status;
    // A new session of this host may be granted what only the newest map has.
    const absl::Status later = paths_.AwaitMapAfter(map.generation, permit);
    if (absl::IsOutOfRange(later)) return Annotate(status);
    if (!later.ok()) return later;
    batch.Clear();
    luns.clear();
    shares.clear();
  }
}

BandwidthGate::Loads LunIo::LoadsOf(const LunPaths::LunList& luns, const Shares& shares) const {
  const std::vector<LunSetId>& sets = map_.load(std::memory_order_acquire)->sets;
  BandwidthGate::Loads loads;
  for (std::size_t i = 0; i < luns.size(); ++i) {
    const LunSetId set = sets[luns[i]];
    auto load = std::find_if(loads.begin(), loads.end(),
                             [&](const BandwidthGate::Load& one) { return one.set == set; });
    if (load == loads.end()) load = loads.insert(loads.end(), {.set = set});
    load->requests += shares[i].runs;
    load->bytes += shares[i].bytes;
  }
  return loads;
}

// REQUIRES: the batch is of these LUNs.
void LunIo::NoteTimes(const IoBatch& batch, const LunPaths::LunList& luns, bool writes) {
  const auto lun_of = [this](std::uint32_t number) { return &paths_.lun(number); };
  batch.ForEachTook([&](const Lun& lun, std::uint64_t us) {
    paths_.NoteTook(*std::ranges::find(luns, &lun, lun_of), writes, us);
  });
}

absl::Status LunIo::Transfer(LunRequest::Kind kind, std::span<const Range> ranges, LunMarks* marks,
                             const IoPermit& first) {
  const bool writes = kind == LunRequest::Kind::kWrite;
  IoPermit permit = first;
  int rewrites = 0;
  BandwidthGate::Pass pass;
  bool passed = gate_ == nullptr || !gate_->on();  // what is done again has paid
  LunMarks own;  // of the last round: the bytes are the same in all
  const absl::Cleanup note = [&] {
    if (marks != nullptr) MergeMarks(own, *marks);
  };
  for (Rounds rounds;;) {
    IoBatch batch;
    LunPaths::LunList luns;
    Shares shares;
    if (absl::Status s = GatherAll(kind, ranges, permit, batch, luns, shares); !s.ok()) return s;
    if (batch.empty()) return absl::OkStatus();
    if (!std::exchange(passed, true)) {
      const BandwidthGate::Owner owner{permit.inode, permit.tree};
      if (absl::Status s = gate_->Enter(LoadsOf(luns, shares), owner, permit.interrupt, pass);
          !s.ok()) {
        return s;
      }
    }
    if (absl::Status s = paths_.Enter(luns, permit); !s.ok()) return s;
    // From before it on: a flush that fails meanwhile takes it along.
    own.clear();
    for (const std::uint32_t lun : luns) own.push_back({lun, flushers_[lun]->writes + 1, 0});
    if (paths_.notes_times()) batch.NoteTimes();
    const absl::Status status = batch.Run();
    if (paths_.notes_times()) NoteTimes(batch, luns, writes);
    const LunPaths::Then then = paths_.Leave(
        luns, writes, rounds, [&](std::uint32_t lun) { return batch.FailureOn(paths_.lun(lun)); });
    for (std::size_t i = 0; status.ok() && i < luns.size(); ++i) {
      paths_.Count(luns[i], writes, shares[i].requests, shares[i].bytes);
    }
    // Others may have seen what has landed, in part: it is done again under this token alone, and
    // never over what they write then.
    if (writes && batch.MayHaveLanded()) {
      permit.yields_to = nullptr;
      permit.landed = true;
    }
    if (marks != nullptr) {
      bool lost = false;
      for (LunMark& mark : own) {
        Flusher& flusher = *flushers_[mark.lun];
        mark.last = ++flusher.writes;
        MutexLock lock(flusher.mutex);
        lost = lost || flusher.Lost(mark);
      }
      if (status.ok() && lost && rewrites++ < kMostRewrites) continue;
    }
    if (status.ok()) return status;
    if (then == LunPaths::Then::kOver) return Annotate(status);
    if (then == LunPaths::Then::kAgain) continue;
    if (absl::Status s = paths_.Pause(rounds, permit, status); !s.ok()) return s;
  }
}

absl::Status LunIo::Read(std::span<const Extent> extents, std::uint64_t offset_bytes,
                         std::uint64_t length_bytes, std::span<std::byte> buffer,
                         const IoPermit& permit) {
  const std::uint64_t from = RoundDown(offset_bytes, unit_bytes_);
  const std::uint64_t to = RoundUp(offset_bytes + length_bytes, unit_bytes_);
  if (from == offset_bytes && to - from <= RoundUp(buffer.size(), kIoAlignment) &&
      IsAligned(buffer.data(), unit_bytes_)) {
    const Range all{extents, from, to, buffer.data()};
    return Transfer(LunRequest::Kind::kRead, {&all, 1}, nullptr, permit);
  }
  const Bounce bounce(to - from);
  const Range all{extents, from, to, bounce.data()};
  absl::Status status = Transfer(LunRequest::Kind::kRead, {&all, 1}, nullptr, permit);
  if (status.ok()) {
    std::memcpy(buffer.data(), bounce.data() + (offset_bytes - from), length_bytes);
  }
  return status;
}

absl::Status LunIo::Write(std::span<const Extent> extents, std::uint64_t offset_bytes,
                          std::span<const std::byte> data, LunMarks& marks,
                          const IoPermit& permit) {
  const std::uint64_t block_bytes = block_bytes_;
  const std::uint64_t end = offset_bytes + data.size();
  const bool head_whole =
      StateAt(extents, FileBlock(offset_bytes / block_bytes)) != ExtentState::kWritten;
  const bool tail_whole =
      StateAt(extents, FileBlock((end - 1) / block_bytes)) != ExtentState::kWritten;
  const std::uint64_t from = RoundDown(offset_bytes, head_whole ? block_bytes : unit_bytes_);
  const std::uint64_t to = RoundUp(end, tail_whole ? block_bytes : unit_bytes_);
  if (from == offset_bytes && to == end && IsAligned(data.data(), unit_bytes_)) {
    const Range all{extents, from, to, const_cast<std::byte*>(data.data())};  // only read from
    return Transfer(LunRequest::Kind::kWrite, {&all, 1}, &marks, permit);
  }
  const Bounce bounce(to - from);
  // What surrounds the data: zeros in an unwritten block, the old bytes in a written one (Read
  // gives both). One unit each, as unwritten blocks' other units are zeros.
  const std::uint64_t head_unit = RoundDown(offset_bytes, unit_bytes_);
  const std::uint64_t tail_unit = RoundDown(end, unit_bytes_);
  absl::InlinedVector<Range, 2> edges;
  std::memset(bounce.data(), 0, head_unit - from);
  if (head_unit != offset_bytes) {
    edges.push_back(
        {extents, head_unit, head_unit + unit_bytes_, bounce.data() + (head_unit - from)});
  }
  if (tail_unit != end) {
    std::byte* const tail = bounce.data() + (tail_unit - from);
    if (tail_unit != head_unit || head_unit == offset_bytes) {
      edges.push_back({extents, tail_unit, tail_unit + unit_bytes_, tail});
    }
    std::memset(tail + unit_bytes_, 0, to - tail_unit - unit_bytes_);
  } else {
    std::memset(bounce.data() + (end - from), 0, to - end);
  }
  absl::Status status = Transfer(LunRequest::Kind::kRead, edges, nullptr, permit);
  if (!status.ok()) return status;
  std::memcpy(bounce.data() + (offset_bytes - from), data.data(), data.size());
  const Range all{extents, from, to, bounce.data()};
  return Transfer(LunRequest::Kind::kWrite, {&all, 1}, &marks, permit);
}

absl::Status LunIo::ReadUnits(std::span<const Range> ranges, const IoPermit& permit) {
  return Transfer(LunRequest::Kind::kRead, ranges, nullptr, permit);
}

absl::Status LunIo::WriteUnits(std::span<const Range> ranges, LunMarks& marks,
                               const IoPermit& permit) {
  return Transfer(LunRequest::Kind::kWrite, ranges, &marks, permit);
}

absl::Status LunIo::FlushLun(std::uint32_t lun, const Interrupt* interrupt) {
  const IoPermit permit{.interrupt = interrupt};
  for (Rounds rounds;;) {
    absl::Status entered = paths_.Enter({&lun, 1}, permit);
    // What lay there lies elsewhere, and is durable there.
    if (!entered.ok() && paths_.IsGone(lun)) return absl::OkStatus();
    if (!entered.ok()) return entered;
    absl::Status status = paths_.lun(lun).Flush();
    const LunPaths::Then then =
        paths_.Leave({&lun, 1}, /*writes=*/false, rounds, [&](std::uint32_t) { return status; });
    if (then == LunPaths::Then::kOver) return status;
    if (then == LunPaths::Then::kAgain) continue;
    if (absl::Status s = paths_.Pause(rounds, permit, status); !s.ok()) return s;
  }
}

bool LunIo::Flusher::Lost(const LunMark& mark) const {
  return std::any_of(lost.begin(), lost.end(), [&](const LostWrites& writes) {
    return mark.first <= writes.through && mark.last > writes.after;
  });
}

void LunIo::Flusher::NoteLost(std::uint64_t covers) {
  const std::uint64_t after = flushed.load();
  if (!lost.empty() && lost.back().through > after) {
    lost.back().through = covers;
    return;
  }
  lost.push_back({after, covers});
  if (lost.size() <= kMaxLost) return;
  lost[1].after = lost[0].after;  // rather too much than too little
  lost.erase(lost.begin());
}

absl::Status LunIo::FlushOne(const LunMark& mark, const Interrupt* interrupt) {
  Flusher& flusher = *flushers_[mark.lun];
  const std::string& name = paths_.lun(mark.lun).name();
  std::uint64_t covers = 0;
  {
    MutexLock lock(flusher.mutex);
    // Flushes of one LUN follow each other: whoever waits meanwhile shares the next one.
    const auto done = [&] {
      flusher.mutex.AssertHeld();
      return !flusher.running || flusher.flushed.load() >= mark.last;
    };
    absl::Status turn = WaitFor(flusher.done, flusher.mutex, done,
                                [&] { return CheckInterrupt(interrupt, "a flush"); });
    if (!turn.ok()) return turn;
    if (flusher.Lost(mark)) {
      return ErrnoStatus(EIO, absl::StrCat("an earlier flush of ", name, " failed"));
    }
    if (flusher.flushed.load() >= mark.last) return absl::OkStatus();
    flusher.running = true;
    covers = flusher.writes.load();
  }
  const absl::Status status = FlushLun(mark.lun, interrupt);
  const bool given_up = ErrnoOf(status) == EINTR;
  {
    MutexLock lock(flusher.mutex);
    flusher.running = false;
    const std::uint64_t flushed = flusher.flushed.load();
    if (given_up) {
      // Nothing is lost: whoever comes next tries again.
    } else if (!status.ok()) {
      // A write that is answered by now may have gone with it. It takes a number of its own, for
      // what is on its way to be before it.
      flusher.NoteLost(++flusher.writes);
    } else {
      flusher.flushed.store(std::max(covers, flushed));
    }
    flusher.done.NotifyAll();
  }
  if (status.ok() || given_up) return status;
  return ErrnoStatus(EIO, absl::StrCat("flush of ", name, " failed: ", status.message()));
}

std::uint64_t LunIo::OnOneLun(const Extent& extent, std::uint64_t offset_bytes,
                              std::uint64_t length_bytes) const {
  const std::uint64_t into = offset_bytes - extent.file_block.value() * block_bytes();
  length_bytes = std::min(length_bytes, extent.length_blocks * block_bytes() - into);
  std::vector<LunRange> lun_ranges;
  const StripeMap& stripes = map_.load(std::memory_order_acquire)->stripes;
  if (!stripes.Map(extent.pool, extent.pool_block, into, length_bytes, lun_ranges).ok()) return 0;
  std::uint64_t bytes = 0;
  for (const LunRange& lun_range : lun_ranges) {
    if (lun_range.lun != lun_ranges.front().lun) break;
    bytes += lun_range.length_bytes;
  }
  return bytes;
}

bool LunIo::IsFlushed(const LunMark& mark) const {
  const Flusher& flusher = *flushers_[mark.lun];
  MutexLock lock(flusher.mutex);
  return !flusher.Lost(mark) && flusher.flushed.load() >= mark.last;
}

bool LunIo::Prune(LunMarks& marks) const {
  bool lost = false;
  LunMarks left;
  for (const LunMark& mark : marks) {
    const Flusher& flusher = *flushers_[mark.lun];
    MutexLock lock(flusher.mutex);
    if (flusher.Lost(mark)) {
      lost = true;
    } else if (flusher.flushed.load() < mark.last) {
      left.push_back(mark);
    }
  }
  marks = std::move(left);
  return lost;
}

absl::Status LunIo::Flush(const LunMarks& marks, const Interrupt* interrupt) {
  LunMarks rest;
  std::copy_if(marks.begin(), marks.end(), std::back_inserter(rest),
               [this](const LunMark& mark) { return !IsFlushed(mark); });
  if (rest.size() == 1) return FlushOne(rest.front(), interrupt);
  // Devices flush side by side, as far as threads are free: whoever asks does what nobody has
  // begun.
  const auto all = std::make_shared<FlushOfMany>();
  all->marks = std::move(rest);
  {
    MutexLock lock(all->mutex);
    all->outcomes.resize(all->marks.size());
  }
  const auto work = [this, all, interrupt] {
    for (;;) {
      std::size_t i = 0;
      {
        MutexLock lock(all->mutex);
        if (all->begun == all->marks.size()) return;
        i = all->begun++;
      }
      absl::Status outcome = FlushOne(all->marks[i], interrupt);
      MutexLock lock(all->mutex);
      all->outcomes[i] = std::move(outcome);
      if (++all->done == all->marks.size()) all->changed.NotifyAll();
    }
  };
  for (std::size_t i = 1; i < all->marks.size() && flush_pool_.RunIfFree(work); ++i) {
  }
  work();
  MutexLock lock(all->mutex);
  while (all->done < all->marks.size()) all->changed.Wait(all->mutex);
  for (absl::Status& outcome : all->outcomes) {
    if (!outcome.ok()) return std::move(outcome);
  }
  return absl::OkStatus();
}

}  // namespace reel::client
