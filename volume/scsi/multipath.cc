#include "volume/scsi/multipath.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "volume/lun/fd_lun.h"

namespace reel {
namespace {

std::string LineOf(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

std::string NumberText(dev_t device) {
  return absl::StrCat(major(device), ":", minor(device));
}

DevicePath LostPath(std::string name) {
  return {std::move(name), [](unsigned long, void*) {
            errno = EIO;
            return -1;
          }};
}

// Not to claim it: the device mapper has. Read-only, for who closes a file for writing makes udev
// look at the device. Nothing: it is there, and cannot be opened here.
std::optional<DevicePath> OpenPath(const std::string& name, const std::string& number) {
  auto file = std::make_shared<UniqueFd>(open(name.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!file->valid()) {
    if (errno == ENXIO || errno == ENODEV || errno == EIO) return LostPath(name);
    return std::nullopt;
  }
  struct stat facts {};
  if (fstat(file->get(), &facts) != 0 || NumberText(facts.st_rdev) != number) return std::nullopt;
  return DevicePath(name, [file = std::move(file)](unsigned long request, void* argument) {
    return ioctl(file->get(), request, argument);
  });
}

}  // namespace

std::vector<DevicePath> MultipathPaths(dev_t device, const std::string& sys,
                                       const std::string& dev) {
  const std::filesystem::path mapped = absl::StrCat(sys, "/dev/block/", NumberText(device));
  if (!absl::StartsWith(LineOf(mapped / "dm/uuid"), "mpath-")) return {};
  std::vector<DevicePath> paths;
  // (A path may go while they are listed: nothing here throws.)
  std::error_code error;
  for (std::filesystem::directory_iterator entry(mapped / "slaves", error), end;
       !error && entry != end; entry.increment(error)) {
    const std::filesystem::path& slave = entry->path();
    const std::string name = absl::StrCat(dev, "/", slave.filename().string());
    // A SCSI device that has lost its port blocks whoever asks it until the kernel gives it up.
    const std::string state = LineOf(slave / "device/state");
    const bool reached = state.empty() || state == "running";
    auto path = reached ? OpenPath(name, LineOf(slave / "dev")) : LostPath(name);
    if (!path) return {};
    paths.push_back(*std::move(path));
  }
  std::ranges::sort(paths, {}, &DevicePath::name);
  return paths;
}

}  // namespace reel
