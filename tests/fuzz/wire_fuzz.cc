// Any bytes as a frame from a client: what the conversions let through is within its bounds.
#include <cstddef>
#include <cstdint>
#include <string>

#include "proto/convert.h"
#include "proto/mdc.pb.h"
#include "volume/base/check.h"

namespace {

void Convert(const reel::v1::Extent& message) {
  const absl::StatusOr<reel::Extent> extent = reel::FromProto(message);
  if (!extent.ok()) return;
  const absl::StatusOr<reel::Extent> again = reel::FromProto(reel::ToProto(*extent));
  REEL_CHECK(again.ok() && *again == *extent, "an extent survives its encoding");
}

void CheckRequest(const reel::v1::Request& request) {
  if (request.has_lookup()) {
    const std::string& name = request.lookup().name();
    if (reel::ValidateName(name).ok()) {
      REEL_CHECK(!name.empty() && name.size() <= 255 && name.find('/') == std::string::npos,
                 "a valid name is one path component");
    }
  }
  if (request.has_layout_get()) {
    const std::uint64_t offset = request.layout_get().offset_bytes();
    const std::uint64_t length = request.layout_get().length_bytes();
    if (reel::ValidateByteRange(offset, length).ok()) {
      REEL_CHECK(length > 0 && offset <= reel::kMaxFileBytes - length, "a range does not wrap");
      const reel::BlockSpan span = reel::BlocksOf(offset, length, 16384);
      REEL_CHECK(span.length_blocks > 0, "a range has blocks");
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  reel::v1::ClientFrame frame;
  if (frame.ParseFromArray(data, static_cast<int>(size))) {
    for (const reel::v1::Request& request : frame.requests()) CheckRequest(request);
  }
  reel::v1::Extent extent;
  if (extent.ParseFromArray(data, static_cast<int>(size))) Convert(extent);
  reel::v1::Time time;
  if (time.ParseFromArray(data, static_cast<int>(size))) (void)reel::FromProto(time).ok();
  return 0;
}
