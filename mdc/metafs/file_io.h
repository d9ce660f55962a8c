// Readers and writers of metafs's files.
//
// Threads: TableWriter and the readers belong to one thread each, but ReadTable may be called from
// any. LogAppender takes Append and Sync from different threads at once, as RocksDB's SyncWAL does.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mdc/metafs/metafs.h"
#include "volume/base/aligned_buffer.h"
#include "volume/base/mutex.h"

namespace reel::metafs {

// Appends to a table that was just created.
class TableWriter {
 public:
  TableWriter(MetaFs& fs, FileRef file, ChunkUse use = ChunkUse::kTable)
      : fs_(fs), file_(std::move(file)), use_(use) {}

  absl::Status Append(std::string_view data);
  // Everything appended is durable, with the file's size: data, flush, journal, flush.
  absl::Status Sync();
  // Everything appended is readable, and durable after the next Commit.
  absl::Status Finish();
  std::uint64_t size_bytes() const { return written_bytes_ + buffered_bytes_; }

 private:
  absl::Status WriteOut();

  MetaFs& fs_;
  const FileRef file_;
  const ChunkUse use_;
  AlignedBuffer buffer_;
  std::uint64_t buffered_bytes_ = 0;
  std::uint64_t written_bytes_ =
      0;  // where the buffer's first byte belongs; a multiple of the unit
  std::uint32_t checksum_ = 0;
  absl::Status broken_;  // a part of what was appended is missing: it never becomes a table
};

// Reads table bytes [offset, offset + to.size()), any alignment; returns how many lay before its
// end.
absl::StatusOr<std::size_t> ReadTable(MetaFs& fs, const File& file, std::uint64_t offset_bytes,
                                      std::span<std::byte> to);
// Reads the whole table and compares its checksum. DATA_LOSS when it does not match.
absl::Status VerifyTable(MetaFs& fs, const File& file);

// Appends to a log that was just created.
class LogAppender {
 public:
  LogAppender(MetaFs& fs, FileRef file)
      : fs_(fs), file_(std::move(file)), writer_({file_->id, file_->epoch}) {}

  // Keeps the bytes in memory; writes them out unsynced only when they are very many.
  absl::Status Append(std::string_view data);
  // Everything appended before the call is durable: one write and one flush. After an error the log
  // takes nothing any more.
  absl::Status Sync();
  // Writes out what is in memory, without a flush.
  absl::Status Finish();
  std::uint64_t size_bytes() const;

 private:
  absl::Status WriteOut(bool flush);

  MetaFs& fs_;
  const FileRef file_;
  mutable Mutex mutex_;
  CondVar idle_;
  std::string buffer_ ABSL_GUARDED_BY(mutex_);
  std::uint64_t appended_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool unflushed_ ABSL_GUARDED_BY(mutex_) = false;  // frames were written since the last flush
  absl::Status broken_ ABSL_GUARDED_BY(mutex_);
  LogWriter writer_;  // of whoever set writing_
};

// A reader of the log as it is now.
absl::StatusOr<std::unique_ptr<LogReader>> OpenLogReader(MetaFs& fs, FileRef file);

}  // namespace reel::metafs
