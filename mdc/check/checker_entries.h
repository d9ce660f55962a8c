// The entries of the directories of a part: each by itself, and the index by name against the one
// by cookie. A directory may have any number of entries, of which none is kept, unless its indexes
// differ. Private to mdc/check. Threads: one.
#pragma once

#include <cstdint>
#include <vector>

#include "mdc/check/checker_facts.h"

namespace reel::mdc::checker {

class EntryPass {
 public:
  EntryPass(const State& state, const InodeRange& range, Report& report, FactSink& facts);

  // For what belongs to no inode.
  FamilyCursor& by_name() { return by_name_; }
  FamilyCursor& by_cookie() { return by_cookie_; }
  // Takes the entries of the inode, and counts its subdirectories. `record` may be null.
  void Check(std::uint64_t inode, const v1::InodeRecord* record, InodeFact& fact);

 private:
  // What an index amounts to.
  struct Index {
    std::uint64_t entries = 0;  // that decode
    std::uint64_t records = 0;
    std::uint64_t last_cookie = 0;
    Sum sum;
  };
  struct Entry {
    std::uint64_t cookie = 0;
    std::uint64_t inode = 0;
    std::uint32_t type = 0;
    std::uint64_t hash = 0;
  };

  Index TakeByName(std::uint64_t inode, const v1::InodeRecord* directory, InodeFact& fact);
  void CheckEntry(std::uint64_t directory, const v1::InodeRecord* record, std::string_view name);
  Index TakeByCookie(std::uint64_t inode);
  // Says where the two indexes differ.
  void Compare(std::uint64_t inode);
  std::vector<Entry> ReadByName(const InodeRange& one, std::uint64_t inode, Report& muted);

  const State& state_;
  Report& report_;
  FactSink& facts_;
  FamilyCursor by_name_, by_cookie_;
  v1::DirentRecord record_;  // of the entry under a cursor; kept, as its memory is
};

}  // namespace reel::mdc::checker
