// Any text as the name of an iSCSI LUN: an error on one line, or a place within its bounds; and
// never a secret in what people are shown.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "volume/base/check.h"
#include "volume/iscsi/iscsi_url.h"
#include "volume/lun/lun.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto url = reel::ParseIscsiUrl(text);
  if (!url.ok()) {
    REEL_CHECK(url.status().message().find('\n') == std::string::npos, "errors are one line");
    return 0;
  }
  REEL_CHECK(url->lun <= reel::kMaxIscsiLun, "the LUN has an address");
  REEL_CHECK(!url->portals.empty() && !url->target.empty(), "a LUN is somewhere");
  REEL_CHECK(url->portals.size() <= reel::kMaxIscsiPortals, "portals are few");
  for (const std::string& portal : url->portals) {
    REEL_CHECK(std::count(url->portals.begin(), url->portals.end(), portal) == 1, "each once");
    REEL_CHECK(portal.find_first_of(",;/@ ") == std::string::npos, "a portal is one");
    const std::size_t colon = portal.rfind(':');
    REEL_CHECK(colon != std::string::npos && colon > 0, "a portal has a host and a port");
    const int port = std::atoi(portal.c_str() + colon + 1);
    REEL_CHECK(port > 0 && port < 65536, "a port is one");
  }
  REEL_CHECK(url->shown == reel::LunNameForPeople(text), "one way to show a name");
  if (!url->secret.empty() && url->secret != "***") {
    REEL_CHECK(url->shown.find("%" + url->secret + "@") == std::string::npos, "no secret is shown");
  }
  return 0;
}
