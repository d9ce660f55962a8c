// The vocabulary of tests that plant damage in a sound store: the checker's and the repairer's.
#pragma once

#include <numeric>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "mdc/check/checker.h"
#include "mdc/metadb/schema.h"
#include "mdc/ops/acl.h"
#include "mdc/testing/op_fixture.h"
#include "proto/records.pb.h"
#include "volume/base/coding.h"

namespace reel::mdc {

// More than there are in a store of these tests.
inline constexpr std::size_t kMostInodes = 64;

// A store with /dir/sub, /dir/file (8 extents of one block) and /link, made by the operations.
class DamageFixture : public OpFixture {
 protected:
  DamageFixture() {
    dir_ = MakeDir(1, "dir");
    sub_ = MakeDir(dir_, "sub");
    file_ = MakeFile(dir_, "file");
    EXPECT_EQ(Create(1, "link", S_IFLNK | 0777, nullptr, "target"), 0);
    EXPECT_EQ(SetXattr(file_, "user.a", "1"), 0);
    Scatter(file_, 8);
  }

  // The codes of all problems found, in order of report.
  std::vector<std::string> Check() {
    const std::vector<std::string> codes = CheckOnce({});
    const std::vector<std::string> lines = lines_;
    // In parts of one inode each, by several threads, and of what is wrong a little at a time: it
    // finds the same.
    std::vector<std::uint64_t> borders(kMostInodes);
    std::iota(borders.begin(), borders.end(), 1);
    EXPECT_EQ(CheckOnce({.threads = 3, .borders = borders}), codes);
    EXPECT_EQ(lines_, lines);
    const std::vector<std::string> little = CheckOnce({.round_bytes = 1, .borders = borders});
    EXPECT_EQ(std::set<std::string>(little.begin(), little.end()),
              std::set<std::string>(codes.begin(), codes.end()));
    EXPECT_EQ(CheckOnce({}), codes);
    return codes;
  }
  std::vector<std::string> CheckOnce(const CheckEffort& effort) {
    std::vector<std::string> codes;
    lines_.clear();
    CheckSink sink;
    sink.on_problem = [&](const Problem& problem) {
      codes.push_back(problem.code);
      lines_.push_back(problem.where + ": " + problem.what);
    };
    totals_ = CheckVolume({store_.db(), volume_, regions_}, sink, effort);
    EXPECT_EQ(totals_.problems, codes.size());
    return codes;
  }

  void Put(const std::string& key, const std::string& value) {
    WriteBatch batch;
    batch.Put(key, value);
    EXPECT_TRUE(store_.db().Apply(batch).ok());
  }
  void Delete(const std::string& key) {
    WriteBatch batch;
    batch.Delete(key);
    EXPECT_TRUE(store_.db().Apply(batch).ok());
  }
  // Changes one record in place.
  template <typename Record, typename Change>
  void Edit(const std::string& key, Change change) {
    std::string value;
    auto found = store_.db().Get(key, &value, Tier::kAll);
    ASSERT_TRUE(found.ok() && *found == Found::kYes);
    Record record;
    ASSERT_TRUE(record.ParseFromString(value));
    change(record);
    Put(key, record.SerializeAsString());
  }
  template <typename Change>
  void EditInode(std::uint64_t inode, Change change) {
    Edit<v1::InodeRecord>(schema::InodeKey(InodeNumber(inode)), change);
  }
  template <typename Change>
  void EditExtent(std::uint64_t block, Change change) {
    Edit<v1::ExtentRecord>(schema::ExtentKey(InodeNumber(file_), FileBlock(block)), change);
  }
  // Of the file's, each in another way: places and lengths out of bounds, unknown kind and state.
  void BreakSevenExtents() {
    EditExtent(0, [](v1::ExtentRecord& record) { record.mutable_places(0)->set_pool(7); });
    EditExtent(2, [](v1::ExtentRecord& record) { record.mutable_places(0)->set_pool(0); });
    EditExtent(4, [](v1::ExtentRecord& record) {
      record.mutable_places(0)->set_pool_block(~std::uint64_t{0});
    });
    EditExtent(6, [](v1::ExtentRecord& record) { record.set_length_blocks(~std::uint64_t{0}); });
    EditExtent(8, [](v1::ExtentRecord& record) { record.set_length_blocks(0); });
    EditExtent(10, [](v1::ExtentRecord& record) { record.set_kind(v1::LAYOUT_MIRROR); });
    EditExtent(12, [](v1::ExtentRecord& record) { record.set_state(v1::EXTENT_HOLE); });
  }
  template <typename Change>
  void EditEntry(std::uint64_t directory, std::string_view name, Change change) {
    Edit<v1::DirentRecord>(schema::DirentKey(InodeNumber(directory), name), change);
  }
  std::uint64_t CookieOf(std::uint64_t directory, std::string_view name) {
    std::uint64_t cookie = 0;
    EditEntry(directory, name, [&](v1::DirentRecord& record) { cookie = record.cookie(); });
    return cookie;
  }

  // An ACL as it is stored: entries of tag, permissions and id.
  static std::string AclBytes(
      const std::vector<std::tuple<std::uint16_t, std::uint16_t, std::uint32_t>>& entries) {
    std::string bytes;
    PutU32(bytes, 2);
    for (const auto& [tag, permissions, id] : entries) {
      PutU16(bytes, tag);
      PutU16(bytes, permissions);
      PutU32(bytes, id);
    }
    return bytes;
  }
  // rwx for the owner, rw- for user 5, r-- for the group, a mask of rw-, nothing for others: 0760.
  static std::string SomeAcl() {
    constexpr std::uint32_t kNone = ~0u;
    return AclBytes({{1, 7, kNone}, {2, 6, 5}, {4, 4, kNone}, {16, 6, kNone}, {32, 0, kNone}});
  }
  static std::string AclKey(std::uint64_t inode, std::string_view name) {
    return schema::XattrKey(InodeNumber(inode), name);
  }
  // Stores an attribute behind the operations' back, and counts it.
  void PlantXattr(std::uint64_t inode, std::string_view name, const std::string& value) {
    Put(AclKey(inode, name), value);
    EditInode(inode, [&](v1::InodeRecord& record) {
      record.set_xattr_name_bytes(record.xattr_name_bytes() +
                                  static_cast<std::uint32_t>(name.size()) + 1);
    });
  }

  std::uint64_t dir_ = 0, sub_ = 0, file_ = 0;
  std::vector<mdc::Run> regions_;  // a test's own Run is gtest's
  std::vector<std::string> lines_;
  CheckTotals totals_;
};

}  // namespace reel::mdc
