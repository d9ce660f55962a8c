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
  return facts.stx_dev_minor;
}

}  // namespace

std::optional<std::uint32_t> ConnectionOf(const std::string& mount_point) {
  return NumberOf(OpenRoot(mount_point));
}

std::optional<FuseConnection> FuseConnection::Pin(const std::string& mount_point, int dev_fuse,
                                                  std::uint32_t number) {
  UniqueFd root = OpenRoot(mount_point);
  pollfd alive{.fd = dev_fuse, .events = 0, .revents = 0};
  if (poll(&alive, 1, 0) != 0 || NumberOf(root) != number) return std::nullopt;
  return FuseConnection(std::move(root), number);
}

bool FuseConnection::Abort() const {
  const std::string path = absl::StrCat("/sys/fs/fuse/connections/", number_, "/abort");
  const UniqueFd abort(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  return abort.valid() && write(abort.get(), "1", 1) == 1;
}

}  // namespace reel::client
