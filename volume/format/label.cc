#include "volume/format/label.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "volume/base/aligned_buffer.h"
#include "volume/base/check.h"
#include "volume/base/coding.h"
#include "volume/format/checksum.h"
#include "volume/lun/io_batch.h"

namespace reel {
namespace {

// magic 8 | version 4 | crc 4 | lun 16 | volume 16 | pool 4 | stripe set 4 | position 4 | name size
// 4 | name 64, zero-padded | generation 8 | size 8 | zeros to 4096. The checksum covers all 4096
// bytes with its own place zeroed. Magic, version and checksum keep their meaning in every later
// version.
constexpr std::string_view kLabelMagic = "REELLABL";
constexpr std::uint32_t kLabelVersion = 1;
constexpr std::size_t kLabelCrcPlace = 12;
constexpr std::size_t kUsedBytes = 144;

absl::Status CheckHasReservedArea(const Lun& lun) {
  if (lun.size_bytes() >= kReservedBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(lun.name(), ": holds only ", lun.size_bytes(),
                                                 " bytes; a LUN needs at least ", kReservedBytes));
}

absl::Status WriteAndFlush(Lun& lun, std::uint64_t offset_bytes, std::span<const std::byte> bytes) {
  if (absl::Status status = lun.Write(offset_bytes, bytes); !status.ok()) return status;
  return lun.Flush();
}

}  // namespace

absl::Status ValidateLunName(std::string_view name) {
  const bool characters_ok = std::ranges::all_of(name, [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '-';
  });
  if (!name.empty() && name.size() <= kMaxLunNameBytes && characters_ok) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("'", absl::CHexEscape(std::string(name.substr(0, kMaxLunNameBytes))),
                   "' is not a valid name: use 1 to 64 of the characters A-Z a-z 0-9 . _ -"));
}

std::string EncodeLabel(const Label& label) {
  REEL_CHECK(ValidateLunName(label.name).ok(), "only labels with valid names are written");
  std::string out;
  out.reserve(kLabelBytes);
  out.append(kLabelMagic);
  PutU32(out, kLabelVersion);
  PutU32(out, 0);
  out.append(label.lun.ToBytes());
  out.append(label.volume.ToBytes());
  PutU32(out, label.pool);
  PutU32(out, label.stripe_set);
  PutU32(out, label.position);
  PutU32(out, static_cast<std::uint32_t>(label.name.size()));
  out.append(label.name);
  out.append(kMaxLunNameBytes - label.name.size(), '\0');
  PutU64(out, label.generation);
  PutU64(out, label.size_bytes);
  REEL_CHECK(out.size() == kUsedBytes, "the label has the size that docs/format.md gives");
  out.resize(kLabelBytes, '\0');
  StoreU32(out.data() + kLabelCrcPlace, ChecksumAround(AsBytes(out), kLabelCrcPlace));
  return out;
}

absl::StatusOr<Label> DecodeLabel(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  if (reader.Bytes(kLabelMagic.size()) != kLabelMagic) return absl::NotFoundError("no label");
  if (bytes.size() < kLabelBytes) return absl::DataLossError("the label is cut short");
  bytes = bytes.first(kLabelBytes);
  const std::uint32_t version = reader.U32();
  if (reader.U32() != ChecksumAround(bytes, kLabelCrcPlace))
    return absl::DataLossError("the label's checksum is wrong");
  if (version != kLabelVersion) {
    return absl::UnimplementedError(
        absl::StrCat("the label has format ", version, ", newer than this program; upgrade it"));
  }
  Label label;
  label.lun = GetUuid(reader);
  label.volume = GetUuid(reader);
  label.pool = reader.U32();
  label.stripe_set = reader.U32();
  label.position = reader.U32();
  const std::uint32_t name_bytes = reader.U32();
  label.name = reader.Bytes(kMaxLunNameBytes).substr(0, name_bytes);
  label.generation = reader.U64();
  label.size_bytes = reader.U64();
  if (name_bytes > kMaxLunNameBytes || !ValidateLunName(label.name).ok()) {
    return absl::DataLossError("the label's name is not a LUN name");
  }
  return label;
}

absl::StatusOr<LabelReading> ReadLabel(Lun& lun) {
  if (lun.size_bytes() < kReservedBytes) {
    return absl::NotFoundError(
        absl::StrCat(lun.name(), ": no label (smaller than ", kReservedBytes, " bytes)"));
  }
  AlignedBuffer buffer(kLabelBytes);
  const auto read = [&](std::uint64_t offset_bytes) -> absl::StatusOr<Label> {
    if (absl::Status status = lun.Read(offset_bytes, buffer.span()); !status.ok()) return status;
    return DecodeLabel(buffer.span());
  };
  absl::StatusOr<Label> primary = read(kLabelOffset);
  absl::StatusOr<Label> copy = read(kLabelCopyOffset);
  // A newer program wrote here: the copy that we understand is what it replaces.
  for (const auto* found : {&primary, &copy}) {
    if (absl::IsUnimplemented(found->status())) {
      return absl::UnimplementedError(absl::StrCat(lun.name(), ": ", found->status().message()));
    }
  }
  if (primary.ok() || copy.ok()) {
    const bool use_copy = !primary.ok() || (copy.ok() && copy->generation > primary->generation);
    LabelReading reading;
    reading.primary = primary.status();
    reading.copy = copy.status();
    reading.label = use_copy ? *std::move(copy) : *std::move(primary);
    return reading;
  }
  // Neither is whole. An I/O error outranks "damaged", and that "not there".
  for (const auto* found : {&primary, &copy}) {
    if (!absl::IsNotFound(found->status()) && !absl::IsDataLoss(found->status())) {
      return found->status();
    }
  }
  if (absl::IsDataLoss(primary.status()) || absl::IsDataLoss(copy.status())) {
    return absl::DataLossError(absl::StrCat(
        lun.name(), ": no copy of its label is whole (primary: ", primary.status().message(),
        "; copy: ", copy.status().message(), ")"));
  }
  return absl::NotFoundError(absl::StrCat(lun.name(), ": no label"));
}

absl::Status WriteLabel(Lun& lun, const Label& label) {
  if (absl::Status status = ValidateLunName(label.name); !status.ok()) return status;
  if (absl::Status status = CheckHasReservedArea(lun); !status.ok()) return status;
  const AlignedBuffer buffer(kLabelBytes);
  std::memcpy(buffer.data(), EncodeLabel(label).data(), kLabelBytes);
  if (absl::Status status = WriteAndFlush(lun, kLabelCopyOffset, buffer.span()); !status.ok()) {
    return status;
  }
  return WriteAndFlush(lun, kLabelOffset, buffer.span());
}

// The primary is what a rewriting of the label changes last.
absl::Status CheckStillOf(Lun& lun, const Uuid& volume) {
  const AlignedBuffer buffer(kLabelBytes);
  if (absl::Status s = lun.Read(kLabelOffset, buffer.span()); !s.ok()) return s;
  absl::StatusOr<Label> label = DecodeLabel(buffer.span());
  if (!label.ok()) {
    absl::StatusOr<LabelReading> reading = ReadLabel(lun);
    if (absl::IsNotFound(reading.status()) || absl::IsDataLoss(reading.status())) {
      return absl::OkStatus();
    }
    if (!reading.ok()) return reading.status();
    label = std::move(reading->label);
  }
  if (label->volume == volume) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(lun.name(), ": the LUN belongs to ",
                   label->volume.is_nil() ? std::string("no volume")
                                          : absl::StrCat("volume ", label->volume.ToString()),
                   " now, and no longer to ", volume.ToString()));
}

absl::Status ClearReservedArea(Lun& lun) {
  if (absl::Status status = CheckHasReservedArea(lun); !status.ok()) return status;
  const AlignedBuffer zeros = AlignedBuffer::Zeroed(kReservedBytes);
  const auto clear = [&](std::uint64_t from, std::uint64_t to) {
    return WriteAndFlush(lun, from, zeros.span().first(to - from));
  };
  if (absl::Status status = clear(kLabelBytes, kLabelCopyOffset); !status.ok()) return status;
  if (absl::Status status = clear(kLabelCopyOffset, kReservedBytes); !status.ok()) return status;
  return clear(kLabelOffset, kLabelBytes);
}

}  // namespace reel
