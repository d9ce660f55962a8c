// Damage to space, extents and names, planted in a sound store, is repaired: the store is
// sound afterwards, a second repair does nothing, and what can be kept is kept.
#include "mdc/repair/repairer.h"

#include "mdc/testing/repairer_fixture.h"

namespace reel::mdc {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

TEST_F(RepairerTest, ASoundStoreStaysAsItIs) {
  EXPECT_EQ(RepairOnce(&actions_), 0u) << ::testing::PrintToString(actions_);
  ExpectSound();
}

TEST_F(RepairerTest, ARepairedVolumeCanBeUsed) {
  Delete(schema::DirentKey(InodeNumber(1), "dir"));
  Delete(schema::CookieKey(InodeNumber(1), 3));
  Repair();
  const std::uint64_t made = MakeFile(dir_, "new");
  Scatter(made, 3);
  EXPECT_EQ(Unlink(dir_, "file"), 0);
  Reap();
  ExpectSound();
}

// --- space

TEST_F(RepairerTest, ABlockInTwoExtentsStaysWithTheYounger) {
  const std::uint64_t other = MakeFile(dir_, "other");
  Scatter(other, 1);
  const v1::Place place = PlaceOf(2);
  Edit<v1::ExtentRecord>(schema::ExtentKey(InodeNumber(other), FileBlock(0)),
                         [&](v1::ExtentRecord& record) { *record.mutable_places(0) = place; });
  Repair();
  EXPECT_EQ(ExtentCount(other), 1u);
  EXPECT_EQ(ExtentCount(file_), 7u) << "the elder file has a hole";
  EXPECT_EQ(Inode(file_).allocated_blocks(), 7u);
  EXPECT_THAT(actions_, Contains(HasSubstr("blocks-shared: inode " + std::to_string(file_) +
                                           ", file blocks 2 to 2")));
}

TEST_F(RepairerTest, ALongExtentKeepsItsUnsharedBlocks) {
  EditExtent(0, [&](v1::ExtentRecord& record) {
    record.mutable_places(0)->set_pool_block(40'000);
    record.set_length_blocks(2);
    record.set_birth_sequence(1);
  });
  EditExtent(14, [&](v1::ExtentRecord& record) {
    record.mutable_places(0)->set_pool_block(40'001);
    record.set_length_blocks(100);
  });
  Repair();
  std::uint64_t length = 0;
  EditExtent(0, [&](v1::ExtentRecord& record) { length = record.length_blocks(); });
  EXPECT_EQ(length, 1u);
}

TEST_F(RepairerTest, ABlockInAFileAndFree) {
  const v1::Place place = PlaceOf(0);
  v1::FreeRecord free;
  free.set_length_blocks(1);
  Put(schema::FreeKey(PoolId(place.pool()), PoolBlock(place.pool_block())),
      free.SerializeAsString());
  Repair();
  EXPECT_EQ(ExtentCount(file_), 8u);
}

TEST_F(RepairerTest, LeakedBlocksAreFreed) {
  const std::uint64_t free = allocator_->total_free_blocks();
  Delete(schema::ExtentKey(InodeNumber(file_), FileBlock(14)));
  Repair();
  EXPECT_EQ(allocator_->total_free_blocks(), free + 1);
}

TEST_F(RepairerTest, ARegionHalfTakenIsFreeAgainAndAWholeOneIsNot) {
  // The allocator gave blocks away: the store has taken the second region, not the first.
  const std::uint64_t free = allocator_->total_free_blocks();
  v1::FreeRecord rest;
  rest.set_length_blocks(65'536 - 1'000);
  for (std::uint64_t start : {0, 8}) Delete(schema::FreeKey(PoolId(1), PoolBlock(start)));
  Put(schema::FreeKey(PoolId(1), PoolBlock(1'000)), rest.SerializeAsString());
  regions_ = {{PoolId(1), PoolBlock(500), 500}};
  Repair();
  EXPECT_EQ(allocator_->total_free_blocks(), free - 500);
}

TEST_F(RepairerTest, TheMetadataStoreKeepsItsBlocks) {
  regions_ = {{PoolId(1), PoolBlock(PlaceOf(0).pool_block()), 2}};
  Repair();
  EXPECT_EQ(ExtentCount(file_), 6u);
}

TEST_F(RepairerTest, FreeExtentsThatCannotBe) {
  v1::FreeRecord free;
  free.set_length_blocks(1);
  Put(schema::FreeKey(PoolId(0), PoolBlock(0)), free.SerializeAsString());
  Put(schema::FreeKey(PoolId(1), PoolBlock(65'536)), free.SerializeAsString());
  Put(schema::FreeKey(PoolId(9), PoolBlock(0)), free.SerializeAsString());
  Put(schema::FreeKey(PoolId(1), PoolBlock(70)), "\xff");
  Repair();
}

// --- extents

TEST_F(RepairerTest, ExtentsThatOverlapInTheFile) {
  EditExtent(0, [](v1::ExtentRecord& record) {
    record.set_length_blocks(3);
    record.set_birth_sequence(1);
  });
  const v1::Place place = PlaceOf(2);
  Repair();
  EXPECT_EQ(PlaceOf(2).pool_block(), place.pool_block()) << "the younger one keeps its place";
}

TEST_F(RepairerTest, ExtentsOutOfBounds) {
  BreakSevenExtents();
  Repair();
  EXPECT_EQ(ExtentCount(file_), 2u);
  v1::ExtentState state = v1::EXTENT_WRITTEN;
  EditExtent(12, [&](v1::ExtentRecord& record) { state = record.state(); });
  EXPECT_EQ(state, v1::EXTENT_UNWRITTEN) << "zeros rather than another file's bytes";
}

TEST_F(RepairerTest, AnExtentAcrossARegionsEndIsCut) {
  v1::ExtentRecord extent;
  extent.set_length_blocks(20);
  extent.add_places()->set_pool(1);
  extent.mutable_places(0)->set_pool_block(40'000);
  extent.set_state(v1::EXTENT_WRITTEN);
  Put(schema::ExtentKey(InodeNumber(file_), FileBlock(8190)), extent.SerializeAsString());
  Repair();
  EXPECT_EQ(ExtentCount(file_), 10u);
  EXPECT_EQ(Inode(file_).allocated_blocks(), 28u);
}

TEST_F(RepairerTest, ExtentsOfADirectory) {
  std::string value;
  ASSERT_TRUE(store_.db()
                  .Get(schema::ExtentKey(InodeNumber(file_), FileBlock(0)), &value, Tier::kAll)
                  .ok());
  Put(schema::ExtentKey(InodeNumber(dir_), FileBlock(0)), value);
  Repair();
  EXPECT_EQ(ExtentCount(dir_), 0u);
  EXPECT_EQ(Named(dir_, "file"), file_);
}

// --- names

TEST_F(RepairerTest, AnEntryThatLeadsNowhereFollowsTheOneByCookie) {
  EditEntry(dir_, "file", [](v1::DirentRecord& record) { record.set_inode(777); });
  Repair();
  EXPECT_EQ(Named(dir_, "file"), file_);
}

TEST_F(RepairerTest, ADanglingEntryIsDropped) {
  const std::uint64_t empty = MakeFile(dir_, "empty");
  Delete(schema::InodeKey(InodeNumber(empty)));
  Repair();
  EXPECT_EQ(Named(dir_, "empty"), 0u);
  EXPECT_EQ(Named(dir_, "file"), file_);
}

TEST_F(RepairerTest, AnEntryMissingByCookie) {
  Delete(schema::CookieKey(InodeNumber(dir_), CookieOf(dir_, "file")));
  Repair();
  EXPECT_EQ(List(dir_).size(), 4u) << ". and .. are two of them";
}

TEST_F(RepairerTest, AnEntryMissingByName) {
  Delete(schema::DirentKey(InodeNumber(dir_), "file"));
  Repair();
  EXPECT_EQ(Named(dir_, "file"), file_);
}

// A directory that folds names, with one file of each damage.
TEST_F(RepairerTest, EntriesOfADirectoryThatFoldsNames) {
  const std::uint64_t share = MakeDir(1, "share");
  ASSERT_EQ(SetFlags(share, v1::INODE_FLAG_CASEFOLD), 0);
  const InodeNumber directory(share);
  const std::uint64_t missing = MakeFile(share, "Missing"), unnamed = MakeFile(share, "Unnamed"),
                      misplaced = MakeFile(share, "Misplaced"),
                      nowhere = MakeFile(share, "Nowhere"), by_name = MakeFile(share, "By Name");
  Delete(schema::DirentKey(directory, "missing"));
  EditEntry(share, "unnamed", [](v1::DirentRecord& record) { record.set_name("Else"); });
  EditEntry(share, "misplaced", [&](v1::DirentRecord& record) {
    Put(schema::DirentKey(directory, "Misplaced"), record.SerializeAsString());
  });
  Delete(schema::DirentKey(directory, "misplaced"));
  EditEntry(share, "nowhere", [](v1::DirentRecord& record) { record.set_inode(777); });
  Delete(schema::CookieKey(directory, CookieOf(share, "by name")));
  EXPECT_THAT(Check(), testing::Contains("entry-name").Times(2));
  Repair();
  EXPECT_EQ(Named(share, "MISSING"), missing);
  EXPECT_EQ(Named(share, "unnamed"), unnamed);
  EXPECT_EQ(Named(share, "misplaced"), misplaced);
  EXPECT_EQ(Named(share, "NoWhere"), nowhere);
  EXPECT_EQ(Named(share, "BY NAME"), by_name);
  std::vector<std::string> names;
  for (const v1::ReadDirReply::Entry& entry : List(share)) names.push_back(entry.name());
  EXPECT_THAT(names, testing::IsSupersetOf({"Missing", "Misplaced", "Nowhere", "By Name"}));
}

TEST_F(RepairerTest, AnInodeWithoutANameIsRescued) {
  Delete(schema::CookieKey(InodeNumber(dir_), CookieOf(dir_, "file")));
  Delete(schema::DirentKey(InodeNumber(dir_), "file"));
  Repair();
  EXPECT_EQ(Rescued("#" + std::to_string(file_)), file_);
  EXPECT_EQ(ExtentCount(file_), 8u);
}

TEST_F(RepairerTest, ATreeWithoutANameIsRescuedAtItsTop) {
  Delete(schema::CookieKey(InodeNumber(1), CookieOf(1, "dir")));
  Delete(schema::DirentKey(InodeNumber(1), "dir"));
  Repair();
  EXPECT_EQ(Rescued("#" + std::to_string(dir_)), dir_);
  EXPECT_EQ(Rescued("#" + std::to_string(sub_)), 0u) << "it has its name in dir";
  EXPECT_EQ(Named(dir_, "sub"), sub_);
}

TEST_F(RepairerTest, LostAndFoundIsUsedAgain) {
  const std::uint64_t refuge = MakeDir(1, "lost+found");
  MakeFile(refuge, "#" + std::to_string(file_));
  Delete(schema::CookieKey(InodeNumber(dir_), CookieOf(dir_, "file")));
  Delete(schema::DirentKey(InodeNumber(dir_), "file"));
  Repair();
  EXPECT_EQ(Rescued("#" + std::to_string(file_) + "+"), file_);
}

TEST_F(RepairerTest, AFileNamedLostAndFoundIsNotInTheWay) {
  const std::uint64_t in_the_way = MakeFile(1, "lost+found");
  Delete(schema::CookieKey(InodeNumber(dir_), CookieOf(dir_, "file")));
  Delete(schema::DirentKey(InodeNumber(dir_), "file"));
  Repair();
  EXPECT_EQ(Named(1, "lost+found"), in_the_way);
  EXPECT_EQ(Named(Named(1, "lost+found+"), "#" + std::to_string(file_)), file_);
}

TEST_F(RepairerTest, IndexesThatDiffer) {
  Edit<v1::DirentRecord>(schema::CookieKey(InodeNumber(dir_), CookieOf(dir_, "file")),
                         [](v1::DirentRecord& record) { record.set_name("flie"); });
  Repair();
  EXPECT_EQ(Named(dir_, "file"), file_);
  EXPECT_EQ(Named(dir_, "flie"), 0u);
}

TEST_F(RepairerTest, Cookies) {
  EditInode(dir_, [](v1::InodeRecord& record) { record.set_next_cookie(4); });
  Repair();
  EditInode(dir_, [](v1::InodeRecord& record) { record.set_next_cookie(0); });
  Repair();
  const std::uint64_t cookie = CookieOf(dir_, "sub");
  EditEntry(dir_, "file", [&](v1::DirentRecord& record) { record.set_cookie(cookie); });
  Repair();
  EditEntry(dir_, "file", [&](v1::DirentRecord& record) { record.set_cookie(1); });
  Repair();
  EXPECT_EQ(List(dir_).size(), 4u) << ". and .. are two of them";
}

TEST_F(RepairerTest, AnImpossibleName) {
  v1::DirentRecord record;
  EditEntry(dir_, "file", [&](v1::DirentRecord& found) { record = found; });
  Delete(schema::DirentKey(InodeNumber(dir_), "file"));
  Put(schema::DirentKey(InodeNumber(dir_), "a/b"), record.SerializeAsString());
  Edit<v1::DirentRecord>(schema::CookieKey(InodeNumber(dir_), record.cookie()),
                         [](v1::DirentRecord& found) { found.set_name("a/b"); });
  Repair();
  EXPECT_EQ(Rescued("#" + std::to_string(file_)), file_);
}

TEST_F(RepairerTest, ANameThatIsNotItsKeys) {
  EditEntry(dir_, "file", [](v1::DirentRecord& record) { record.set_name("other"); });
  Repair();
  EXPECT_EQ(Named(dir_, "file"), file_);
}

TEST_F(RepairerTest, AnEntryOfAnotherType) {
  EditEntry(dir_, "file", [](v1::DirentRecord& record) { record.set_type(S_IFIFO); });
  Repair();
  EXPECT_EQ(Named(dir_, "file"), file_);
}

TEST_F(RepairerTest, Counts) {
  EditInode(file_, [](v1::InodeRecord& record) {
    record.set_nlink(2);
    record.set_allocated_blocks(9);
    record.set_xattr_name_bytes(0);
  });
  EditInode(dir_, [](v1::InodeRecord& record) {
    record.set_nlink(0);
    record.set_entries(9);
  });
  Repair();
  EXPECT_EQ(Inode(file_).nlink(), 1u);
  EXPECT_EQ(Inode(dir_).nlink(), 3u);
  EXPECT_EQ(GetXattr(file_, "user.a"), 0);
}

TEST_F(RepairerTest, TheParentIsAnotherDirectory) {
  EditInode(sub_, [](v1::InodeRecord& record) { record.set_parent(1); });
  Repair();
  EXPECT_EQ(Inode(sub_).parent(), dir_);
}

TEST_F(RepairerTest, DirectoriesInALoop) {
  // /dir moves into its own subdirectory.
  v1::DirentRecord entry;
  EditEntry(1, "dir", [&](v1::DirentRecord& record) { entry = record; });
  Delete(schema::DirentKey(InodeNumber(1), "dir"));
  Delete(schema::CookieKey(InodeNumber(1), entry.cookie()));
  entry.set_cookie(3);
  Put(schema::DirentKey(InodeNumber(sub_), "dir"), entry.SerializeAsString());
  EditInode(dir_, [&](v1::InodeRecord& record) { record.set_parent(sub_); });
  Repair();
  EXPECT_EQ(Rescued("#" + std::to_string(dir_)), dir_);
  EXPECT_EQ(Named(dir_, "sub"), sub_);
  EXPECT_EQ(Named(dir_, "file"), file_);
}

TEST_F(RepairerTest, ADirectoryWithTwoNamesKeepsItsParents) {
  v1::DirentRecord entry;
  EditEntry(dir_, "sub", [&](v1::DirentRecord& record) { entry = record; });
  entry.set_cookie(50);
  Put(schema::DirentKey(InodeNumber(1), "again"), entry.SerializeAsString());
  Repair();
  EXPECT_EQ(Named(dir_, "sub"), sub_);
  EXPECT_EQ(Named(1, "again"), 0u);
}

TEST_F(RepairerTest, ADamagedJobIsDropped) {
  Put(schema::JobKey(1), "\xff");
  v1::JobRecord job;
  job.set_kind(v1::JOB_DEFRAGMENT);
  Put(schema::JobKey(2), job.SerializeAsString());
  Repair();
  std::string value;
  EXPECT_EQ(store_.db().Get(schema::JobKey(1), &value, Tier::kAll).value(), Found::kNo);
  EXPECT_EQ(store_.db().Get(schema::JobKey(2), &value, Tier::kAll).value(), Found::kYes);
}

TEST_F(RepairerTest, AnEntryThatNamesTheRoot) {
  EditEntry(dir_, "sub", [](v1::DirentRecord& record) { record.set_inode(1); });
  Delete(schema::CookieKey(InodeNumber(dir_), CookieOf(dir_, "sub")));
  Repair();
  EXPECT_EQ(Rescued("#" + std::to_string(sub_)), sub_);
}

}  // namespace
}  // namespace reel::mdc
