#include "tools/doctor/doctor_mounts.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace reel::tools {
namespace {

struct MountLine {
  std::string source, directory;
};

bool IsReelfs(std::string_view type) {
  return type == "reelfs" || type == "fuse.reelfs";
}

std::vector<std::vector<std::string>> FieldsOf(const std::string& path) {
  std::vector<std::vector<std::string>> lines;
  const std::string text = TextAt(path);
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    lines.push_back(absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty()));
  }
  return lines;
}

// proc(5): ID PARENT DEVICE ROOT WHERE OPTIONS [TAGS…] - TYPE SOURCE OPTIONS
std::vector<MountLine> Mounted(const HostTrees& trees) {
  std::vector<MountLine> mounts;
  for (const auto& fields : FieldsOf(trees.proc + "/self/mountinfo")) {
    const auto dash = std::find(fields.begin(), fields.end(), "-");
    if (fields.end() - dash < 3 || dash - fields.begin() < 5 || !IsReelfs(dash[1])) continue;
    mounts.push_back({dash[2], fields[4]});
  }
  return mounts;
}

std::vector<MountLine> Wanted(const HostTrees& trees) {
  std::vector<MountLine> mounts;
  for (const auto& fields : FieldsOf(trees.etc + "/fstab")) {
    if (fields.size() < 3 || fields[0].starts_with('#') || !IsReelfs(fields[2])) continue;
    mounts.push_back({fields[0], fields[1]});
  }
  return mounts;
}

Finding LookAtMount(const MountLine& mount, const DirectoryProbe& probe) {
  const std::string text = absl::StrCat("volume ", mount.source);
  const std::optional<int> error = probe(mount.directory);
  if (error == 0) return Finding::Ok("mount", mount.directory, text);
  if (!error) {
    return Finding::Failure("mount", mount.directory, absl::StrCat(text, " does not answer"),
                            "see the lines on controllers and LUNs, and the client's log");
  }
  if (*error == ENOTCONN) {
    return Finding::Failure("mount", mount.directory, absl::StrCat(text, ": its client has died"),
                            absl::StrCat("umount -l ", mount.directory, ", and mount it again"));
  }
  return Finding::Failure("mount", mount.directory, absl::StrCat(text, ": ", std::strerror(*error)),
                          "see the client's log");
}

}  // namespace

std::vector<Finding> MountFindings(const HostTrees& trees, const DirectoryProbe& probe) {
  std::vector<Finding> findings;
  const std::vector<MountLine> mounted = Mounted(trees);
  const std::vector<MountLine> wanted = Wanted(trees);
  for (const MountLine& mount : mounted) {
    findings.push_back(LookAtMount(mount, probe));
  }
  for (const MountLine& line : wanted) {
    const bool is_there = std::any_of(mounted.begin(), mounted.end(), [&](const MountLine& mount) {
      return mount.directory == line.directory;
    });
    if (is_there) continue;
    findings.push_back(Finding::Warning(
        "mount", line.directory,
        absl::StrCat("volume ", line.source, " of ", trees.etc, "/fstab is not mounted"),
        absl::StrCat("mount ", line.directory)));
  }
  if (mounted.empty() && wanted.empty()) {
    findings.push_back(Finding::Warning("mount", "", "no volume is mounted here, nor in fstab(5)",
                                        "mount -t reelfs VOLUME DIR"));
  }
  return findings;
}

}  // namespace reel::tools
