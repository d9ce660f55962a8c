// A file that is seen here through a mount of ReelFS: which volume, which inode.
// Threads: any.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace reel::tools {

struct MountedFile {
  std::string volume;
  std::uint64_t inode = 0;
};
// Nothing: there is no such file here, or it is of another file system.
std::optional<MountedFile> FindMounted(const std::string& path);

// The volume that is mounted with that device number, by a table of proc(5), /proc/PID/mountinfo;
// empty: none is.
std::string VolumeOfDevice(std::string_view mountinfo, unsigned int major, unsigned int minor);

}  // namespace reel::tools
