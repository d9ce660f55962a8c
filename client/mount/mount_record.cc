#include "client/mount/mount_record.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "absl/strings/str_cat.h"

namespace reel::client {
namespace {

// What a client says that has lost nothing.
constexpr char kDone[] = "done";
// A lock cannot be waited for with a limit.
constexpr std::chrono::milliseconds kPoll{10};

absl::Status Failed(const std::string& path) {
  return absl::InternalError(absl::StrCat(path, ": ", std::strerror(errno)));
}

}  // namespace

absl::StatusOr<MountRecord> MountRecord::Create(const std::string& device,
                                                const std::string& directory) {
  if (mkdir(directory.c_str(), 0755) != 0 && errno != EEXIST) return Failed(directory);
  std::string path = absl::StrCat(directory, "/", device);
  if (unlink(path.c_str()) != 0 && errno != ENOENT) return Failed(path);
  UniqueFd file(open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (file.get() < 0 || flock(file.get(), LOCK_EX | LOCK_NB) != 0) return Failed(path);
  return MountRecord(std::move(path), std::move(file));
}

MountRecord::~MountRecord() {
  if (file_.get() >= 0) unlink(path_.c_str());
}

void MountRecord::End(const absl::Status& outcome) {
  const std::string text = outcome.ok() ? kDone : std::string(outcome.message());
  (void)!pwrite(file_.get(), text.data(), text.size(), 0);
}

std::optional<ClientWatch> ClientWatch::Open(const std::string& device,
                                             const std::string& directory) {
  UniqueFd file(open(absl::StrCat(directory, "/", device).c_str(), O_RDONLY | O_CLOEXEC));
  if (device.empty() || file.get() < 0) return std::nullopt;
  // Of a client that was killed, whose mount's number somebody else has now.
  if (flock(file.get(), LOCK_SH | LOCK_NB) == 0) return std::nullopt;
  return ClientWatch(std::move(file));
}

absl::Status ClientWatch::Await(std::uint64_t limit_ms) const {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(limit_ms);
  while (flock(file_.get(), LOCK_SH | LOCK_NB) != 0) {
    if (std::chrono::steady_clock::now() >= deadline) {
      return absl::DeadlineExceededError("its client is still writing what is in memory");
    }
    std::this_thread::sleep_for(kPoll);
  }
  std::array<char, 1024> text{};
  const ssize_t length = pread(file_.get(), text.data(), text.size(), 0);
  const std::string said(text.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
  if (said == kDone) return absl::OkStatus();
  if (said.empty()) return absl::DataLossError("its client was ended before all was written");
  return absl::DataLossError(absl::StrCat("what was written last is lost: ", said));
}

}  // namespace reel::client
