#include "tools/doctor/doctor_kernel.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <tuple>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace reel::tools {
namespace {

// Each connection of a controller takes up to two.
constexpr std::uint64_t kFilesOfController = 32'768;
constexpr std::uint64_t kFilesOfMount = 4'096;
constexpr std::uint64_t kWantedLockedBytes = 8ULL << 20;
constexpr long kSlowClockUs = 100'000;

struct KernelFeature {
  int major, minor;
  const char* what;
};
constexpr KernelFeature kFeatures[] = {
    {6, 6, "shared maps of files past the page cache (6.6)"},
    {6, 14, "FUSE over io_uring (6.14)"},
    {6, 16, "names kept by the kernel (6.16)"},
};

// The hard limit of a line such as "Max open files   1024   524288   files".
std::uint64_t LimitOf(std::string_view limits, std::string_view name) {
  const std::size_t at = limits.find(name);
  if (at == limits.npos) return UINT64_MAX;
  const std::string_view rest = limits.substr(at + name.size());
  const std::vector<std::string> fields =
      absl::StrSplit(absl::string_view(rest.data(), std::min(rest.find('\n'), rest.size())), ' ',
                     absl::SkipWhitespace());
  std::uint64_t limit = 0;
  const bool number = fields.size() > 1 && absl::SimpleAtoi(fields[1], &limit);
  return number ? limit : UINT64_MAX;  // "unlimited"
}

Finding LimitsOf(const std::string& who, const std::string& limits, std::uint64_t wanted_files,
                 const std::string& todo) {
  const std::uint64_t files = LimitOf(limits, "Max open files");
  const std::uint64_t locked = LimitOf(limits, "Max locked memory");
  const auto text = [](std::uint64_t limit) {
    return limit == UINT64_MAX ? std::string("unlimited") : absl::StrCat(limit);
  };
  const std::string seen =
      absl::StrCat(text(files), " open files, ", text(locked), " bytes of locked memory");
  if (files >= wanted_files && locked >= kWantedLockedBytes) {
    return Finding::Ok("limits", who, seen);
  }
  return Finding::Warning("limits", who, seen, todo);
}

// Of the module fuse.
constexpr char kEnableUring[] = "/module/fuse/parameters/enable_uring";

Finding OverUringFinding(const std::string& parameter) {
  if (parameter == "Y") return Finding::Ok("fuse", "over io_uring", "is offered by the kernel");
  if (parameter.empty()) {
    return Finding::Ok("fuse", "over io_uring", "is not in this kernel: mounts go by /dev/fuse");
  }
  return Finding::Warning(
      "fuse", "over io_uring",
      "is not offered by the kernel: calls on names are several times slower by /dev/fuse",
      absl::StrCat("echo Y > /sys", kEnableUring,
                   ", and mount anew; at boot: `options fuse enable_uring=1` in /etc/modprobe.d"));
}

constexpr char kMaxPages[] = "/sys/fs/fuse/max_pages_limit";

Finding RequestFinding(const std::string& max_pages) {
  constexpr std::uint64_t kWantedBytes = 4 << 20;
  const auto page_bytes = static_cast<std::uint64_t>(getpagesize());
  std::uint64_t pages = 0;
  if (!absl::SimpleAtoi(max_pages, &pages)) {
    return Finding::Ok("fuse", "requests", "are of up to 1 MiB in this kernel");
  }
  if (pages >= kWantedBytes / page_bytes) {
    return Finding::Ok("fuse", "requests", "are of up to 4 MiB");
  }
  return Finding::Warning("fuse", "requests",
                          absl::StrCat("are of up to ", pages * page_bytes / 1024,
                                       " KiB: a large read or write goes to fewer LUNs at once"),
                          absl::StrCat("sysctl fs.fuse.max_pages_limit=", kWantedBytes / page_bytes,
                                       ", and mount anew; at boot: the same in /etc/sysctl.d"));
}

}  // namespace

Finding KernelFinding(std::string_view release) {
  int major = 0;
  int minor = 0;
  const std::string text(release);
  if (std::sscanf(text.c_str(), "%d.%d", &major, &minor) != 2) {
    return Finding::Warning("kernel", "", absl::StrCat(text, ": of no known version"), "");
  }
  if (std::tie(major, minor) < std::make_tuple(6, 1)) {
    return Finding::Warning("kernel", "", absl::StrCat("Linux ", text, " is older than 6.1"),
                            "ReelFS is tried on 6.1 and later: upgrade it");
  }
  std::vector<std::string> lacks;
  for (const KernelFeature& feature : kFeatures) {
    if (std::tie(major, minor) < std::tie(feature.major, feature.minor)) {
      lacks.emplace_back(feature.what);
    }
  }
  return Finding::Ok(
      "kernel", "",
      absl::StrCat("Linux ", text, lacks.empty() ? "" : ", without ", absl::StrJoin(lacks, ", ")));
}

std::vector<Finding> FuseFindings(const HostTrees& trees) {
  std::vector<Finding> findings;
  const std::string device = trees.dev + "/fuse";
  if (access(device.c_str(), R_OK | W_OK) == 0) {
    findings.push_back(Finding::Ok("fuse", device, "is there"));
  } else {
    findings.push_back(Finding::Failure(
        "fuse", device, absl::StrCat("cannot be used: ", std::strerror(errno)),
        "modprobe fuse, as root (in a container: give it the device); no mount works without"));
  }
  const std::string mounts = TextAt(trees.proc + "/self/mountinfo");
  if (mounts.find(" - fusectl ") != mounts.npos) {
    findings.push_back(Finding::Ok("fuse", "fusectl", "is mounted"));
  } else {
    findings.push_back(Finding::Warning(
        "fuse", "fusectl", "is not mounted: a mount that hangs cannot be aborted by hand",
        "mount -t fusectl fusectl /sys/fs/fuse/connections"));
  }
  findings.push_back(OverUringFinding(TextAt(trees.sys + kEnableUring)));
  findings.push_back(RequestFinding(TextAt(trees.proc + kMaxPages)));
  return findings;
}

int AskForUring() {
  return syscall(SYS_io_uring_setup, 1, nullptr) < 0 ? errno : 0;
}

Finding UringFinding(int error) {
  if (error != ENOSYS && error != EPERM && error != EACCES) {
    return Finding::Ok("io_uring", "", "is allowed");
  }
  return Finding::Warning(
      "io_uring", "",
      absl::StrCat("is refused (", std::strerror(error), "): one request a LUN at a time"),
      "allow it: sysctl kernel.io_uring_disabled=0, or the container's seccomp profile");
}

Finding ClockFinding(int state, const timex& clock) {
  if (state < 0) {
    return Finding::Warning("clock", "", "cannot be asked", "see timedatectl(1)");
  }
  if (state == TIME_ERROR || (clock.status & STA_UNSYNC) != 0) {
    return Finding::Warning(
        "clock", "", "is not synchronised: times of files and dates of certificates go by it",
        "apt install chrony, or timedatectl set-ntp true, on every host");
  }
  const std::string text =
      absl::StrCat("is synchronised, to ", (clock.maxerror + 999) / 1000, " ms");
  if (clock.maxerror <= kSlowClockUs) return Finding::Ok("clock", "", text);
  return Finding::Warning("clock", "", text, "name a time server that is nearer");
}

Finding ReadClock() {
  timex clock{};
  const int state = adjtimex(&clock);
  return ClockFinding(state, clock);
}

std::vector<std::string> ProcessesNamed(const HostTrees& trees, std::string_view name) {
  std::vector<std::string> found;
  for (const std::string& pid : NamesIn(trees.proc)) {
    if (pid.find_first_not_of("0123456789") != pid.npos) continue;
    if (TextAt(absl::StrCat(trees.proc, "/", pid, "/comm")) == name) found.push_back(pid);
  }
  return found;
}

std::vector<Finding> LimitFindings(const HostTrees& trees) {
  std::vector<Finding> findings;
  for (const auto& [program, wanted] :
       {std::pair("reel-mdcd", kFilesOfController), std::pair("mount.reelfs", kFilesOfMount)}) {
    for (const std::string& pid : ProcessesNamed(trees, program)) {
      findings.push_back(LimitsOf(absl::StrCat(program, " (", pid, ")"),
                                  TextAt(absl::StrCat(trees.proc, "/", pid, "/limits")), wanted,
                                  "set LimitNOFILE=65536 and LimitMEMLOCK=infinity in its unit"));
    }
  }
  if (findings.empty()) {
    findings.push_back(LimitsOf("this shell", TextAt(trees.proc + "/self/limits"), kFilesOfMount,
                                "start programs by systemd, or raise ulimit -Hn and ulimit -Hl"));
  }
  return findings;
}

}  // namespace reel::tools
