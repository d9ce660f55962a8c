// The vocabulary of tests that plant damage in a sound store: the checker's and the repairer's.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "mdc/checker.h"
#include "mdc/ops/op_fixture.h"
#include "mdc/schema.h"
#include "proto/records.pb.h"

namespace reel::mdc {

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
    std::vector<std::string> codes;
    lines_.clear();
    CheckSink sink;
    sink.on_problem = [&](const Problem& problem) {
      codes.push_back(problem.code);
      lines_.push_back(problem.where + ": " + problem.what);
    };
    totals_ = CheckVolume({store_.db(), volume_, regions_}, sink);
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
  template <typename Change>
  void EditEntry(std::uint64_t directory, std::string_view name, Change change) {
    Edit<v1::DirentRecord>(schema::DirentKey(InodeNumber(directory), name), change);
  }
  std::uint64_t CookieOf(std::uint64_t directory, std::string_view name) {
    std::uint64_t cookie = 0;
    EditEntry(directory, name, [&](v1::DirentRecord& record) { cookie = record.cookie(); });
    return cookie;
  }

  std::uint64_t dir_ = 0, sub_ = 0, file_ = 0;
  std::vector<mdc::Run> regions_;  // a test's own Run is gtest's
  std::vector<std::string> lines_;
  CheckTotals totals_;
};

}  // namespace reel::mdc
