// How a metadata store is made, mounted and checked.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "mdc/base/in_order.h"
#include "mdc/metafs/file_io.h"
#include "mdc/metafs/journal_reader.h"
#include "mdc/metafs/metafs.h"
#include "volume/base/aligned_buffer.h"
#include "volume/base/coding.h"

namespace reel::metafs {
namespace {

constexpr std::uint64_t kLeastChunks = 128;
constexpr std::uint64_t kWantedChunks = 1024;

constexpr std::uint64_t kLeastReserveChunks = 48;
constexpr std::uint64_t kMostReserveBytes = 1 * kGiB;
// The tables that a start writes: two buffers (store.cc), 2/64 of the store or two times 64 MiB,
// and half as much for what tables hold besides records.
constexpr std::uint64_t kStartPer64 = 3;
constexpr std::uint64_t kMostStartBytes = 192 * kMiB;

// What must stay unclaimed, for the journal and the logs of the next epoch; and what tables leave
// to the logs of this one. Half of it suffices for two journals, RocksDB's manifest and the first
// log that it writes; the whole for the longest log beside them (store.cc). What the next epoch's
// start makes tables of is kept besides; and as much, by compactions, for flushes.
Chunks::Reserves ReservesOf(std::uint64_t total_chunks, std::uint64_t chunk_bytes) {
  const std::uint64_t least = std::min(kLeastReserveChunks, total_chunks / 4);
  const std::uint64_t most = std::max(kMostReserveBytes / chunk_bytes, least);
  const std::uint64_t chunks = std::clamp(total_chunks / 16, least, most);
  const std::uint64_t start =
      std::min(DivideUp(total_chunks * kStartPer64, 64), DivideUp(kMostStartBytes, chunk_bytes));
  return {.epoch = chunks, .log = chunks, .start = start, .flush = start};
}

std::uint64_t FixedChunks(std::uint64_t chunk_bytes) {
  return DivideUp(kHeadBytes, chunk_bytes);
}

std::uint64_t ChooseChunkBytes(std::uint64_t size_bytes) {
  std::uint64_t chunk_bytes = kMinChunkBytes;
  while (chunk_bytes < kMiB && size_bytes / chunk_bytes / 2 >= kWantedChunks) chunk_bytes *= 2;
  // Above that only so that a chunk number stays cheap to track.
  while (chunk_bytes < kMaxChunkBytes && size_bytes / chunk_bytes > kMiB) chunk_bytes *= 2;
  return chunk_bytes;
}

}  // namespace

MetaFs::MetaFs(Space& space, const Superblock& superblock, Epoch epoch, bool read_only)
    : space_(space),
      chunk_bytes_(superblock.chunk_bytes),
      epoch_(epoch),
      read_only_(read_only),
      chunks_(superblock.total_chunks(), FixedChunks(superblock.chunk_bytes),
              ReservesOf(superblock.total_chunks(), superblock.chunk_bytes), epoch.value()),
      superblock_(superblock) {}

absl::Status MetaFs::Format(Space& space, const FormatOptions& options) {
  if (absl::Status s = space.SetRegions(options.regions); !s.ok()) return s;
  Superblock superblock;
  superblock.epoch = options.epoch;
  superblock.block_bytes = space.block_bytes();
  const std::uint64_t chunk_bytes =
      options.chunk_bytes != 0 ? options.chunk_bytes : ChooseChunkBytes(space.size_bytes());
  superblock.chunk_bytes = static_cast<std::uint32_t>(std::min(chunk_bytes, 2 * kMaxChunkBytes));
  superblock.regions = options.regions;
  superblock.journal = {{FixedChunks(kMinChunkBytes), 1}};  // of no meaning: StartEpoch makes one
  if (absl::Status valid = ValidateSuperblock(superblock); !valid.ok()) return valid;
  if (superblock.total_chunks() < kLeastChunks) {
    return absl::InvalidArgumentError(
        absl::StrCat("the metadata store needs at least ", kLeastChunks, " chunks of ", chunk_bytes,
                     " bytes and would have ", superblock.total_chunks(), "; give it more space"));
  }
  std::unique_ptr<MetaFs> fs(new MetaFs(space, superblock, options.epoch, /*read_only=*/false));
  fs->superblock_.journal.clear();
  if (absl::Status s = fs->StartEpoch(/*first_slot=*/0); !s.ok()) {
    return s;
  }
  return fs->Unmount();
}

std::unique_ptr<MetaFs> MetaFs::Load(Space& space, const SuperblockReading& reading,
                                     const MountOptions& options,
                                     std::vector<absl::Status>& problems) {
  const Superblock& superblock = reading.superblock;
  if (superblock.block_bytes != space.block_bytes()) {
    problems.push_back(absl::DataLossError(
        absl::StrCat("the metadata store was made for blocks of ", superblock.block_bytes,
                     " bytes, and the volume's are of ", space.block_bytes())));
    return nullptr;
  }
  if (absl::Status s = space.SetRegions(superblock.regions); !s.ok()) {
    problems.push_back(s);
    return nullptr;
  }
  absl::StatusOr<JournalState> state = ReadJournal(space, superblock);
  if (absl::IsDataLoss(state.status()) && options.salvage != nullptr) {
    options.salvage->push_back(
        absl::StrCat(state.status().message(), ": what it says besides was taken"));
    state = ReadDamagedJournal(space, superblock);
  }
  if (!state.ok()) {
    problems.push_back(state.status());
    return nullptr;
  }
  const Epoch epoch = options.read_only ? superblock.epoch : options.epoch;
  std::unique_ptr<MetaFs> fs(new MetaFs(space, superblock, epoch, options.read_only));
  if (absl::Status s = fs->LoadFiles(*state, options, problems); !s.ok()) {
    problems.push_back(s);
    return nullptr;
  }
  return fs;
}

// A problem here is one with the journal's word; what is wrong with a file's bytes stays with the
// file.
absl::Status MetaFs::LoadFiles(const JournalState& state, const MountOptions& options,
                               std::vector<absl::Status>& problems) {
  std::vector<FileRef> logs;
  {
    MutexLock lock(mutex_);
    next_id_ = std::max(state.next_id, superblock_.journal_id + 1);
    for (const ChunkRun& run : superblock_.journal) {
      if (absl::Status s = chunks_.Use(run); !s.ok()) return s;
    }
    // From the youngest on: a repair that has lost a removal lets the older file go.
    // NOLINTNEXTLINE(modernize-loop-convert): clang 14 cannot compile this library's views.
    for (auto entry = state.files.rbegin(); entry != state.files.rend(); ++entry) {
      const FileRecord& record = entry->second;
      FileRef file(new File(record.id, record.kind, record.epoch));
      file->name_ = record.name;
      file->runs_ = record.runs;
      file->size_bytes_ = record.size_bytes;
      file->checksum_ = record.checksum;
      file->in_journal_ = true;
      file->record_ = record;
      std::string wrong;
      if (files_.contains(record.name)) wrong = "two files have this name";
      for (const ChunkRun& run : record.runs) {
        if (!wrong.empty()) break;
        if (absl::Status s = chunks_.Use(run); !s.ok()) wrong = std::string(s.message());
      }
      if (record.size_bytes > CountChunks(record.runs) * chunk_bytes_) {
        wrong = "larger than its chunks";
      }
      if (!wrong.empty()) {
        wrong = absl::StrCat("metadata file ", record.name, ": ", wrong);
        if (options.salvage == nullptr) {
          problems.push_back(absl::DataLossError(wrong));
        } else {
          options.salvage->push_back(wrong + "; dropped");
        }
        continue;
      }
      files_.emplace(record.name, file);
      if (record.kind == FileKind::kLog) logs.push_back(std::move(file));
    }
    for (const ChunkRun& run : state.claims) {
      if (run.first >= chunks_.total() || run.count > chunks_.total() - run.first) {
        problems.push_back(
            absl::DataLossError("the metadata journal claims chunks out of the store"));
      }
    }
  }
  if (!problems.empty()) return absl::OkStatus();  // the caller sees them; nothing below is safe
  ScanLogs(logs, options);
  if (!state.clean) MarkOldClaims(state);
  return absl::OkStatus();
}

void MetaFs::ScanLogs(const std::vector<FileRef>& logs, const MountOptions& options) {
  for (const FileRef& log : logs) {
    const LogSource source = [&](std::uint64_t offset, std::span<std::byte> to) {
      return ReadChunks(*log, offset, to);
    };
    const LogId id{log->id, log->epoch};
    std::string stream;
    absl::StatusOr<LogEnd> end = ScanLog(source, CapacityOf(*log), id, OnDamage::kRefuse, &stream);
    if (!end.ok()) stream.clear();
    absl::Status damage;
    if (!end.ok()) {
      damage = {end.status().code(),
                absl::StrCat("metadata file ", log->record_.name, ": ", end.status().message())};
    }
    if (absl::IsDataLoss(damage) && options.salvage != nullptr) {
      end = ScanLog(source, CapacityOf(*log), id, OnDamage::kCut);
      if (end.ok()) {
        options.salvage->push_back(
            absl::StrCat(damage.message(), "; cut off there, what followed is lost"));
        damage = absl::OkStatus();
      }
    }
    MutexLock lock(mutex_);
    log->damage_ = damage;
    log->scanned_ = std::move(stream);
    if (end.ok()) log->log_end_ = *end;
  }
}

// What an earlier epoch claimed and did not give to a finished table, it may still be writing to.
void MetaFs::MarkOldClaims(const JournalState& state) {
  MutexLock lock(mutex_);
  std::vector<bool> finished(chunks_.total());
  for (const auto& [name, file] : files_) {
    if (file->kind == FileKind::kLog) continue;
    for (const ChunkRun& run : file->runs_) {
      std::fill_n(finished.begin() + static_cast<std::ptrdiff_t>(run.first), run.count, true);
    }
  }
  for (const ChunkRun& run : state.claims) {
    for (std::uint64_t chunk = run.first; chunk < run.end(); ++chunk) {
      if (!finished[chunk]) chunks_.MarkOld({chunk, 1});
    }
  }
}

// The new epoch's own journal, in chunks that no epoch before it wrote to; then the superblock.
absl::Status MetaFs::StartEpoch(int first_slot) {
  MutexLock lock(mutex_);
  const std::vector<ChunkRun> old_journal = superblock_.journal;
  // For this journal, the next one, which must not depend on free space, and the first files.
  chunks_.Claim(chunks_.PlanClaim(3 * JournalChunks() + chunks_.total() / 64, ChunkUse::kLog));
  BeginCommit();
  superblock_.epoch = epoch_;
  absl::Status s = SwitchJournal(first_slot);
  if (s.ok()) {
    chunks_.Free(old_journal, /*framed=*/true);
    spare_journal_.clear();
    std::vector<ChunkRun> unclean;
    if (chunks_.Take(JournalChunks(), ChunkUse::kLog, spare_journal_, unclean)) {
      mutex_.Unlock();
      s = ZeroChunks(unclean);
      mutex_.Lock();
    } else {
      s = absl::ResourceExhaustedError("the metadata store has no room for its next journal");
    }
  }
  EndCommit(s);
  return s;
}

absl::StatusOr<std::unique_ptr<MetaFs>> MetaFs::Mount(Space& space, const MountOptions& options) {
  const absl::StatusOr<SuperblockReading> reading = ReadSuperblock(space);
  if (!reading.ok()) return reading.status();
  if (!options.read_only && options.epoch <= reading->superblock.epoch) {
    return absl::FailedPreconditionError(
        absl::StrCat("the metadata store was mounted in epoch ", reading->superblock.epoch.value(),
                     " already; epoch ", options.epoch.value(), " may not write to it"));
  }
  std::vector<absl::Status> problems;
  std::unique_ptr<MetaFs> fs = Load(space, *reading, options, problems);
  if (!problems.empty()) return problems.front();
  if (!options.read_only) {
    if (options.before_change) options.before_change();
    if (absl::Status s = fs->StartEpoch(1 - reading->slot); !s.ok()) return s;
  }
  return fs;
}

std::vector<std::string> MetaFs::Check(Space& space, std::size_t threads) {
  std::vector<std::string> report;
  const absl::StatusOr<SuperblockReading> reading = ReadSuperblock(space);
  if (!reading.ok()) return {std::string(reading.status().message())};
  for (int slot = 0; slot < 2; ++slot) {
    if (reading->slots[slot].ok()) continue;
    report.push_back(absl::StrCat("metadata superblock slot ", slot, ": ",
                                  reading->slots[slot].message(),
                                  " (the other slot is good; the next mount repairs this one)"));
  }
  std::vector<absl::Status> problems;
  const std::unique_ptr<MetaFs> fs =
      Load(space, *reading, {.epoch = Epoch(0), .read_only = true}, problems);
  if (problems.empty()) fs->CheckFiles(threads, problems);
  for (const absl::Status& problem : problems) report.push_back(std::string(problem.message()));
  return report;
}

void MetaFs::CheckFiles(std::size_t threads, std::vector<absl::Status>& problems) {
  std::vector<FileRef> tables;
  {
    MutexLock lock(mutex_);
    for (const auto& [name, file] : files_) {
      if (!file->damage_.ok()) problems.push_back(file->damage_);
      if (file->kind == FileKind::kTable) tables.push_back(file);
    }
  }
  std::vector<absl::Status> found(tables.size());
  const auto take = [&](std::size_t i) {
    if (found[i].ok()) return;
    MutexLock lock(mutex_);
    problems.push_back(
        absl::Status(found[i].code(),
                     absl::StrCat("metadata file ", tables[i]->name_, ": ", found[i].message())));
  };
  RunInOrder(
      {.threads = threads,
       .parts = tables.size(),
       .work = [&](std::size_t, std::size_t i) { found[i] = VerifyTable(*this, *tables[i]); },
       .take = take});
}

}  // namespace reel::metafs
