// Any text as the name of an iSCSI LUN: an error on one line, or a place within its bounds; and
// never a secret in what people are shown.
#include <cstddef>
#include <cstdint>
#include <string>

#include "volume/base/check.h"
#include "volume/lun/lun.h"
#include "volume/scsi/iscsi_url.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto url = reel::ParseIscsiUrl(text);
  if (!url.ok()) {
    REEL_CHECK(url.status().message().find('\n') == std::string::npos, "errors are one line");
    return 0;
  }
  REEL_CHECK(url->lun <= reel::kMaxIscsiLun, "the LUN has an address");
  REEL_CHECK(!url->portal.empty() && !url->target.empty(), "a LUN is somewhere");
  REEL_CHECK(url->shown == reel::LunNameForPeople(text), "one way to show a name");
  if (!url->secret.empty() && url->secret != "***") {
    REEL_CHECK(url->shown.find("%" + url->secret + "@") == std::string::npos, "no secret is shown");
  }
  return 0;
}
