#include "proto/tls/tls_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace reel {
namespace {

constexpr std::size_t kMaxFileBytes = 1 << 20;

}  // namespace

std::string TlsFile::text() const {
  return absl::StrCat(key, " ", absl::CHexEscape(path));
}

absl::Status TlsFile::Wrong(std::string_view what) const {
  return absl::InvalidArgumentError(absl::StrCat(text(), " ", std::string(what)));
}

absl::StatusOr<std::string> TlsFile::Read(bool secret) const {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    const int error = errno;
    const std::string message = absl::StrCat(text(), ": ", std::strerror(error));
    return error == ENOENT   ? absl::NotFoundError(message)
           : error == EACCES ? absl::PermissionDeniedError(message)
                             : absl::InvalidArgumentError(message);
  }
  const absl::Cleanup closing = [fd] { close(fd); };
  struct stat stat {};
  if (fstat(fd, &stat) != 0 || !S_ISREG(stat.st_mode)) return Wrong("is no regular file");
  if (secret && (stat.st_mode & S_IRWXO) != 0) {
    return Wrong("may be read or written by everyone; keep it secret: chmod o= on it");
  }
  std::string bytes(kMaxFileBytes + 1, '\0');
  std::size_t size = 0;
  while (size < bytes.size()) {
    const ssize_t count = read(fd, bytes.data() + size, bytes.size() - size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Wrong(absl::StrCat("cannot be read: ", std::strerror(errno)));
    if (count == 0) break;
    size += static_cast<std::size_t>(count);
  }
  if (size > kMaxFileBytes) return Wrong("is longer than 1 MiB: neither certificate nor key");
  bytes.resize(size);
  return bytes;
}

bool TlsFileSign::LookAgain(const std::string& path) {
  std::array<std::int64_t, 7> now{};
  struct stat stat {};
  if (::stat(path.c_str(), &stat) == 0) {
    now = {static_cast<std::int64_t>(stat.st_dev),
           static_cast<std::int64_t>(stat.st_ino),
           stat.st_size,
           stat.st_mtim.tv_sec,
           stat.st_mtim.tv_nsec,
           stat.st_ctim.tv_sec,
           stat.st_ctim.tv_nsec};
  }
  return std::exchange(sign_, now) != now;
}

}  // namespace reel
