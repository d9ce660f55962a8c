#include "volume/format/descriptor.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "volume/base/aligned_buffer.h"
#include "volume/base/coding.h"
#include "volume/format/checksum.h"
#include "volume/format/label.h"
#include "volume/lun/io_batch.h"

namespace reel {
namespace {

// Frame: magic 8 | version 4 | crc 4 | generation 8 | payload size 4 | zero 4 | payload. The
// checksum covers frame and payload with its own place zeroed. The frame keeps its meaning in every
// later version, and the feature masks stay the first of the payload.
constexpr std::string_view kDescriptorMagic = "REELDESC";
constexpr std::uint32_t kDescriptorVersion = 1;
constexpr std::size_t kDescriptorCrcPlace = 12;
constexpr std::size_t kFrameBytes = 32;

void PutCount(std::string& out, std::size_t count) {
  PutU32(out, static_cast<std::uint32_t>(count));
}

void PutPool(std::string& out, const Pool& pool, bool breadths) {
  PutString(out, pool.name);
  PutU32(out, pool.flags);
  PutU32(out, pool.breadth_blocks);
  PutCount(out, pool.affinities.size());
  for (const std::string& affinity : pool.affinities) PutString(out, affinity);
  PutCount(out, pool.sets.size());
  for (const StripeSet& set : pool.sets) {
    PutU64(out, set.rows);
    if (breadths) PutU32(out, set.breadth_blocks);
    PutCount(out, set.luns.size());
    for (const LunEntry& lun : set.luns) {
      out.append(lun.lun.ToBytes());
      PutString(out, lun.name);
      PutU64(out, lun.data_start_bytes);
    }
  }
}

void PutPayload(std::string& out, const VolumeDescriptor& d) {
  PutU64(out, d.compat);
  PutU64(out, d.ro_compat);
  PutU64(out, d.incompat);
  out.append(d.volume.ToBytes());
  out.append(d.seat_lun.ToBytes());
  PutString(out, d.name);
  PutU32(out, d.block_bytes);
  PutU8(out, static_cast<std::uint8_t>(d.strategy));
  PutU64(out, d.created_seconds);
  PutCount(out, d.pools.size());
  for (const Pool& pool : d.pools) PutPool(out, pool, (d.incompat & kIncompatSets) != 0);
}

// Reads a counted list. Bytes that run out end it, so a forged count costs nothing.
template <typename T, typename GetOne>
std::vector<T> GetList(ByteReader& reader, GetOne get_one) {
  std::vector<T> list;
  for (std::uint32_t left = reader.U32(); left > 0 && reader.ok(); --left) {
    list.push_back(get_one(reader));
  }
  return list;
}

LunEntry GetLun(ByteReader& reader) {
  LunEntry lun;
  lun.lun = GetUuid(reader);
  lun.name = reader.String();
  lun.data_start_bytes = reader.U64();
  return lun;
}

StripeSet GetSet(ByteReader& reader, bool breadths) {
  StripeSet set;
  set.rows = reader.U64();
  if (breadths) set.breadth_blocks = reader.U32();
  set.luns = GetList<LunEntry>(reader, GetLun);
  return set;
}

Pool GetPool(ByteReader& reader, bool breadths) {
  Pool pool;
  pool.name = reader.String();
  pool.flags = reader.U32();
  pool.breadth_blocks = reader.U32();
  pool.affinities =
      GetList<std::string>(reader, [](ByteReader& r) { return std::string(r.String()); });
  pool.sets = GetList<StripeSet>(reader, [&](ByteReader& r) { return GetSet(r, breadths); });
  return pool;
}

absl::StatusOr<VolumeDescriptor> GetPayload(ByteReader reader, std::uint64_t generation) {
  VolumeDescriptor d;
  d.generation = generation;
  d.compat = reader.U64();
  d.ro_compat = reader.U64();
  d.incompat = reader.U64();
  if (reader.ok() && (d.incompat & ~kKnownIncompat) != 0) {
    return absl::UnimplementedError(
        absl::StrCat("the volume uses features that this program does not know (incompat bits ",
                     absl::Hex(d.incompat & ~kKnownIncompat), "); upgrade it"));
  }
  d.volume = GetUuid(reader);
  d.seat_lun = GetUuid(reader);
  d.name = reader.String();
  d.block_bytes = reader.U32();
  d.strategy = static_cast<AllocationStrategy>(reader.U8());
  d.created_seconds = reader.U64();
  const bool breadths = (d.incompat & kIncompatSets) != 0;
  d.pools = GetList<Pool>(reader, [&](ByteReader& r) { return GetPool(r, breadths); });
  if (!reader.ok() || reader.remaining() != 0) {
    return absl::DataLossError("the volume descriptor's lengths do not add up");
  }
  if (absl::Status status = ValidateDescriptor(d); !status.ok()) {
    return absl::DataLossError(
        absl::StrCat("the volume descriptor makes no sense: ", status.message()));
  }
  return d;
}

using Slots = std::array<absl::StatusOr<VolumeDescriptor>, 2>;

absl::StatusOr<Slots> ReadSlots(Lun& lun) {
  if (lun.size_bytes() < kReservedBytes) {
    return absl::NotFoundError(absl::StrCat(lun.name(), ": no volume descriptor (smaller than ",
                                            kReservedBytes, " bytes)"));
  }
  const AlignedBuffer buffer(kDescriptorSlotBytes);
  Slots slots;
  for (std::size_t i = 0; i < 2; ++i) {
    const absl::Status status = lun.Read(kDescriptorSlotOffsets[i], buffer.span());
    slots[i] = status.ok() ? DecodeDescriptor(buffer.span()) : status;
    if (absl::IsUnimplemented(slots[i].status())) {
      return absl::UnimplementedError(absl::StrCat(lun.name(), ": ", slots[i].status().message()));
    }
  }
  return slots;
}

// The index of the slot that rules, or -1.
int Ruling(const Slots& slots) {
  if (slots[0].ok() && slots[1].ok()) return slots[1]->generation > slots[0]->generation ? 1 : 0;
  if (slots[0].ok()) return 0;
  return slots[1].ok() ? 1 : -1;
}

absl::Status WriteSlot(Lun& lun, int slot, std::span<const std::byte> bytes,
                       const std::function<absl::Status()>& may_write) {
  if (may_write) {
    if (absl::Status may = may_write(); !may.ok()) return may;
  }
  const absl::Status status = lun.Write(kDescriptorSlotOffsets[slot], bytes);
  return status.ok() ? lun.Flush() : status;
}

}  // namespace

std::uint64_t Pool::size_blocks() const {
  std::uint64_t blocks = 0;
  for (const StripeSet& set : sets) blocks += BlocksOf(set);
  return blocks;
}

std::uint64_t Pool::capacity_blocks() const {
  std::uint64_t blocks = 0;
  for (const StripeSet& set : sets) blocks += set.is_gap() ? 0 : BlocksOf(set);
  return blocks;
}

absl::StatusOr<std::string> EncodeDescriptor(const VolumeDescriptor& descriptor) {
  std::string out;
  out.append(kDescriptorMagic);
  PutU32(out, kDescriptorVersion);
  PutU32(out, 0);
  PutU64(out, descriptor.generation);
  PutU32(out, 0);
  PutU32(out, 0);
  PutPayload(out, descriptor);
  if (out.size() > kDescriptorSlotBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the volume's description takes ", out.size(), " bytes, more than the ",
        kDescriptorSlotBytes, " of its slot; use fewer LUNs or affinities, or shorter names"));
  }
  StoreU32(out.data() + 24, static_cast<std::uint32_t>(out.size() - kFrameBytes));
  StoreU32(out.data() + kDescriptorCrcPlace, ChecksumAround(AsBytes(out), kDescriptorCrcPlace));
  return out;
}

absl::StatusOr<VolumeDescriptor> DecodeDescriptor(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  if (reader.Bytes(kDescriptorMagic.size()) != kDescriptorMagic)
    return absl::NotFoundError("no volume descriptor");
  const std::uint32_t version = reader.U32();
  const std::uint32_t crc = reader.U32();
  const std::uint64_t generation = reader.U64();
  const std::uint32_t payload_bytes = reader.U32();
  reader.U32();
  if (!reader.ok() || payload_bytes > reader.remaining()) {
    return absl::DataLossError("the volume descriptor is cut short");
  }
  bytes = bytes.first(kFrameBytes + payload_bytes);
  if (crc != ChecksumAround(bytes, kDescriptorCrcPlace)) {
    return absl::DataLossError("the volume descriptor's checksum is wrong");
  }
  if (version != kDescriptorVersion) {
    return absl::UnimplementedError(absl::StrCat("the volume descriptor has format ", version,
                                                 ", newer than this program; upgrade it"));
  }
  return GetPayload(ByteReader(bytes.subspan(kFrameBytes)), generation);
}

absl::StatusOr<DescriptorReading> ReadDescriptor(Lun& lun) {
  absl::StatusOr<Slots> slots = ReadSlots(lun);
  if (!slots.ok()) return slots.status();
  if (const int ruling = Ruling(*slots); ruling >= 0) {
    DescriptorReading reading;
    for (std::size_t i = 0; i < 2; ++i) reading.slots[i] = (*slots)[i].status();
    reading.descriptor = *std::move((*slots)[static_cast<std::size_t>(ruling)]);
    return reading;
  }
  // Neither is whole. An I/O error outranks "damaged", and that "not there".
  for (const auto& slot : *slots) {
    if (!absl::IsNotFound(slot.status()) && !absl::IsDataLoss(slot.status())) return slot.status();
  }
  for (const auto& slot : *slots) {
    if (absl::IsDataLoss(slot.status())) {
      return absl::DataLossError(absl::StrCat(lun.name(), ": ", slot.status().message()));
    }
  }
  return absl::NotFoundError(absl::StrCat(lun.name(), ": no volume descriptor"));
}

absl::Status WriteDescriptor(Lun& lun, const VolumeDescriptor& descriptor,
                             const std::function<absl::Status()>& may_write) {
  if (absl::Status status = ValidateDescriptor(descriptor); !status.ok()) return status;
  absl::StatusOr<std::string> encoded = EncodeDescriptor(descriptor);
  if (!encoded.ok()) return encoded.status();
  absl::StatusOr<Slots> slots = ReadSlots(lun);
  if (!slots.ok()) return slots.status();
  bool foreign[2] = {};
  for (std::size_t i = 0; i < 2; ++i) {
    foreign[i] = (*slots)[i].ok() && (*slots)[i]->volume != descriptor.volume;
    if (foreign[i]) (*slots)[i] = absl::NotFoundError("another volume's descriptor");
  }
  const int ruling = Ruling(*slots);
  if (ruling >= 0) {
    const VolumeDescriptor& held = *(*slots)[static_cast<std::size_t>(ruling)];
    if (held.generation > descriptor.generation ||
        (held.generation == descriptor.generation && held != descriptor)) {
      return absl::FailedPreconditionError(absl::StrCat(
          lun.name(), ": holds generation ", held.generation, " of the volume, which generation ",
          descriptor.generation, " must not replace; read it again first"));
    }
  }
  const int target = ruling == 0 ? 1 : 0;
  const AlignedBuffer buffer = AlignedBuffer::Zeroed(RoundUp(encoded->size(), kIoAlignment));
  std::memcpy(buffer.data(), encoded->data(), encoded->size());
  absl::Status status = WriteSlot(lun, target, buffer.span(), may_write);
  if (!status.ok()) return status;
  if (!foreign[1 - target]) return absl::OkStatus();
  // Its generation might outrank ours.
  return WriteSlot(lun, 1 - target, AlignedBuffer::Zeroed(kIoAlignment).span(), may_write);
}

}  // namespace reel
