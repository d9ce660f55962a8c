#include "mdc/metafs/file_io.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "volume/base/coding.h"

namespace reel::metafs {
namespace {

constexpr std::uint64_t kTableBufferBytes = 1 * kMiB;
// More than RocksDB puts into one log between two syncs, so that a sync is one write and a log
// whose predecessor is not synced yet never gets ahead of it.
constexpr std::uint64_t kLogBufferBytes = 128 * kMiB;

}  // namespace

absl::Status TableWriter::Append(std::string_view data) {
  if (!broken_.ok()) return broken_;
  if (buffer_.size() == 0) buffer_ = AlignedBuffer(kTableBufferBytes);
  checksum_ = ExtendCrc32c(checksum_, AsBytes(data));
  while (!data.empty()) {
    const std::size_t part = std::min<std::size_t>(data.size(), buffer_.size() - buffered_bytes_);
    std::memcpy(buffer_.data() + buffered_bytes_, data.data(), part);
    buffered_bytes_ += part;
    data.remove_prefix(part);
    if (buffered_bytes_ == buffer_.size()) {
      broken_ = WriteOut();
      if (!broken_.ok()) return broken_;
    }
  }
  return absl::OkStatus();
}

// A partial last unit stays in the buffer and is written again with what follows it: its 512-byte
// sectors hold the same bytes or more, so that tearing it loses nothing.
absl::Status TableWriter::WriteOut() {
  const std::uint64_t padded = RoundUp(buffered_bytes_, kSpaceUnitBytes);
  if (padded == 0) return absl::OkStatus();
  std::memset(buffer_.data() + buffered_bytes_, 0, padded - buffered_bytes_);
  const std::uint64_t capacity = fs_.CapacityOf(*file_);
  if (written_bytes_ + padded > capacity) {
    absl::Status s = fs_.Extend(*file_, written_bytes_ + padded - capacity, use_);
    if (!s.ok()) return s;
  }
  if (absl::Status s = fs_.WriteChunks(*file_, written_bytes_, buffer_.span().first(padded));
      !s.ok()) {
    return s;
  }
  const std::uint64_t whole = RoundDown(buffered_bytes_, kSpaceUnitBytes);
  written_bytes_ += whole;
  buffered_bytes_ -= whole;
  std::memmove(buffer_.data(), buffer_.data() + whole, buffered_bytes_);
  return absl::OkStatus();
}

absl::Status TableWriter::Finish() {
  if (!broken_.ok()) return broken_;
  const std::uint64_t size = size_bytes();
  if (absl::Status s = WriteOut(); !s.ok()) return s;
  return fs_.SetTableEnd(*file_, size, checksum_);
}

absl::Status TableWriter::Sync() {
  if (absl::Status s = Finish(); !s.ok()) return s;
  return fs_.Commit();
}

absl::StatusOr<std::size_t> ReadTable(MetaFs& fs, const File& file, std::uint64_t offset_bytes,
                                      std::span<std::byte> to) {
  const absl::StatusOr<std::uint64_t> size = fs.SizeOf(file);
  if (!size.ok()) return size.status();
  if (offset_bytes >= *size) return 0;
  const std::uint64_t length = std::min<std::uint64_t>(to.size(), *size - offset_bytes);
  if (length == 0) return 0;
  const std::uint64_t first = RoundDown(offset_bytes, kSpaceUnitBytes);
  const std::uint64_t end = RoundUp(offset_bytes + length, kSpaceUnitBytes);
  AlignedBuffer buffer(end - first);
  if (absl::Status s = fs.ReadChunks(file, first, buffer.span()); !s.ok()) return s;
  std::memcpy(to.data(), buffer.data() + (offset_bytes - first), length);
  return length;
}

absl::Status VerifyTable(MetaFs& fs, const File& file) {
  const absl::StatusOr<std::uint64_t> size = fs.SizeOf(file);
  if (!size.ok()) return size.status();
  AlignedBuffer buffer(kTableBufferBytes);
  std::uint32_t checksum = 0;
  for (std::uint64_t at = 0; at < *size; at += buffer.size()) {
    const std::uint64_t length = std::min<std::uint64_t>(buffer.size(), *size - at);
    const auto units = buffer.span().first(RoundUp(length, kSpaceUnitBytes));
    if (absl::Status s = fs.ReadChunks(file, at, units); !s.ok()) return s;
    checksum = ExtendCrc32c(checksum, units.first(length));
  }
  if (checksum == fs.ChecksumOf(file)) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("metadata file ", file.id, ": the checksum of its bytes does not match"));
}

absl::Status LogAppender::Append(std::string_view data) {
  {
    MutexLock lock(mutex_);
    if (!broken_.ok()) return broken_;
    buffer_.append(data);
    appended_bytes_ += data.size();
    if (buffer_.size() < kLogBufferBytes) return absl::OkStatus();
  }
  return WriteOut(/*flush=*/false);
}

absl::Status LogAppender::Sync() {
  return WriteOut(/*flush=*/true);
}

absl::Status LogAppender::Finish() {
  return WriteOut(/*flush=*/false);
}

std::uint64_t LogAppender::size_bytes() const {
  MutexLock lock(mutex_);
  return appended_bytes_;
}

absl::Status LogAppender::WriteOut(bool flush) {
  std::string data;
  bool must_flush = false;
  {
    MutexLock lock(mutex_);
    while (writing_) idle_.Wait(mutex_);
    if (!broken_.ok()) return broken_;
    must_flush = flush && (unflushed_ || !buffer_.empty());
    if (buffer_.empty() && !must_flush) return absl::OkStatus();
    writing_ = true;
    data = std::exchange(buffer_, {});
    unflushed_ = !must_flush;
  }
  absl::Status outcome;
  if (!data.empty()) {
    const std::uint64_t at = writer_.next_offset_bytes();
    const std::uint64_t end = at + LogWriter::FramedBytes(data.size());
    const std::uint64_t capacity = fs_.CapacityOf(*file_);
    if (end > capacity) outcome = fs_.Extend(*file_, end - capacity);
    if (outcome.ok()) outcome = fs_.WriteChunks(*file_, at, writer_.Frame(data).span());
  }
  if (outcome.ok() && must_flush) outcome = fs_.Flush();
  if (outcome.ok()) {
    if (must_flush) writer_.Synced(writer_.frames());
    fs_.SetLogEnd(*file_, {writer_.frames(), writer_.stream_bytes()});
  }
  MutexLock lock(mutex_);
  broken_ = outcome;
  writing_ = false;
  idle_.NotifyAll();
  return outcome;
}

absl::StatusOr<std::unique_ptr<LogReader>> OpenLogReader(MetaFs& fs, FileRef file) {
  const absl::StatusOr<LogEnd> end = fs.LogEndOf(*file);
  if (!end.ok()) return end.status();
  std::string kept = fs.TakeScanned(*file);
  if (!kept.empty()) return std::make_unique<LogReader>(std::move(kept));
  const LogId id{file->id, file->epoch};
  LogSource source = [&fs, file = std::move(file)](std::uint64_t offset, std::span<std::byte> to) {
    return fs.ReadChunks(*file, offset, to);
  };
  return std::make_unique<LogReader>(std::move(source), id, *end);
}

}  // namespace reel::metafs
