// The operations on names of one history, and whether some order explains them: each takes effect
// at one moment between its call and its return (linearisability).
//
// The model is a tree of fixed directories with names in them: which inode, of which type and mode,
// and how many links. An operation whose outcome was never told may have taken effect at any later
// time, or never. The search is Wing and Gong's with Lowe's memory of what was tried; its cost is
// bounded, and a history on which it gives up counts as undecided. Threads: one.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/random.h"

namespace reel::sim {

struct NameOp {
  enum class Kind : std::uint8_t {
    kLookup,
    kCreate,
    kMakeDir,
    kUnlink,
    kRemoveDir,
    kRename,
    kLink,
    kList,
    kChmod,
    kGetAttr,
    kMakeUnnamed,
  };
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};
  // A name is a slot: directory × names a directory.
  Kind kind = Kind::kLookup;
  int slot = 0;
  int slot_to = 0;          // kRename, kLink: the new name
  std::uint32_t flags = 0;  // kRename
  std::uint64_t inode =
      0;  // kLink, kChmod, kGetAttr: which; kLookup, kCreate, kMakeDir, kMakeUnnamed: the answer
  std::uint32_t mode = 0;                               // type and permissions, given or answered
  std::uint32_t nlink = 0;                              // answered; 0 when not looked at
  int directory = 0;                                    // kList
  std::vector<std::pair<int, std::uint64_t>> listed{};  // slots and inodes
  // kList of several pages, between which names may change: of `slot` alone; what it led to at some
  // moment (0: nothing) is `inode`.
  bool one_name = false;

  int error = 0;      // the errno answered
  bool known = true;  // false: nobody knows what came of it
  std::uint64_t began = 0;
  std::uint64_t ended = kNever;
  int host = 0;
  std::uint64_t early_number = 0;  // what its host had got as early replies when it ended
  bool in_session = true;          // its host did not miss the end of its session when it began

  std::string ToString() const;
};

class NameHistory {
 public:
  static constexpr int kDirectories = 2;
  static constexpr int kNames = 5;  // in each
  static constexpr int kSlots = kDirectories * kNames;

  std::size_t Begin(NameOp op) {
    ops_.push_back(std::move(op));
    return ops_.size() - 1;
  }
  // What a host got as early replies from this number on may be lost, and with it the truth of
  // all that it saw since; but for what it has synced.
  void Lost(int host, std::uint64_t first_early);
  // A host's session is over: what it set of attributes since `since` (its last session's end) it
  // may not have told, and what it saw of those inodes since then may not be so.
  void SessionOver(int host, std::uint64_t since, std::uint64_t now);
  // An fsync(2) of a host's that had begun then went well: of a file (its inode), or of a directory
  // (0). Either keeps all changes of names that the host had been told of, and what it had set of
  // attributes of that file, or of all.
  void Synced(int host, std::uint64_t inode, std::uint64_t began);
  // How often a host has lost what it was told.
  std::uint64_t losses(int host) const {
    const auto found = losses_.find(host);
    return found == losses_.end() ? 0 : found->second;
  }
  // Whether a read that has just ended may have seen such; or what was set may be such itself.
  bool MayBeUnsynced(const NameOp& op) const;
  NameOp& at(std::size_t number) { return ops_[number]; }
  std::size_t size() const { return ops_.size(); }

  enum class Verdict { kExplained, kNoOrder, kUndecided };
  // With kNoOrder, `why` tells how far the search came.
  Verdict Check(std::string& why) const;

 private:
  std::map<std::pair<int, std::uint64_t>, std::uint64_t> unsynced_;  // host, inode: until when
  bool Keeps(const NameOp& op) const;                                // its name
  bool KeepsAttributes(const NameOp& op) const;
  std::map<int, std::uint64_t> losses_;
  // When the last one had begun that went well; by host, and inode (0: a directory's).
  std::map<int, std::uint64_t> kept_;
  std::map<std::pair<int, std::uint64_t>, std::uint64_t> kept_attributes_;
  std::vector<NameOp> ops_;
};

}  // namespace reel::sim
