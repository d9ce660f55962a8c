#include "tools/doctor/doctor_paths.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace reel::tools {
namespace {

bool IsMultipath(const HostTrees& trees, const std::string& device) {
  return TextAt(absl::StrCat(trees.sys, "/block/", device, "/dm/uuid")).starts_with("mpath-");
}

LunPaths PathsOfMultipath(const HostTrees& trees, const std::string& device) {
  const std::vector<std::string> paths =
      NamesIn(absl::StrCat(trees.sys, "/block/", device, "/slaves"));
  std::vector<std::string> down;
  for (const std::string& path : paths) {
    const std::string state = TextAt(absl::StrCat(trees.sys, "/block/", path, "/device/state"));
    // (NVMe's say "live".)
    if (state != "running" && state != "live" && !state.empty()) down.push_back(path);
  }
  const std::string text =
      absl::StrCat(paths.size() - down.size(), " of ", paths.size(), " paths by multipath");
  if (!down.empty()) {
    return {text, absl::StrCat("mend ", absl::StrJoin(down, ", "), ": multipath -ll shows them")};
  }
  if (paths.size() > 1) return {text, ""};
  return {text, "one path is no reserve: log in by the other portal, or see its cable"};
}

// The other disks that are the same LUN.
std::vector<std::string> OtherPaths(const HostTrees& trees, const std::string& device) {
  const auto id = [&](const std::string& disk) {
    return TextAt(absl::StrCat(trees.sys, "/block/", disk, "/device/wwid"));
  };
  std::vector<std::string> others;
  const std::string own = id(device);
  if (own.empty()) return others;
  for (const std::string& disk : NamesIn(trees.sys + "/block")) {
    if (disk != device && id(disk) == own) others.push_back(disk);
  }
  return others;
}

}  // namespace

LunPaths PathsOf(const HostTrees& trees, const std::string& device) {
  if (IsMultipath(trees, device)) return PathsOfMultipath(trees, device);
  for (const std::string& holder :
       NamesIn(absl::StrCat(trees.sys, "/block/", device, "/holders"))) {
    if (!IsMultipath(trees, holder)) continue;
    const std::string name = TextAt(absl::StrCat(trees.sys, "/block/", holder, "/dm/name"));
    return {"one path of a multipath device",
            absl::StrCat("name /dev/mapper/", name, " in luns, and not its paths")};
  }
  const std::vector<std::string> others = OtherPaths(trees, device);
  if (others.empty()) return {"one path", ""};
  return {absl::StrCat("one path; another is ", absl::StrJoin(others, ", ")),
          "let multipathd join them, and name the /dev/mapper device in luns"};
}

}  // namespace reel::tools
