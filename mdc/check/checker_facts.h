// What the parts of the checker share: the report, the family cursors, and the facts that they
// gather. Private to mdc/check/checker*.cc. Threads: one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "mdc/check/checker.h"
#include "mdc/metadb/schema.h"
#include "proto/records.pb.h"

namespace reel::mdc::checker {

class Report {
 public:
  Report(const CheckSink& sink, CheckTotals& totals) : sink_(sink), totals_(totals) {}
  void Phase(std::string_view name) {
    if (sink_.on_phase) sink_.on_phase(name);
  }
  void Add(std::string_view code, std::string where, std::string what) {
    ++totals_.problems;
    if (sink_.on_problem) {
      sink_.on_problem({std::string(code), std::move(where), std::move(what)});
    }
  }

 private:
  const CheckSink& sink_;
  CheckTotals& totals_;
};

inline std::string InodeText(std::uint64_t inode) {
  return absl::StrCat("inode ", inode);
}
std::string EntryText(std::uint64_t directory, std::string_view name);

// The records of one family in key order. Keys of no known form are reported and passed over.
class FamilyCursor {
 public:
  FamilyCursor(const MetaDb& db, schema::Family family, Report& report);

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

struct State {
  const CheckInput& input;
  Report report;
  CheckTotals& totals;
  std::optional<v1::VolumeRecord> volume{};
  std::vector<InodeFact> inodes{};  // by number
  std::vector<NameFact> names{};
  std::vector<std::vector<OwnedRun>> owned{};  // by pool

  // nullptr when there is none.
  InodeFact* Find(std::uint64_t inode);
  // The entry's name by its cookie, for messages.
  std::string NameOf(const NameFact& name) const;
};

void CheckInodes(State& state);  // inodes, extents, directories one by one; fills the facts
void CheckNames(State& state);   // names against inodes, connectivity, link counts
void CheckSpace(State& state);   // every block has exactly one owner
void CheckSessions(State& state);

}  // namespace reel::mdc::checker
