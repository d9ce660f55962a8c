#include "client/mount/tables/mount_watch.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>

#include <cerrno>

#include "client/mount/tables/mount_table.h"

namespace reel::client {
namespace {

// <linux/nsfs.h> of Linux 6.12.
struct MountNamespaceInfo {
  std::uint32_t size_bytes;
  std::uint32_t mounts;
  std::uint64_t id;
};
constexpr unsigned long kNextNamespace = _IOR(0xb7, 11, MountNamespaceInfo);
constexpr unsigned long kPreviousNamespace = _IOR(0xb7, 12, MountNamespaceInfo);

// More of them are not looked at one by one.
constexpr std::size_t kMostNamespaces = 1'000;

}  // namespace

MountWatch::MountWatch(std::string device, const Clock& clock)
    : device_(std::move(device)),
      clock_(clock),
      own_table_(open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC)),
      own_namespace_(open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC)) {}

// (Which of them are younger, their order does not say.)
std::optional<MountWatch::Namespaces> MountWatch::Look() const {
  Namespaces found;
  if (!own_table_.valid() || !own_namespace_.valid()) return std::nullopt;
  if (!Follow(kNextNamespace, found) || !Follow(kPreviousNamespace, found)) return std::nullopt;
  return found;
}

bool MountWatch::Follow(unsigned long step, Namespaces& found) const {
  UniqueFd last;
  for (;;) {
    MountNamespaceInfo info{.size_bytes = sizeof(MountNamespaceInfo), .mounts = 0, .id = 0};
    UniqueFd next(ioctl(last.valid() ? last.get() : own_namespace_.get(), step, &info));
    if (!next.valid()) return errno == ENOENT;
    if (found.size() >= kMostNamespaces) return false;
    found.emplace_back(info.id, info.mounts);
    last = std::move(next);
  }
}

// Since the last call.
bool MountWatch::OwnHasChanged() const {
  pollfd table{.fd = own_table_.get(), .events = POLLPRI, .revents = 0};
  return poll(&table, 1, 0) != 0;
}

bool MountWatch::AnyUpon() {
  MutexLock lock(mutex_);
  const std::uint64_t now_ms = clock_.NowMs();
  // (Looked at before the tables are read: what changes meanwhile is seen the next time.)
  std::optional<Namespaces> now = Look();
  const bool changed = !now || OwnHasChanged() || now != seen_;
  if (!changed && now_ms < read_ms_ + kCountsMs) return upon_;
  seen_ = std::move(now);
  read_ms_ = now_ms;
  ++readings_;
  upon_ = IsMountedUpon(device_);
  return upon_;
}

std::uint64_t MountWatch::readings() const {
  MutexLock lock(mutex_);
  return readings_;
}

}  // namespace reel::client
