#include "tools/bench/frames/frame_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/bench/noise.h"
#include "volume/base/types.h"
#include "volume/lun/fd_lun.h"

namespace reel::bench {
namespace {

using Clock = std::chrono::steady_clock;

std::int64_t NsSince(Clock::time_point begin) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin).count();
}

absl::Status Failed(const char* what, const std::string& path) {
  const int error = errno;
  const char* hint = error == EINVAL ? " (without direct I/O there: --cached)" : "";
  return absl::ErrnoToStatus(error, absl::StrCat("cannot ", what, " ", path, hint));
}

absl::StatusOr<UniqueFd> Open(const FrameFileOptions& options, const std::string& path, int flags) {
  UniqueFd fd(open(path.c_str(), flags | O_CLOEXEC | (options.direct ? O_DIRECT : 0), 0644));
  if (!fd.valid()) return Failed("open", path);
  return fd;
}

class FrameSequence final : public FrameFiles {
 public:
  using FrameFiles::FrameFiles;

  absl::StatusOr<FrameTimes> Read(std::uint64_t number, AlignedBuffer& buffer) override {
    const std::string path = PathOf(number);
    const auto begin = Clock::now();
    auto fd = Open(options(), path, O_RDONLY);
    if (!fd.ok()) return fd.status();
    FrameTimes times{.open_ns = NsSince(begin)};
    if (absl::Status s = ReadAll(fd->get(), 0, buffer, path); !s.ok()) return s;
    *fd = UniqueFd();
    times.io_ns = NsSince(begin) - times.open_ns;
    return times;
  }

  absl::StatusOr<FrameTimes> Write(std::uint64_t number, AlignedBuffer& buffer) override {
    const std::string path = PathOf(number);
    const auto begin = Clock::now();
    auto fd = Open(options(), path, O_WRONLY | O_CREAT | O_TRUNC);
    if (!fd.ok()) return fd.status();
    FrameTimes times{.open_ns = NsSince(begin)};
    const std::size_t bytes = options().direct ? buffer.size() : options().frame_bytes;
    if (absl::Status s = WriteAll(fd->get(), 0, buffer.span().first(bytes), path); !s.ok()) {
      return s;
    }
    if (options().direct && options().frame_bytes % kIoAlignment != 0 &&
        ftruncate(fd->get(), static_cast<off_t>(options().frame_bytes)) != 0) {
      return Failed("cut", path);
    }
    if (options().sync && fdatasync(fd->get()) != 0) return Failed("sync", path);
    if (close(fd->Release()) != 0) return Failed("close", path);  // may say what went wrong behind
    times.io_ns = NsSince(begin) - times.open_ns;
    return times;
  }

 private:
  std::string PathOf(std::uint64_t number) const {
    return absl::StrFormat("%s/%s.%07d.%s", options().directory, options().name, number,
                           options().extension);
  }
};

class GrowingFile final : public FrameFiles {
 public:
  GrowingFile(FrameFileOptions options, std::string path, UniqueFd fd)
      : FrameFiles(std::move(options)), path_(std::move(path)), fd_(std::move(fd)) {}

  absl::Status Await(std::uint64_t number, const std::function<bool()>& go_on) override {
    constexpr auto kPoll = std::chrono::milliseconds(1);
    while (true) {
      struct stat found {};
      const auto begin = Clock::now();
      if (fstat(fd_.get(), &found) != 0) return Failed("look at", path_);
      last_look_ns_ = NsSince(begin);
      if (static_cast<std::uint64_t>(found.st_size) >= (number + 1) * Stride()) {
        return absl::OkStatus();
      }
      if (!go_on()) return absl::CancelledError("the frame is not there");
      std::this_thread::sleep_for(kPoll);
    }
  }

  absl::StatusOr<FrameTimes> Read(std::uint64_t number, AlignedBuffer& buffer) override {
    FrameTimes times{.open_ns = last_look_ns_};
    const auto begin = Clock::now();
    if (absl::Status s = ReadAll(fd_.get(), number * Stride(), buffer, path_); !s.ok()) return s;
    times.io_ns = NsSince(begin);
    return times;
  }

  absl::StatusOr<FrameTimes> Write(std::uint64_t number, AlignedBuffer& buffer) override {
    const auto begin = Clock::now();
    if (absl::Status s = WriteAll(fd_.get(), number * Stride(), buffer.span(), path_); !s.ok()) {
      return s;
    }
    if (options().sync && fdatasync(fd_.get()) != 0) return Failed("sync", path_);
    return FrameTimes{.io_ns = NsSince(begin)};
  }

 private:
  std::uint64_t Stride() const { return RoundUp(options().frame_bytes, kIoAlignment); }

  const std::string path_;
  const UniqueFd fd_;
  std::atomic<std::int64_t> last_look_ns_{0};
};

}  // namespace

AlignedBuffer FrameFiles::MakeBuffer() const {
  return NoiseBuffer(RoundUp(options_.frame_bytes, kIoAlignment));
}

absl::Status FrameFiles::Await(std::uint64_t, const std::function<bool()>&) {
  return absl::OkStatus();
}

absl::Status FrameFiles::ReadAll(int fd, std::uint64_t offset, AlignedBuffer& buffer,
                                 const std::string& path) const {
  const std::size_t piece = options_.io_bytes == 0 ? buffer.size() : options_.io_bytes;
  // Whole blocks are asked for; the last one may end with the file.
  for (std::size_t done = 0; done < options_.frame_bytes;) {
    const ssize_t got = pread(fd, buffer.data() + done, std::min(piece, buffer.size() - done),
                              static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Failed("read", path);
    if (got == 0) return absl::DataLossError(absl::StrCat(path, " is shorter than a frame"));
    done += static_cast<std::size_t>(got);
  }
  return absl::OkStatus();
}

absl::Status FrameFiles::WriteAll(int fd, std::uint64_t offset, std::span<const std::byte> bytes,
                                  const std::string& path) const {
  const std::size_t piece = options_.io_bytes == 0 ? bytes.size() : options_.io_bytes;
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t put = pwrite(fd, bytes.data() + done, std::min(piece, bytes.size() - done),
                               static_cast<off_t>(offset + done));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return Failed("write", path);
    done += static_cast<std::size_t>(put);
  }
  return absl::OkStatus();
}

std::unique_ptr<FrameFiles> MakeFrameSequence(const FrameFileOptions& options) {
  return std::make_unique<FrameSequence>(options);
}

absl::StatusOr<std::unique_ptr<FrameFiles>> OpenGrowingFile(const FrameFileOptions& options,
                                                            bool write) {
  const std::string path = absl::StrCat(options.directory, "/", options.name, ".growing");
  auto fd = Open(options, path, write ? O_WRONLY | O_CREAT | O_TRUNC : O_RDONLY);
  if (!fd.ok()) return fd.status();
  return std::make_unique<GrowingFile>(options, path, *std::move(fd));
}

}  // namespace reel::bench
