// Names and chunks. What makes them durable: metafs_journal.cc; how a store is made, mounted and
// checked: metafs_mount.cc.
#include "mdc/metafs/metafs.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "volume/base/aligned_buffer.h"
#include "volume/base/check.h"
#include "volume/base/coding.h"

namespace reel::metafs {
namespace {

constexpr std::uint64_t kFirstLogChunks = 8;
// A log grows by what it has, within these bounds: each step costs a journal write, and zeroing
// where the chunks were never a log's, which nobody who waits for a sync should notice.
constexpr std::uint64_t kLeastLogStepChunks = 4;
constexpr std::uint64_t kMostLogStepBytes = 4 * kMiB;
constexpr std::uint64_t kFirstManifestChunks = 2;
constexpr std::uint64_t kLeastClaimChunks = 16;
// Of the whole, and at most. (store.cc says what RocksDB needs of it.)
constexpr std::uint64_t kReservedPer32 = 10;
constexpr std::uint64_t kMostReservedBytes = 2 * kGiB;
constexpr std::uint64_t kWorkingPer32 = 7;
constexpr std::uint64_t kMostWorkingBytes = 1 * kGiB;
constexpr std::uint64_t kZeroBytes = 1 * kMiB;

std::string Normalize(std::string_view path) {
  std::string out;
  for (const char c : path) {
    if (c != '/' || out.empty() || out.back() != '/') out.push_back(c);
  }
  if (out.size() > 1 && out.back() == '/') out.pop_back();
  return out;
}

std::string_view BaseName(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == path.npos ? path : path.substr(slash + 1);
}

bool IsManifest(std::string_view path) {
  return BaseName(path).starts_with("MANIFEST-");
}

FileKind KindOf(std::string_view path) {
  return path.ends_with(".log") || IsManifest(path) ? FileKind::kLog : FileKind::kTable;
}

absl::Status NoFile(const std::string& path) {
  return absl::NotFoundError(absl::StrCat("metadata file ", path, ": there is none"));
}

}  // namespace

absl::Status MetaFs::Writable() const {
  if (read_only_) return absl::FailedPreconditionError("the metadata store is mounted read-only");
  return broken_;
}

absl::StatusOr<FileRef> MetaFs::FindLocked(std::string_view path) const {
  const std::string name = Normalize(path);
  const auto it = files_.find(name);
  if (it == files_.end()) return NoFile(name);
  return it->second;
}

absl::StatusOr<FileRef> MetaFs::Find(std::string_view path) const {
  MutexLock lock(mutex_);
  return FindLocked(path);
}

absl::StatusOr<FileRef> MetaFs::Create(std::string_view path) {
  const std::string name = Normalize(path);
  if (name.empty() || name.size() > kMaxNameBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("metadata file name of ", name.size(), " bytes"));
  }
  FileRef file;
  {
    MutexLock lock(mutex_);
    if (absl::Status s = Writable(); !s.ok()) return s;
    if (const auto it = files_.find(name); it != files_.end()) RemoveLocked(it->second);
    file = FileRef(new File(next_id_++, KindOf(name), epoch_));
    file->name_ = name;
    file->record_.id = file->id;
    file->record_.kind = file->kind;
    file->record_.epoch = epoch_;
    file->record_.name = name;
    files_[name] = file;
  }
  // A table enters the journal when it has a size; a log must be there before its first frame.
  if (file->kind == FileKind::kLog) {
    const std::uint64_t chunks = IsManifest(name) ? kFirstManifestChunks : kFirstLogChunks;
    if (absl::Status s = Extend(*file, chunks * chunk_bytes_); !s.ok()) return s;
  }
  return file;
}

void MetaFs::QueueRecord(File& file) {
  file.in_journal_ = true;
  PutFileRecord(pending_, file.record_);
  ++queued_;
}

void MetaFs::RemoveLocked(const FileRef& file) {
  file->removed_ = true;
  if (file->in_journal_) {
    PutRemoveRecord(pending_, file->id);
    ++queued_;
  }
  dying_.push_back({file, queued_});
  files_.erase(file->name_);
}

absl::Status MetaFs::Remove(std::string_view path) {
  MutexLock lock(mutex_);
  if (absl::Status s = Writable(); !s.ok()) return s;
  const absl::StatusOr<FileRef> file = FindLocked(path);
  if (!file.ok()) return file.status();
  RemoveLocked(*file);
  return absl::OkStatus();
}

absl::Status MetaFs::Rename(std::string_view from, std::string_view to) {
  const std::string name = Normalize(to);
  if (name.empty() || name.size() > kMaxNameBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("metadata file name of ", name.size(), " bytes"));
  }
  MutexLock lock(mutex_);
  if (absl::Status s = Writable(); !s.ok()) return s;
  const absl::StatusOr<FileRef> file = FindLocked(from);
  if (!file.ok()) return file.status();
  if ((*file)->name_ == name) return absl::OkStatus();
  // Both records are in one write, so the name is never without a file.
  if (const auto it = files_.find(name); it != files_.end()) RemoveLocked(it->second);
  files_.erase((*file)->name_);
  (*file)->name_ = name;
  (*file)->record_.name = name;
  files_[name] = *file;
  if ((*file)->in_journal_) QueueRecord(**file);
  return absl::OkStatus();
}

void MetaFs::MakeDirectory(std::string_view path) {
  MutexLock lock(mutex_);
  directories_.insert(Normalize(path));
}

bool MetaFs::RemoveDirectory(std::string_view path) {
  if (!List(path).empty()) return false;
  MutexLock lock(mutex_);
  return directories_.erase(Normalize(path)) > 0;
}

bool MetaFs::IsDirectory(std::string_view path) const {
  const std::string name = Normalize(path);
  MutexLock lock(mutex_);
  if (name == "/" || directories_.count(name) > 0) return true;
  const std::string prefix = name + "/";
  const auto file = files_.lower_bound(prefix);
  if (file != files_.end() && file->first.starts_with(prefix)) return true;
  const auto directory = directories_.lower_bound(prefix);
  return directory != directories_.end() && directory->starts_with(prefix);
}

std::vector<std::string> MetaFs::List(std::string_view directory) const {
  const std::string name = Normalize(directory);
  const std::string prefix = name == "/" ? name : name + "/";
  std::set<std::string> children;
  const auto add = [&](const std::string& path) {
    if (!path.starts_with(prefix) || path.size() == prefix.size()) return;
    const std::string rest = path.substr(prefix.size());
    children.insert(rest.substr(0, rest.find('/')));
  };
  MutexLock lock(mutex_);
  for (const auto& [path, file] : files_) add(path);
  for (const std::string& path : directories_) add(path);
  return {children.begin(), children.end()};
}

absl::StatusOr<std::uint64_t> MetaFs::SizeOf(const File& file) const {
  MutexLock lock(mutex_);
  if (!file.damage_.ok()) return file.damage_;
  return file.kind == FileKind::kTable ? file.size_bytes_ : file.log_end_.stream_bytes;
}

std::uint32_t MetaFs::ChecksumOf(const File& file) const {
  MutexLock lock(mutex_);
  return file.checksum_;
}

absl::StatusOr<LogEnd> MetaFs::LogEndOf(const File& file) const {
  MutexLock lock(mutex_);
  if (!file.damage_.ok()) return file.damage_;
  return file.log_end_;
}

std::string MetaFs::TakeScanned(File& file) {
  MutexLock lock(mutex_);
  return std::exchange(file.scanned_, {});
}

std::uint64_t MetaFs::CapacityOf(const File& file) const {
  MutexLock lock(mutex_);
  return CountChunks(file.runs_) * chunk_bytes_;
}

void MetaFs::SetLogEnd(File& file, LogEnd end) {
  MutexLock lock(mutex_);
  file.log_end_ = end;
  file.scanned_.clear();
}

absl::Status MetaFs::SetTableEnd(File& file, std::uint64_t size_bytes, std::uint32_t checksum) {
  MutexLock lock(mutex_);
  if (absl::Status s = Writable(); !s.ok()) return s;
  if (file.in_journal_ && file.size_bytes_ == size_bytes && file.checksum_ == checksum) {
    return absl::OkStatus();
  }
  file.size_bytes_ = file.record_.size_bytes = size_bytes;
  file.checksum_ = file.record_.checksum = checksum;
  file.record_.runs = file.runs_;
  if (!file.removed_) QueueRecord(file);
  return absl::OkStatus();
}

absl::Status MetaFs::TransferChunks(const std::vector<ChunkRun>& runs, std::uint64_t offset_bytes,
                                    std::span<std::byte> to, std::span<const std::byte> from) {
  std::uint64_t left = std::max(to.size(), from.size());
  std::uint64_t done = 0;
  for (const ChunkRun& run : runs) {
    if (left == 0) break;
    const std::uint64_t run_bytes = run.count * chunk_bytes_;
    if (offset_bytes >= run_bytes) {
      offset_bytes -= run_bytes;
      continue;
    }
    const std::uint64_t length = std::min(left, run_bytes - offset_bytes);
    const std::uint64_t at = run.first * chunk_bytes_ + offset_bytes;
    absl::Status s = to.empty() ? space_.Write(at, from.subspan(done, length))
                                : space_.Read(at, to.subspan(done, length));
    if (!s.ok()) return s;
    offset_bytes = 0;
    done += length;
    left -= length;
  }
  if (left > 0) return absl::OutOfRangeError("metadata file: I/O beyond its chunks");
  return absl::OkStatus();
}

absl::Status MetaFs::ReadChunks(const File& file, std::uint64_t offset_bytes,
                                std::span<std::byte> to) {
  std::vector<ChunkRun> runs;
  {
    MutexLock lock(mutex_);
    runs = file.runs_;
  }
  return TransferChunks(runs, offset_bytes, to, {});
}

absl::Status MetaFs::WriteChunks(File& file, std::uint64_t offset_bytes,
                                 std::span<const std::byte> from) {
  std::vector<ChunkRun> runs;
  {
    MutexLock lock(mutex_);
    if (absl::Status s = Writable(); !s.ok()) return s;
    runs = file.runs_;
  }
  absl::Status s = TransferChunks(runs, offset_bytes, {}, from);
  // After the write: a commit that sees the mark flushes what was written.
  if (file.kind == FileKind::kTable) unflushed_tables_ = true;
  return s;
}

absl::Status MetaFs::Flush() {
  return space_.Flush();
}

absl::Status MetaFs::ZeroChunks(const std::vector<ChunkRun>& runs) {
  if (runs.empty()) return absl::OkStatus();
  const AlignedBuffer zeros = AlignedBuffer::Zeroed(std::min(kZeroBytes, chunk_bytes_));
  const std::uint64_t total = CountChunks(runs) * chunk_bytes_;
  for (std::uint64_t at = 0; at < total; at += zeros.size()) {
    if (absl::Status s = TransferChunks(runs, at, {}, zeros.span()); !s.ok()) return s;
  }
  unflushed_tables_ = true;
  return absl::OkStatus();
}

void MetaFs::FreeDead() {
  std::erase_if(dying_, [&](const Dying& dying) {
    mutex_.AssertHeld();
    // Nobody can find the file any more, so a count of one stays one.
    if (committed_ < dying.ticket || dying.file.use_count() > 1) return false;
    chunks_.Free(dying.file->runs_, dying.file->kind == FileKind::kLog);
    return true;
  });
}

absl::Status MetaFs::TakeChunks(std::uint64_t count, ChunkUse use, std::vector<ChunkRun>& runs,
                                std::vector<ChunkRun>& unclean) {
  while (true) {
    if (absl::Status s = Writable(); !s.ok()) return s;
    FreeDead();
    if (chunks_.Take(count, use, runs, unclean)) return absl::OkStatus();
    const std::uint64_t step = std::max({count, kLeastClaimChunks, chunks_.total() / 64});
    const std::vector<ChunkRun> planned = chunks_.PlanClaim(step, use);
    if (!planned.empty()) {
      PutClaimRecord(pending_, planned);
      ++queued_;
      if (absl::Status s = CommitLocked(); !s.ok()) return s;
      chunks_.Claim(planned);
    } else if (committed_ < queued_) {
      if (absl::Status s = CommitLocked(); !s.ok()) return s;  // removals may free chunks
    } else {
      was_full_ = was_full_ || use != ChunkUse::kCompaction;
      return absl::ResourceExhaustedError(
          absl::StrCat("the metadata store is full (", chunks_.used(), " of ", chunks_.total(),
                       " chunks used); give it more space or delete files"));
    }
  }
}

absl::Status MetaFs::Extend(File& file, std::uint64_t bytes, ChunkUse use) {
  std::vector<ChunkRun> runs;
  std::vector<ChunkRun> unclean;
  {
    MutexLock lock(mutex_);
    std::uint64_t count = DivideUp(bytes, chunk_bytes_);
    const std::uint64_t has = CountChunks(file.runs_);
    if (file.kind == FileKind::kTable) {
      absl::Status s = TakeChunks(count, use, runs, unclean);
      for (const ChunkRun& run : runs) AppendRun(file.runs_, run);
      return s;
    }
    const std::uint64_t most = std::max(kLeastLogStepChunks, kMostLogStepBytes / chunk_bytes_);
    if (has > 0) count = std::max(count, std::clamp(has, kLeastLogStepChunks, most));
    if (absl::Status s = TakeChunks(count, ChunkUse::kLog, runs, unclean); !s.ok()) return s;
  }
  absl::Status zeroed = ZeroChunks(unclean);
  MutexLock lock(mutex_);
  for (const ChunkRun& run : runs) AppendRun(file.runs_, run);
  if (!zeroed.ok()) return zeroed;
  file.record_.runs = file.runs_;
  if (file.removed_) return absl::OkStatus();
  QueueRecord(file);
  return CommitLocked();
}

std::vector<Region> MetaFs::regions() const {
  MutexLock lock(mutex_);
  return superblock_.regions;
}

std::uint64_t MetaFs::FreeBytes() const {
  MutexLock lock(mutex_);
  std::uint64_t chunks = chunks_.available(ChunkUse::kTable);
  // Whoever needs those commits the removals first.
  for (const Dying& dying : dying_) {
    if (dying.file.use_count() == 1) chunks += CountChunks(dying.file->runs_);
  }
  return chunks * chunk_bytes_;
}

std::uint64_t MetaFs::SizeBytes() const {
  MutexLock lock(mutex_);
  return chunks_.total() * chunk_bytes_;
}

std::uint64_t MetaFs::ReservedBytes() const {
  return std::min(SizeBytes() / 32 * kReservedPer32, kMostReservedBytes);
}

std::uint64_t MetaFs::WorkingBytes() const {
  return std::min(SizeBytes() / 32 * kWorkingPer32, kMostWorkingBytes);
}

void MetaFs::Started() {
  MutexLock lock(mutex_);
  chunks_.Started();
  for (const auto& [name, file] : files_) file->scanned_ = {};
}

absl::Status MetaFs::Unmount() {
  MutexLock lock(mutex_);
  if (absl::Status s = Writable(); !s.ok()) return s;
  PutCleanRecord(pending_);
  ++queued_;
  absl::Status s = CommitLocked();
  if (broken_.ok()) broken_ = absl::FailedPreconditionError("the metadata store is unmounted");
  return s;
}

}  // namespace reel::metafs
