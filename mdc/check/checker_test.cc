// Each kind of damage, planted in a sound store, is seen and named.
#include "mdc/check/checker.h"

#include <gmock/gmock.h>

#include "mdc/metadb/schema.h"
#include "mdc/testing/damage_fixture.h"

namespace reel::mdc {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class CheckerTest : public DamageFixture {};

TEST_F(CheckerTest, ASoundStoreHasNoProblems) {
  EXPECT_THAT(Check(), IsEmpty());
  EXPECT_EQ(totals_.inodes, 5u);
  EXPECT_EQ(totals_.files, 1u);
  EXPECT_EQ(totals_.directories, 3u);
  EXPECT_EQ(totals_.extents, 8u);
  EXPECT_EQ(totals_.file_blocks + totals_.free_blocks, totals_.data_blocks);
}

TEST_F(CheckerTest, OrphansAreNoProblem) {
  opens_.Open(kMe, InodeNumber(file_));
  ASSERT_EQ(Unlink(dir_, "file"), 0);
  EXPECT_THAT(Check(), IsEmpty());
  EXPECT_EQ(totals_.orphans, 1u);
}

// --- space

TEST_F(CheckerTest, ABlockInTwoExtents) {
  v1::Place place;
  EditExtent(0, [&](v1::ExtentRecord& record) { place = record.places(0); });
  EditExtent(2, [&](v1::ExtentRecord& record) { *record.mutable_places(0) = place; });
  EXPECT_THAT(Check(), ElementsAre("blocks-shared", "blocks-lost"));
}

TEST_F(CheckerTest, ABlockInAFileAndFree) {
  v1::Place place;
  EditExtent(0, [&](v1::ExtentRecord& record) { place = record.places(0); });
  v1::FreeRecord free;
  free.set_length_blocks(1);
  Put(schema::FreeKey(PoolId(place.pool()), PoolBlock(place.pool_block())),
      free.SerializeAsString());
  EXPECT_THAT(Check(), ElementsAre("blocks-shared"));
  EXPECT_THAT(lines_[0], testing::HasSubstr("and by the free index"));
}

TEST_F(CheckerTest, LeakedBlocks) {
  Delete(schema::ExtentKey(InodeNumber(file_), FileBlock(14)));
  EXPECT_THAT(Check(), ElementsAre("block-count", "blocks-lost"));
}

TEST_F(CheckerTest, TheMetadataStoreOwnsItsBlocks) {
  regions_ = {{PoolId(1), PoolBlock(0), 1}};
  EXPECT_THAT(Check(), ElementsAre("blocks-shared"));
  regions_ = {{PoolId(0), PoolBlock(0), 64}};
  EXPECT_THAT(Check(), IsEmpty());
  regions_ = {{PoolId(0), PoolBlock(65'530), 64}};
  EXPECT_THAT(Check(), ElementsAre("metadata-region"));
}

TEST_F(CheckerTest, AFreeExtentOutsideTheDataPools) {
  v1::FreeRecord free;
  free.set_length_blocks(1);
  Put(schema::FreeKey(PoolId(0), PoolBlock(0)), free.SerializeAsString());
  Put(schema::FreeKey(PoolId(1), PoolBlock(65'536)), free.SerializeAsString());
  EXPECT_THAT(Check(), ElementsAre("free-extent", "free-extent"));
}

// --- extents

TEST_F(CheckerTest, ExtentsThatOverlapInTheFile) {
  EditExtent(0, [](v1::ExtentRecord& record) { record.set_length_blocks(3); });
  EXPECT_THAT(Check(), AllOf(Contains("extent"), Contains("block-count")));
  EXPECT_THAT(lines_[0], testing::HasSubstr("overlaps the extent before it"));
}

TEST_F(CheckerTest, ExtentsOutOfBounds) {
  BreakSevenExtents();
  const auto codes = Check();
  EXPECT_EQ(std::count(codes.begin(), codes.end(), "extent"), 7);
}

TEST_F(CheckerTest, ExtentsOfADirectory) {
  std::string value;
  ASSERT_TRUE(store_.db()
                  .Get(schema::ExtentKey(InodeNumber(file_), FileBlock(0)), &value, Tier::kAll)
                  .ok());
  Delete(schema::ExtentKey(InodeNumber(file_), FileBlock(0)));
  Put(schema::ExtentKey(InodeNumber(dir_), FileBlock(0)), value);
  EXPECT_THAT(Check(), UnorderedElementsAre("extent", "block-count", "block-count"));
}

// --- names

TEST_F(CheckerTest, ADanglingEntry) {
  EditEntry(dir_, "file", [](v1::DirentRecord& record) { record.set_inode(777); });
  EXPECT_THAT(Check(), UnorderedElementsAre("cookie-index", "dangling-entry", "unattached"));
  EXPECT_THAT(lines_, Contains(testing::HasSubstr("entry \"file\": it names inode 777")));
}

TEST_F(CheckerTest, AnEntryMissingByCookie) {
  Delete(schema::CookieKey(InodeNumber(dir_), CookieOf(dir_, "file")));
  EXPECT_THAT(Check(), ElementsAre("cookie-index"));
}

TEST_F(CheckerTest, AnEntryMissingByName) {
  Delete(schema::DirentKey(InodeNumber(dir_), "file"));
  EXPECT_THAT(Check(), ElementsAre("cookie-index", "entry-count", "unattached"));
}

TEST_F(CheckerTest, IndexesThatDiffer) {
  Edit<v1::DirentRecord>(schema::CookieKey(InodeNumber(dir_), CookieOf(dir_, "file")),
                         [](v1::DirentRecord& record) { record.set_name("flie"); });
  EXPECT_THAT(Check(), ElementsAre("cookie-index"));
}

TEST_F(CheckerTest, CookiesBeyondTheNextOne) {
  EditInode(dir_, [](v1::InodeRecord& record) { record.set_next_cookie(4); });
  EXPECT_THAT(Check(), ElementsAre("cookie"));
}

TEST_F(CheckerTest, TwoEntriesWithOneCookie) {
  const std::uint64_t cookie = CookieOf(dir_, "sub");
  EditEntry(dir_, "file", [&](v1::DirentRecord& record) { record.set_cookie(cookie); });
  EXPECT_THAT(Check(), Contains("cookie"));
}

TEST_F(CheckerTest, ANameThatIsNotItsKeys) {
  EditEntry(dir_, "file", [](v1::DirentRecord& record) { record.set_name("other"); });
  EXPECT_THAT(Check(), Contains("entry-name"));
}

TEST_F(CheckerTest, AnEntryOfAnotherType) {
  EditEntry(dir_, "file", [](v1::DirentRecord& record) { record.set_type(S_IFIFO); });
  EXPECT_THAT(Check(), ElementsAre("cookie-index", "entry-type"));
}

TEST_F(CheckerTest, Counts) {
  EditInode(file_, [](v1::InodeRecord& record) { record.set_nlink(2); });
  EXPECT_THAT(Check(), ElementsAre("link-count"));
  EditInode(file_, [](v1::InodeRecord& record) { record.set_nlink(1); });
  EditInode(dir_, [](v1::InodeRecord& record) { record.set_nlink(2); });
  EXPECT_THAT(Check(), ElementsAre("link-count"));
  EditInode(dir_, [](v1::InodeRecord& record) { record.set_nlink(3); });
  EditInode(dir_, [](v1::InodeRecord& record) { record.set_entries(9); });
  EXPECT_THAT(Check(), ElementsAre("entry-count"));
  EditInode(dir_, [](v1::InodeRecord& record) { record.set_entries(2); });
  EditInode(file_, [](v1::InodeRecord& record) { record.set_allocated_blocks(9); });
  EXPECT_THAT(Check(), ElementsAre("block-count"));
  EditInode(file_, [](v1::InodeRecord& record) {
    record.set_allocated_blocks(8);
    record.set_xattr_name_bytes(0);
  });
  EXPECT_THAT(Check(), ElementsAre("xattr-count"));
}

TEST_F(CheckerTest, AclsThatAreSound) {
  ASSERT_EQ(SetXattr(file_, std::string(kAccessAcl), SomeAcl()), 0);
  ASSERT_EQ(SetXattr(dir_, std::string(kDefaultAcl), SomeAcl()), 0);
  EXPECT_THAT(Check(), ElementsAre());
}

TEST_F(CheckerTest, AclsThatCannotBe) {
  PlantXattr(file_, kAccessAcl, "no ACL");
  EXPECT_THAT(Check(), ElementsAre("acl"));
  Put(AclKey(file_, kAccessAcl), AclBytes({}));
  EXPECT_THAT(Check(), ElementsAre("acl"));
  Put(AclKey(file_, kAccessAcl), SomeAcl());  // of another mode
  EXPECT_THAT(Check(), ElementsAre("acl"));
  EXPECT_THAT(lines_[0], ::testing::HasSubstr("says 760, its mode 6"));
  EditInode(file_, [](v1::InodeRecord& record) { record.set_mode(S_IFREG | 0760); });
  EXPECT_THAT(Check(), ElementsAre());
  PlantXattr(file_, kDefaultAcl, SomeAcl());
  EXPECT_THAT(Check(), ElementsAre("acl"));
}

TEST_F(CheckerTest, TheParentIsAnotherDirectory) {
  EditInode(sub_, [](v1::InodeRecord& record) { record.set_parent(1); });
  EXPECT_THAT(Check(), ElementsAre("parent"));
}

TEST_F(CheckerTest, DirectoriesInALoop) {
  // /dir moves into its own subdirectory, all counts kept right.
  v1::DirentRecord by_name, by_cookie;
  const std::uint64_t cookie = CookieOf(1, "dir");
  EditEntry(1, "dir", [&](v1::DirentRecord& record) { by_name = record; });
  Edit<v1::DirentRecord>(schema::CookieKey(InodeNumber(1), cookie),
                         [&](v1::DirentRecord& record) { by_cookie = record; });
  Delete(schema::DirentKey(InodeNumber(1), "dir"));
  Delete(schema::CookieKey(InodeNumber(1), cookie));
  by_name.set_cookie(3);
  Put(schema::DirentKey(InodeNumber(sub_), "dir"), by_name.SerializeAsString());
  Put(schema::CookieKey(InodeNumber(sub_), 3), by_cookie.SerializeAsString());
  EditInode(1, [](v1::InodeRecord& record) {
    record.set_nlink(2);
    record.set_entries(1);
    record.set_size_bytes(32);
  });
  EditInode(sub_, [](v1::InodeRecord& record) {
    record.set_nlink(3);
    record.set_entries(1);
    record.set_size_bytes(32);
    record.set_next_cookie(4);
  });
  EditInode(dir_, [&](v1::InodeRecord& record) { record.set_parent(sub_); });
  EXPECT_THAT(Check(), ElementsAre("directory-loop"));
}

TEST_F(CheckerTest, ADirectoryWithTwoNames) {
  v1::DirentRecord entry;
  EditEntry(dir_, "sub", [&](v1::DirentRecord& record) { entry = record; });
  entry.set_cookie(50);
  Put(schema::DirentKey(InodeNumber(1), "again"), entry.SerializeAsString());
  EXPECT_THAT(Check(), Contains("directory-names"));
}

// --- inodes and the rest

TEST_F(CheckerTest, AMissingInodeRecord) {
  Delete(schema::InodeKey(InodeNumber(file_)));
  EXPECT_THAT(Check(),
              ElementsAre("stray-record", "stray-record", "inode-count", "dangling-entry"));
}

TEST_F(CheckerTest, AnInodeWithoutNameOrOrphanRecord) {
  opens_.Open(kMe, InodeNumber(file_));
  ASSERT_EQ(Unlink(dir_, "file"), 0);
  Delete(schema::OrphanKey(InodeNumber(file_)));
  EXPECT_THAT(Check(), ElementsAre("orphan"));
}

TEST_F(CheckerTest, NumbersNeverGivenOut) {
  Edit<v1::VolumeRecord>(schema::VolumeKey(),
                         [&](v1::VolumeRecord& record) { record.set_next_inode(file_); });
  EXPECT_THAT(Check(), ElementsAre("inode-number", "inode-number"));
}

TEST_F(CheckerTest, DamagedRecordsAreNamedAndPassedOver) {
  Put(schema::InodeKey(InodeNumber(sub_)), "\xff");
  Put(schema::ExtentKey(InodeNumber(file_), FileBlock(0)), "\xff");
  EXPECT_THAT(Check(),
              ElementsAre("record-damaged", "record-damaged", "block-count", "blocks-lost"));
}

TEST_F(CheckerTest, ADamagedJob) {
  Put(schema::JobKey(1), "\xff");
  EXPECT_THAT(Check(), ElementsAre("record-damaged"));
}

TEST_F(CheckerTest, DamagedBandwidth) {
  Put(schema::CapacityKey(PoolId(0), 0), "");
  Put(schema::ReservationKey(1), "");
  EXPECT_THAT(Check(), ElementsAre());
  Put(schema::CapacityKey(PoolId(0), 0), "\xff");
  Put(schema::ReservationKey(1), "\xff");
  EXPECT_THAT(Check(), ElementsAre("record-damaged", "record-damaged"));
}

TEST_F(CheckerTest, KeysOfNoKnownForm) {
  Put("Ishort", "");
  Put("Zwhatever", "");
  EXPECT_THAT(Check(), ElementsAre("key-unknown", "key-unknown"));
}

TEST_F(CheckerTest, TheVolumeRecord) {
  Edit<v1::VolumeRecord>(schema::VolumeKey(), [](v1::VolumeRecord& record) {
    record.set_format(9);
    record.set_volume(std::string(16, 'x'));
  });
  EXPECT_THAT(Check(), ElementsAre("volume-record", "volume-record"));
  Delete(schema::VolumeKey());
  EXPECT_THAT(Check(), ElementsAre("volume-record"));
}

TEST_F(CheckerTest, SessionsAndReplies) {
  Edit<v1::VolumeRecord>(schema::VolumeKey(), [](v1::VolumeRecord& record) {
    record.set_next_session(5);
    record.set_clean(false);
  });
  v1::SessionRecord session;
  session.set_client(std::string(16, 'c'));
  Put(schema::SessionKey(SessionId(3)), session.SerializeAsString());
  v1::StoredReply reply;
  reply.set_sequence(1);
  Put(schema::ReplyKey(SessionId(3), 1), reply.SerializeAsString());
  EXPECT_THAT(Check(), IsEmpty());

  Put(schema::ReplyKey(SessionId(4), 1), reply.SerializeAsString());
  reply.set_sequence(0);
  Put(schema::ReplyKey(SessionId(3), 2), reply.SerializeAsString());
  Put(schema::SessionKey(SessionId(9)), session.SerializeAsString());
  EXPECT_THAT(Check(), ElementsAre("reply", "reply", "session"));
}

TEST_F(CheckerTest, SessionsOfAVolumeThatWasStopped) {
  Edit<v1::VolumeRecord>(schema::VolumeKey(), [](v1::VolumeRecord& record) {
    record.set_next_session(5);
    record.set_clean(true);
  });
  v1::SessionRecord session;
  session.set_client(std::string(16, 'c'));
  Put(schema::SessionKey(SessionId(3)), session.SerializeAsString());
  EXPECT_THAT(Check(), ElementsAre("volume-record"));
}

}  // namespace
}  // namespace reel::mdc
