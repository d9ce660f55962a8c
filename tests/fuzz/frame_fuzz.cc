// Any bytes as a unit of a metadata log: decoding never harms, and a frame survives its encoding.
//
// The fuzzer cannot guess a checksum, so each input is tried with its checksum set right, too.
#include <cstddef>
#include <cstdint>
#include <string>

#include "mdc/metafs/frame.h"
#include "volume/base/check.h"
#include "volume/base/coding.h"

namespace {

namespace metafs = reel::metafs;

void Try(const std::string& bytes) {
  metafs::FrameHeader header;
  if (metafs::DecodeFrame(reel::AsBytes(bytes), header) != metafs::FrameState::kFrame) return;
  REEL_CHECK(header.length_bytes <= metafs::kFramePayloadBytes, "the payload lies in the frame");
  std::string encoded(metafs::kFrameBytes, '\0');
  metafs::EncodeFrame(header, bytes.substr(metafs::kFrameHeaderBytes, header.length_bytes),
                      reinterpret_cast<std::byte*>(encoded.data()));
  metafs::FrameHeader again;
  REEL_CHECK(metafs::DecodeFrame(reel::AsBytes(encoded), again) == metafs::FrameState::kFrame,
             "a frame is a frame");
  REEL_CHECK(again == header, "a frame survives its encoding");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  bytes.resize(metafs::kFrameBytes, '\0');
  Try(bytes);
  reel::StoreU32(bytes.data() + 4, reel::Crc32c(reel::AsBytes(bytes).subspan(8)));
  Try(bytes);
  return 0;
}
