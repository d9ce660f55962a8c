// Any text as certificates and revocation lists: an error on one line, or lists that the
// certificates' keys have signed. (An input is both: each reader passes over what the other reads.)
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "proto/tls/certificate.h"
#include "proto/tls/revocations.h"
#include "volume/base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto revocations = reel::Revocations::Parse(text, text);
  if (!revocations.ok()) {
    REEL_CHECK(revocations.status().message().find('\n') == std::string::npos,
               "errors are one line");
  }
  if (const auto peer = reel::PeerOf(text); peer.ok() && revocations.ok()) {
    (void)revocations->Contains(*peer);
  }
  return 0;
}
