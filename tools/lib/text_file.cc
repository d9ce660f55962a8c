#include "tools/lib/text_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"

namespace reel::tools {
namespace {

absl::Status TextFileError(std::string_view what, const std::string& path) {
  const int error = errno;
  const std::string message =
      absl::StrCat("cannot ", std::string(what), " ", path, ": ", std::strerror(error));
  return error == ENOENT   ? absl::NotFoundError(message)
         : error == EACCES ? absl::PermissionDeniedError(message)
                           : absl::UnavailableError(message);
}

}  // namespace

absl::StatusOr<std::string> ReadTextFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return TextFileError("open", path);
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (file.bad()) return TextFileError("read", path);
  return text;
}

absl::Status WriteTextFile(const std::string& path, const std::string& text, mode_t mode) {
  const std::string fresh = path + ".new";
  unlink(fresh.c_str());  // of a run that was interrupted
  const int fd = open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
  if (fd < 0) return TextFileError("make", fresh);
  bool good = fchmod(fd, mode) == 0;
  for (std::size_t done = 0; good && done < text.size();) {
    const ssize_t count = write(fd, text.data() + done, text.size() - done);
    good = count > 0;
    done += good ? static_cast<std::size_t>(count) : 0;
  }
  good = good && fsync(fd) == 0;
  absl::Status status = good ? absl::OkStatus() : TextFileError("write", fresh);
  close(fd);
  if (good && std::rename(fresh.c_str(), path.c_str()) != 0) status = TextFileError("write", path);
  if (!status.ok()) unlink(fresh.c_str());
  return status;
}

}  // namespace reel::tools
