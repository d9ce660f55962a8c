// What was done to a file here of which the controller does not know yet, and the commit that tells
// it.
//
// *Dirty* is what no commit has taken yet. A commit takes it: that is *on its way* then, until the
// commit is answered, and what becomes dirty meanwhile waits for the next one. Invariants:
//   1. One commit runs at a time.
//   2. Blocks that are dirty or on their way hold data on the LUNs that the controller still calls
//      unwritten. Their marks say which LUNs have to be flushed before it is told otherwise.
//   3. Blocks that are written again as a whole while their commit runs become dirty again: the
//      flush of that commit may have begun before, and fail. (A part goes with the commit's flush,
//      unless that is known to have failed.)
//   4. Changes are counted, and so are delayed attributes. By the counts a change is
//      committed: it was told, or lost.
//   5. A flush that failed makes written blocks unwritten ones: that is counted, and whatever is
//      under way with them as written ones is done again.
// Threads: externally synchronised, by the file's mutex.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "client/base/block_set.h"
#include "client/luns/lun_io.h"
#include "proto/attributes.pb.h"
#include "volume/base/types.h"

namespace reel::client {

class Uncommitted {
 public:
  // ---- what becomes dirty
  // Unwritten blocks were written. REQUIRES: CountOnLuns follows.
  void AddBlocks(FileBlock first, std::uint64_t length_blocks) {
    dirty_.blocks.Add(first, length_blocks);
  }
  // Blocks [first, end) were written whole. REQUIRES: as AddBlocks.
  void NoteRewritten(FileBlock first, FileBlock end) {
    if (running_ && first < end) TakeBack(first, end);
  }
  // Bytes are on the LUNs, to be flushed there.
  void CountOnLuns(const LunMarks& marks) {
    MergeMarks(marks, unflushed_);
    ++changes_;
  }
  // Bytes were written, on the LUNs or in memory; with `size` the file is larger now.
  void CountWritten(bool size) {
    dirty_.size = dirty_.size || size;
    dirty_.mtime = dirty_.wrote = true;
    if (dirty_.delayed || on_its_way_.delayed) ForgetDelayedMtime();
    ++changes_;
  }
  void CountMtime() {
    dirty_.mtime = true;
    ++changes_;
  }
  // A write took the set-id bits: `sgid` also where the group may not execute the file.
  void NoteSetIdTaken(bool sgid) {
    dirty_.kill_set_id = true;
    dirty_.kill_sgid = dirty_.kill_sgid || sgid;
  }
  // Attributes to be told with the next commit (client/inode/delayed_attributes.h).
  void CountDelayed(const v1::SetAttr& delayed);
  // An explicit time replaces that of writes. True: there was one.
  bool ForgetMtime();
  // A time of reading that was set before, and is told later, would take that of a read at `now`
  // back.
  void NoteRead(const v1::Time& now);

  // ---- what is dirty
  bool any() const { return dirty_.delayed || any_of_data(); }
  bool any_of_data() const {
    return any_for_readers() || dirty_.mtime || dirty_.wrote || !unflushed_.empty();
  }
  // Who reads the data on another host needs it.
  bool any_for_readers() const {
    return !dirty_.blocks.empty() || dirty_.size || dirty_.kill_set_id;
  }
  bool only_time() const { return !any_for_readers() && !dirty_.delayed; }
  // Bytes on the LUNs, of which something is to be told.
  bool any_on_luns() const { return !dirty_.blocks.empty() || !unflushed_.empty(); }
  bool size() const { return dirty_.size; }
  std::size_t block_ranges() const { return dirty_.blocks.range_count(); }
  // A token of these blocks cannot go before this is told.
  bool AnyWithToken(FileBlock first, std::uint64_t length_blocks) const;
  const LunMarks& unflushed() const { return unflushed_; }
  // Those that a flush has made safe, or lost. True: some were lost.
  bool Prune(const LunIo& io) { return io.Prune(unflushed_); }

  // ---- what is dirty or on its way
  bool mtime() const { return dirty_.mtime || on_its_way_.mtime; }
  bool takes_set_id() const { return dirty_.kill_set_id || on_its_way_.kill_set_id; }
  bool wrote() const { return dirty_.wrote || on_its_way_.wrote; }
  bool delayed() const { return dirty_.delayed || on_its_way_.delayed; }
  void ShowDelayed(v1::Attr& attributes) const;
  void HideSetId(v1::Attr& attributes) const;
  // Of [first, first + length), cut to it.
  void ForEachBlockIn(FileBlock first, std::uint64_t length_blocks, BlockSet::Visitor visit) const {
    dirty_.blocks.ForEachIn(first, length_blocks, visit);
    on_its_way_.blocks.ForEachIn(first, length_blocks, visit);
  }

  // ---- commits
  struct Changes {
    BlockSet blocks;
    bool size = false;
    bool mtime = false;
    bool kill_set_id = false;
    bool kill_sgid = false;              // without group execution too; with kill_set_id only
    bool wrote = false;                  // bytes: what a program was trusted with goes
    std::optional<v1::SetAttr> delayed;  // client/inode/delayed_attributes.h
  };
  struct Through {
    std::uint64_t changes = 0;
    std::uint64_t delayed = 0;
  };
  // What a commit tells.
  struct Taken : Changes {
    LunMarks marks;     // to be flushed before
    Through through{};  // what it covers
    bool lost = false;  // TakeLostCommit has said so: no blocks are left
  };
  bool running() const { return running_; }
  // Its flush has come to stand behind it.
  void NoteFlushed() { on_its_way_marks_.clear(); }
  // At most so many ranges of blocks; with delayed attributes, or not. REQUIRES: none runs.
  Taken Begin(std::size_t max_ranges, bool with_delayed);
  // What of its delayed attributes is still to be told: the session is not lost meanwhile, and
  // they were not refused.
  const std::optional<v1::SetAttr>& delayed_on_its_way() const { return on_its_way_.delayed; }
  void NoteDelayedRefused() { on_its_way_.delayed.reset(); }
  // It is over, whatever became of it. Leaves in `taken` what is to be put back.
  void End(Taken& taken);
  // What it covered is told, or lost.
  void NoteCommitted(const Through& through);
  // Parts of what was taken are dirty again.
  void PutBackBlocks(const BlockSet& blocks, const LunMarks& marks) {
    dirty_.blocks.Add(blocks);
    MergeMarks(marks, unflushed_);
  }
  void PutBackAttributes(const Taken& taken);
  // Whoever waits for what was put back waits for the next commit.
  void CountAgain() {
    if (any()) ++changes_;
  }

  Through now() const { return {.changes = changes_, .delayed = delayed_changes_}; }
  bool IsCommitted(const Through& through) const {
    return committed_.changes >= through.changes && committed_.delayed >= through.delayed;
  }
  bool all_committed() const {
    return committed_.changes == changes_ && committed_.delayed == delayed_changes_;
  }

  // ---- losses
  // What a flush lost of these blocks: those that were written again since are not lost, and are
  // returned.
  BlockSet LoseFlush(const BlockSet& blocks);
  // A flush has lost what a commit that runs is to tell: the blocks of that, once. Parts of them
  // that are written from here on do not go along, however long the commit still runs.
  std::optional<BlockSet> TakeLostCommit(const LunIo& io);
  // The blocks that are dirty no longer are. (Of those that were written again the commit decides.)
  BlockSet TakeDirtyBlocks();
  std::uint64_t lost_flushes() const { return lost_flushes_; }
  // Nothing is to be told any more. (A commit that runs still has to end.)
  void Void();

 private:
  // Of what a commit carries: blocks [first, end) are dirty again.
  void TakeBack(FileBlock first, FileBlock end);
  // The time of a write replaces one that was set before.
  void ForgetDelayedMtime();

  Changes dirty_;
  LunMarks unflushed_;
  Changes on_its_way_;
  LunMarks on_its_way_marks_;  // to be flushed before that
  bool commit_lost_ = false;
  bool running_ = false;
  std::uint64_t changes_ = 0;          // counts what was made dirty, …
  std::uint64_t delayed_changes_ = 0;  // … delayed attributes, …
  Through committed_;                  // … and up to where both are durable
  std::uint64_t lost_flushes_ = 0;
};

}  // namespace reel::client
