#include "client/mount/log_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"

namespace reel::client {
namespace {

absl::StatusOr<UniqueFd> OpenFile(const std::string& path) {
  UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!file.valid()) return absl::ErrnoToStatus(errno, absl::StrCat("log=", path));
  return file;
}

}  // namespace

absl::StatusOr<std::shared_ptr<LogFile>> LogFile::Open(const std::string& path) {
  absl::StatusOr<UniqueFd> file = OpenFile(path);
  if (!file.ok()) return file.status();
  return std::make_shared<LogFile>(path, *std::move(file));
}

absl::Status LogFile::Reopen() {
  absl::StatusOr<UniqueFd> file = OpenFile(path_);
  if (!file.ok()) return file.status();
  const std::lock_guard<std::mutex> lock(mutex_);
  file_ = *std::move(file);
  return absl::OkStatus();
}

void LogFile::sink_it_(const spdlog::details::log_msg& message) {
  spdlog::memory_buf_t line;
  formatter_->format(message, line);
  // Where the disk is full the line is lost, and nobody could be told.
  (void)!write(file_.get(), line.data(), line.size());
}

}  // namespace reel::client
