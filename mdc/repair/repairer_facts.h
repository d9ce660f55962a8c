// What the passes of the repairer share: the changes to come, the family cursors, and the facts
// that they gather. Private to mdc/repair/repairer*.cc. Threads: one.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "mdc/check/checker_facts.h"
#include "mdc/metadb/schema.h"
#include "mdc/repair/repairer.h"
#include "proto/records.pb.h"

namespace reel::mdc::repairer {

using checker::EntryText;
using checker::InodeText;

inline constexpr std::uint64_t kFirstCookie = 3;
inline constexpr std::uint64_t kRoot = kRootInode.value();
// Numbers from here on were never given out by anything but damage.
inline constexpr std::uint64_t kEndOfNumbers = std::uint64_t{1} << 62;

// One inode, as the inode pass leaves it.
struct InodeFact {
  std::uint64_t inode = 0;
  std::uint64_t parent = 0;    // directories: as the record says
  std::uint64_t named_in = 0;  // directories: where their one name is; 0 for none
  std::uint32_t type = 0;
  bool named = false;    // a name leads here
  bool rooted = false;   // directories: the way up to the root has been followed
  bool on_path = false;  // … is being followed
};

// One directory entry; its name is found by its cookie.
struct NameFact {
  std::uint64_t child = 0;
  std::uint64_t directory = 0;
  std::uint64_t cookie = 0;
  std::uint32_t type = 0;
  bool dropped = false;
};

class Changes {
 public:
  explicit Changes(MetaDb& db) : db_(db) {}

  void Put(std::string key, std::string value);
  void Delete(std::string key);
  // Makes all of them durable; afterwards cursors see them.
  absl::Status Finish();
  // Nothing more is written, and Finish returns it.
  void Fail(absl::Status why) {
    if (status_.ok()) status_ = std::move(why);
  }
  const absl::Status& status() const { return status_; }

 private:
  void Apply();

  MetaDb& db_;
  WriteBatch batch_;
  absl::Status status_;
};

struct State {
  const RepairInput& input;
  const RepairSink& sink;
  Changes changes;
  std::uint64_t actions = 0;

  v1::VolumeRecord volume{};
  bool volume_lost = false;
  std::vector<NameFact> names{};    // by child after GatherNames
  std::vector<InodeFact> inodes{};  // by number
  std::uint64_t highest_inode = kRoot;
  std::uint64_t highest_sequence = 0;

  void Phase(std::string_view name) const {
    if (sink.on_phase) sink.on_phase(name);
  }
  void Did(std::string_view code, std::string where, std::string what) {
    ++actions;
    if (sink.on_action) sink.on_action({std::string(code), std::move(where), std::move(what)});
  }
  MetaDb& db() const { return input.db; }
  // nullptr when there is none.
  InodeFact* Find(std::uint64_t inode);
  // Reads and decodes; false when it is not there or does not decode.
  template <typename Record>
  bool Get(const std::string& key, Record& record) {
    std::string value;
    const auto found = input.db.Get(key, &value, Tier::kAll);
    if (!found.ok()) changes.Fail(found.status());
    return found.ok() && *found == Found::kYes && record.ParseFromString(value);
  }
  // InodeFlag bits of the inode; 0 where its record is not there or does not decode.
  std::uint32_t FlagsOf(std::uint64_t inode);
  // The key of the directory's entry of that name.
  std::string DirentKey(std::uint64_t directory, std::string_view name);
};

// The records of one family in key order; a read error fails the repair.
class FamilyScan {
 public:
  FamilyScan(State& state, schema::Family family);

  bool valid() const { return valid_; }
  const schema::ParsedKey& key() const { return key_; }
  std::string raw_key() const { return std::string(cursor_->key()); }
  std::string_view value() const { return cursor_->value(); }
  void Next();
  template <typename Record>
  bool Decode(Record& record) const {
    return record.ParseFromArray(value().data(), static_cast<int>(value().size()));
  }

 private:
  void SkipUnreadable();
  State& state_;
  std::unique_ptr<Cursor> cursor_;
  schema::ParsedKey key_;
  bool valid_ = false;
};

// An extent of a file, or what is left of one.
struct ExtentPart {
  std::uint64_t file_block = 0;
  std::uint64_t length_blocks = 0;
  std::uint32_t pool = 0;
  std::uint64_t pool_block = 0;
  v1::ExtentState state = v1::EXTENT_WRITTEN;
  std::uint64_t birth_sequence = 0;
  std::uint64_t end() const { return file_block + length_blocks; }
  friend bool operator==(const ExtentPart&, const ExtentPart&) = default;
};
std::string EncodeExtentPart(const ExtentPart& extent_part);
// The part of `extent_part` that is `length_blocks` long and begins `skip` blocks after its start.
ExtentPart PartOf(const ExtentPart& extent_part, std::uint64_t skip, std::uint64_t length_blocks);

// A set of disjoint intervals. Add returns the parts that were not in it before, in order.
class Intervals {
 public:
  using Part = std::pair<std::uint64_t, std::uint64_t>;  // start, end
  std::vector<Part> Add(std::uint64_t start, std::uint64_t end);

 private:
  std::map<std::uint64_t, std::uint64_t> ends_;  // start → end
};

// Takes the extents of `inode` off the cursor and returns what is sound of them; `changed` when
// that is not what is stored. `end_block`: the file has no blocks from there on.
std::vector<ExtentPart> MendExtents(State& state, FamilyScan& extents, std::uint64_t inode,
                                    std::uint64_t end_block, bool& changed);

absl::Status MendKeys(State& state);     // keys of no known form
absl::Status MendVolume(State& state);   // the volume record is read, or made anew
absl::Status MendEntries(State& state);  // by name against by cookie, directory by directory
absl::Status GatherNames(State& state);
absl::Status MendInodes(State& state);  // each inode with its extents and attributes
absl::Status MendSpace(State& state);   // blocks with two owners, the free index
absl::Status MendTree(State& state);    // names against inodes, the way from the root
absl::Status MendCounts(State& state);  // link counts, directories' counts, inode numbers
absl::Status MendQuotas(State& state);  // usage, as the inodes say
absl::Status EndSessions(State& state);

}  // namespace reel::mdc::repairer
