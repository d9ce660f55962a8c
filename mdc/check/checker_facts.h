// What the passes of the checker share: the report, the family cursors, and the facts that they
// compare. Private to mdc/check. Threads: one for each report and cursor.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "mdc/base/in_order.h"
#include "mdc/check/checker.h"
#include "mdc/check/sums.h"
#include "mdc/check/usage_count.h"
#include "mdc/metadb/schema.h"
#include "proto/records.pb.h"

namespace reel::mdc::checker {

// How far a check is, what it keeps, and whether it goes on: once it is stopped, the cursors have
// no more records, and what seems to be wrong then is not said. Threads: where there are bounds,
// one; else any.
class Pace {
 public:
  // `bounds` may be null: there are none.
  explicit Pace(const CheckBounds* bounds) : bounds_(bounds) {}
  bool bounded() const { return bounds_ != nullptr; }
  // One more record has been looked at.
  void Passed() {
    if (bounds_ != nullptr && ++passed_ == kRecordsBetweenLooks) Look();
  }
  // Nothing that was passed since the last look is left to tell of.
  void LookAgain() {
    if (bounds_ != nullptr) Look();
  }
  // So much more is kept, or no more.
  void Keeps(std::size_t bytes) {
    if (bounds_ != nullptr) kept_bytes_ += bytes;
  }
  void Drops(std::size_t bytes) {
    if (bounds_ != nullptr) kept_bytes_ -= bytes;
  }
  // REQUIRES: bounded().
  void Stop(const absl::Status& why) { stopped_.Update(why); }
  // Why it goes on no longer; OK: it does.
  const absl::Status& stopped() const { return stopped_; }

 private:
  static constexpr std::uint64_t kRecordsBetweenLooks = 256;
  void Look();

  const CheckBounds* const bounds_;
  std::uint64_t passed_ = 0;
  std::size_t kept_bytes_ = 0;
  absl::Status stopped_;
};

// What was found, in all or in a part.
class Report {
 public:
  Report(const CheckSink& sink, CheckTotals& totals, Pace& pace)
      : sink_(sink), totals_(totals), pace_(pace) {}
  void Phase(std::string_view name) {
    if (sink_.on_phase) sink_.on_phase(name);
  }
  void Add(std::string_view code, std::string where, std::string what);
  // A family could not be read to its end.
  void AddUnreadable(std::string where, const absl::Status& why);
  // What a part's report has gathered.
  void AddAll(std::vector<Problem> problems, const CheckTotals& totals);

  CheckTotals& totals() { return totals_; }
  Pace& pace() { return pace_; }

 private:
  const CheckSink& sink_;
  CheckTotals& totals_;
  Pace& pace_;
};

inline std::string InodeText(std::uint64_t inode) {
  return absl::StrCat("inode ", inode);
}
std::string EntryText(std::uint64_t directory, std::string_view name);

// Inode numbers from `from` on and before `to`, if that is given.
struct InodeRange {
  std::uint64_t from = 0;
  std::optional<std::uint64_t> to{};
};
// The first key of the family that is of none of the inodes before `inode`.
std::string FirstKeyOf(schema::Family family, std::uint64_t inode);

// The records of one family in key order. Keys of no known form are reported and passed over.
class FamilyCursor {
 public:
  FamilyCursor(const Snapshot& view, schema::Family family, Report& report)
      : FamilyCursor(view, family, {}, report) {}
  // Those of some inodes only.
  FamilyCursor(const Snapshot& view, schema::Family family, const InodeRange& range,
               Report& report);

  bool valid() const { return valid_; }
  const schema::ParsedKey& key() const { return key_; }
  std::string_view value() const { return cursor_->value(); }
  void Next();

  // The value as `record`; false, and reported as damage to `where()`, when it does not decode.
  template <typename Record>
  bool Decode(Record& record, absl::FunctionRef<std::string()> where) const {
    if (record.ParseFromArray(value().data(), static_cast<int>(value().size()))) return true;
    report_.Add("record-damaged", where(), "the record does not decode");
    return false;
  }

 private:
  void SkipUnreadable();

  Report& report_;
  std::string family_;
  std::unique_ptr<Cursor> cursor_;
  schema::ParsedKey key_;
  bool valid_ = false;
};

// What is wrong with an attribute if it is an ACL, held against the mode of its inode; empty:
// nothing.
std::string AclFault(std::string_view name, std::string_view value, std::uint32_t mode);

// Of one inode, what the names are held against.
struct InodeFact {
  std::uint64_t inode = 0;
  std::uint64_t parent = 0;    // directories: as the record says
  std::uint64_t named_in = 0;  // directories: the directory whose entry leads here; 0 for none
  std::uint32_t nlink = 0;
  std::uint32_t subdirectories = 0;
  std::uint32_t type = 0;  // S_IFMT bits; 0 when the record is damaged

  std::uint64_t ExpectedLinksOfDirectory() const {
    return nlink == 0 ? 0 : 2 + std::uint64_t{subdirectories};
  }
};

// One directory entry.
struct NameFact {
  std::uint64_t child = 0;
  std::uint64_t directory = 0;
  std::uint64_t cookie = 0;
  std::uint32_t type = 0;
};

struct OwnedRun {
  std::uint64_t start = 0;
  std::uint64_t length_blocks = 0;
  std::uint64_t owner = 0;  // an inode, or one of those below
};
inline constexpr std::uint64_t kFreeOwner = ~std::uint64_t{0};
inline constexpr std::uint64_t kStoreOwner = ~std::uint64_t{0} - 1;
inline constexpr std::uint64_t kWaitingOwner = ~std::uint64_t{0} - 2;
inline constexpr std::uint64_t kGapOwner = ~std::uint64_t{0} - 3;

// Takes what is to be compared across inodes.
class FactSink {
 public:
  virtual ~FactSink() = default;
  virtual void TakeInode(const InodeFact& fact) = 0;
  virtual void TakeName(const NameFact& name) = 0;
  virtual void TakeRun(std::size_t pool, const OwnedRun& run) = 0;  // within the pool
};

// A directory, and the one in which its name is; 0 for none.
struct DirectoryFact {
  std::uint64_t inode = 0;
  std::uint64_t named_in = 0;
};

struct State {
  const SnapshotInput& input;
  const CheckEffort& effort;
  Pace& pace;
  Report report;
  // The inode numbers at which the parts begin: 0, and more where there is much to do.
  std::vector<std::uint64_t> parts{};
  std::optional<v1::VolumeRecord> volume{};
  std::optional<v1::QuotaStateRecord> quota{};
  std::optional<UsageCount> usage{};  // where there is a quota
  NameSums names{0};
  std::vector<SpaceSums> space{};            // by pool
  std::optional<std::uint32_t> root_type{};  // unset: there is no root
  std::deque<DirectoryFact> directories{};   // by number (a deque never has all of it twice)

  CheckTotals& totals() { return report.totals(); }
  InodeRange RangeOf(std::size_t part) const;
  std::size_t PartOf(std::uint64_t inode) const;
  // nullptr when there is none.
  DirectoryFact* FindDirectory(std::uint64_t inode);
  // The entry's name by its cookie, for messages.
  std::string NameOf(const NameFact& name) const;
};

// Goes over the inodes of a part with all that belongs to them: `report` hears what is wrong with
// each by itself, `facts` gets the rest. `usage` may be null. Threads: any, each for another part.
void WalkPart(const State& state, std::size_t part, Report& report, FactSink& facts,
              UsageCount* usage);

// Goes over all parts once more, of which everything has been said: `take` gets the facts that a
// copy of `empty` has gathered of each part, part by part.
template <typename Gatherer>
void WalkAgain(const State& state, const Gatherer& empty,
               const std::function<void(Gatherer&)>& take) {
  std::vector<std::unique_ptr<Gatherer>> gathered(state.parts.size());
  const auto work = [&](std::size_t, std::size_t part) {
    gathered[part] = std::make_unique<Gatherer>(empty);
    const CheckSink nobody{};
    CheckTotals totals;
    Report report(nobody, totals, state.pace);
    WalkPart(state, part, report, *gathered[part], nullptr);
  };
  const auto take_part = [&](std::size_t part) {
    take(*gathered[part]);
    gathered[part].reset();
  };
  RunInOrder({.threads = state.effort.threads,
              .parts = state.parts.size(),
              .work = work,
              .take = take_part});
}

// Where parts begin that are about as much work each.
std::vector<std::uint64_t> PartsOf(const Snapshot& view, const CheckEffort& effort);

void CheckInodes(State& state);  // inodes, extents, directories one by one; fills the sums
void CheckNames(State& state);   // names against inodes, connectivity, link counts
void CheckSpace(State& state);   // every block has exactly one owner
void CheckSessions(State& state);
void LoadQuotaState(State& state);  // comes before the inodes
void CheckQuotas(State& state);     // usage against what the inodes say

}  // namespace reel::mdc::checker
