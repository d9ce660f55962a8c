#include "tools/bench/sweep/sweep_luns.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tools/bench/noise.h"
#include "tools/bench/progress.h"
#include "volume/base/aligned_buffer.h"
#include "volume/base/size.h"
#include "volume/base/types.h"
#include "volume/base/uuid.h"
#include "volume/format/label.h"
#include "volume/join/new_set.h"

namespace reel::bench {
namespace {

constexpr std::uint64_t kPiece = 4 * kMiB;

absl::Status Refuse(const Lun& lun, const std::string& holds) {
  return absl::FailedPreconditionError(
      absl::StrCat(LunNameForPeople(lun.name()), ": holds ", holds,
                   "; a sweep only writes to LUNs that hold nothing, and nothing was written"));
}

absl::Status CheckNoLabel(Lun& lun) {
  const absl::StatusOr<LabelReading> reading = ReadLabel(lun);
  switch (reading.status().code()) {
    case absl::StatusCode::kNotFound:
      return absl::OkStatus();
    case absl::StatusCode::kOk:
      return Refuse(lun, absl::StrCat("the label of LUN ", reading->label.name,
                                      reading->label.volume.is_nil() ? "" : " of a volume"));
    case absl::StatusCode::kDataLoss:
      return Refuse(lun, "a damaged label");
    case absl::StatusCode::kUnimplemented:
      return Refuse(lun, "a label of a newer format");
    default:
      return reading.status();
  }
}

absl::Status CheckZeros(Lun& lun, std::uint64_t offset, const char* where) {
  AlignedBuffer buffer(kReservedBytes);
  if (absl::Status status = lun.Read(offset, buffer.span()); !status.ok()) return status;
  const auto bytes = buffer.span();
  if (std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; })) {
    return absl::OkStatus();
  }
  return Refuse(lun, absl::StrCat("data of an unknown kind in its ", where,
                                  " MiB (if nobody needs them: reel-label write, then clear)"));
}

std::uint64_t EndOf(const Lun& lun) {
  return RoundDown(lun.size_bytes(),
                   std::max<std::uint64_t>(kIoAlignment, lun.logical_block_bytes()));
}

absl::Status CheckHoldsNothing(Lun& lun) {
  if (lun.size_bytes() < kMinLunBytes + 2 * kReservedBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        LunNameForPeople(lun.name()), ": is too small: ", FormatSize(lun.size_bytes())));
  }
  if (absl::Status status = CheckNoLabel(lun); !status.ok()) return status;
  const absl::StatusOr<std::string> content = ProbeForeignContent(lun);
  if (!content.ok()) return content.status();
  if (!content->empty()) return Refuse(lun, *content);
  if (absl::Status status = CheckZeros(lun, 0, "first"); !status.ok()) return status;
  return CheckZeros(lun, EndOf(lun) - kReservedBytes, "last");
}

// Labels, tables and most file systems begin in the first MiB.
absl::Status CheckStillNobodys(Lun& lun) {
  if (absl::Status status = CheckNoLabel(lun); !status.ok()) return status;
  return CheckZeros(lun, 0, "first");
}

}  // namespace

absl::StatusOr<SweepLuns> SweepLuns::Open(const std::vector<std::string>& names,
                                          std::uint64_t area_bytes) {
  SweepLuns opened;
  // All are looked at before the first one is opened for writing.
  for (const std::string& name : names) {
    auto lun = OpenLun(name, LunAccess::kReadOnly);
    if (!lun.ok()) return lun.status();
    if (absl::Status status = CheckHoldsNothing(**lun); !status.ok()) return status;
  }
  std::uint64_t room = area_bytes;
  for (const std::string& name : names) {
    auto lun = OpenLun(name, LunAccess::kReadWrite);
    if (!lun.ok()) return lun.status();
    if (absl::Status status = (*lun)->ClaimForThisProcess(); !status.ok()) return status;
    if (absl::Status status = CheckHoldsNothing(**lun); !status.ok()) return status;
    room = std::min(room, EndOf(**lun) - 2 * kReservedBytes);
    opened.luns_.push_back(*std::move(lun));
  }
  opened.area_bytes_ = RoundDown(room, kMiB);
  return opened;
}

absl::Status SweepLuns::LayOut(bool progress) const {
  const std::uint64_t pieces = (area_bytes_ + kPiece - 1) / kPiece;
  Progress said(pieces, !progress);
  std::uint64_t state = 1;
  const AlignedBuffer noise = NoiseBuffer(kPiece);
  for (std::uint64_t piece = 0; piece < pieces; ++piece) {
    said.Step(
        absl::StrCat("filling ", FormatSize(area_bytes_), " on each of ", luns_.size(), " LUNs"));
    const std::uint64_t offset = piece * kPiece;
    const std::size_t bytes = std::min(kPiece, area_bytes_ - offset);
    for (const auto& lun : luns_) {
      // No two blocks alike, for arrays that keep what is alike once.
      for (std::size_t at = 0; at < bytes; at += kIoAlignment) {
        const std::uint64_t mark = NextRandom(state);
        std::copy_n(reinterpret_cast<const std::byte*>(&mark), sizeof(mark), noise.data() + at);
      }
      if (absl::Status status = lun->Write(kReservedBytes + offset, noise.span().first(bytes));
          !status.ok()) {
        return status;
      }
    }
  }
  for (const auto& lun : luns_) {
    if (absl::Status status = lun->Flush(); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status SweepLuns::CheckStillBlank() const {
  for (const auto& lun : luns_) {
    if (absl::Status status = CheckStillNobodys(*lun); !status.ok()) return status;
  }
  return absl::OkStatus();
}

void SweepLuns::Discard() const {
  for (const auto& lun : luns_) {
    // What cannot discard keeps bytes that nobody looks at.
    if (CheckStillNobodys(*lun).ok()) (void)lun->Discard(kReservedBytes, area_bytes_);
  }
}

absl::StatusOr<VolumeDescriptor> SweepLuns::Volume(std::uint64_t block_bytes,
                                                   std::uint64_t breadth_bytes) const {
  std::vector<LunFacts> facts;
  for (std::size_t i = 0; i < luns_.size(); ++i) {
    facts.push_back(FactsOf(*luns_[i], Uuid::Random(), absl::StrCat("lun", i)));
    facts.back().path = LunNameForPeople(luns_[i]->name());
    facts.back().size_bytes = kReservedBytes + area_bytes_;
  }
  auto set = MakeSet(facts, breadth_bytes, block_bytes);
  if (!set.ok()) return set.status();
  VolumeDescriptor volume{.volume = Uuid::Random(),
                          .name = "sweep",
                          .generation = 1,
                          .block_bytes = static_cast<std::uint32_t>(block_bytes),
                          .seat_lun = facts.front().uuid,
                          .pools = {}};
  volume.pools.push_back({.name = "sweep",
                          .flags = Pool::kMetadata | Pool::kData,
                          .breadth_blocks = static_cast<std::uint32_t>(breadth_bytes / block_bytes),
                          .affinities = {},
                          .sets = {std::move(set->set)}});
  if (absl::Status status = ValidateDescriptor(volume); !status.ok()) return status;
  return volume;
}

}  // namespace reel::bench
