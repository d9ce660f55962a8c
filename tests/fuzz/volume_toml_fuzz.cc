// Any text as a volume's description: an error on one line, or a description within its bounds.
#include <cstddef>
#include <cstdint>
#include <string>

#include "tools/lib/volume_toml.h"
#include "volume/base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto description = reel::tools::ParseVolumeToml(text, "volume.toml");
  if (!description.ok()) {
    REEL_CHECK(description.status().message().find('\n') == std::string::npos,
               "errors are one line");
    return 0;
  }
  REEL_CHECK(reel::tools::ValidateVolumeName(description->name).ok(), "the name is a name");
  REEL_CHECK(!description->pools.empty(), "a volume has pools");
  return 0;
}
