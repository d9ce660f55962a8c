// Usage that is not what the inodes say is found, and counted again; limits stay.
#include "mdc/testing/repairer_fixture.h"

namespace reel::mdc {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::string kUser = schema::QuotaKey({QuotaKind::kUser, 0});
const std::string kGroup = schema::QuotaKey({QuotaKind::kGroup, 0});
const std::string kTree = schema::QuotaKey({QuotaKind::kTree, 1});

class RepairerQuotaTest : public RepairerTest {
 protected:
  // All five inodes are root's; the file, of 8 blocks, is in a tree.
  RepairerQuotaTest() {
    EditInode(file_, [](v1::InodeRecord& record) { record.set_project(1); });
    SetState(~std::uint64_t{0});
    Plant(kUser, 8, 5);
    Plant(kGroup, 8, 5);
    Plant(kTree, 8, 1, "scans");
  }
  void SetState(std::uint64_t counted_below) {
    v1::QuotaStateRecord state;
    state.set_round(3);
    state.set_counted_below(counted_below);
    state.set_last_tree(1);
    Put(schema::QuotaStateKey(), state.SerializeAsString());
  }
  void Plant(const std::string& key, std::uint64_t blocks, std::uint64_t files,
             const std::string& tree = "") {
    v1::QuotaRecord record;
    record.set_round(3);
    record.set_blocks(blocks);
    record.set_files(files);
    record.set_hard_files(1'000);
    record.set_tree(tree);
    Put(key, record.SerializeAsString());
  }
  v1::QuotaRecord Quota(const std::string& key) {
    v1::QuotaRecord found;
    Edit<v1::QuotaRecord>(key, [&](v1::QuotaRecord& record) { found = record; });
    return found;
  }
};

TEST_F(RepairerQuotaTest, RightUsageIsLeftAlone) {
  EXPECT_THAT(Check(), IsEmpty()) << ::testing::PrintToString(lines_);
  EXPECT_EQ(RepairOnce(&actions_), 0u) << ::testing::PrintToString(actions_);
}

TEST_F(RepairerQuotaTest, WrongUsageIsCountedAgain) {
  Plant(kUser, 7, 5);
  Delete(kGroup);
  Plant(kTree, 8, 2, "scans");
  EXPECT_THAT(Check(), ElementsAre("quota-usage", "quota-usage", "quota-usage"));
  EXPECT_THAT(lines_, Contains(HasSubstr("user 0: it is charged with 7 blocks and 5 files, but "
                                         "has 8 blocks and 5 files")));
  Repair();
  EXPECT_EQ(Quota(kUser).blocks(), 8u);
  EXPECT_EQ(Quota(kUser).hard_files(), 1'000u);
  EXPECT_EQ(Quota(kGroup).files(), 5u);
  EXPECT_EQ(Quota(kTree).files(), 1u);
}

TEST_F(RepairerQuotaTest, ACountIsHeldAgainstWhatItHasPassed) {
  SetState(2);  // the root alone
  Plant(kUser, 0, 1);
  Plant(kGroup, 0, 1);
  Plant(kTree, 0, 0, "scans");
  EXPECT_THAT(Check(), IsEmpty()) << ::testing::PrintToString(lines_);
  SetState(0);  // switched off: whatever was counted is void
  Plant(kUser, 5, 5);
  EXPECT_THAT(Check(), IsEmpty()) << ::testing::PrintToString(lines_);
}

TEST_F(RepairerQuotaTest, WhatCannotBeReadIsDropped) {
  Put(kUser, "\xff");
  Plant(kTree, 8, 1, "");
  EXPECT_THAT(Check(), ElementsAre("record-damaged", "quota-tree"));
  Repair();
  EXPECT_EQ(Quota(kUser).files(), 5u);
  EXPECT_EQ(Quota(kUser).hard_files(), 0u);
}

TEST_F(RepairerQuotaTest, ALostStateIsSwitchedOff) {
  Delete(schema::QuotaStateKey());
  EXPECT_THAT(Check(), ElementsAre("quota-state"));
  Repair();
  EXPECT_THAT(actions_, Contains(HasSubstr("made anew, switched off")));
}

}  // namespace
}  // namespace reel::mdc
