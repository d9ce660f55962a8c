// How changes of a metadata store become durable: its journal and its superblock.
#include <algorithm>
#include <utility>

#include "mdc/metafs/metafs.h"
#include "volume/base/aligned_buffer.h"

namespace reel::metafs {

absl::Status MetaFs::Commit() {
  MutexLock lock(mutex_);
  if (absl::Status s = Writable(); !s.ok()) return s;
  return CommitLocked();
}

void MetaFs::BeginCommit() {
  while (committing_) changed_.Wait(mutex_);
  committing_ = true;
}

void MetaFs::EndCommit(const absl::Status& outcome) {
  committing_ = false;
  if (!outcome.ok() && broken_.ok()) broken_ = outcome;
  changed_.NotifyAll();
}

absl::Status MetaFs::CommitLocked() {
  const std::uint64_t wanted = queued_;
  while (committed_ < wanted) {
    BeginCommit();
    absl::Status outcome = broken_;
    if (outcome.ok() && committed_ < wanted) {
      const std::uint64_t end =
          journal_->next_offset_bytes() + LogWriter::FramedBytes(pending_.size());
      if (end > CountChunks(superblock_.journal) * chunk_bytes_) {
        outcome = SwitchJournal(/*first_slot=*/0);
      } else {
        const std::string records = std::exchange(pending_, {});
        const std::uint64_t target = queued_;
        mutex_.Unlock();
        outcome = WriteJournal(records);
        mutex_.Lock();
        if (outcome.ok()) committed_ = target;
      }
    }
    EndCommit(outcome);
    if (!broken_.ok()) return broken_;
  }
  return absl::OkStatus();
}

absl::Status MetaFs::WriteJournal(std::string_view records) {
  if (unflushed_tables_.exchange(false)) {
    if (absl::Status s = space_.Flush(); !s.ok()) return s;
  }
  const std::uint64_t at = journal_->next_offset_bytes();
  const AlignedBuffer frames = journal_->Frame(records);
  if (absl::Status s = TransferChunks(superblock_.journal, at, {}, frames.span()); !s.ok())
    return s;
  if (absl::Status s = space_.Flush(); !s.ok()) return s;
  journal_->Synced(journal_->frames());
  return absl::OkStatus();
}

std::string MetaFs::Checkpoint(const Superblock& superblock) const {
  std::string records;
  PutSuperblockRecord(records, superblock);
  PutNextIdRecord(records, next_id_);
  PutClaimRecord(records, chunks_.claimed());
  for (const auto& [name, file] : files_) {
    if (file->in_journal_) PutFileRecord(records, file->record_);
  }
  return records;
}

// Room for the checkpoint and as much again of changes.
std::uint64_t MetaFs::JournalChunks() const {
  const std::uint64_t bytes =
      2 * LogWriter::FramedBytes(Checkpoint(superblock_).size()) + kMinChunkBytes;
  return std::max<std::uint64_t>(DivideUp(bytes, chunk_bytes_), 2);
}

absl::Status MetaFs::SwitchJournal(int first_slot) {
  const LogId id{next_id_++, epoch_};
  const std::uint64_t wanted = JournalChunks();
  const std::uint64_t has = CountChunks(spare_journal_);
  std::vector<ChunkRun> unclean;
  if (has < wanted) {
    std::vector<ChunkRun> more;
    if (chunks_.Take(wanted - has, ChunkUse::kLog, more, unclean)) {
      for (const ChunkRun& run : more) AppendRun(spare_journal_, run);
    } else if (has * chunk_bytes_ <
               LogWriter::FramedBytes(Checkpoint(superblock_).size()) + kMinChunkBytes / 2) {
      return absl::ResourceExhaustedError("the metadata store has no room for its journal");
    }
  }
  Superblock next = superblock_;
  ++next.generation;
  next.journal_id = id.file_id;
  next.journal = spare_journal_;
  if (absl::Status valid = ValidateSuperblock(next); !valid.ok()) return valid;
  const std::string checkpoint = Checkpoint(next);
  const std::uint64_t target = queued_;
  pending_.clear();

  mutex_.Unlock();
  absl::Status outcome = ZeroChunks(unclean);
  spare_journal_ = std::exchange(superblock_.journal, next.journal);
  journal_ = std::make_unique<LogWriter>(id);
  if (outcome.ok()) outcome = WriteJournal(checkpoint);
  if (outcome.ok()) outcome = WriteSuperblock(space_, next, first_slot);
  mutex_.Lock();
  if (!outcome.ok()) return outcome;
  superblock_ = next;
  committed_ = target;
  return absl::OkStatus();
}

absl::Status MetaFs::AddRegion(const Region& region) {
  MutexLock lock(mutex_);
  if (absl::Status s = Writable(); !s.ok()) return s;
  BeginCommit();
  Superblock next = superblock_;
  ++next.generation;
  next.regions.push_back(region);
  absl::Status refused = ValidateSuperblock(next);
  if (refused.ok()) refused = space_.SetRegions(next.regions);
  if (!refused.ok() || !broken_.ok()) {
    EndCommit(absl::OkStatus());
    return refused.ok() ? broken_ : refused;
  }
  mutex_.Unlock();
  absl::Status outcome = WriteSuperblock(space_, next, /*first_slot=*/0);
  mutex_.Lock();
  if (outcome.ok()) superblock_ = next;
  EndCommit(outcome);
  if (!outcome.ok()) return outcome;
  // Nothing lies in the region before the journal's copy names it.
  PutSuperblockRecord(pending_, next);
  ++queued_;
  if (outcome = CommitLocked(); !outcome.ok()) return outcome;
  chunks_.Grow(next.total_chunks());
  return absl::OkStatus();
}

}  // namespace reel::metafs
