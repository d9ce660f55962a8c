#include "client/fuse/request/request_times.h"

#include <linux/fuse.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "client/fuse/request/kernel_request.h"

namespace reel::client {
namespace {

constexpr std::pair<std::uint32_t, std::string_view> kNames[] = {
    {FUSE_LOOKUP, "lookup"},
    {FUSE_FORGET, "forget"},
    {FUSE_GETATTR, "getattr"},
    {FUSE_SETATTR, "setattr"},
    {FUSE_READLINK, "readlink"},
    {FUSE_SYMLINK, "symlink"},
    {FUSE_MKNOD, "mknod"},
    {FUSE_MKDIR, "mkdir"},
    {FUSE_UNLINK, "unlink"},
    {FUSE_RMDIR, "rmdir"},
    {FUSE_RENAME, "rename"},
    {FUSE_LINK, "link"},
    {FUSE_OPEN, "open"},
    {FUSE_READ, "read"},
    {FUSE_WRITE, "write"},
    {FUSE_STATFS, "statfs"},
    {FUSE_RELEASE, "release"},
    {FUSE_FSYNC, "fsync"},
    {FUSE_SETXATTR, "setxattr"},
    {FUSE_GETXATTR, "getxattr"},
    {FUSE_LISTXATTR, "listxattr"},
    {FUSE_REMOVEXATTR, "removexattr"},
    {FUSE_FLUSH, "flush"},
    {FUSE_INIT, "init"},
    {FUSE_OPENDIR, "opendir"},
    {FUSE_READDIR, "readdir"},
    {FUSE_RELEASEDIR, "releasedir"},
    {FUSE_FSYNCDIR, "fsyncdir"},
    {FUSE_GETLK, "getlk"},
    {FUSE_SETLK, "setlk"},
    {FUSE_SETLKW, "setlkw"},
    {FUSE_CREATE, "create"},
    {FUSE_INTERRUPT, "interrupt"},
    {FUSE_DESTROY, "destroy"},
    {FUSE_IOCTL, "ioctl"},
    {FUSE_BATCH_FORGET, "batch_forget"},
    {FUSE_FALLOCATE, "fallocate"},
    {FUSE_READDIRPLUS, "readdirplus"},
    {FUSE_RENAME2, "rename2"},
    {FUSE_LSEEK, "lseek"},
    {FUSE_SYNCFS, "syncfs"},
    {kOpTmpfile, "tmpfile"},
    {kOpStatx, "statx"},
};

// By opcode; empty: this release does not know it.
constexpr auto kNameOf = [] {
  std::array<std::string_view, RequestTimes::kOpcodes> names{};
  for (const auto& [opcode, name] : kNames) names[opcode] = name;
  return names;
}();
// No request has it: for those that have no name.
constexpr std::uint32_t kOther = 0;

// A thread's place, for its life.
std::size_t PlaceOfThread() {
  static std::atomic<std::size_t> next{0};
  thread_local const std::size_t place = next.fetch_add(1, std::memory_order_relaxed);
  return place;
}

}  // namespace

void RequestTimes::Add(std::uint32_t opcode, int error, std::uint64_t us) {
  const bool known = opcode < kOpcodes && !kNameOf[opcode].empty();
  const std::uint32_t at = known ? opcode : kOther;
  (*places_)[PlaceOfThread() % kPlaces].times[at].Add(us);
  if (error <= 0) return;
  const std::size_t number = std::min<std::size_t>(static_cast<std::size_t>(error), kErrors - 1);
  errors_[at][number].fetch_add(1, std::memory_order_relaxed);
}

std::vector<RequestTimes::Kind> RequestTimes::Kinds() const {
  std::vector<Kind> kinds;
  for (std::uint32_t opcode = 0; opcode < kOpcodes; ++opcode) {
    Kind kind{.name = std::string(opcode == kOther ? "other" : kNameOf[opcode]),
              .times = {},
              .errors = {}};
    for (const Place& place : *places_) place.times[opcode].AddTo(kind.times);
    if (kind.times.empty()) continue;
    for (std::size_t error = 1; error < kErrors; ++error) {
      const std::uint64_t count = errors_[opcode][error].load(std::memory_order_relaxed);
      if (count > 0) kind.errors.push_back({static_cast<int>(error), count});
    }
    kinds.push_back(std::move(kind));
  }
  return kinds;
}

}  // namespace reel::client
