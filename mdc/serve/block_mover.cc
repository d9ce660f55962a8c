#include "mdc/serve/block_mover.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "volume/lun/lun_fault.h"

namespace reel::mdc {
namespace {

// Large enough for one request to each LUN of a wide stripe.
constexpr std::uint64_t kChunkBytes = 8 * kMiB;

}  // namespace

BlockMover::BlockMover(const VolumeMaps& maps, std::function<absl::Status()> may_write, Done done)
    : maps_(maps),
      may_write_(std::move(may_write)),
      done_(std::move(done)),
      volume_(&maps.now()),
      map_(volume_->descriptor),
      thread_([this] { Main(); }) {}

void BlockMover::Order(CopyOrder order) {
  MutexLock lock(mutex_);
  orders_.push_back(std::move(order));
  wake_.NotifyOne();
}

void BlockMover::Stop() {
  if (!thread_.joinable()) return;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    wake_.NotifyOne();
  }
  thread_.Join();
}

void BlockMover::Main() {
  for (;;) {
    CopyOrder order;
    {
      MutexLock lock(mutex_);
      while (orders_.empty() && !stopping_) wake_.Wait(mutex_);
      if (stopping_) return;
      order = std::move(orders_.front());
      orders_.pop_front();
    }
    bool may_land = false;
    const absl::Status outcome = Copy(order, may_land);
    {
      MutexLock lock(mutex_);
      if (stopping_) return;
    }
    done_(order.id, outcome, may_land);
  }
}

absl::Status BlockMover::Copy(const CopyOrder& order, bool& may_land) {
  if (buffer_.size() == 0) {
    const std::uint64_t bytes = std::max<std::uint64_t>(kChunkBytes, map_.block_bytes());
    buffer_ = AlignedBuffer(bytes);
    compared_ = AlignedBuffer(bytes);
  }
  if (const OpenVolume& now = maps_.now(); &now != volume_) {
    volume_ = &now;
    map_ = StripeMap(now.descriptor);
  }
  std::vector<bool> written(volume_->luns.size());
  const std::uint64_t chunk_blocks = buffer_.size() / map_.block_bytes();
  for (BlockCopy rest : order.copies) {
    while (rest.from.length_blocks > 0) {
      const std::uint64_t length = std::min(chunk_blocks, rest.from.length_blocks);
      const BlockCopy piece{{rest.from.pool, rest.from.start, length},
                            {rest.to.pool, rest.to.start, length}};
      if (absl::Status s = CopyPiece(piece, written, may_land); !s.ok()) return s;
      for (Run* run : {&rest.from, &rest.to}) {
        run->start = run->start + length;
        run->length_blocks -= length;
      }
    }
  }
  return FlushAll(written);
}

absl::Status BlockMover::CopyPiece(const BlockCopy& piece, std::vector<bool>& written,
                                   bool& may_land) {
  using Kind = LunRequest::Kind;
  absl::Status status = Transfer(piece.from, Kind::kRead, buffer_, nullptr, nullptr);
  if (status.ok()) status = Transfer(piece.to, Kind::kWrite, buffer_, &written, &may_land);
  if (status.ok()) status = Transfer(piece.to, Kind::kRead, compared_, nullptr, nullptr);
  if (!status.ok()) return status;
  const std::uint64_t bytes = piece.from.length_blocks * map_.block_bytes();
  if (std::memcmp(buffer_.data(), compared_.data(), bytes) == 0) return absl::OkStatus();
  const Pool& pool = volume_->descriptor.pools[piece.to.pool.value()];
  return absl::DataLossError(absl::StrCat("pool ", pool.name, ", blocks from ",
                                          piece.to.start.value(),
                                          " on: read back otherwise than they were written"));
}

absl::Status BlockMover::Transfer(const Run& run, LunRequest::Kind kind,
                                  const AlignedBuffer& buffer, std::vector<bool>* touched,
                                  bool* may_land) {
  std::vector<LunRange> ranges;
  absl::Status mapped =
      map_.Map(run.pool, run.start, 0, run.length_blocks * map_.block_bytes(), ranges);
  if (!mapped.ok()) return mapped;
  IoBatch batch;
  std::byte* memory = buffer.data();
  for (const LunRange& range : ranges) {
    batch.Add(*volume_->luns[range.lun], kind, range.offset_bytes, {memory, range.length_bytes});
    memory += range.length_bytes;
    if (touched != nullptr) (*touched)[range.lun] = true;
  }
  if (absl::Status may = may_write_(); !may.ok()) return may;
  absl::Status status = batch.Run();
  if (may_land == nullptr) return status;
  for (const LunRange& range : ranges) {
    const LunFault fault = FaultOf(batch.FailureOn(*volume_->luns[range.lun]));
    *may_land = *may_land || fault == LunFault::kUnknown || fault == LunFault::kInDoubt;
  }
  return status;
}

absl::Status BlockMover::FlushAll(const std::vector<bool>& written) {
  for (std::size_t lun = 0; lun < written.size(); ++lun) {
    if (!written[lun]) continue;
    if (absl::Status flushed = volume_->luns[lun]->Flush(); !flushed.ok()) return flushed;
  }
  return absl::OkStatus();
}

}  // namespace reel::mdc
