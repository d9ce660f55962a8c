// Writing and reading a log's frames; where the log ends, and whether what is missing was
// acknowledged.
//
// The end of a log stands nowhere: ScanLog finds it. Reading forward, the first unit that is not
// the log's next frame ends it, cut back to the end of a write. The cut is honest only if
//   1. no later frame of this log says "synced through" beyond it, and
//   2. the unit at the cut is old content (blank, or a frame of another log), not damaged.
// Anything else is DATA_LOSS: a torn or lost tail is cut off, an acknowledged byte never is.
// Threads: externally synchronised.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mdc/metafs/frame.h"
#include "volume/base/aligned_buffer.h"

namespace reel::metafs {

// Reads bytes of the log's chunks, counted from the first; aligned to kSpaceUnitBytes.
using LogSource = std::function<absl::Status(std::uint64_t offset_bytes, std::span<std::byte> to)>;

struct LogId {
  std::uint64_t file_id = 0;
  Epoch epoch;
};

// Turns a log's bytes into frames, one write at a time.
class LogWriter {
 public:
  explicit LogWriter(LogId id) : id_(id) {}

  // The size of the write that carries `payload_bytes`: a multiple of kSpaceUnitBytes.
  static std::uint64_t FramedBytes(std::uint64_t payload_bytes);
  // The frames of the next write, which belongs at next_offset_bytes() as it was before the call.
  AlignedBuffer Frame(std::string_view payload);
  std::uint64_t next_offset_bytes() const { return next_sequence_ * kFrameBytes; }
  std::uint64_t frames() const { return next_sequence_; }
  std::uint64_t stream_bytes() const { return stream_bytes_; }
  // The first `frames` frames are durable.
  void Synced(std::uint64_t frames) { synced_through_ = frames; }

 private:
  const LogId id_;
  std::uint64_t next_sequence_ = 0;
  std::uint64_t synced_through_ = 0;
  std::uint64_t stream_bytes_ = 0;
};

struct LogEnd {
  std::uint64_t frames = 0;        // up to the end of the last whole write
  std::uint64_t stream_bytes = 0;  // in them
};
// What a scan does with damage. kCut is for repair: what comes before it is taken for the log.
enum class OnDamage { kRefuse, kCut };
// Finds the end of the log in `capacity_bytes` of chunks. DATA_LOSS as above, or the source's
// error. With `stream`, that gets the log's bytes, or none where they are too many to be kept.
// `source` is called by several threads at once.
absl::StatusOr<LogEnd> ScanLog(const LogSource& source, std::uint64_t capacity_bytes, LogId id,
                               OnDamage on_damage = OnDamage::kRefuse,
                               std::string* stream = nullptr);

// For repair: the payloads of a log's writes that are whole, wherever others are damaged; of one
// that is damaged, what comes before the damage.
absl::StatusOr<std::vector<std::string>> SalvageWrites(const LogSource& source,
                                                       std::uint64_t capacity_bytes, LogId id);

// Reads the log's bytes in order, checking every frame again; or those that ScanLog has kept.
class LogReader {
 public:
  explicit LogReader(std::string stream) : kept_(std::move(stream)), payload_(kept_) {}
  LogReader(const LogReader&) = delete;
  LogReader(LogSource source, LogId id, LogEnd end)
      : source_(std::move(source)), id_(id), end_(end) {}

  // Appends up to `size_bytes` of the log to `out`; fewer only at its end. DATA_LOSS for a frame
  // that is not what ScanLog saw.
  absl::Status Read(std::uint64_t size_bytes, std::string& out);

 private:
  absl::Status LoadNextFrame();

  const std::string kept_;
  const LogSource source_;
  const LogId id_{};
  const LogEnd end_{};
  std::uint64_t next_frame_ = 0;
  std::uint64_t stream_offset_ = 0;
  AlignedBuffer buffer_;
  std::uint64_t buffer_first_ = 0;  // frames [buffer_first_, buffer_end_) lie in the buffer
  std::uint64_t buffer_end_ = 0;
  std::string_view payload_;  // what is left of the current frame
};

}  // namespace reel::metafs
