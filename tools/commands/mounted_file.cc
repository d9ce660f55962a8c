#include "tools/commands/mounted_file.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tools/lib/text_file.h"

namespace reel::tools {

std::string VolumeOfDevice(std::string_view mountinfo, unsigned int major, unsigned int minor) {
  const std::string device = absl::StrCat(major, ":", minor);
  for (const std::string& line :
       std::vector<std::string>(absl::StrSplit(std::string(mountinfo), '\n'))) {
    const std::vector<std::string> halves = absl::StrSplit(line, absl::MaxSplits(" - ", 1));
    if (halves.size() != 2) continue;
    const std::vector<std::string> mount = absl::StrSplit(halves[0], ' ');
    const std::vector<std::string> type = absl::StrSplit(halves[1], ' ');
    if (mount.size() < 3 || mount[2] != device || type.size() < 2) continue;
    return type[0] == "fuse.reelfs" ? type[1] : "";
  }
  return {};
}

std::optional<MountedFile> FindMounted(const std::string& path) {
  struct stat file {};
  if (stat(path.c_str(), &file) != 0) return std::nullopt;
  const auto mounts = ReadTextFile("/proc/self/mountinfo");
  if (!mounts.ok()) return std::nullopt;
  MountedFile found{.volume = VolumeOfDevice(*mounts, major(file.st_dev), minor(file.st_dev)),
                    .inode = file.st_ino};
  if (found.volume.empty()) return std::nullopt;
  return found;
}

}  // namespace reel::tools
