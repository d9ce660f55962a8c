#include "volume/format/arbitration_block.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <optional>

#include "absl/strings/str_cat.h"
#include "volume/base/aligned_buffer.h"
#include "volume/base/coding.h"
#include "volume/format/label.h"

namespace reel {
namespace {

// Magic 8 | version 4 | crc 4 | the rest; the checksum leaves its own four bytes out.
constexpr std::string_view kBlockMagic = "REELSEAT";
constexpr std::uint32_t kBlockVersion = 1;
constexpr std::uint32_t kVersionWithWishes = 2;  // stopped, or in maintenance
constexpr std::size_t kBlockCrcPlace = 12;
constexpr std::uint8_t kClaimedFlag = 1, kStoppedFlag = 2, kMaintenanceFlag = 4;
constexpr std::uint8_t kLastState = 2;

std::uint32_t BlockCrc(std::span<const std::byte> bytes) {
  return ExtendCrc32c(Crc32c(bytes.first(kBlockCrcPlace)), bytes.subspan(kBlockCrcPlace + 4));
}

}  // namespace

std::string EncodeArbitration(const ArbitrationBlock& block) {
  std::string out(kBlockMagic);
  PutU32(out, block.stopped || block.maintenance ? kVersionWithWishes : kBlockVersion);
  PutU32(out, 0);
  out.append(block.volume.ToBytes());
  PutU64(out, block.epoch.value());
  PutU64(out, block.beat);
  out.append(block.holder.ToBytes());
  out.append(block.machine.ToBytes());
  PutU32(out, block.seat_ms);
  PutU8(out, static_cast<std::uint8_t>(block.state));
  PutU8(out, static_cast<std::uint8_t>((block.claimed ? kClaimedFlag : 0) |
                                       (block.stopped ? kStoppedFlag : 0) |
                                       (block.maintenance ? kMaintenanceFlag : 0)));
  PutString(out, std::string_view(block.host).substr(0, kMaxSeatHostBytes));
  PutString(out, std::string_view(block.address).substr(0, kMaxSeatAddressBytes));
  PutU16(out, block.protocol_oldest);
  PutU16(out, block.protocol_newest);
  PutString(out, std::string_view(block.program).substr(0, kMaxSeatProgramBytes));
  out.append(block.successor.ToBytes());
  out.resize(kArbitrationBytes);
  StoreU32(out.data() + kBlockCrcPlace, BlockCrc(AsBytes(out)));
  return out;
}

absl::StatusOr<ArbitrationBlock> DecodeArbitration(std::span<const std::byte> bytes) {
  if (bytes.size() < kArbitrationBytes) return absl::DataLossError("arbitration block: too short");
  bytes = bytes.first(kArbitrationBytes);
  if (AsText(bytes.first(kBlockMagic.size())) != kBlockMagic) {
    return absl::NotFoundError("no arbitration block");
  }
  if (LoadU32(bytes.data() + kBlockCrcPlace) != BlockCrc(bytes)) {
    return absl::DataLossError("arbitration block: wrong checksum");
  }
  ByteReader reader(bytes.subspan(kBlockMagic.size()));
  if (const std::uint32_t version = reader.U32();
      version != kBlockVersion && version != kVersionWithWishes) {
    return absl::UnimplementedError(absl::StrCat("arbitration block: of format ", version,
                                                 ", which this program does not know"));
  }
  reader.U32();
  ArbitrationBlock block;
  block.volume = GetUuid(reader);
  block.epoch = Epoch(reader.U64());
  block.beat = reader.U64();
  block.holder = GetUuid(reader);
  block.machine = GetUuid(reader);
  block.seat_ms = reader.U32();
  const std::uint8_t state = reader.U8();
  const std::uint8_t flags = reader.U8();
  block.claimed = (flags & kClaimedFlag) != 0;
  block.stopped = (flags & kStoppedFlag) != 0;
  block.maintenance = (flags & kMaintenanceFlag) != 0;
  block.host = reader.String();
  block.address = reader.String();
  // Zeros where the holder knew of no more.
  block.protocol_oldest = reader.U16();
  block.protocol_newest = reader.U16();
  block.program = reader.String();
  block.successor = GetUuid(reader);
  if (!reader.ok() || state > kLastState || block.program.size() > kMaxSeatProgramBytes ||
      block.host.size() > kMaxSeatHostBytes || block.address.size() > kMaxSeatAddressBytes) {
    return absl::DataLossError("arbitration block: says what no holder writes");
  }
  block.state = static_cast<ArbitrationBlock::State>(state);
  return block;
}

absl::StatusOr<std::string> ReadArbitration(Lun& lun) {
  const AlignedBuffer buffer(std::max<std::size_t>(lun.logical_block_bytes(), kArbitrationBytes));
  if (absl::Status s = lun.Read(kArbitrationOffset, buffer.span()); !s.ok()) return s;
  return std::string(AsText(buffer.span().first(kArbitrationBytes)));
}

absl::Status WriteArbitration(Lun& lun, const ArbitrationBlock& block) {
  const AlignedBuffer buffer =
      AlignedBuffer::Zeroed(std::max<std::size_t>(lun.logical_block_bytes(), kArbitrationBytes));
  const std::string bytes = EncodeArbitration(block);
  std::memcpy(buffer.data(), bytes.data(), bytes.size());
  return lun.Write(kArbitrationOffset, buffer.span());
}

Uuid ThisMachine() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  std::string bytes = Uuid::Parse(boot).value_or(Uuid::Random()).ToBytes();
  struct stat space {};
  if (stat("/proc/self/ns/net", &space) == 0) {
    std::uint64_t low = LoadU64(bytes.data());
    StoreU64(bytes.data(), low ^ static_cast<std::uint64_t>(space.st_ino));
  }
  return Uuid::FromBytes(bytes).value_or(Uuid());
}

}  // namespace reel
