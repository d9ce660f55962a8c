// The files of a stream: a file a frame, or one that grows by a frame at a time. Each call says how
// long it took to open, and how long to move the bytes. Thread rule: calls may be made from several
// threads, each with a buffer of its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "volume/base/aligned_buffer.h"

namespace reel::bench {

struct FrameFileOptions {
  std::string directory;
  std::string name;  // of the stream: the files are NAME.NUMBER.EXTENSION
  std::string extension;
  std::uint64_t frame_bytes = 0;
  std::uint64_t io_bytes = 0;  // of a system call; 0: the whole frame
  bool direct = true;          // O_DIRECT
  bool sync = false;           // fdatasync before a written frame counts as done
};

struct FrameTimes {
  std::int64_t open_ns = 0;
  std::int64_t io_ns = 0;
};

class FrameFiles {
 public:
  explicit FrameFiles(FrameFileOptions options) : options_(std::move(options)) {}
  virtual ~FrameFiles() = default;
  FrameFiles(const FrameFiles&) = delete;
  FrameFiles& operator=(const FrameFiles&) = delete;

  // Memory for a frame, full of bytes that do not compress.
  AlignedBuffer MakeBuffer() const;
  const FrameFileOptions& options() const { return options_; }

  virtual absl::StatusOr<FrameTimes> Read(std::uint64_t number, AlignedBuffer& buffer) = 0;
  virtual absl::StatusOr<FrameTimes> Write(std::uint64_t number, AlignedBuffer& buffer) = 0;
  // Of a file that grows: waits until the frame is in it, while `go_on` says so. CANCELLED else.
  virtual absl::Status Await(std::uint64_t number, const std::function<bool()>& go_on);

 protected:
  absl::Status ReadAll(int fd, std::uint64_t offset, AlignedBuffer& buffer,
                       const std::string& path) const;
  absl::Status WriteAll(int fd, std::uint64_t offset, std::span<const std::byte> bytes,
                        const std::string& path) const;

 private:
  const FrameFileOptions options_;
};

// A file a frame: opened, read or written, and closed. A written one is cut to its very length
// where direct I/O has written whole blocks. The I/O counts until the file is closed.
std::unique_ptr<FrameFiles> MakeFrameSequence(const FrameFileOptions& options);
// One file NAME.growing, its frames at multiples of 4 KiB, opened once. "Open" is the fstat(2) by
// which a reader sees that the frame is there; INVALID_ARGUMENT where it cannot be opened.
absl::StatusOr<std::unique_ptr<FrameFiles>> OpenGrowingFile(const FrameFileOptions& options,
                                                            bool write);

}  // namespace reel::bench
