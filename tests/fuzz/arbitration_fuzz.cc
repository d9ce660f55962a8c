// Any bytes as an arbitration block: decoding never harms, and what decodes encodes to the same.
//
// The fuzzer cannot guess a checksum, so each input is tried with its checksum set right, too.
#include <cstddef>
#include <cstdint>
#include <string>

#include "volume/base/check.h"
#include "volume/base/coding.h"
#include "volume/format/arbitration_block.h"

namespace {

void Try(const std::string& bytes) {
  const auto block = reel::DecodeArbitration(reel::AsBytes(bytes));
  if (!block.ok()) return;
  const auto again = reel::DecodeArbitration(reel::AsBytes(reel::EncodeArbitration(*block)));
  REEL_CHECK(again.ok() && *again == *block, "a block survives its encoding");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  Try(bytes);
  bytes.resize(reel::kArbitrationBytes, '\0');
  const auto all = reel::AsBytes(bytes);
  const std::uint32_t crc = reel::ExtendCrc32c(reel::Crc32c(all.first(12)), all.subspan(16));
  reel::StoreU32(bytes.data() + 12, crc);
  Try(bytes);
  return 0;
}
