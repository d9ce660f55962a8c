// metafs: the files of the metadata store, kept on raw LUN space. It knows nothing of RocksDB;
// rocks_fs.h makes it a rocksdb::FileSystem.
//
// Space is given out in chunks. What files there are, and where, stands in a journal, which a
// superblock points to; both are small and rewritten as wholes now and then, so there is nothing to
// garbage-collect. A file is a *table* (written once, then synced; its size and checksum stand in
// the journal) or a *log* (appended and synced often: one LUN write and one flush a sync,
// framed_log.h). The name decides:
// "*.log" and "MANIFEST-*" are logs.
// Invariants:
//   1. A change of the names and sizes is one atomic write to the journal, after all bytes that it
//   speaks
//      of are durable.
//   2. A chunk is given to another file only when the removal of its former file is durable and no
//   handle
//      reads it any more.
//   3. This epoch writes only to chunks that it claimed in the journal before, and puts logs only
//   where no
//      earlier epoch may still have writes under way.
//   4. After a failed journal or superblock write nothing is changed any more: every later change
//   returns
//      that error, and what holds is decided by the next mount.
// Threads: all methods may be called concurrently, but one file has one writer. The mutex is never
// held across I/O: whoever commits first takes the `committing_` seat and writes for those who
// queue behind.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mdc/metafs/chunks.h"
#include "mdc/metafs/framed_log.h"
#include "mdc/metafs/journal.h"
#include "mdc/metafs/space.h"
#include "mdc/metafs/superblock.h"
#include "volume/base/mutex.h"

namespace reel::metafs {

// A file, named or removed but still open. Fields but the constants are guarded by MetaFs's mutex.
class File {
 public:
  const std::uint64_t id;
  const FileKind kind;
  const Epoch epoch;

 private:
  friend class MetaFs;
  File(std::uint64_t file_id, FileKind file_kind, Epoch file_epoch)
      : id(file_id), kind(file_kind), epoch(file_epoch) {}

  std::string name_;
  std::vector<ChunkRun> runs_;  // all of the file's chunks
  std::uint64_t size_bytes_ = 0;
  std::uint32_t checksum_ = 0;  // of a table
  LogEnd log_end_;              // of a log: what has been written
  absl::Status damage_;         // of a log, found when the store was mounted
  std::string scanned_;         // of a log: its bytes, from then until they are read or written to
  bool removed_ = false;
  bool in_journal_ = false;  // `record_` is in the journal, or queued for it
  FileRecord record_;
};
using FileRef = std::shared_ptr<File>;

struct FormatOptions {
  std::vector<Region> regions;    // the first begins at block 0 of the first metadata pool
  std::uint64_t chunk_bytes = 0;  // 0: by the size of the regions
  Epoch epoch;
};

struct MountOptions {
  Epoch epoch;             // greater than that of every earlier mount for writing
  bool read_only = false;  // for fsck: writes nothing at all; `epoch` is ignored
  // For repair: damage to the journal and to logs is no error; what is whole counts, and what was
  // lost is told here, one line each.
  std::vector<std::string>* salvage = nullptr;
  // Called when the files are found, before anything is written to the store's chunks.
  std::function<void()> before_change{};
};

class MetaFs {
 public:
  // Makes an empty store, whatever was there. INVALID_ARGUMENT when the regions are too small or
  // wrong.
  static absl::Status Format(Space& space, const FormatOptions& options);

  // REQUIRES: `space` outlives the result; no other host writes to the store, but for writes of
  // earlier epochs that may still be under way. NOT_FOUND: no store is there. DATA_LOSS: superblock
  // or journal are damaged (a damaged log is reported when it is opened). FAILED_PRECONDITION: the
  // epoch is not new.
  static absl::StatusOr<std::unique_ptr<MetaFs>> Mount(Space& space, const MountOptions& options);

  // Everything that is wrong with the store, one line each; reads all of it, by so many threads,
  // and writes nothing.
  static std::vector<std::string> Check(Space& space, std::size_t threads = 1);

  // Says in the journal that nobody writes any more. Without it the next mount takes this for a
  // crash, which costs it nothing but the use of some chunks.
  absl::Status Unmount();

  // Makes the store larger. The region must belong to it in the allocator already (allocator first,
  // superblock second: a crash between leaks space, and fsck finds it).
  absl::Status AddRegion(const Region& region);
  std::vector<Region> regions() const;

  // The store is open, and its user has what it needs to run. Until then this epoch may use a part
  // of what is kept for the start of the next one.
  void Started();

  // Space that tables can still get; what logs and the next epoch need is not counted.
  std::uint64_t FreeBytes() const;
  // Below it, refuse what makes the store grow, so that there is room to delete, and to commit what
  // was written before.
  std::uint64_t ReservedBytes() const;
  // What flushes and the largest compaction need: below it, commit nothing before they, or people
  // who delete, have made room.
  std::uint64_t WorkingBytes() const;
  std::uint64_t SizeBytes() const;
  // Whether a file has found no room since the mount.
  bool WasFull() const { return was_full_; }
  std::uint64_t chunk_bytes() const { return chunk_bytes_; }
  Epoch epoch() const { return epoch_; }
  bool read_only() const { return read_only_; }

  // --- Names. Paths are kept as given, but for repeated and trailing slashes. Changes are visible
  // at once and durable after the next Commit. NOT_FOUND names the path.
  absl::StatusOr<FileRef> Create(std::string_view path);  // replaces what had the name
  absl::StatusOr<FileRef> Find(std::string_view path) const;
  absl::Status Remove(std::string_view path);
  absl::Status Rename(std::string_view from, std::string_view to);  // replaces `to`
  // Makes all changes so far durable: at most one journal write.
  absl::Status Commit();
  // Directories are only the prefixes of names, and those that were made since the mount.
  void MakeDirectory(std::string_view path);
  bool RemoveDirectory(std::string_view path);  // false: it was not there, or is not empty
  bool IsDirectory(std::string_view path) const;
  std::vector<std::string> List(std::string_view directory) const;

  // --- Files, for their readers and writers (file_io.h). Offsets count from the file's first
  // chunk. The size of a table; of a log its bytes without frames. DATA_LOSS for a damaged log.
  absl::StatusOr<std::uint64_t> SizeOf(const File& file) const;
  std::uint32_t ChecksumOf(const File& file) const;
  absl::StatusOr<LogEnd> LogEndOf(const File& file) const;
  // All bytes of a log, where they were kept when the store was mounted; once. Else none.
  std::string TakeScanned(File& file);
  std::uint64_t CapacityOf(const File& file) const;
  // Aligned to kSpaceUnitBytes; OUT_OF_RANGE beyond the capacity.
  absl::Status ReadChunks(const File& file, std::uint64_t offset_bytes, std::span<std::byte> to);
  absl::Status WriteChunks(File& file, std::uint64_t offset_bytes, std::span<const std::byte> from);
  absl::Status Flush();
  // Gives the file chunks for at least `bytes` more. A log's new chunks are blank and, on return,
  // durably its own; `use` says what a table is for. RESOURCE_EXHAUSTED when the store is full.
  absl::Status Extend(File& file, std::uint64_t bytes, ChunkUse use = ChunkUse::kTable);
  // A table has this size and checksum from now on, durably so after the next Commit.
  absl::Status SetTableEnd(File& file, std::uint64_t size_bytes, std::uint32_t checksum);
  void SetLogEnd(File& file, LogEnd end);

 private:
  struct Dying {
    FileRef file;
    std::uint64_t ticket;  // durable once committed_ has reached it
  };

  MetaFs(Space& space, const Superblock& superblock, Epoch epoch, bool read_only);
  static std::unique_ptr<MetaFs> Load(Space& space, const SuperblockReading& reading,
                                      const MountOptions& options,
                                      std::vector<absl::Status>& problems);
  absl::Status LoadFiles(const JournalState& state, const MountOptions& options,
                         std::vector<absl::Status>& problems);
  void ScanLogs(const std::vector<FileRef>& logs, const MountOptions& options);
  void MarkOldClaims(const JournalState& state);
  absl::Status StartEpoch(int first_slot);
  void CheckFiles(std::size_t threads, std::vector<absl::Status>& problems);

  absl::Status Writable() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<FileRef> FindLocked(std::string_view path) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RemoveLocked(const FileRef& file) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void QueueRecord(File& file) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FreeDead() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string Checkpoint(const Superblock& superblock) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CommitLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status TakeChunks(std::uint64_t count, ChunkUse use, std::vector<ChunkRun>& runs,
                          std::vector<ChunkRun>& unclean) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Of whoever holds the committing_ seat.
  void BeginCommit() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndCommit(const absl::Status& outcome) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status WriteJournal(std::string_view records);
  std::uint64_t JournalChunks() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status SwitchJournal(int first_slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  absl::Status TransferChunks(const std::vector<ChunkRun>& runs, std::uint64_t offset_bytes,
                              std::span<std::byte> to, std::span<const std::byte> from);
  absl::Status ZeroChunks(const std::vector<ChunkRun>& runs);

  Space& space_;
  const std::uint64_t chunk_bytes_;
  const Epoch epoch_;
  const bool read_only_;
  std::atomic<bool> unflushed_tables_{false};
  std::atomic<bool> was_full_{false};

  mutable Mutex mutex_;
  CondVar changed_;
  Chunks chunks_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, FileRef, std::less<>> files_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string, std::less<>> directories_ ABSL_GUARDED_BY(mutex_);
  std::vector<Dying> dying_ ABSL_GUARDED_BY(mutex_);
  std::uint64_t next_id_ ABSL_GUARDED_BY(mutex_) = 1;
  std::string pending_ ABSL_GUARDED_BY(mutex_);          // records that no commit has taken yet
  std::uint64_t queued_ ABSL_GUARDED_BY(mutex_) = 0;     // records ever queued
  std::uint64_t committed_ ABSL_GUARDED_BY(mutex_) = 0;  // of them durable
  bool committing_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status broken_ ABSL_GUARDED_BY(mutex_);

  // Of whoever holds the committing_ seat.
  Superblock superblock_;
  std::unique_ptr<LogWriter> journal_;
  std::vector<ChunkRun> spare_journal_;  // where the next journal will lie
};

}  // namespace reel::metafs
