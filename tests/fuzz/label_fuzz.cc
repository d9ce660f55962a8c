// Any bytes as a label: decoding never harms, and what decodes encodes to the same label.
//
// The fuzzer cannot guess a checksum, so each input is tried with its checksum set right, too.
#include <cstddef>
#include <cstdint>
#include <string>

#include "volume/base/check.h"
#include "volume/base/coding.h"
#include "volume/format/label.h"

namespace {

void Try(const std::string& bytes) {
  const absl::StatusOr<reel::Label> label = reel::DecodeLabel(reel::AsBytes(bytes));
  if (!label.ok()) return;
  const absl::StatusOr<reel::Label> again =
      reel::DecodeLabel(reel::AsBytes(reel::EncodeLabel(*label)));
  REEL_CHECK(again.ok() && *again == *label, "a label survives its encoding");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  Try(bytes);
  bytes.resize(reel::kLabelBytes, '\0');
  reel::StoreU32(bytes.data() + 12, 0);
  reel::StoreU32(bytes.data() + 12, reel::Crc32c(reel::AsBytes(bytes)));
  Try(bytes);
  return 0;
}
