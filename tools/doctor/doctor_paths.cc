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

// `lister`: the command that shows which path is down.
LunPaths CountPaths(const HostTrees& trees, const std::vector<std::string>& paths,
                    std::string_view by, std::string_view lister) {
  std::vector<std::string> down;
  for (const std::string& path : paths) {
    const std::string state = TextAt(absl::StrCat(trees.sys, "/block/", path, "/device/state"));
    // SCSI's and NVMe's words.
    if (state != "running" && state != "live" && !state.empty()) down.push_back(path);
  }
  const std::string text =
      absl::StrCat(paths.size() - down.size(), " of ", paths.size(), " paths by ", std::string(by));
  if (!down.empty()) {
    return {text, absl::StrCat("mend ", absl::StrJoin(down, ", "), ": ", std::string(lister),
                               " shows them")};
  }
  if (paths.size() > 1) return {text, ""};
  return {text, "one path is no reserve: log in by the other portal, or see its cable"};
}

// Of an NVMe namespace "nvme0n1": the hidden disks "nvme0c1n1". None without native multipath.
std::vector<std::string> PathsOfNamespace(const HostTrees& trees, const std::string& device) {
  const std::size_t place = device.find('n', 1);
  if (!device.starts_with("nvme") || place == device.npos) return {};
  const std::string begin = device.substr(0, place) + "c";
  const std::string end = device.substr(place);
  std::vector<std::string> paths = NamesIn(trees.sys + "/block");
  std::erase_if(paths, [&](const std::string& name) {
    return !name.starts_with(begin) || !name.ends_with(end);
  });
  return paths;
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
  if (IsMultipath(trees, device)) {
    return CountPaths(trees, NamesIn(absl::StrCat(trees.sys, "/block/", device, "/slaves")),
                      "multipath", "multipath -ll");
  }
  const std::vector<std::string> of_namespace = PathsOfNamespace(trees, device);
  if (!of_namespace.empty()) return CountPaths(trees, of_namespace, "NVMe", "nvme list-subsys");
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
