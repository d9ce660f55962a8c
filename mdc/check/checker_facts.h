// What the parts of the checker share: the report, the family cursors, and the facts that they
// gather. Private to mdc/check/checker*.cc. Threads: one.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "mdc/check/checker.h"
#include "mdc/check/usage_count.h"
#include "mdc/metadb/schema.h"
#include "proto/records.pb.h"

namespace reel::mdc::checker {

// What was found, and whether the check goes on: once it is stopped, the cursors have no more
// records, and what seems to be wrong then is not said.
class Report {
 public:
  // `bounds` may be null: there are none.
  Report(const CheckSink& sink, CheckTotals& totals, const CheckBounds* bounds)
      : sink_(sink), totals_(totals), bounds_(bounds) {}
  void Phase(std::string_view name) {
    if (sink_.on_phase) sink_.on_phase(name);
  }
  void Add(std::string_view code, std::string where, std::string what);
  // A family could not be read to its end.
  void AddUnreadable(std::string where, const absl::Status& why);
  // One more record has been looked at.
  void Passed() {
    if (bounds_ != nullptr && ++passed_ == kRecordsBetweenLooks) Look();
  }
  // Nothing that was passed since the last look is left to tell of.
  void LookAgain() {
    if (bounds_ != nullptr) Look();
  }
  // So much more is kept until the end, or no more.
  void Keeps(std::size_t bytes) { kept_bytes_ += bytes; }
  void Drops(std::size_t bytes) { kept_bytes_ -= bytes; }
  // Why it goes on no longer; OK: it does.
  const absl::Status& stopped() const { return stopped_; }

 private:
  static constexpr std::uint64_t kRecordsBetweenLooks = 256;
  void Look();

  const CheckSink& sink_;
  CheckTotals& totals_;
  const CheckBounds* const bounds_;
  std::uint64_t passed_ = 0;
  std::size_t kept_bytes_ = 0;
  absl::Status stopped_;
};

inline std::string InodeText(std::uint64_t inode) {
  return absl::StrCat("inode ", inode);
}
std::string EntryText(std::uint64_t directory, std::string_view name);

// The records of one family in key order. Keys of no known form are reported and passed over.
class FamilyCursor {
 public:
  FamilyCursor(const Snapshot& view, schema::Family family, Report& report);

  bool valid() const { return valid_; }
  const schema::ParsedKey& key() const { return key_; }
  std::string_view value() const { return cursor_->value(); }
  void Next();

  // The value as `record`; false, and reported as damage to `where`, when it does not decode.
  template <typename Record>
  bool Decode(Record& record, const std::string& where) const {
    if (record.ParseFromArray(value().data(), static_cast<int>(value().size()))) return true;
    report_.Add("record-damaged", where, "the record does not decode");
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
  bool orphan = false;
  bool walked = false;  // directories: the way up from here has been followed
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
  std::uint64_t owner = 0;  // an inode, or one of the two below
};
inline constexpr std::uint64_t kFreeOwner = ~std::uint64_t{0};
inline constexpr std::uint64_t kStoreOwner = ~std::uint64_t{0} - 1;
inline constexpr std::uint64_t kWaitingOwner = ~std::uint64_t{0} - 2;
inline constexpr std::uint64_t kGapOwner = ~std::uint64_t{0} - 3;

// Grows without ever holding its content twice, as a vector does.
template <typename Fact>
using Facts = std::deque<Fact>;

struct State {
  const SnapshotInput& input;
  Report report;
  CheckTotals& totals;
  std::optional<v1::VolumeRecord> volume{};
  Facts<InodeFact> inodes{};  // by number
  Facts<NameFact> names{};
  std::vector<Facts<OwnedRun>> owned{};  // by pool
  std::optional<v1::QuotaStateRecord> quota{};
  std::optional<UsageCount> usage{};  // where there is a quota

  // Keeps a fact among the others of its kind.
  template <typename Fact>
  void Keep(Facts<Fact>& facts, const Fact& fact) {
    facts.push_back(fact);
    report.Keeps(sizeof(Fact));
  }
  // nullptr when there is none.
  InodeFact* Find(std::uint64_t inode);
  // The entry's name by its cookie, for messages.
  std::string NameOf(const NameFact& name) const;
};

void CheckInodes(State& state);  // inodes, extents, directories one by one; fills the facts
void CheckNames(State& state);   // names against inodes, connectivity, link counts
void CheckSpace(State& state);   // every block has exactly one owner
void CheckSessions(State& state);
void LoadQuotaState(State& state);  // comes before the inodes
void CheckQuotas(State& state);     // usage against what the inodes say

}  // namespace reel::mdc::checker
