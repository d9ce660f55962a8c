#include "mdc/ops/extents.h"

#include <algorithm>
#include <cerrno>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "mdc/metadb/schema.h"
#include "mdc/ops/inode.h"
#include "proto/status.h"

namespace reel::mdc {
namespace {

FileBlock RegionStart(FileBlock block) {
  return FileBlock(RoundDown(block.value(), kExtentRegionBlocks));
}

struct StoredExtent {
  Extent extent;
  std::uint64_t birth_sequence = 0;
};

absl::StatusOr<StoredExtent> Decode(InodeNumber inode, std::string_view key,
                                    std::string_view value) {
  const absl::StatusOr<schema::ParsedKey> parsed = schema::Parse(key);
  if (!parsed.ok()) return parsed.status();
  v1::ExtentRecord record;
  if (!record.ParseFromArray(value.data(), static_cast<int>(value.size())) ||
      record.kind() != v1::LAYOUT_PLAIN || record.places_size() != 1 || record.shared() ||
      record.length_blocks() == 0 || record.length_blocks() > kExtentRegionBlocks ||
      parsed->second >= kEndOfFileBlocks.value() ||
      parsed->second % kExtentRegionBlocks + record.length_blocks() > kExtentRegionBlocks ||
      (record.state() != v1::EXTENT_UNWRITTEN && record.state() != v1::EXTENT_WRITTEN)) {
    return DamagedRecord(absl::StrCat("extent at file block ", parsed->second), inode);
  }
  const v1::Place& place = record.places(0);
  return StoredExtent{
      {FileBlock(parsed->second), record.length_blocks(), static_cast<ExtentState>(record.state()),
       PoolId(place.pool()), PoolBlock(place.pool_block())},
      record.birth_sequence()};
}

// [start, end) of the extent, which covers it.
Extent Cut(const Extent& extent, FileBlock start, FileBlock end) {
  Extent cut = extent;
  cut.file_block = std::max(extent.file_block, start);
  cut.length_blocks = std::min(extent.end(), end) - cut.file_block;
  cut.pool_block = extent.pool_block + (cut.file_block - extent.file_block);
  return cut;
}

// Appends, as part of the last one where it continues it.
void Append(std::vector<Extent>& extents, const Extent& next) {
  if (!extents.empty()) {
    Extent& last = extents.back();
    if (last.end() == next.file_block && last.state == next.state && last.pool == next.pool &&
        last.pool_block + last.length_blocks == next.pool_block) {
      last.length_blocks += next.length_blocks;
      return;
    }
  }
  extents.push_back(next);
}

}  // namespace

absl::StatusOr<std::vector<Extent>> ReadExtents(Txn& txn, InodeNumber inode, FileBlock start,
                                                std::uint64_t length_blocks, std::size_t limit) {
  const absl::StatusOr<v1::InodeRecord*> record = txn.Inode(inode);
  if (!record.ok()) return record.status();
  std::vector<Extent> extents;
  FileBlock end = start + length_blocks;
  if ((*record)->truncated_from() != 0) {
    end = std::min(end, FileBlock((*record)->truncated_from() - 1));
  }
  if ((*record)->allocated_blocks() == 0 || start >= end || limit == 0) return extents;

  absl::Status damage;
  const absl::Status scanned = txn.Scan(
      schema::ExtentPrefix(inode), schema::ExtentKey(inode, start),
      [&](std::string_view key, std::string_view value) {
        const absl::StatusOr<StoredExtent> stored = Decode(inode, key, value);
        if (!stored.ok()) {
          damage = stored.status();
          return false;
        }
        const Extent& extent = stored->extent;
        if (extent.file_block >= end) return false;
        if (extent.end() <= start) return true;
        Append(extents, Cut(extent, start, end));
        if (extents.size() <= limit) return true;
        extents.pop_back();
        return false;
      },
      ScanFrom::kAtOrBefore);
  if (!damage.ok()) return damage;
  if (!scanned.ok()) return scanned;
  return extents;
}

absl::StatusOr<FileBlock> ExtentEdit::LoadRange(FileBlock start, FileBlock end,
                                                std::size_t max_extents) {
  const absl::StatusOr<v1::InodeRecord*> record = ctx_.txn.Inode(inode_);
  if (!record.ok()) return record.status();
  if ((*record)->allocated_blocks() == 0 && (*record)->truncated_from() == 0) {
    return kEndOfFileBlocks;
  }
  FileBlock loaded_to = kEndOfFileBlocks;
  std::size_t count = 0;
  absl::Status damage;
  const FileBlock from = start == FileBlock(0) ? start : start - 1;
  const absl::Status scanned = ctx_.txn.Scan(
      schema::ExtentPrefix(inode_), schema::ExtentKey(inode_, from),
      [&](std::string_view key, std::string_view value) {
        const absl::StatusOr<StoredExtent> stored = Decode(inode_, key, value);
        if (!stored.ok()) {
          damage = stored.status();
          return false;
        }
        const Extent& extent = stored->extent;
        if (extent.file_block > end) return false;
        if (extent.pool.value() >= ctx_.descriptor.pools.size()) {
          damage = DamagedRecord(absl::StrCat("extent at file block ", extent.file_block.value()),
                                 inode_);
          return false;
        }
        const HeldExtent held{extent.length_blocks, extent.state == ExtentState::kWritten,
                              extent.pool, extent.pool_block, stored->birth_sequence};
        if (stored_.emplace(extent.file_block, held).second) {
          current_.emplace(extent.file_block, held);
        }
        // One too many: as the neighbour of those before it.
        if (extent.end() > start && ++count > max_extents) loaded_to = extent.file_block;
        return loaded_to == kEndOfFileBlocks;
      },
      ScanFrom::kAtOrBefore);
  if (!damage.ok()) return damage;
  if (!scanned.ok()) return scanned;
  return loaded_to;
}

absl::Status ExtentEdit::EndPendingTruncation() {
  const absl::StatusOr<v1::InodeRecord*> record = ctx_.txn.Inode(inode_);
  if (!record.ok()) return record.status();
  if ((*record)->truncated_from() == 0) return absl::OkStatus();
  const FileBlock first((*record)->truncated_from() - 1);
  const absl::StatusOr<FileBlock> loaded = LoadRange(first, kEndOfFileBlocks, ctx_.steps.extents);
  if (!loaded.ok()) return loaded.status();
  if (*loaded < kEndOfFileBlocks) return ctx_.AwaitRemoval(inode_);
  ends_truncation_ = true;
  return Remove(first, kEndOfFileBlocks - first);
}

absl::StatusOr<FileBlock> ExtentEdit::Load(FileBlock start, std::uint64_t length_blocks,
                                           std::optional<std::size_t> max_extents) {
  if (!begun_) {
    begun_ = true;
    if (absl::Status ended = EndPendingTruncation(); !ended.ok()) return ended;
  }
  const FileBlock end = start + length_blocks;
  const absl::StatusOr<FileBlock> loaded =
      LoadRange(start, end, max_extents.value_or(ctx_.steps.extents));
  return loaded.ok() ? std::min(*loaded, end) : loaded;
}

std::vector<Extent> ExtentEdit::Allocated(FileBlock start, std::uint64_t length_blocks) const {
  const FileBlock end = start + length_blocks;
  std::vector<Extent> extents;
  auto it = current_.upper_bound(start);
  if (it != current_.begin()) --it;
  for (; it != current_.end() && it->first < end; ++it) {
    const HeldExtent& held = it->second;
    const Extent extent{it->first, held.length_blocks,
                        held.written ? ExtentState::kWritten : ExtentState::kUnwritten, held.pool,
                        held.pool_block};
    if (extent.end() > start) Append(extents, Cut(extent, start, end));
  }
  return extents;
}

std::optional<Extent> ExtentEdit::Before(FileBlock block) const {
  auto it = current_.lower_bound(block);
  if (it == current_.begin()) return std::nullopt;
  --it;
  const FileBlock end = std::min(block, it->first + it->second.length_blocks);
  return Allocated(it->first, end - it->first).front();
}

void ExtentEdit::SplitAt(FileBlock block) {
  auto it = current_.upper_bound(block);
  if (it == current_.begin()) return;
  --it;
  const std::uint64_t head_blocks = block - it->first;
  if (head_blocks == 0 || head_blocks >= it->second.length_blocks) return;
  HeldExtent tail = it->second;
  tail.length_blocks -= head_blocks;
  tail.pool_block = tail.pool_block + head_blocks;
  it->second.length_blocks = head_blocks;
  current_.emplace_hint(std::next(it), block, tail);
}

void ExtentEdit::MergeWithin(FileBlock start, FileBlock end) {
  auto it = current_.lower_bound(start);
  if (it != current_.begin()) --it;
  while (it != current_.end() && it->first <= end) {
    const auto next = std::next(it);
    if (next == current_.end()) return;
    HeldExtent& held = it->second;
    const bool continues = it->first + held.length_blocks == next->first &&
                           next->first != RegionStart(next->first) &&
                           held.written == next->second.written && held.pool == next->second.pool &&
                           held.pool_block + held.length_blocks == next->second.pool_block;
    if (!continues) {
      it = next;
      continue;
    }
    held.length_blocks += next->second.length_blocks;
    held.birth_sequence = std::min(held.birth_sequence, next->second.birth_sequence);
    current_.erase(next);
  }
}

bool ExtentEdit::Overlaps(FileBlock start, FileBlock end) const {
  auto it = current_.lower_bound(end);
  if (it == current_.begin()) return false;
  --it;
  return it->first + it->second.length_blocks > start;
}

bool ExtentEdit::Covers(FileBlock start, FileBlock end) const {
  auto it = current_.upper_bound(start);
  if (it == current_.begin()) return false;
  for (--it; it != current_.end() && it->first <= start; ++it) {
    start = std::max(start, it->first + it->second.length_blocks);
    if (start >= end) return true;
  }
  return false;
}

absl::Status ExtentEdit::Remove(FileBlock start, std::uint64_t length_blocks) {
  const FileBlock end = start + length_blocks;
  cleared_.emplace_back(start, end);
  SplitAt(start);
  SplitAt(end);
  auto it = current_.lower_bound(start);
  while (it != current_.end() && it->first < end) {
    const HeldExtent& held = it->second;
    const absl::Status freed =
        ctx_.allocator.Free(ctx_.txn, Run{held.pool, held.pool_block, held.length_blocks},
                            Sequence(held.birth_sequence));
    if (!freed.ok()) return freed;
    removed_blocks_ += held.length_blocks;
    it = current_.erase(it);
  }
  return absl::OkStatus();
}

absl::Status ExtentEdit::InsertUnwritten(FileBlock start, const Run& run) {
  const FileBlock end = start + run.length_blocks;
  if (run.length_blocks == 0 || end > kEndOfFileBlocks || Overlaps(start, end)) {
    return absl::InternalError(absl::StrCat("file block ", start.value(), " of inode ",
                                            inode_.value(), " cannot take ", run.length_blocks,
                                            " blocks: they are not a hole"));
  }
  for (FileBlock block = start; block < end;) {
    const FileBlock held_end = std::min(end, RegionStart(block) + kExtentRegionBlocks);
    current_.emplace(block, HeldExtent{held_end - block, false, run.pool,
                                       run.start + (block - start), ctx_.next_sequence.value()});
    block = held_end;
  }
  added_blocks_ += run.length_blocks;
  MergeWithin(start, end);
  return absl::OkStatus();
}

void ExtentEdit::SetState(FileBlock start, std::uint64_t length_blocks, bool written) {
  const FileBlock end = start + length_blocks;
  SplitAt(start);
  SplitAt(end);
  for (auto it = current_.lower_bound(start); it != current_.end() && it->first < end; ++it) {
    it->second.written = written;
  }
  MergeWithin(start, end);
}

absl::Status ExtentEdit::MarkWritten(FileBlock start, std::uint64_t length_blocks) {
  if (!Covers(start, start + length_blocks)) {
    return ErrnoStatus(
        ESTALE, absl::StrCat("file blocks ", start.value(), " to ", (start + length_blocks).value(),
                             " of inode ", inode_.value(), " are not all allocated"));
  }
  SetState(start, length_blocks, true);
  return absl::OkStatus();
}

void ExtentEdit::MarkUnwritten(FileBlock start, std::uint64_t length_blocks) {
  SetState(start, length_blocks, false);
}

absl::Status ExtentEdit::Store() {
  const absl::StatusOr<v1::InodeRecord*> record = ctx_.txn.Inode(inode_);
  if (!record.ok()) return record.status();
  if ((*record)->allocated_blocks() + added_blocks_ < removed_blocks_) {
    return DamagedRecord("count of allocated blocks", inode_);
  }
  for (const auto& [block, held] : stored_) {
    if (!current_.contains(block)) ctx_.txn.Delete(schema::ExtentKey(inode_, block));
  }
  for (const auto& [block, held] : current_) {
    const auto before = stored_.find(block);
    if (before != stored_.end() && before->second == held) continue;
    v1::ExtentRecord out;
    out.set_length_blocks(held.length_blocks);
    v1::Place& place = *out.add_places();
    place.set_pool(held.pool.value());
    place.set_pool_block(held.pool_block.value());
    out.set_state(held.written ? v1::EXTENT_WRITTEN : v1::EXTENT_UNWRITTEN);
    out.set_birth_sequence(held.birth_sequence);
    ctx_.txn.Put(schema::ExtentKey(inode_, block), out.SerializeAsString());
  }
  for (const auto& [start, end] : cleared_) {
    const auto next = current_.lower_bound(start);
    if (next != current_.end() && next->first < end) continue;
    ctx_.txn.Cleared(schema::ExtentKey(inode_, start), schema::ExtentKey(inode_, end));
  }
  (*record)->set_allocated_blocks((*record)->allocated_blocks() + added_blocks_ - removed_blocks_);
  if (ends_truncation_) {
    (*record)->set_truncated_from(0);
    if ((*record)->nlink() != 0) ctx_.txn.Delete(schema::OrphanKey(inode_));
  }
  ctx_.txn.Changed(inode_);
  return absl::OkStatus();
}

absl::StatusOr<bool> RemoveSomeExtents(OpContext& ctx, InodeNumber inode, FileBlock start,
                                       std::uint64_t length_blocks, std::size_t max_extents) {
  const FileBlock end = start + length_blocks;
  ExtentEdit edit(ctx, inode);
  const absl::StatusOr<FileBlock> loaded = edit.LoadRange(start, end, max_extents);
  if (!loaded.ok()) return loaded.status();
  const FileBlock remove_end = std::min(end, *loaded);
  if (remove_end > start) {
    if (absl::Status removed = edit.Remove(start, remove_end - start); !removed.ok())
      return removed;
  }
  if (absl::Status stored = edit.Store(); !stored.ok()) return stored;
  return remove_end == end;
}

}  // namespace reel::mdc
