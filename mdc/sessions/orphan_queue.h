// The orphans of a volume, which are the inodes on the store's list of work (mdc/ops/orphans.h):
// the steps of their removal that are due, and how many of these one turn of the core may begin.
//
// The core runs a step, and says here how it ended. A step that is due names one inode, and may be
// stale by the time that it begins: another step has finished the removal meanwhile.
//
// Invariants:
//   1. At most one step of an inode is due. (More may be under way: each wait of a step for an
//      answer can outlast the next one's beginning.)
//   2. A step becomes due only of an orphan.
//   3. A turn begins at most kTurnSteps steps, and none once its steps have changed as many records
//      as a single step may: a client that removes much makes nobody else wait for long.
//   4. Late opens end in the order in which they began.
//   5. removing() and open() are the sums over the orphans of what SetSpace said last.
// Threads: the core thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "volume/base/types.h"

namespace reel::mdc {

class OrphanQueue {
 public:
  // Enough to keep up with any client, few enough that nobody waits long behind them.
  static constexpr std::uint32_t kTurnSteps = 64;
  // How long other sessions may still open an orphan that they knew.
  static constexpr std::uint64_t kLateOpenMs = 300;

  // `most_changed`: records that the steps of a turn may change, and the last of them exceed.
  explicit OrphanQueue(std::size_t most_changed) : most_changed_(most_changed) {}

  // ---- the list ---------------------------------------------------------------------------------

  // No step is due by that.
  void Add(InodeNumber inode) { orphans_.insert(inode); }
  // Its removal has finished, or failed for good. A step that is due stays so.
  void Remove(InodeNumber inode) {
    SetSpace(inode, 0, Use::kNone);
    orphans_.erase(inode);
  }
  bool Contains(InodeNumber inode) const { return orphans_.contains(inode); }
  std::size_t size() const { return orphans_.size(); }
  const absl::flat_hash_set<InodeNumber>& all() const { return orphans_; }

  // ---- space ------------------------------------------------------------------------------------

  // Files, and blocks that they still have.
  struct Space {
    std::uint64_t files = 0;
    std::uint64_t blocks = 0;
  };
  // kOpen: somebody has it open, nothing comes back before that ends; kNone: it holds nothing, or
  // has a name.
  enum class Use : std::uint8_t { kNone, kRemoving, kOpen };
  void SetSpace(InodeNumber inode, std::uint64_t blocks, Use use);
  // Somebody has it open.
  void SetOpen(InodeNumber inode);
  const Space& removing() const { return removing_; }
  const Space& open() const { return open_; }

  // ---- steps ------------------------------------------------------------------------------------

  // kFirst: somebody waits for it.
  enum class Place { kLast, kFirst };
  // The inode's next step is due. No effect where it is no orphan, or where that was due before:
  // the step keeps its place.
  void Queue(InodeNumber inode, Place place = Place::kLast);
  // A step of each orphan is due, in the order of their numbers.
  void QueueAll();
  // The inode of the step that is due first.
  std::optional<InodeNumber> next() const;

  // The steps and changes of the last turn count no longer.
  void BeginTurn();
  // Takes the step that is due first, which is under way until EndStep. Nullopt: none is due, or
  // the turn is used up.
  std::optional<InodeNumber> BeginStep();
  // REQUIRES: a step is under way.
  void EndStep() { --under_way_; }
  // A step has changed so many records, in the commit of this number; 0: there was nothing to
  // commit.
  void Committed(std::size_t records, Sequence sequence);
  // Whether space is about to come back: a step is due, under way or not durable yet.
  bool FreesSpace(Sequence durable) const;

  // ---- late opens -------------------------------------------------------------------------------

  // The inode may be opened for kLateOpenMs from now on. It need not be an orphan. `promised`: that
  // ends for nobody who needs space.
  void BeginLateOpen(InodeNumber inode, std::uint64_t now_ms, bool promised);
  // The inodes whose time is over, each as often as it began; or all that are not promised, as
  // somebody needs space.
  std::vector<InodeNumber> EndLateOpens(std::uint64_t now_ms);
  std::vector<InodeNumber> EndLateOpensForSpace();

 private:
  struct LateOpen {
    std::uint64_t until_ms;
    InodeNumber inode;
    bool promised;
  };

  struct Held {
    std::uint64_t blocks = 0;
    Use use = Use::kNone;
  };
  void Count(const Held& held, bool more);

  const std::size_t most_changed_;
  absl::flat_hash_map<InodeNumber, Held> held_;  // those that hold something
  Space removing_, open_;
  absl::flat_hash_set<InodeNumber> orphans_;
  std::deque<InodeNumber> due_;
  absl::flat_hash_set<InodeNumber> is_due_;  // the same inodes
  std::uint32_t begun_ = 0;                  // steps of this turn
  std::size_t changed_ = 0;                  // records, by the steps since the turn began
  std::uint64_t under_way_ = 0;              // steps
  Sequence last_commit_;                     // of any step
  std::deque<LateOpen> late_opens_;          // by until_ms
};

}  // namespace reel::mdc
