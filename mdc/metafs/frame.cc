#include "mdc/metafs/frame.h"

#include <algorithm>
#include <cstring>

#include "volume/base/check.h"
#include "volume/base/coding.h"

namespace reel::metafs {
namespace {

constexpr std::uint32_t kMagic = 0x4d52'464c;  // "LFRM"
constexpr std::size_t kChecksumEnd = 8;
constexpr std::uint16_t kEndsWrite = 1;

std::uint32_t Checksum(std::span<const std::byte> frame) {
  return Crc32c(frame.subspan(kChecksumEnd, kFrameBytes - kChecksumEnd));
}

}  // namespace

void EncodeFrame(const FrameHeader& header, std::string_view payload, std::byte* to) {
  REEL_CHECK(payload.size() == header.length_bytes && payload.size() <= kFramePayloadBytes,
             "a frame's payload has the length that its header says");
  std::memset(to, 0, kFrameBytes);
  StoreU32(to, kMagic);
  StoreU64(to + 8, header.file_id);
  StoreU64(to + 16, header.epoch.value());
  StoreU64(to + 24, header.sequence);
  StoreU64(to + 32, header.synced_through);
  StoreU64(to + 40, header.stream_offset);
  StoreU16(to + 48, header.length_bytes);
  StoreU16(to + 50, header.ends_write ? kEndsWrite : 0);
  if (!payload.empty()) std::memcpy(to + kFrameHeaderBytes, payload.data(), payload.size());
  StoreU32(to + 4, Checksum({to, kFrameBytes}));
}

FrameState DecodeFrame(std::span<const std::byte> bytes, FrameHeader& header) {
  const std::byte* at = bytes.data();
  if (LoadU32(at) != kMagic) {
    const bool blank = std::all_of(bytes.begin(), bytes.begin() + kFrameBytes,
                                   [](std::byte b) { return b == std::byte{0}; });
    return blank ? FrameState::kBlank : FrameState::kDamaged;
  }
  const std::uint16_t length = LoadU16(at + 48);
  const std::uint16_t flags = LoadU16(at + 50);
  if (LoadU32(at + 4) != Checksum(bytes) || length > kFramePayloadBytes ||
      (flags & ~kEndsWrite) != 0) {
    return FrameState::kDamaged;
  }
  header.file_id = LoadU64(at + 8);
  header.epoch = Epoch(LoadU64(at + 16));
  header.sequence = LoadU64(at + 24);
  header.synced_through = LoadU64(at + 32);
  header.stream_offset = LoadU64(at + 40);
  header.length_bytes = length;
  header.ends_write = (flags & kEndsWrite) != 0;
  return FrameState::kFrame;
}

}  // namespace reel::metafs
