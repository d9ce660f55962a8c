#include "client/mount/mount_flags.h"

#include <sys/mount.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "absl/strings/str_cat.h"

namespace reel::client {
namespace {

// Newer than this system's <sys/mount.h> and <sys/statvfs.h>: Linux 5.10.
constexpr unsigned long kNoSymFollow = 256;
constexpr unsigned long kStatNoSymFollow = 0x2000;

constexpr unsigned long kAccessTimes = MS_NOATIME | MS_RELATIME | MS_STRICTATIME;

struct Word {
  std::string_view word;
  unsigned long set, clear;
};

constexpr std::array<Word, 20> kWords = {{
    {"ro", MS_RDONLY, 0},
    {"rw", 0, MS_RDONLY},
    {"nosuid", MS_NOSUID, 0},
    {"suid", 0, MS_NOSUID},
    {"nodev", MS_NODEV, 0},
    {"dev", 0, MS_NODEV},
    {"noexec", MS_NOEXEC, 0},
    {"exec", 0, MS_NOEXEC},
    {"sync", MS_SYNCHRONOUS, 0},
    {"async", 0, MS_SYNCHRONOUS},
    {"nosymfollow", kNoSymFollow, 0},
    {"symfollow", 0, kNoSymFollow},
    {"nodiratime", MS_NODIRATIME, 0},
    {"diratime", 0, MS_NODIRATIME},
    {"noatime", MS_NOATIME, kAccessTimes},
    {"atime", MS_RELATIME, kAccessTimes},
    {"relatime", MS_RELATIME, kAccessTimes},
    {"nostrictatime", MS_RELATIME, kAccessTimes},
    {"norelatime", MS_STRICTATIME, kAccessTimes},
    {"strictatime", MS_STRICTATIME, kAccessTimes},
}};

absl::Status Set(const std::string& mount_point, unsigned long flags) {
  if (mount("none", mount_point.c_str(), nullptr, flags, nullptr) == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, absl::StrCat("mount(2) of ", mount_point));
}

}  // namespace

bool MountFlags::Apply(std::string_view word) {
  for (const Word& known : kWords) {
    if (known.word != word) continue;
    set = (set & ~known.clear) | known.set;
    clear = (clear & ~known.set) | known.clear;
    return true;
  }
  return false;
}

absl::StatusOr<unsigned long> FlagsOfMount(const std::string& mount_point) {
  struct statvfs facts {};
  if (statvfs(mount_point.c_str(), &facts) != 0) return absl::ErrnoToStatus(errno, mount_point);
  constexpr unsigned long kAlike =
      ST_RDONLY | ST_NOSUID | ST_NODEV | ST_NOEXEC | ST_SYNCHRONOUS | ST_NOATIME | ST_NODIRATIME;
  unsigned long flags = facts.f_flag & kAlike;
  if ((facts.f_flag & kStatNoSymFollow) != 0) flags |= kNoSymFollow;
  if ((facts.f_flag & ST_RELATIME) != 0) {
    flags |= MS_RELATIME;
  } else if ((facts.f_flag & ST_NOATIME) == 0) {
    flags |= MS_STRICTATIME;
  }
  return flags;
}

absl::Status CompleteFlags(const std::string& mount_point, const MountFlags& flags) {
  // The client keeps access times, the kernel none: those flags only show how.
  constexpr unsigned long kShown = MS_NODIRATIME | MS_STRICTATIME;
  if ((flags.set & (kShown | kNoSymFollow)) == 0) return absl::OkStatus();
  if (geteuid() != 0 && (flags.set & kNoSymFollow) == 0) return absl::OkStatus();
  const absl::StatusOr<unsigned long> now = FlagsOfMount(mount_point);
  if (!now.ok()) return now.status();
  return Set(mount_point, MS_REMOUNT | MS_BIND | flags.On(*now));
}

absl::Status RemountWith(const std::string& mount_point, unsigned long flags) {
  return Set(mount_point, MS_REMOUNT | flags);
}

}  // namespace reel::client
