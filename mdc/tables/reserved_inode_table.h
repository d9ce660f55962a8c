// What sessions may make files of before the controller knows: inode numbers, with blocks reserved
// for each, in one directory. They may also have written these blocks before it knows.
//
// In memory only: an epoch takes all of it with it, and gives none of the numbers again; the blocks
// come back with what is done again (Replay.extents). Threads: the core thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "mdc/base/quota_id.h"
#include "mdc/space/allocator.h"
#include "volume/base/types.h"

namespace reel::mdc {

struct ReservedInode {
  InodeNumber inode;
  std::uint64_t generation = 0;
  std::vector<Run> runs;  // reserved
  // Whose file it is to be: it is charged to them, in memory. None: nothing is counted.
  std::optional<QuotaOwner> owner{};
};

class ReservedInodeTable {
 public:
  // Of numbers of which a file is made again in a new epoch, or could not be made: bytes may be on
  // their way to the blocks, which stay reserved until the session has ended.
  static constexpr InodeNumber kNoDirectory{0};

  void Add(SessionId session, InodeNumber directory, ReservedInode reserved, std::uint64_t now_ms);
  // Null: there is no such number. The pointer holds until the entry goes.
  const ReservedInode* Find(SessionId session, InodeNumber directory, InodeNumber inode) const;
  // It was made a file of.
  void Use(SessionId session, InodeNumber directory, InodeNumber inode);
  // No file could be made of it: it goes to kNoDirectory.
  void Quarantine(SessionId session, InodeNumber directory, InodeNumber inode);
  std::size_t CountOf(SessionId session, InodeNumber directory) const;
  // What is charged to them in memory: of all that is reserved for files of theirs.
  QuotaAmount ChargedTo(const QuotaId& id) const;
  // Directories that have some, each once for each session.
  std::vector<InodeNumber> Directories() const;
  // Directories in which nothing was added since then.
  std::vector<std::pair<SessionId, InodeNumber>> Idle(std::uint64_t since_ms) const;
  // … and that have blocks reserved in the area.
  std::vector<std::pair<SessionId, InodeNumber>> In(const Run& area) const;
  // … and that have some that are charged to one of the ids.
  std::vector<std::pair<SessionId, InodeNumber>> ChargedTo(const std::vector<QuotaId>& ids) const;
  // The session makes none of these any more; the runs are to be given back.
  std::vector<Run> Drop(SessionId session, InodeNumber directory);
  // It has ended, and writes nothing: the runs of some, until there are `most`. None: it has none.
  std::vector<Run> DropSome(SessionId session, std::size_t most);

 private:
  struct DirectoryReserve {
    std::map<InodeNumber, ReservedInode> reserved;
    std::uint64_t added_ms = 0;  // last
  };
  void Charge(const ReservedInode& reserved);
  void Uncharge(const ReservedInode& reserved);
  void Uncharge(const DirectoryReserve& reserve);

  std::map<std::pair<SessionId, InodeNumber>, DirectoryReserve> reserves_;
  std::map<QuotaId, QuotaAmount> charged_;  // the sums of all owners'; none are zero
};

}  // namespace reel::mdc
