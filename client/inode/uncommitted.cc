#include "client/inode/uncommitted.h"

#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "client/inode/delayed_attributes.h"

namespace reel::client {

void Uncommitted::TakeBack(FileBlock first, FileBlock end) {
  on_its_way_.blocks.ForEachIn(
      first, end - first, [&](FileBlock at, std::uint64_t count) { dirty_.blocks.Add(at, count); });
}

void Uncommitted::ForgetDelayedMtime() {
  for (std::optional<v1::SetAttr>* delayed : {&on_its_way_.delayed, &dirty_.delayed}) {
    if (*delayed) (*delayed)->set_fields((*delayed)->fields() & ~std::uint32_t{v1::SetAttr::MTIME});
  }
}

void Uncommitted::CountDelayed(const v1::SetAttr& delayed) {
  if ((delayed.fields() & v1::SetAttr::MTIME) != 0) dirty_.mtime = false;
  if (!dirty_.delayed) dirty_.delayed.emplace();
  MergeDelayed(delayed, *dirty_.delayed);
  ++delayed_changes_;
}

bool Uncommitted::ForgetMtime() {
  return std::exchange(dirty_.mtime, false);
}

void Uncommitted::NoteRead(const v1::Time& now) {
  for (std::optional<v1::SetAttr>* delayed : {&on_its_way_.delayed, &dirty_.delayed}) {
    if (*delayed && ((*delayed)->fields() & v1::SetAttr::ATIME) != 0)
      *(*delayed)->mutable_atime() = now;
  }
}

bool Uncommitted::AnyWithToken(FileBlock first, std::uint64_t length_blocks) const {
  // Once another host writes, too, setting attributes may wait for that one, and it for this
  // recall.
  if (dirty_.delayed) return true;
  // A size is taken from who holds all from the size that the controller knows on.
  bool any = dirty_.size;
  dirty_.blocks.ForEachIn(first, length_blocks, [&](FileBlock, std::uint64_t) { any = true; });
  return any;
}

void Uncommitted::ShowDelayed(v1::Attr& attributes) const {
  if (on_its_way_.delayed) client::ShowDelayed(*on_its_way_.delayed, attributes);
  if (dirty_.delayed) client::ShowDelayed(*dirty_.delayed, attributes);
}

void Uncommitted::HideSetId(v1::Attr& attributes) const {
  if (!takes_set_id()) return;
  const bool any_sgid = dirty_.kill_sgid || on_its_way_.kill_sgid;
  const std::uint32_t group = any_sgid || (attributes.mode() & S_IXGRP) != 0 ? S_ISGID : 0;
  attributes.set_mode(attributes.mode() & ~(S_ISUID | group));
}

Uncommitted::Taken Uncommitted::Begin(std::size_t max_ranges, bool with_delayed) {
  Taken taken;
  taken.marks = unflushed_;
  dirty_.blocks.TakeRanges(max_ranges, taken.blocks);
  // (Those of what is left, too: it is lost with what is taken.)
  if (dirty_.blocks.empty()) unflushed_.clear();
  taken.through.changes = dirty_.blocks.empty() ? changes_ : committed_.changes;
  taken.size = std::exchange(dirty_.size, false);
  taken.wrote = std::exchange(dirty_.wrote, false);
  // That bytes were written is told by their time, also where utimensat(2) has set another since.
  taken.mtime = std::exchange(dirty_.mtime, false) || taken.wrote;
  taken.kill_set_id = std::exchange(dirty_.kill_set_id, false);
  taken.kill_sgid = std::exchange(dirty_.kill_sgid, false);
  if (with_delayed) {
    taken.delayed = std::exchange(dirty_.delayed, std::nullopt);
    taken.through.delayed = delayed_changes_;
  }
  on_its_way_ = taken;
  on_its_way_marks_ = taken.marks;
  commit_lost_ = false;
  running_ = true;
  return taken;
}

void Uncommitted::End(Taken& taken) {
  running_ = false;
  taken.delayed = std::exchange(on_its_way_.delayed, std::nullopt);
  taken.lost = std::exchange(commit_lost_, false);
  if (taken.lost) taken.blocks.Clear();
  on_its_way_ = Changes();
  on_its_way_marks_.clear();
}

void Uncommitted::NoteCommitted(const Through& through) {
  committed_.changes = std::max(committed_.changes, through.changes);
  committed_.delayed = std::max(committed_.delayed, through.delayed);
}

void Uncommitted::PutBackAttributes(const Taken& taken) {
  dirty_.size = dirty_.size || taken.size;
  dirty_.mtime = dirty_.mtime || taken.mtime;
  dirty_.kill_set_id = dirty_.kill_set_id || taken.kill_set_id;
  dirty_.kill_sgid = dirty_.kill_sgid || taken.kill_sgid;
  dirty_.wrote = dirty_.wrote || taken.wrote;
  if (!taken.delayed) return;
  v1::SetAttr both = *taken.delayed;
  if (dirty_.delayed) MergeDelayed(*dirty_.delayed, both);
  dirty_.delayed = std::move(both);
}

BlockSet Uncommitted::LoseFlush(const BlockSet& blocks) {
  BlockSet rewritten;
  blocks.ForEach([&](FileBlock first, std::uint64_t length_blocks) {
    dirty_.blocks.ForEachIn(first, length_blocks,
                            [&](FileBlock at, std::uint64_t count) { rewritten.Add(at, count); });
  });
  ++lost_flushes_;
  return rewritten;
}

std::optional<BlockSet> Uncommitted::TakeLostCommit(const LunIo& io) {
  if (!running_ || !io.Prune(on_its_way_marks_)) return std::nullopt;
  on_its_way_marks_.clear();  // it is said once
  commit_lost_ = true;
  return std::exchange(on_its_way_.blocks, {});
}

BlockSet Uncommitted::TakeDirtyBlocks() {
  BlockSet taken = std::exchange(dirty_.blocks, {});
  on_its_way_.blocks.ForEach(
      [&](FileBlock first, std::uint64_t length_blocks) { taken.Remove(first, length_blocks); });
  return taken;
}

void Uncommitted::Void() {
  dirty_ = Changes();
  unflushed_.clear();
  on_its_way_.blocks.Clear();
  on_its_way_.delayed.reset();
  on_its_way_marks_.clear();
  committed_ = now();
}

}  // namespace reel::client
