// The label of a LUN: who it is and which place of which volume it fills.
//
// 4 KiB at offset 0 and a copy at kLabelCopyOffset, both inside the reserved first MiB, so that the
// copy survives growth of the LUN. Byte layout: docs/format.md.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "volume/base/uuid.h"
#include "volume/lun/lun.h"

namespace reel {

// The map of the reserved first MiB of every LUN, in bytes.
inline constexpr std::uint64_t kReservedBytes = 1 << 20;
inline constexpr std::uint64_t kLabelBytes = 4096;
inline constexpr std::uint64_t kLabelOffset = 0;
inline constexpr std::uint64_t kDescriptorSlotBytes = 384 * 1024;
inline constexpr std::uint64_t kDescriptorSlotOffsets[2] = {64 * 1024, 448 * 1024};
inline constexpr std::uint64_t kArbitrationOffset = 832 * 1024;
inline constexpr std::uint64_t kLabelCopyOffset = 1020 * 1024;

inline constexpr std::size_t kMaxLunNameBytes = 64;

struct Label {
  Uuid lun;
  std::string name;        // 1 to 64 bytes of [A-Za-z0-9._-]; unique within a volume
  Uuid volume;             // nil while the LUN is labelled but not part of a volume
  std::uint32_t pool = 0;  // the place within the volume; meaningful when `volume` is set
  std::uint32_t stripe_set = 0;
  std::uint32_t position = 0;
  std::uint64_t generation = 0;  // counts rewrites of this label
  std::uint64_t size_bytes = 0;  // the LUN's size when it was labelled

  friend bool operator==(const Label&, const Label&) = default;
};

// INVALID_ARGUMENT when the name is not a LUN name.
absl::Status ValidateLunName(std::string_view name);

// Exactly kLabelBytes. REQUIRES: the name is valid.
std::string EncodeLabel(const Label& label);
// NOT_FOUND: no label there (magic missing). DATA_LOSS: a label, but damaged. UNIMPLEMENTED: of a
// newer format.
absl::StatusOr<Label> DecodeLabel(std::span<const std::byte> bytes);

struct LabelReading {
  Label label;
  absl::Status primary, copy;  // how each of the two copies was found
};
// The valid copy with the highest generation. NOT_FOUND when there is none and no trace of one,
// DATA_LOSS when both are damaged, or the LUN's own I/O error.
absl::StatusOr<LabelReading> ReadLabel(Lun& lun);
// Whether the LUN is still that volume's. FAILED_PRECONDITION: its label says that it belongs to
// another one by now, or to none; else the LUN's own error. A LUN whose label is damaged or gone
// says neither, and counts as the volume's.
absl::Status CheckStillOf(Lun& lun, const Uuid& volume);
// Writes copy, flushes, writes primary, flushes: at every instant one of the two is whole.
absl::Status WriteLabel(Lun& lun, const Label& label);
// Zeroes the whole reserved area, labels last.
absl::Status ClearReservedArea(Lun& lun);

// What else the LUN seems to hold (a partition table, a file system, LVM, …: libblkid's word), or
// an empty string for nothing known. I/O errors are returned. Of a LUN that is no file or device,
// its beginning and end are looked at.
absl::StatusOr<std::string> ProbeForeignContent(Lun& lun);
absl::StatusOr<std::string> ProbeForeignContent(const std::string& path);

}  // namespace reel
