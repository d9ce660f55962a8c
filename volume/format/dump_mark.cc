#include "volume/format/dump_mark.h"

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "volume/base/aligned_buffer.h"
#include "volume/base/check.h"
#include "volume/base/coding.h"
#include "volume/format/checksum.h"
#include "volume/lun/lun_fault.h"

namespace reel {
namespace {

// magic 8 | version 4 | crc 4 | volume 16 | epoch 8 | generation 8 | count 4 | zero 4 | dumps, 16
// each | zeros to 4096. The checksum covers all 4096 bytes with its own place zeroed.
constexpr std::string_view kMagic = "REELDUMP";
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kCrcPlace = 12;

auto OrderOf(const DumpMark& mark) {
  return std::tuple(mark.epoch, mark.generation);
}

absl::StatusOr<DumpMark> ReadSlot(Lun& lun, int slot) {
  const AlignedBuffer buffer(kDumpMarkBytes);
  if (absl::Status s = lun.Read(kDumpMarkOffsets[slot], buffer.span()); !s.ok()) return s;
  return DecodeDumpMark(buffer.span());
}

// What is not there or damaged can be written; anything else is not to be touched.
absl::Status Readable(const Lun& lun, const absl::Status& slot) {
  if (slot.ok() || absl::IsNotFound(slot) || absl::IsDataLoss(slot)) return absl::OkStatus();
  return WithText(slot, absl::StrCat(lun.name(), ": ", slot.message()));
}

absl::Status WriteSlot(Lun& lun, int slot, const std::string& bytes,
                       const std::function<absl::Status()>& may_write) {
  const AlignedBuffer buffer(kDumpMarkBytes);
  std::memcpy(buffer.data(), bytes.data(), bytes.size());
  if (absl::Status s = may_write(); !s.ok()) return s;
  if (absl::Status s = lun.Write(kDumpMarkOffsets[slot], buffer.span()); !s.ok()) return s;
  return lun.Flush();
}

}  // namespace

bool DumpMark::Names(const Uuid& dump) const {
  return std::ranges::find(dumps, dump) != dumps.end();
}

std::string EncodeDumpMark(const DumpMark& mark) {
  REEL_CHECK(mark.dumps.size() <= kMaxMarkedDumps, "a mark has room for its dumps");
  std::string out(kMagic);
  PutU32(out, kVersion);
  PutU32(out, 0);
  out.append(mark.volume.ToBytes());
  PutU64(out, mark.epoch.value());
  PutU64(out, mark.generation);
  PutU32(out, static_cast<std::uint32_t>(mark.dumps.size()));
  PutU32(out, 0);
  for (const Uuid& dump : mark.dumps) out.append(dump.ToBytes());
  out.resize(kDumpMarkBytes, '\0');
  StoreU32(out.data() + kCrcPlace, ChecksumAround(AsBytes(out), kCrcPlace));
  return out;
}

absl::StatusOr<DumpMark> DecodeDumpMark(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  if (reader.Bytes(kMagic.size()) != kMagic) return absl::NotFoundError("no mark of a dump");
  if (bytes.size() < kDumpMarkBytes) return absl::DataLossError("the dump's mark is cut short");
  bytes = bytes.first(kDumpMarkBytes);
  const std::uint32_t version = reader.U32();
  if (reader.U32() != ChecksumAround(bytes, kCrcPlace)) {
    return absl::DataLossError("the checksum of the dump's mark is wrong");
  }
  if (version != kVersion) {
    return absl::UnimplementedError(absl::StrCat("the dump's mark has format ", version,
                                                 ", newer than this program; upgrade it"));
  }
  DumpMark mark;
  mark.volume = GetUuid(reader);
  mark.epoch = Epoch(reader.U64());
  mark.generation = reader.U64();
  const std::uint32_t count = reader.U32();
  reader.U32();
  if (count > kMaxMarkedDumps) return absl::DataLossError("the mark names too many dumps");
  for (std::uint32_t i = 0; i < count; ++i) mark.dumps.push_back(GetUuid(reader));
  return mark;
}

absl::StatusOr<DumpMark> ReadDumpMark(Lun& lun, const Uuid& volume) {
  absl::StatusOr<DumpMark> slots[2] = {ReadSlot(lun, 0), ReadSlot(lun, 1)};
  for (const auto& slot : slots) {
    if (absl::Status s = Readable(lun, slot.status()); !s.ok()) return s;
  }
  const DumpMark* rules = nullptr;
  for (const auto& slot : slots) {
    if (!slot.ok() || slot->volume != volume) continue;
    if (rules == nullptr || OrderOf(*rules) < OrderOf(*slot)) rules = &*slot;
  }
  if (rules != nullptr) return *rules;
  for (const auto& slot : slots) {
    if (absl::IsDataLoss(slot.status())) {
      return absl::DataLossError(absl::StrCat(lun.name(), ": ", slot.status().message()));
    }
  }
  return absl::NotFoundError(absl::StrCat(lun.name(), ": no mark of a dump of the volume"));
}

absl::Status WriteDumpMark(Lun& lun, const DumpMark& mark,
                           const std::function<absl::Status()>& may_write) {
  absl::StatusOr<DumpMark> slots[2] = {ReadSlot(lun, 0), ReadSlot(lun, 1)};
  const auto ours = [&](int slot) {
    return slots[slot].ok() && slots[slot]->volume == mark.volume;
  };
  for (int slot = 0; slot < 2; ++slot) {
    if (absl::Status s = Readable(lun, slots[slot].status()); !s.ok()) return s;
    if (ours(slot) && slots[slot]->epoch > mark.epoch) {
      return absl::AbortedError(absl::StrCat(lun.name(), ": epoch ", slots[slot]->epoch.value(),
                                             " has marked it already"));
    }
  }
  const bool second_rules = ours(1) && (!ours(0) || OrderOf(*slots[0]) < OrderOf(*slots[1]));
  const int first = second_rules ? 0 : 1;
  const std::string bytes = EncodeDumpMark(mark);
  for (const int slot : {first, 1 - first}) {
    if (absl::Status s = WriteSlot(lun, slot, bytes, may_write); !s.ok()) {
      return WithText(
          s, absl::StrCat(lun.name(), ": its mark of the dump was not written: ", s.message()));
    }
  }
  return absl::OkStatus();
}

}  // namespace reel
