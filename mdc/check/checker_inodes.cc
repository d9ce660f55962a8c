// The first pass of the checker: each inode with its extents, entries, attributes and orphan
// record.
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "mdc/check/checker_facts.h"
#include "mdc/ops/extents.h"
#include "proto/convert.h"
#include "proto/folded_name.h"

namespace reel::mdc::checker {
namespace {

constexpr std::uint64_t kFirstCookie = 3;
constexpr std::uint64_t kEntryBytes = 32;

bool IsKnownType(std::uint32_t type) {
  switch (type) {
    case S_IFREG:
    case S_IFDIR:
    case S_IFLNK:
    case S_IFCHR:
    case S_IFBLK:
    case S_IFIFO:
    case S_IFSOCK:
      return true;
    default:
      return false;
  }
}

// Goes over the families side by side, inode by inode.
class InodePass {
 public:
  explicit InodePass(State& state)
      : state_(state),
        report_(state.report),
        inodes_(state.input.view, schema::Family::kInode, state.report),
        extents_(state.input.view, schema::Family::kExtent, state.report),
        entries_(state.input.view, schema::Family::kDirent, state.report),
        cookies_(state.input.view, schema::Family::kCookie, state.report),
        xattrs_(state.input.view, schema::Family::kXattr, state.report),
        orphans_(state.input.view, schema::Family::kOrphan, state.report) {
    for (const Pool& pool : state.input.descriptor.pools)
      pool_blocks_.push_back(pool.size_blocks());
  }

  void Run() {
    for (; inodes_.valid(); inodes_.Next()) {
      SkipStray(inodes_.key().first);
      CheckInode();
    }
    SkipStray(std::nullopt);
    if (state_.volume.has_value() && state_.volume->inodes() + 1 != state_.totals.inodes) {
      report_.Add(
          "inode-count", "volume record",
          absl::StrCat("it counts ", state_.volume->inodes(),
                       " inodes besides the root, but there are ",
                       state_.totals.inodes - std::min<std::uint64_t>(1, state_.totals.inodes)));
    }
  }

 private:
  // The entries of one directory as both indexes have them.
  struct Entry {
    std::uint64_t cookie = 0;
    std::uint64_t inode = 0;
    std::uint32_t type = 0;
    std::size_t name_hash = 0;
  };

  // Records of inodes below `next` that have no inode record; of all that are left when nullopt.
  void SkipStray(std::optional<std::uint64_t> next) {
    const auto skip = [&](FamilyCursor& cursor, std::string_view what) {
      std::optional<std::uint64_t> reported;
      for (; cursor.valid() && (!next || cursor.key().first < *next); cursor.Next()) {
        if (&cursor == &extents_) OwnExtent(cursor.key().first, nullptr);
        if (reported == cursor.key().first) continue;  // one line an inode
        reported = cursor.key().first;
        report_.Add("stray-record", InodeText(*reported),
                    absl::StrCat("it has ", std::string(what), " but no inode record"));
      }
    };
    skip(extents_, "extents");
    skip(entries_, "directory entries");
    skip(cookies_, "directory entries by cookie");
    skip(xattrs_, "extended attributes");
    skip(orphans_, "an orphan record");
  }

  void CheckInode() {
    const std::uint64_t inode = inodes_.key().first;
    const std::string where = InodeText(inode);
    ++state_.totals.inodes;
    InodeFact fact{.inode = inode};
    v1::InodeRecord record;
    const bool decoded = inodes_.Decode(record, where);
    if (decoded) {
      fact.type = record.mode() & S_IFMT;
      fact.nlink = record.nlink();
      fact.parent = record.parent();
      CheckRecord(inode, record);
      if (state_.usage) state_.usage->Add(inode, record);
    }
    if (state_.volume.has_value() && (inode == 0 || inode >= state_.volume->next_inode())) {
      report_.Add("inode-number", where,
                  absl::StrCat("its number was never given out (the next is ",
                               state_.volume->next_inode(), ")"));
    }
    CheckExtents(inode, decoded ? &record : nullptr);
    CheckDirectory(inode, decoded ? &record : nullptr, fact);
    CheckXattrs(inode, decoded ? &record : nullptr);
    CheckOrphan(inode, decoded ? &record : nullptr, fact);
    state_.Keep(state_.inodes, fact);
  }

  void CheckRecord(std::uint64_t inode, const v1::InodeRecord& record) {
    const std::string where = InodeText(inode);
    const std::uint32_t type = record.mode() & S_IFMT;
    if (type == S_IFREG) ++state_.totals.files;
    if (type == S_IFDIR) ++state_.totals.directories;
    if (!IsKnownType(type)) {
      report_.Add("inode-mode", where,
                  absl::StrCat("its mode ", record.mode(), " has no file type"));
    }
    if (record.size_bytes() > kMaxFileBytes) {
      report_.Add("inode-size", where,
                  absl::StrCat("its size ", record.size_bytes(), " is too large"));
    }
    if (type == S_IFLNK &&
        (record.symlink().empty() || record.symlink().size() != record.size_bytes())) {
      report_.Add("inode-size", where,
                  absl::StrCat("a symbolic link of ", record.symlink().size(), " bytes has size ",
                               record.size_bytes()));
    }
    for (const v1::Time* time :
         {&record.atime(), &record.mtime(), &record.ctime(), &record.btime()}) {
      if (!FromProto(*time).ok()) {
        report_.Add("inode-time", where, "one of its times has nanoseconds out of range");
        break;
      }
    }
  }

  // Checks the extent under the cursor and notes who owns its blocks; adds them to `blocks`, if
  // given. Returns the file block after it, or nullopt when the record is nothing to go by.
  std::optional<std::uint64_t> OwnExtent(std::uint64_t inode, std::uint64_t* blocks) {
    const std::uint64_t file_block = extents_.key().second;
    const std::string where = absl::StrCat(InodeText(inode), ", file block ", file_block);
    v1::ExtentRecord record;
    if (!extents_.Decode(record, where)) return std::nullopt;
    if (record.kind() != v1::LAYOUT_PLAIN || record.places_size() != 1 || record.shared()) {
      report_.Add("extent", where, "an extent of a kind that this version does not know");
      return std::nullopt;
    }
    if (record.state() != v1::EXTENT_UNWRITTEN && record.state() != v1::EXTENT_WRITTEN) {
      report_.Add("extent", where, "the extent is neither written nor unwritten");
    }
    const v1::Place& place = record.places(0);
    const std::uint64_t length = record.length_blocks();
    const auto& pools = state_.input.descriptor.pools;
    if (place.pool() >= pools.size() || (pools[place.pool()].flags & Pool::kData) == 0) {
      report_.Add("extent", where,
                  absl::StrCat("it lies in pool ", place.pool(), ", which is no data pool"));
      return std::nullopt;
    }
    const std::uint64_t pool_blocks = pool_blocks_[place.pool()];
    if (length == 0 || place.pool_block() > pool_blocks ||
        length > pool_blocks - place.pool_block()) {
      report_.Add("extent", where,
                  absl::StrCat(length, " blocks from block ", place.pool_block(), " of pool ",
                               pools[place.pool()].name, " on are not within it"));
      return std::nullopt;
    }
    if (file_block >= kEndOfFileBlocks.value() ||
        file_block / kExtentRegionBlocks != (file_block + length - 1) / kExtentRegionBlocks) {
      report_.Add("extent", where, absl::StrCat("its ", length, " blocks cross a region's end"));
    }
    state_.Keep(state_.owned[place.pool()], {place.pool_block(), length, inode});
    ++state_.totals.extents;
    state_.totals.file_blocks += length;
    const bool goes_on = pieces_.count > 0 && pieces_.pool == place.pool();
    if (!goes_on || pieces_.next != place.pool_block()) ++pieces_.count;
    pieces_.pool = place.pool();
    pieces_.next = place.pool_block() + length;
    if (blocks != nullptr) *blocks += length;
    return file_block > ~length ? ~std::uint64_t{0} : file_block + length;
  }

  // For the totals: how many pieces the file lies in.
  void CountPieces() {
    const std::uint64_t pieces = std::exchange(pieces_, {}).count;
    if (pieces == 0) return;
    state_.totals.pieces += pieces;
    constexpr std::array<std::uint64_t, kPieceClasses - 1> kEnds = {2, 4, 16, 64, 256};
    const auto end = std::upper_bound(kEnds.begin(), kEnds.end(), pieces);
    ++state_.totals.files_by_pieces[static_cast<std::size_t>(end - kEnds.begin())];
  }

  void CheckExtents(std::uint64_t inode, const v1::InodeRecord* record) {
    std::uint64_t blocks = 0, end = 0;
    bool any = false;
    for (; extents_.valid() && extents_.key().first == inode; extents_.Next()) {
      any = true;
      if (extents_.key().second < end) {
        report_.Add("extent",
                    absl::StrCat(InodeText(inode), ", file block ", extents_.key().second),
                    "it overlaps the extent before it in the file");
      }
      end = std::max(end, OwnExtent(inode, &blocks).value_or(0));
    }
    CountPieces();
    if (record == nullptr) return;
    if (any && (record->mode() & S_IFMT) != S_IFREG) {
      report_.Add("extent", InodeText(inode), "it has extents but is no regular file");
    }
    if (blocks != record->allocated_blocks()) {
      report_.Add("block-count", InodeText(inode),
                  absl::StrCat("it counts ", record->allocated_blocks(),
                               " blocks, its extents have ", blocks));
    }
  }

  void CheckDirectory(std::uint64_t inode, const v1::InodeRecord* record, InodeFact& fact) {
    std::vector<Entry> entries = TakeEntries(inode, record, fact);
    const std::uint64_t by_cookie = MatchCookies(inode, entries);
    report_.Drops(entries.size() * sizeof(Entry));
    if (record == nullptr) return;
    const std::string where = absl::StrCat("directory ", inode);
    if (fact.type != S_IFDIR) {
      if (!entries.empty() || by_cookie > 0) {
        report_.Add("not-a-directory", InodeText(inode), "it has entries but is no directory");
      }
      return;
    }
    if (record->entries() != entries.size() ||
        record->size_bytes() != record->entries() * kEntryBytes) {
      report_.Add("entry-count", where,
                  absl::StrCat("it counts ", record->entries(), " entries in ",
                               record->size_bytes(), " bytes, but has ", entries.size()));
    }
    if (record->nlink() == 0 && !entries.empty()) {
      report_.Add("orphan", where, "it is removed, but has entries");
    }
    if (record->next_cookie() < kFirstCookie || record->next_cookie() >> 63 != 0 ||
        (!entries.empty() && entries.back().cookie >= record->next_cookie())) {
      report_.Add("cookie", where,
                  absl::StrCat("its next cookie ", record->next_cookie(),
                               " is in use already or out of range"));
    }
  }

  // The directory's entries by name, sorted by cookie.
  std::vector<Entry> TakeEntries(std::uint64_t inode, const v1::InodeRecord* directory,
                                 InodeFact& fact) {
    std::vector<Entry> entries;
    for (; entries_.valid() && entries_.key().first == inode; entries_.Next()) {
      const std::string where = EntryText(inode, entries_.key().name);
      ++state_.totals.entries;
      v1::DirentRecord record;
      if (!entries_.Decode(record, where)) continue;
      const std::string_view name =
          record.name().empty() ? entries_.key().name : std::string_view(record.name());
      if (!ValidateName(name).ok() || name == "." || name == "..") {
        report_.Add("entry-name", where, "the name is not possible");
      }
      if (directory != nullptr && NameKey(directory->flags(), name).view() != entries_.key().name) {
        report_.Add("entry-name", where, "its record has another name");
      }
      if (record.cookie() < kFirstCookie || record.cookie() >> 63 != 0) {
        report_.Add("cookie", where,
                    absl::StrCat("its cookie ", record.cookie(), " is out of range"));
      }
      if (record.type() == S_IFDIR) ++fact.subdirectories;
      entries.push_back(
          {record.cookie(), record.inode(), record.type(), std::hash<std::string_view>{}(name)});
      report_.Keeps(sizeof(Entry));
      state_.Keep(state_.names, {record.inode(), inode, record.cookie(), record.type()});
    }
    std::sort(entries.begin(), entries.end(),
              [](const Entry& a, const Entry& b) { return a.cookie < b.cookie; });
    for (std::size_t i = 1; i < entries.size(); ++i) {
      if (entries[i].cookie != entries[i - 1].cookie) continue;
      report_.Add("cookie", absl::StrCat("directory ", inode),
                  absl::StrCat("two entries have the cookie ", entries[i].cookie));
    }
    return entries;
  }

  // Holds the index by cookie against `entries`; returns how many records it has.
  std::uint64_t MatchCookies(std::uint64_t inode, const std::vector<Entry>& entries) {
    std::uint64_t count = 0;
    auto entry = entries.begin();
    const auto missing = [&] {
      report_.Add("cookie-index", absl::StrCat("directory ", inode, ", cookie ", entry->cookie),
                  absl::StrCat("the entry for inode ", entry->inode, " is missing by cookie"));
      ++entry;
    };
    for (; cookies_.valid() && cookies_.key().first == inode; cookies_.Next()) {
      ++count;
      const std::uint64_t cookie = cookies_.key().second;
      while (entry != entries.end() && entry->cookie < cookie) missing();
      const std::string where = absl::StrCat("directory ", inode, ", cookie ", cookie);
      v1::DirentRecord record;
      const bool decoded = cookies_.Decode(record, where);
      if (entry == entries.end() || entry->cookie != cookie) {
        report_.Add("cookie-index", where,
                    absl::StrCat("the entry for inode ", record.inode(), " is missing by name"));
        continue;
      }
      if (decoded && (record.inode() != entry->inode || record.type() != entry->type ||
                      std::hash<std::string_view>{}(record.name()) != entry->name_hash)) {
        report_.Add("cookie-index", where, "the entries by name and by cookie differ");
      }
      ++entry;
    }
    while (entry != entries.end()) missing();
    return count;
  }

  void CheckXattrs(std::uint64_t inode, const v1::InodeRecord* record) {
    std::uint64_t bytes = 0;
    for (; xattrs_.valid() && xattrs_.key().first == inode; xattrs_.Next()) {
      bytes += xattrs_.key().name.size() + 1;
      if (record == nullptr) continue;
      std::string fault = AclFault(xattrs_.key().name, xattrs_.value(), record->mode());
      if (!fault.empty()) report_.Add("acl", InodeText(inode), std::move(fault));
    }
    if (record == nullptr || record->xattr_name_bytes() == bytes) return;
    report_.Add("xattr-count", InodeText(inode),
                absl::StrCat("it counts ", record->xattr_name_bytes(),
                             " bytes of attribute names, but has ", bytes));
  }

  void CheckOrphan(std::uint64_t inode, const v1::InodeRecord* record, InodeFact& fact) {
    for (; orphans_.valid() && orphans_.key().first == inode; orphans_.Next()) {
      v1::OrphanRecord orphan;
      orphans_.Decode(orphan, absl::StrCat("orphan record of inode ", inode));
      fact.orphan = true;
    }
    if (fact.orphan) ++state_.totals.orphans;
    if (record == nullptr) return;
    if (record->nlink() == 0 && !fact.orphan) {
      report_.Add("orphan", InodeText(inode), "it has no name left, but is not on the orphan list");
    }
    if (record->truncated_from() != 0 && !fact.orphan) {
      report_.Add("orphan", InodeText(inode),
                  "a truncation of it has not ended, but it is not on the orphan list");
    }
    // A file with a name is on the list only while a truncation of it goes on.
    if (record->nlink() != 0 && fact.orphan && fact.type != S_IFREG) {
      report_.Add("orphan", InodeText(inode), "it is on the orphan list, but has a name");
    }
  }

  struct Pieces {
    std::uint64_t count = 0;
    std::uint32_t pool = 0;
    std::uint64_t next = 0;  // where the last extent ended
  };

  State& state_;
  Report& report_;
  Pieces pieces_;  // of the file whose extents are being read
  FamilyCursor inodes_, extents_, entries_, cookies_, xattrs_, orphans_;
  std::vector<std::uint64_t> pool_blocks_;
};

}  // namespace

void CheckInodes(State& state) {
  InodePass(state).Run();
}

}  // namespace reel::mdc::checker
