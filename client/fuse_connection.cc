#include "client/fuse_connection.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"

namespace reel::client {
namespace {

UniqueFd OpenRoot(const std::string& mount_point) {
  return UniqueFd(open(mount_point.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
}

std::optional<std::uint32_t> NumberOf(const UniqueFd& root) {
  struct statx facts {};
  const int flags = AT_EMPTY_PATH | AT_STATX_DONT_SYNC;
  if (!root.valid() || statx(root.get(), "", flags, 0, &facts) != 0) return std::nullopt;
  // A file system without a device of its own, as FUSE's are.
  return facts.stx_dev_major == 0 ? std::optional(facts.stx_dev_minor) : std::nullopt;
}

}  // namespace

std::optional<std::uint32_t> ConnectionOf(const std::string& mount_point) {
  return NumberOf(OpenRoot(mount_point));
}

std::optional<FuseConnection> FuseConnection::Pin(const std::string& mount_point, int dev_fuse,
                                                  std::uint32_t number) {
  const auto is_alive = [dev_fuse] {
    pollfd alive{.fd = dev_fuse, .events = 0, .revents = 0};
    return poll(&alive, 1, 0) == 0;
  };
  if (!is_alive()) return std::nullopt;  // whatever is there now is not ours to look at
  UniqueFd root = OpenRoot(mount_point);
  if (!is_alive() || NumberOf(root) != number) return std::nullopt;
  return FuseConnection(std::move(root), number);
}

bool FuseConnection::Abort() const {
  const std::string path = absl::StrCat("/sys/fs/fuse/connections/", number_, "/abort");
  const UniqueFd abort(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  return abort.valid() && write(abort.get(), "1", 1) == 1;
}

}  // namespace reel::client
