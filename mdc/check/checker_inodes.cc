// The first pass of the checker: each inode with its extents, entries, attributes and orphan
// record.
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "mdc/check/checker_entries.h"
#include "mdc/check/checker_facts.h"
#include "mdc/ops/extents.h"
#include "proto/convert.h"
#include "proto/protocol.h"

namespace reel::mdc::checker {
namespace {

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

// What is wrong with the bytes that a small file has in its record; empty: nothing.
std::string ContentFault(const v1::InodeRecord& record) {
  const std::size_t bytes = record.inline_data().size();
  const bool flagged = (record.flags() & v1::INODE_FLAG_INLINE) != 0;
  if (flagged != (bytes > 0)) {
    return absl::StrCat("it has ", bytes, " bytes in its record, and its flags say otherwise");
  }
  if (bytes > 0 && (record.mode() & S_IFMT) != S_IFREG) {
    return "it has bytes in its record but is no regular file";
  }
  if (bytes <= kMaxSmallFileBytes && bytes <= record.size_bytes()) return "";
  return absl::StrCat("it has ", bytes, " bytes in its record, and size ", record.size_bytes());
}

// Goes over the families side by side, inode by inode of a part.
class InodePass {
 public:
  InodePass(const State& state, const InodeRange& range, Report& report, FactSink& facts,
            UsageCount* usage)
      : state_(state),
        report_(report),
        facts_(facts),
        usage_(usage),
        inodes_(state.input.view, schema::Family::kInode, range, report),
        extents_(state.input.view, schema::Family::kExtent, range, report),
        entries_(state, range, report, facts),
        xattrs_(state.input.view, schema::Family::kXattr, range, report),
        orphans_(state.input.view, schema::Family::kOrphan, range, report) {
    for (const Pool& pool : state.input.descriptor.pools)
      pool_blocks_.push_back(pool.size_blocks());
  }

  void Run() {
    for (; inodes_.valid(); inodes_.Next()) {
      SkipStray(inodes_.key().first);
      CheckInode();
    }
    SkipStray(std::nullopt);
  }

 private:
  CheckTotals& totals() { return report_.totals(); }

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
    skip(entries_.by_name(), "directory entries");
    skip(entries_.by_cookie(), "directory entries by cookie");
    skip(xattrs_, "extended attributes");
    skip(orphans_, "an orphan record");
  }

  void CheckInode() {
    const std::uint64_t inode = inodes_.key().first;
    ++totals().inodes;
    InodeFact fact{.inode = inode};
    const bool decoded = inodes_.Decode(record_, [&] { return InodeText(inode); });
    const v1::InodeRecord* const record = decoded ? &record_ : nullptr;
    if (decoded) {
      fact.type = record->mode() & S_IFMT;
      fact.nlink = record->nlink();
      fact.parent = record->parent();
      CheckRecord(inode, *record);
      if (usage_ != nullptr) usage_->Add(inode, *record);
    }
    if (state_.volume.has_value() && (inode == 0 || inode >= state_.volume->next_inode())) {
      report_.Add("inode-number", InodeText(inode),
                  absl::StrCat("its number was never given out (the next is ",
                               state_.volume->next_inode(), ")"));
    }
    CheckExtents(inode, record);
    entries_.Check(inode, record, fact);
    CheckXattrs(inode, record);
    CheckOrphan(inode, record, fact);
    facts_.TakeInode(fact);
  }

  void CheckRecord(std::uint64_t inode, const v1::InodeRecord& record) {
    const auto where = [&] { return InodeText(inode); };
    const std::uint32_t type = record.mode() & S_IFMT;
    if (type == S_IFREG) ++totals().files;
    if (type == S_IFDIR) ++totals().directories;
    if (!IsKnownType(type)) {
      report_.Add("inode-mode", where(),
                  absl::StrCat("its mode ", record.mode(), " has no file type"));
    }
    if (record.size_bytes() > kMaxFileBytes) {
      report_.Add("inode-size", where(),
                  absl::StrCat("its size ", record.size_bytes(), " is too large"));
    }
    if (type == S_IFLNK &&
        (record.symlink().empty() || record.symlink().size() != record.size_bytes())) {
      report_.Add("inode-size", where(),
                  absl::StrCat("a symbolic link of ", record.symlink().size(), " bytes has size ",
                               record.size_bytes()));
    }
    if (std::string fault = ContentFault(record); !fault.empty()) {
      report_.Add("content", where(), std::move(fault));
    }
    for (const v1::Time* time :
         {&record.atime(), &record.mtime(), &record.ctime(), &record.btime()}) {
      if (!FromProto(*time).ok()) {
        report_.Add("inode-time", where(), "one of its times has nanoseconds out of range");
        break;
      }
    }
  }

  // Checks the extent under the cursor and notes who owns its blocks; adds them to `blocks`, if
  // given. Returns the file block after it, or nullopt when the record is nothing to go by.
  std::optional<std::uint64_t> OwnExtent(std::uint64_t inode, std::uint64_t* blocks) {
    const std::uint64_t file_block = extents_.key().second;
    const auto where = [&] { return absl::StrCat(InodeText(inode), ", file block ", file_block); };
    v1::ExtentRecord& record = extent_;
    if (!extents_.Decode(record, where)) return std::nullopt;
    if (record.kind() != v1::LAYOUT_PLAIN || record.places_size() != 1 || record.shared()) {
      report_.Add("extent", where(), "an extent of a kind that this version does not know");
      return std::nullopt;
    }
    if (record.state() != v1::EXTENT_UNWRITTEN && record.state() != v1::EXTENT_WRITTEN) {
      report_.Add("extent", where(), "the extent is neither written nor unwritten");
    }
    const v1::Place& place = record.places(0);
    const std::uint64_t length = record.length_blocks();
    const auto& pools = state_.input.descriptor.pools;
    if (place.pool() >= pools.size() || (pools[place.pool()].flags & Pool::kData) == 0) {
      report_.Add("extent", where(),
                  absl::StrCat("it lies in pool ", place.pool(), ", which is no data pool"));
      return std::nullopt;
    }
    const std::uint64_t pool_blocks = pool_blocks_[place.pool()];
    if (length == 0 || place.pool_block() > pool_blocks ||
        length > pool_blocks - place.pool_block()) {
      report_.Add("extent", where(),
                  absl::StrCat(length, " blocks from block ", place.pool_block(), " of pool ",
                               pools[place.pool()].name, " on are not within it"));
      return std::nullopt;
    }
    if (file_block >= kEndOfFileBlocks.value() ||
        file_block / kExtentRegionBlocks != (file_block + length - 1) / kExtentRegionBlocks) {
      report_.Add("extent", where(), absl::StrCat("its ", length, " blocks cross a region's end"));
    }
    facts_.TakeRun(place.pool(), {place.pool_block(), length, inode});
    ++totals().extents;
    totals().file_blocks += length;
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
    totals().pieces += pieces;
    constexpr std::array<std::uint64_t, kPieceClasses - 1> kEnds = {2, 4, 16, 64, 256};
    const auto end = std::upper_bound(kEnds.begin(), kEnds.end(), pieces);
    ++totals().files_by_pieces[static_cast<std::size_t>(end - kEnds.begin())];
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

  void CheckOrphan(std::uint64_t inode, const v1::InodeRecord* record, const InodeFact& fact) {
    bool listed = false;
    for (; orphans_.valid() && orphans_.key().first == inode; orphans_.Next()) {
      v1::OrphanRecord orphan;
      orphans_.Decode(orphan, [&] { return absl::StrCat("orphan record of inode ", inode); });
      listed = true;
    }
    if (listed) ++totals().orphans;
    if (record == nullptr) return;
    if (record->nlink() == 0 && !listed) {
      report_.Add("orphan", InodeText(inode), "it has no name left, but is not on the orphan list");
    }
    if (record->truncated_from() != 0 && !listed) {
      report_.Add("orphan", InodeText(inode),
                  "a truncation of it has not ended, but it is not on the orphan list");
    }
    // A file with a name is on the list only while a truncation of it goes on.
    if (record->nlink() != 0 && listed && fact.type != S_IFREG) {
      report_.Add("orphan", InodeText(inode), "it is on the orphan list, but has a name");
    }
  }

  struct Pieces {
    std::uint64_t count = 0;
    std::uint32_t pool = 0;
    std::uint64_t next = 0;  // where the last extent ended
  };

  const State& state_;
  Report& report_;
  FactSink& facts_;
  UsageCount* const usage_;
  Pieces pieces_;  // of the file whose extents are being read
  FamilyCursor inodes_, extents_;
  EntryPass entries_;
  FamilyCursor xattrs_, orphans_;
  std::vector<std::uint64_t> pool_blocks_;
  // Of the inode, and of an extent of it; kept, as their memory is.
  v1::InodeRecord record_;
  v1::ExtentRecord extent_;
};

// What the first walk has found in a part …
struct PartFindings {
  std::vector<Problem> problems;
  CheckTotals totals;
  std::vector<DirectoryFact> directories;
  std::optional<std::uint32_t> root_type;
};

// … and a worker of it in all of its parts.
struct SumUp final : FactSink {
  explicit SumUp(const State& whole)
      : state(whole), usage(whole.usage), names(whole.names), space(whole.space) {}

  void Begin(std::size_t number, PartFindings& part_findings) {
    part = number;
    findings = &part_findings;
  }
  void TakeInode(const InodeFact& fact) override {
    names.AddInode(part, fact);
    if (fact.inode == kRootInode.value()) findings->root_type = fact.type;
    if (fact.type != S_IFDIR) return;
    const bool named = fact.nlink != 0 && fact.inode != kRootInode.value();
    findings->directories.push_back({fact.inode, named ? fact.parent : 0});
  }
  void TakeName(const NameFact& name) override { names.AddName(state.PartOf(name.child), name); }
  void TakeRun(std::size_t pool, const OwnedRun& run) override { space[pool].Add(run); }

  const State& state;
  std::optional<UsageCount> usage;
  NameSums names;
  std::vector<SpaceSums> space;
  std::size_t part = 0;
  PartFindings* findings = nullptr;
};

class FirstWalk {
 public:
  explicit FirstWalk(State& state) : state_(state), findings_(state.parts.size()) {
    workers_.reserve(state.effort.threads);
    for (std::size_t i = 0; i < state.effort.threads; ++i) workers_.emplace_back(state);
  }

  void Run() {
    RunInOrder({.threads = state_.effort.threads,
                .parts = findings_.size(),
                .work = [&](std::size_t worker, std::size_t part) { Walk(workers_[worker], part); },
                .take = [&](std::size_t part) { Take(part); }});
    for (const SumUp& worker : workers_) {
      state_.names.Add(worker.names);
      for (std::size_t i = 0; i < worker.space.size(); ++i) state_.space[i].Add(worker.space[i]);
      if (worker.usage) state_.usage->Add(*worker.usage);
    }
  }

 private:
  void Walk(SumUp& worker, std::size_t part) {
    findings_[part] = std::make_unique<PartFindings>();
    PartFindings& findings = *findings_[part];
    const CheckSink gather{.on_phase = {}, .on_problem = [&](const Problem& problem) {
                             findings.problems.push_back(problem);
                           }};
    Report report(gather, findings.totals, state_.pace);
    worker.Begin(part, findings);
    WalkPart(state_, part, report, worker, worker.usage ? &*worker.usage : nullptr);
  }

  void Take(std::size_t part) {
    PartFindings& findings = *findings_[part];
    state_.report.AddAll(std::move(findings.problems), findings.totals);
    if (findings.root_type) state_.root_type = findings.root_type;
    state_.directories.insert(state_.directories.end(), findings.directories.begin(),
                              findings.directories.end());
    state_.pace.Keeps(findings.directories.size() * sizeof(DirectoryFact));
    findings_[part].reset();
  }

  State& state_;
  std::vector<SumUp> workers_;
  std::vector<std::unique_ptr<PartFindings>> findings_;  // by part
};

}  // namespace

void WalkPart(const State& state, std::size_t part, Report& report, FactSink& facts,
              UsageCount* usage) {
  InodePass(state, state.RangeOf(part), report, facts, usage).Run();
}

void CheckInodes(State& state) {
  state.names = NameSums(state.parts.size());
  state.pace.Keeps(state.names.bytes());
  for (const Pool& pool : state.input.descriptor.pools) {
    state.space.emplace_back(pool.size_blocks());
    state.pace.Keeps(state.space.back().bytes());
  }
  FirstWalk(state).Run();
  const std::uint64_t inodes = state.totals().inodes;
  if (!state.volume.has_value() || state.volume->inodes() + 1 == inodes) return;
  state.report.Add(
      "inode-count", "volume record",
      absl::StrCat("it counts ", state.volume->inodes(), " inodes besides the root, but there are ",
                   inodes - std::min<std::uint64_t>(1, inodes)));
}

}  // namespace reel::mdc::checker
