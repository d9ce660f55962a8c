// Any bytes as a volume descriptor: decoding never harms, what decodes is a valid volume, survives
// its encoding, and can be mapped.
//
// The fuzzer cannot guess a checksum, so each input is tried with length and checksum set right,
// too.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "volume/base/check.h"
#include "volume/base/coding.h"
#include "volume/format/descriptor.h"
#include "volume/format/label.h"
#include "volume/format/stripe_map.h"

namespace {

constexpr std::size_t kFrameBytes = 32;

void Try(const std::string& bytes) {
  const absl::StatusOr<reel::VolumeDescriptor> volume =
      reel::DecodeDescriptor(reel::AsBytes(bytes));
  if (!volume.ok()) return;
  REEL_CHECK(reel::ValidateDescriptor(*volume).ok(), "what decodes is valid");
  const absl::StatusOr<std::string> encoded = reel::EncodeDescriptor(*volume);
  REEL_CHECK(encoded.ok(), "what decodes fits a slot");
  const absl::StatusOr<reel::VolumeDescriptor> again =
      reel::DecodeDescriptor(reel::AsBytes(*encoded));
  REEL_CHECK(again.ok() && *again == *volume, "a descriptor survives its encoding");

  const reel::StripeMap map(*volume);
  for (std::uint32_t i = 0; i < volume->pools.size(); ++i) {
    const reel::PoolId pool(i);
    std::vector<reel::LunRange> pieces;
    const reel::PoolBlock last(map.pool_blocks(pool) - 1);
    REEL_CHECK(map.Map(pool, last, 0, map.block_bytes(), pieces).ok(), "the last block is mapped");
    REEL_CHECK(pieces.size() == 1 && pieces[0].lun < map.lun_count(), "to one LUN of the volume");
    REEL_CHECK(!map.Map(pool, last, 1, map.block_bytes(), pieces).ok(), "and nothing beyond it");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > reel::kDescriptorSlotBytes) return 0;
  std::string bytes(reinterpret_cast<const char*>(data), size);
  Try(bytes);
  if (size < kFrameBytes) return 0;
  reel::StoreU32(bytes.data() + 24, static_cast<std::uint32_t>(size - kFrameBytes));
  reel::StoreU32(bytes.data() + 12, 0);
  reel::StoreU32(bytes.data() + 12, reel::Crc32c(reel::AsBytes(bytes)));
  Try(bytes);
  return 0;
}
