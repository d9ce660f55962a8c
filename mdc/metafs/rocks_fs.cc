#include "mdc/metafs/rocks_fs.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "mdc/metafs/file_io.h"
#include "rocksdb/env.h"
#include "rocksdb/file_system.h"
#include "rocksdb/listener.h"
#include "spdlog/spdlog.h"
#include "volume/base/coding.h"

namespace reel::metafs {
namespace {

using rocksdb::FileOptions;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;

// A file up to this size is read and its checksum compared before a byte of it is given out.
constexpr std::uint64_t kVerifiedReadBytes = 4 * kMiB;

IOStatus ToIo(const absl::Status& status) {
  const std::string text(status.message());
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return IOStatus::OK();
    case absl::StatusCode::kNotFound:
      return IOStatus::PathNotFound(text);
    case absl::StatusCode::kDataLoss:
      return IOStatus::Corruption(text);
    case absl::StatusCode::kResourceExhausted:
      return IOStatus::NoSpace(text);
    default:
      return IOStatus::IOError(text);
  }
}

std::string_view View(const Slice& slice) {
  return {slice.data(), slice.size()};
}

// RocksDB does not tell a file system what a table is for, but it tells its listeners, just before
// the same thread makes the file.
thread_local ChunkUse next_table = ChunkUse::kTable;

class TableListener final : public rocksdb::EventListener {
 public:
  void OnTableFileCreationStarted(const rocksdb::TableFileCreationBriefInfo& table) override {
    const bool compaction = table.reason == rocksdb::TableFileCreationReason::kCompaction;
    next_table = compaction ? ChunkUse::kCompaction : ChunkUse::kTable;
  }
};

class TableReadFile final : public rocksdb::FSRandomAccessFile {
 public:
  TableReadFile(MetaFs& fs, FileRef file) : fs_(fs), file_(std::move(file)) {}

  IOStatus Read(std::uint64_t offset, std::size_t n, const IOOptions&, Slice* result, char* scratch,
                IODebugContext*) const override {
    const absl::StatusOr<std::size_t> got =
        ReadTable(fs_, *file_, offset, {reinterpret_cast<std::byte*>(scratch), n});
    *result = Slice(scratch, got.ok() ? *got : 0);
    return ToIo(got.status());
  }

 private:
  MetaFs& fs_;
  const FileRef file_;
};

class TableSequentialFile final : public rocksdb::FSSequentialFile {
 public:
  TableSequentialFile(MetaFs& fs, FileRef file) : fs_(fs), file_(std::move(file)) {}

  IOStatus Read(std::size_t n, const IOOptions&, Slice* result, char* scratch,
                IODebugContext*) override {
    const absl::StatusOr<std::size_t> got =
        ReadTable(fs_, *file_, offset_, {reinterpret_cast<std::byte*>(scratch), n});
    *result = Slice(scratch, got.ok() ? *got : 0);
    offset_ += result->size();
    return ToIo(got.status());
  }
  IOStatus Skip(std::uint64_t n) override {
    const absl::StatusOr<std::uint64_t> size = fs_.SizeOf(*file_);
    if (!size.ok()) return ToIo(size.status());
    offset_ += std::min(n, *size - std::min(*size, offset_));
    return IOStatus::OK();
  }

 private:
  MetaFs& fs_;
  const FileRef file_;
  std::uint64_t offset_ = 0;
};

class LogSequentialFile final : public rocksdb::FSSequentialFile {
 public:
  explicit LogSequentialFile(std::unique_ptr<LogReader> reader) : reader_(std::move(reader)) {}

  IOStatus Read(std::size_t n, const IOOptions&, Slice* result, char* scratch,
                IODebugContext*) override {
    std::string bytes;
    const absl::Status status = reader_->Read(n, bytes);
    std::copy(bytes.begin(), bytes.end(), scratch);
    *result = Slice(scratch, bytes.size());
    return ToIo(status);
  }
  IOStatus Skip(std::uint64_t n) override {
    std::string skipped;
    return ToIo(reader_->Read(n, skipped));
  }

 private:
  const std::unique_ptr<LogReader> reader_;
};

// Writer is TableWriter or LogAppender.
template <typename Writer>
class WriteFile final : public rocksdb::FSWritableFile {
 public:
  template <typename... Use>
  WriteFile(MetaFs& fs, FileRef file, const FileOptions& options, Use... use)
      : rocksdb::FSWritableFile(options), writer_(fs, std::move(file), use...) {}
  ~WriteFile() override {
    if (!closed_) writer_.Finish().IgnoreError();  // as closing a descriptor: unsynced anyway
  }

  using rocksdb::FSWritableFile::Append;
  IOStatus Append(const Slice& data, const IOOptions&, IODebugContext*) override {
    return ToIo(writer_.Append(View(data)));
  }
  IOStatus Flush(const IOOptions&, IODebugContext*) override { return IOStatus::OK(); }
  IOStatus Sync(const IOOptions&, IODebugContext*) override { return ToIo(writer_.Sync()); }
  IOStatus RangeSync(std::uint64_t, std::uint64_t, const IOOptions&, IODebugContext*) override {
    return IOStatus::OK();  // a hint; nothing depends on it
  }
  // RocksDB cuts a file to what it wrote before it closes it; nothing else is possible.
  IOStatus Truncate(std::uint64_t size, const IOOptions&, IODebugContext*) override {
    if (size == writer_.size_bytes()) return IOStatus::OK();
    return IOStatus::NotSupported("metafs: files are only appended to");
  }
  IOStatus Close(const IOOptions&, IODebugContext*) override {
    closed_ = true;
    return ToIo(writer_.Finish());
  }
  std::uint64_t GetFileSize(const IOOptions&, IODebugContext*) override {
    return writer_.size_bytes();
  }
  bool IsSyncThreadSafe() const override { return std::is_same_v<Writer, LogAppender>; }

 private:
  Writer writer_;
  bool closed_ = false;
};

class Directory final : public rocksdb::FSDirectory {
 public:
  explicit Directory(MetaFs& fs) : fs_(fs) {}
  IOStatus Fsync(const IOOptions&, IODebugContext*) override {
    // A store mounted read-only has nothing to make durable.
    return fs_.read_only() ? IOStatus::OK() : ToIo(fs_.Commit());
  }
  IOStatus Close(const IOOptions&, IODebugContext*) override { return IOStatus::OK(); }

 private:
  MetaFs& fs_;
};

// RocksDB's own log: its warnings and errors are worth a place in ours.
class SpdlogLogger final : public rocksdb::Logger {
 public:
  using rocksdb::Logger::Logv;
  void Logv(const char* format, va_list arguments) override {
    Logv(rocksdb::InfoLogLevel::INFO_LEVEL, format, arguments);
  }
  void Logv(const rocksdb::InfoLogLevel level, const char* format, va_list arguments) override {
    if (level < rocksdb::InfoLogLevel::WARN_LEVEL || level > rocksdb::InfoLogLevel::FATAL_LEVEL)
      return;
    char line[512];
    std::vsnprintf(line, sizeof(line), format, arguments);
    spdlog::log(
        level >= rocksdb::InfoLogLevel::ERROR_LEVEL ? spdlog::level::err : spdlog::level::warn,
        "metadata store: {}", line);
  }
};

class FileLockName final : public rocksdb::FileLock {
 public:
  explicit FileLockName(std::string name) : name(std::move(name)) {}
  const std::string name;
};

class RocksFs final : public rocksdb::FileSystem {
 public:
  explicit RocksFs(MetaFs& fs) : fs_(fs) {}
  const char* Name() const override { return "metafs"; }

  IOStatus NewSequentialFile(const std::string& name, const FileOptions&,
                             std::unique_ptr<rocksdb::FSSequentialFile>* result,
                             IODebugContext*) override {
    result->reset();
    absl::StatusOr<FileRef> file = fs_.Find(name);
    if (!file.ok()) return ToIo(file.status());
    if ((*file)->kind == FileKind::kLog) {
      absl::StatusOr<std::unique_ptr<LogReader>> reader = OpenLogReader(fs_, *std::move(file));
      if (!reader.ok()) return ToIo(reader.status());
      *result = std::make_unique<LogSequentialFile>(*std::move(reader));
      return IOStatus::OK();
    }
    // The small files that RocksDB reads whole (CURRENT, IDENTITY, OPTIONS) carry no checksum of
    // its own.
    const absl::StatusOr<std::uint64_t> size = fs_.SizeOf(**file);
    if (size.ok() && *size <= kVerifiedReadBytes) {
      if (absl::Status s = VerifyTable(fs_, **file); !s.ok()) return ToIo(s);
    }
    *result = std::make_unique<TableSequentialFile>(fs_, *std::move(file));
    return IOStatus::OK();
  }

  IOStatus NewRandomAccessFile(const std::string& name, const FileOptions&,
                               std::unique_ptr<rocksdb::FSRandomAccessFile>* result,
                               IODebugContext*) override {
    result->reset();
    absl::StatusOr<FileRef> file = fs_.Find(name);
    if (!file.ok()) return ToIo(file.status());
    if ((*file)->kind == FileKind::kLog) {
      return IOStatus::NotSupported("metafs: logs are read in order only");
    }
    *result = std::make_unique<TableReadFile>(fs_, *std::move(file));
    return IOStatus::OK();
  }

  IOStatus NewWritableFile(const std::string& name, const FileOptions& options,
                           std::unique_ptr<rocksdb::FSWritableFile>* result,
                           IODebugContext*) override {
    result->reset();
    absl::StatusOr<FileRef> file = fs_.Create(name);
    if (!file.ok()) return ToIo(file.status());
    if ((*file)->kind == FileKind::kLog) {
      *result = std::make_unique<WriteFile<LogAppender>>(fs_, *std::move(file), options);
    } else {
      const ChunkUse use = std::exchange(next_table, ChunkUse::kTable);
      *result = std::make_unique<WriteFile<TableWriter>>(fs_, *std::move(file), options, use);
    }
    return IOStatus::OK();
  }

  // Only for a file that is not there: bytes that a sync acknowledged are never continued in place.
  IOStatus ReopenWritableFile(const std::string& name, const FileOptions& options,
                              std::unique_ptr<rocksdb::FSWritableFile>* result,
                              IODebugContext* debug) override {
    result->reset();
    if (fs_.Find(name).ok()) return IOStatus::NotSupported("metafs: files are written once");
    return NewWritableFile(name, options, result, debug);
  }
  IOStatus ReuseWritableFile(const std::string&, const std::string&, const FileOptions&,
                             std::unique_ptr<rocksdb::FSWritableFile>*, IODebugContext*) override {
    return IOStatus::NotSupported("metafs: recycles log space by itself");
  }

  IOStatus NewDirectory(const std::string& name, const IOOptions&,
                        std::unique_ptr<rocksdb::FSDirectory>* result, IODebugContext*) override {
    result->reset();
    if (!fs_.IsDirectory(name)) return IOStatus::PathNotFound(name);
    *result = std::make_unique<Directory>(fs_);
    return IOStatus::OK();
  }

  IOStatus FileExists(const std::string& name, const IOOptions&, IODebugContext*) override {
    if (fs_.Find(name).ok() || fs_.IsDirectory(name)) return IOStatus::OK();
    return IOStatus::NotFound(name);
  }
  IOStatus GetChildren(const std::string& directory, const IOOptions&,
                       std::vector<std::string>* result, IODebugContext*) override {
    *result = fs_.List(directory);
    if (result->empty() && !fs_.IsDirectory(directory)) return IOStatus::NotFound(directory);
    return IOStatus::OK();
  }
  IOStatus DeleteFile(const std::string& name, const IOOptions&, IODebugContext*) override {
    return ToIo(fs_.Remove(name));
  }
  IOStatus RenameFile(const std::string& from, const std::string& to, const IOOptions&,
                      IODebugContext*) override {
    return ToIo(fs_.Rename(from, to));
  }
  IOStatus CreateDir(const std::string& name, const IOOptions&, IODebugContext*) override {
    if (fs_.IsDirectory(name)) return IOStatus::IOError(name, "the directory exists");
    fs_.MakeDirectory(name);
    return IOStatus::OK();
  }
  IOStatus CreateDirIfMissing(const std::string& name, const IOOptions&, IODebugContext*) override {
    fs_.MakeDirectory(name);
    return IOStatus::OK();
  }
  IOStatus DeleteDir(const std::string& name, const IOOptions&, IODebugContext*) override {
    if (fs_.RemoveDirectory(name)) return IOStatus::OK();
    return IOStatus::IOError(name, "the directory is not there or not empty");
  }
  IOStatus IsDirectory(const std::string& name, const IOOptions&, bool* is_directory,
                       IODebugContext*) override {
    *is_directory = fs_.IsDirectory(name);
    return *is_directory || fs_.Find(name).ok() ? IOStatus::OK() : IOStatus::PathNotFound(name);
  }
  IOStatus GetFileSize(const std::string& name, const IOOptions&, std::uint64_t* size,
                       IODebugContext*) override {
    const absl::StatusOr<FileRef> file = fs_.Find(name);
    if (!file.ok()) return ToIo(file.status());
    const absl::StatusOr<std::uint64_t> found = fs_.SizeOf(**file);
    *size = found.ok() ? *found : 0;
    return ToIo(found.status());
  }
  IOStatus GetFileModificationTime(const std::string&, const IOOptions&, std::uint64_t*,
                                   IODebugContext*) override {
    return IOStatus::NotSupported("metafs: keeps no times");
  }
  // Against a second open in this process; between hosts the MDC's seat decides.
  IOStatus LockFile(const std::string& name, const IOOptions&, rocksdb::FileLock** lock,
                    IODebugContext*) override {
    *lock = nullptr;
    MutexLock guard(mutex_);
    if (!locks_.insert(name).second) return IOStatus::IOError(name, "locked already");
    *lock = new FileLockName(name);
    return IOStatus::OK();
  }
  IOStatus UnlockFile(rocksdb::FileLock* lock, const IOOptions&, IODebugContext*) override {
    const std::unique_ptr<FileLockName> owned(static_cast<FileLockName*>(lock));
    MutexLock guard(mutex_);
    locks_.erase(owned->name);
    return IOStatus::OK();
  }

  IOStatus NewLogger(const std::string&, const IOOptions&, std::shared_ptr<rocksdb::Logger>* result,
                     IODebugContext*) override {
    *result = std::make_shared<SpdlogLogger>();
    return IOStatus::OK();
  }
  IOStatus GetTestDirectory(const IOOptions&, std::string* path, IODebugContext*) override {
    *path = "/test";
    fs_.MakeDirectory(*path);
    return IOStatus::OK();
  }
  IOStatus GetAbsolutePath(const std::string& path, const IOOptions&, std::string* absolute,
                           IODebugContext*) override {
    *absolute = !path.empty() && path[0] == '/' ? path : "/" + path;
    return IOStatus::OK();
  }
  IOStatus GetFreeSpace(const std::string&, const IOOptions&, std::uint64_t* free,
                        IODebugContext*) override {
    *free = fs_.FreeBytes();
    return IOStatus::OK();
  }

 private:
  MetaFs& fs_;
  Mutex mutex_;
  std::set<std::string> locks_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

std::shared_ptr<rocksdb::FileSystem> NewRocksFileSystem(MetaFs& fs) {
  return std::make_shared<RocksFs>(fs);
}

std::unique_ptr<rocksdb::Env> NewRocksEnv(MetaFs& fs) {
  return rocksdb::NewCompositeEnv(NewRocksFileSystem(fs));
}

std::shared_ptr<rocksdb::EventListener> NewTableListener() {
  return std::make_shared<TableListener>();
}

}  // namespace reel::metafs
