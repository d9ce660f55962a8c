#include "client/mount/remount.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/fuse/remount_message.h"
#include "client/mount/tables/mount_table.h"
#include "volume/lun/fd_lun.h"

namespace reel::client {

namespace {

// The first option that differs and was fixed by the mount; null where there is none.
const char* FixedOption(const MountOptions& now, const MountOptions& wanted) {
  const auto facts = [](const TlsFiles& tls) { return std::tie(tls.ca, tls.cert, tls.key); };
  const std::pair<const char*, bool> rows[] = {
      {"mdc", now.mdcs == wanted.mdcs},
      {"luns", now.luns == wanted.luns},
      {"tls_ca, tls_cert, tls_key", facts(now.tls) == facts(wanted.tls)},
      {"config", now.config_file == wanted.config_file},
      {"log", now.log_file == wanted.log_file},
      {"cache", now.cache == wanted.cache},
      {"nommap", now.direct_io_mmap == wanted.direct_io_mmap},
      {"uring", now.uring == wanted.uring},
      {"awake", now.awake == wanted.awake},
      {"web_listen", now.web_listen == wanted.web_listen},
      {"nokeepnames", now.keep_names == wanted.keep_names},
      {"threads", now.threads == wanted.threads},
      {"allow_other", now.allow_other == wanted.allow_other},
      {"sync, dirsync", now.durable_names == wanted.durable_names},
  };
  for (const auto& [name, same] : rows) {
    if (!same) return name;
  }
  return nullptr;
}

absl::Status Ask(int root, unsigned command, absl::string_view list) {
  RemountMessage message{};
  if (list.size() >= sizeof(message.text)) {
    return absl::InvalidArgumentError("the options are too long for a remount");
  }
  std::memcpy(message.text, list.data(), list.size());
  if (ioctl(root, command, &message) != 0) {
    return absl::ErrnoToStatus(errno, "asking the client of the mount");
  }
  const std::size_t length = strnlen(message.text, sizeof(message.text));
  if (length == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::string_view(message.text, length));
}

}  // namespace

absl::StatusOr<MountOptions> Remounted(const MountOptions& now, absl::string_view list) {
  MountOptions wanted = now;
  wanted.mdcs.clear();
  wanted.luns.clear();
  if (absl::Status status = ApplyOptionList(list, wanted); !status.ok()) return status;
  if (wanted.mdcs.empty()) wanted.mdcs = now.mdcs;
  if (wanted.luns.empty()) wanted.luns = now.luns;
  if (const char* const fixed = FixedOption(now, wanted)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a remount cannot change ", fixed, ": unmount, and mount anew"));
  }
  return wanted;
}

absl::Status Remount(const MountOptions& options) {
  if (!IsOurs(MountedAt(options.mount_point))) {
    return absl::NotFoundError("no ReelFS volume is mounted there");
  }
  const UniqueFd root(open(options.mount_point.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!root.valid()) return absl::ErrnoToStatus(errno, "opening it");
  const std::string list = absl::StrJoin(options.given, ",");
  if (absl::Status status = Ask(root.get(), kCheckRemount, list); !status.ok()) return status;
  const absl::StatusOr<unsigned long> now = FlagsOfMount(options.mount_point);
  if (!now.ok()) return now.status();
  absl::Status status = RemountWith(options.mount_point, options.flags.On(*now));
  return status.ok() ? Ask(root.get(), kApplyRemount, list) : status;
}

}  // namespace reel::client
