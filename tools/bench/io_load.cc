#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tools/bench/load.h"
#include "tools/bench/noise.h"
#include "tools/bench/stopwatch.h"

namespace reel::bench {
namespace {

constexpr std::uint64_t kLayOutBytes = 4ull << 20;

absl::Status FileError(const std::string& path, const char* what) {
  return absl::ErrnoToStatus(errno, absl::StrCat(what, " ", path));
}

class IoLoad final : public Load {
 public:
  IoLoad(const IoShape& shape, const IoOptions& options, const std::string& directory)
      : shape_(shape), options_(options), path_(directory + "/data") {}

  absl::StatusOr<Measure> Run() override {
    const int fd =
        open(path_.c_str(), (shape_.write ? O_WRONLY : O_RDONLY) | (shape_.direct ? O_DIRECT : 0));
    if (fd < 0) return FileError(path_, "cannot open");
    next_ = 0;
    operations_ = 0;
    error_ = 0;
    const Stopwatch watch;
    std::vector<std::thread> threads;
    for (std::uint32_t i = 0; i < shape_.depth; ++i) threads.emplace_back([&, i] { Work(fd, i); });
    for (std::thread& thread : threads) thread.join();
    const auto done = static_cast<double>(operations_.load());
    const Measure measure = watch.Read(done, done * shape_.io_bytes);
    close(fd);
    errno = error_;
    if (error_ != 0) return FileError(path_, shape_.write ? "cannot write" : "cannot read");
    return measure;
  }

 private:
  void Work(int fd, std::uint32_t number) {
    const AlignedBuffer buffer = NoiseBuffer(shape_.io_bytes);
    const std::uint64_t slots = options_.file_bytes / shape_.io_bytes;
    std::uint64_t random = number * 977 + 1;
    const auto until =
        std::chrono::steady_clock::now() + std::chrono::duration<double>(options_.seconds);
    while (error_ == 0 && std::chrono::steady_clock::now() < until) {
      const std::uint64_t slot = shape_.random ? NextRandom(random) : next_++;
      const auto offset = static_cast<off_t>(slot % slots * shape_.io_bytes);
      const ssize_t done = shape_.write ? pwrite(fd, buffer.data(), shape_.io_bytes, offset)
                                        : pread(fd, buffer.data(), shape_.io_bytes, offset);
      if (done != static_cast<ssize_t>(shape_.io_bytes)) {
        error_ = done < 0 ? errno : EIO;
        return;
      }
      ++operations_;
    }
  }

  const IoShape shape_;
  const IoOptions options_;
  const std::string path_;
  std::atomic<std::uint64_t> next_{0};
  std::atomic<std::uint64_t> operations_{0};
  std::atomic<int> error_{0};
};

}  // namespace

std::vector<IoShape> IoShapes() {
  constexpr std::uint32_t kLarge = 1 << 20, kSmall = 4096;
  return {
      {"read, direct, 1 MiB, depth 16", false, false, true, kLarge, 16},
      {"write, direct, 1 MiB, depth 16", true, false, true, kLarge, 16},
      {"random read, direct, 4 KiB, depth 1", false, true, true, kSmall, 1},
      {"random read, direct, 4 KiB, depth 16", false, true, true, kSmall, 16},
      {"random write, direct, 4 KiB, depth 16", true, true, true, kSmall, 16},
      {"read, plain, 1 MiB", false, false, false, kLarge, 1},
      {"overwrite, plain, 1 MiB", true, false, false, kLarge, 1},
  };
}

absl::Status LayOutFile(const std::string& directory, std::uint64_t size_bytes) {
  const std::string path = directory + "/data";
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (fd < 0) return FileError(path, "cannot make");
  const AlignedBuffer buffer = NoiseBuffer(kLayOutBytes);
  absl::Status status;
  for (std::uint64_t offset = 0; offset < size_bytes && status.ok(); offset += kLayOutBytes) {
    const std::size_t bytes = std::min<std::uint64_t>(kLayOutBytes, size_bytes - offset);
    errno = ENOSPC;  // what a short write means
    if (pwrite(fd, buffer.data(), bytes, static_cast<off_t>(offset)) !=
        static_cast<ssize_t>(bytes)) {
      status = FileError(path, "cannot write");
    }
  }
  if (status.ok() && fsync(fd) != 0) status = FileError(path, "cannot sync");
  close(fd);
  return status;
}

std::unique_ptr<Load> MakeIoLoad(const IoShape& shape, const IoOptions& options,
                                 const std::string& directory) {
  return std::make_unique<IoLoad>(shape, options, directory);
}

}  // namespace reel::bench
