// Damage to inodes and to all the rest, planted in a sound store, is repaired: as repairer_test.cc.
#include "mdc/testing/repairer_fixture.h"

namespace reel::mdc {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// --- inodes

TEST_F(RepairerTest, AMissingInodeIsMadeAnewFromItsExtents) {
  Delete(schema::InodeKey(InodeNumber(file_)));
  Repair();
  EXPECT_EQ(Named(dir_, "file"), file_);
  EXPECT_EQ(ExtentCount(file_), 8u);
  const v1::InodeRecord record = Inode(file_);
  EXPECT_EQ(record.size_bytes(), 15u * 4096) << "up to its last block";
  EXPECT_EQ(record.mode(), S_IFREG | 0600u);
  EXPECT_EQ(GetXattr(file_, "user.a"), 0);
}

TEST_F(RepairerTest, ADamagedDirectoryKeepsItsEntries) {
  Put(schema::InodeKey(InodeNumber(dir_)), "\xff");
  Repair();
  EXPECT_EQ(Named(1, "dir"), dir_);
  EXPECT_EQ(Named(dir_, "sub"), sub_);
  EXPECT_EQ(Named(dir_, "file"), file_);
}

TEST_F(RepairerTest, DamagedRecordsOfEachFamily) {
  const std::uint64_t link = Named(1, "link");
  Put(schema::InodeKey(InodeNumber(sub_)), "\xff");
  Put(schema::InodeKey(InodeNumber(link)), "\xff");
  Put(schema::ExtentKey(InodeNumber(file_), FileBlock(0)), "\xff");
  Put(schema::DirentKey(InodeNumber(dir_), "file"), "\xff");
  Put(schema::OrphanKey(InodeNumber(file_)), "\xff");
  Put(schema::SessionKey(SessionId(0)), "\xff");
  Put(schema::ReplyKey(SessionId(0), 1), "\xff");
  Repair();
  EXPECT_EQ(Named(dir_, "sub"), sub_) << "an empty directory, by its name's word";
  EXPECT_EQ(Named(dir_, "file"), file_) << "by the entry by cookie";
  EXPECT_EQ(Named(1, "link"), 0u) << "its target is lost";
  EXPECT_EQ(ExtentCount(file_), 7u);
}

TEST_F(RepairerTest, AnInodeWithoutNameOrOrphanRecordIsKept) {
  opens_.Open(kMe, InodeNumber(file_));
  ASSERT_EQ(Unlink(dir_, "file"), 0);
  Delete(schema::OrphanKey(InodeNumber(file_)));
  Repair();
  EXPECT_EQ(Rescued("#" + std::to_string(file_)), file_);
}

TEST_F(RepairerTest, OrphansAreFreed) {
  const std::uint64_t free = allocator_->total_free_blocks();
  opens_.Open(kMe, InodeNumber(file_));
  ASSERT_EQ(Unlink(dir_, "file"), 0);
  Repair();
  EXPECT_EQ(ExtentCount(file_), 0u);
  EXPECT_EQ(allocator_->total_free_blocks(), free + 8);
}

TEST_F(RepairerTest, AnOrphanWithANameIsNone) {
  EditInode(file_, [](v1::InodeRecord& record) { record.set_nlink(0); });
  Put(schema::OrphanKey(InodeNumber(file_)), "");
  Put(schema::OrphanKey(InodeNumber(dir_)), "");
  Repair();
  EXPECT_EQ(Named(dir_, "file"), file_);
  EXPECT_EQ(ExtentCount(file_), 8u);
}

TEST_F(RepairerTest, ATruncationIsEnded) {
  EditInode(file_, [](v1::InodeRecord& record) {
    record.set_truncated_from(1 + 5);
    record.set_size_bytes(5 * 4096);
  });
  Repair();
  EXPECT_EQ(ExtentCount(file_), 3u);
  EXPECT_EQ(Inode(file_).size_bytes(), 5u * 4096);
}

TEST_F(RepairerTest, ImpossibleAttributes) {
  EditInode(file_, [](v1::InodeRecord& record) {
    record.set_size_bytes(~std::uint64_t{0});
    record.mutable_mtime()->set_nanoseconds(2'000'000'000);
  });
  EditInode(sub_, [](v1::InodeRecord& record) { record.set_mode(0755); });
  EditInode(Named(1, "link"), [](v1::InodeRecord& record) { record.set_size_bytes(99); });
  Repair();
  EXPECT_EQ(Inode(file_).size_bytes(), 15u * 4096);
  EXPECT_EQ(Inode(sub_).mode(), S_IFDIR | 0755u);
  EXPECT_EQ(Inode(Named(1, "link")).size_bytes(), 6u);
}

TEST_F(RepairerTest, BytesInARecordThatCannotBe) {
  const std::uint64_t size = Inode(file_).size_bytes();
  ASSERT_GT(size, 16u << 10);
  EditInode(file_, [](v1::InodeRecord& record) {  // too long, and without the flag
    record.set_inline_data(std::string((16 << 10) + 1, 'x'));
  });
  EditInode(sub_, [](v1::InodeRecord& record) {
    record.set_inline_data("x");
    record.set_flags(record.flags() | v1::INODE_FLAG_INLINE);
  });
  Repair();
  EXPECT_EQ(Inode(file_).inline_data(), std::string(16 << 10, 'x'));
  EXPECT_NE(Inode(file_).flags() & v1::INODE_FLAG_INLINE, 0u);
  EXPECT_EQ(Inode(sub_).inline_data(), "");
  EXPECT_EQ(Inode(sub_).flags() & v1::INODE_FLAG_INLINE, 0u);
}

TEST_F(RepairerTest, AnAclThatIsLostTakesTheGroupsRightsAlong) {
  EditInode(file_, [](v1::InodeRecord& record) { record.set_mode(S_IFREG | 04775); });
  PlantXattr(file_, kAccessAcl, SomeAcl().substr(0, 15));
  PlantXattr(dir_, kDefaultAcl, "");
  Repair();
  EXPECT_EQ(Inode(file_).mode(), S_IFREG | 04705u);
  EXPECT_EQ(GetXattr(file_, std::string(kAccessAcl)), ENODATA);
  EXPECT_EQ(GetXattr(dir_, std::string(kDefaultAcl)), ENODATA);
  EXPECT_EQ(GetXattr(file_, "user.a"), 0);
}

TEST_F(RepairerTest, AnAclAndAModeThatDiffer) {
  EditInode(file_, [](v1::InodeRecord& record) { record.set_mode(S_IFREG | 0657); });
  PlantXattr(file_, kAccessAcl, SomeAcl());
  Repair();
  EXPECT_EQ(Inode(file_).mode(), S_IFREG | 0640u) << "what 657 and 760 have in common";
  ASSERT_EQ(GetXattr(file_, std::string(kAccessAcl)), 0);
  EXPECT_EQ(Acl::Parse(reply_.data().data())->PermissionBits(), 0640u);
}

TEST_F(RepairerTest, AclsWhereNoneCanBe) {
  constexpr std::uint32_t kNone = ~0u;
  const std::uint64_t link = Named(1, "link");
  PlantXattr(link, kAccessAcl, SomeAcl());
  PlantXattr(file_, kDefaultAcl, SomeAcl());
  EditInode(sub_, [](v1::InodeRecord& record) { record.set_mode(S_IFDIR | 0750); });
  PlantXattr(sub_, kAccessAcl, AclBytes({{1, 7, kNone}, {4, 5, kNone}, {32, 0, kNone}}));
  Repair();
  EXPECT_EQ(Inode(link).xattr_name_bytes(), 0u);
  EXPECT_EQ(GetXattr(file_, std::string(kDefaultAcl)), ENODATA);
  EXPECT_EQ(Inode(sub_).mode(), S_IFDIR | 0750u) << "as its ACL said";
}

TEST_F(RepairerTest, ADirectoryThatSaysItIsAFile) {
  EditInode(dir_, [](v1::InodeRecord& record) { record.set_mode(S_IFREG | 0700); });
  Repair();
  EXPECT_EQ(Inode(dir_).mode(), S_IFDIR | 0700u);
  EXPECT_EQ(Named(dir_, "file"), file_);
}

TEST_F(RepairerTest, AFileWithEntriesLosesThem) {
  v1::DirentRecord entry;
  EditEntry(dir_, "sub", [&](v1::DirentRecord& record) { entry = record; });
  Delete(schema::DirentKey(InodeNumber(dir_), "sub"));
  Delete(schema::CookieKey(InodeNumber(dir_), entry.cookie()));
  Put(schema::DirentKey(InodeNumber(file_), "sub"), entry.SerializeAsString());
  Repair();
  EXPECT_EQ(Named(dir_, "file"), file_);
  EXPECT_EQ(ExtentCount(file_), 8u);
  EXPECT_EQ(Rescued("#" + std::to_string(sub_)), sub_);
}

TEST_F(RepairerTest, TheRoot) {
  EditInode(1, [](v1::InodeRecord& record) { record.set_mode(S_IFREG | 0644); });
  Repair();
  Delete(schema::InodeKey(kRootInode));
  Repair();
  EXPECT_EQ(Named(1, "dir"), dir_);
  EXPECT_EQ(Named(dir_, "file"), file_);
}

TEST_F(RepairerTest, NumbersNeverGivenOut) {
  Edit<v1::VolumeRecord>(schema::VolumeKey(), [&](v1::VolumeRecord& record) {
    record.set_next_inode(file_);
    record.set_inodes(77);
  });
  Put(schema::InodeKey(InodeNumber(0)), Inode(file_).SerializeAsString());
  Put(schema::InodeKey(InodeNumber(~std::uint64_t{0})), Inode(file_).SerializeAsString());
  Repair();
  EXPECT_GT(MakeFile(1, "new"), file_);
}

// --- the rest

TEST_F(RepairerTest, KeysOfNoKnownForm) {
  Put("Ishort", "");
  Put("Zwhatever", "");
  Repair();
}

TEST_F(RepairerTest, ALostVolumeRecordIsMadeAnew) {
  Delete(schema::VolumeKey());
  Repair();
  EXPECT_GT(MakeFile(1, "new"), file_);
  Put(schema::VolumeKey(), "\xff");
  Repair();
}

TEST_F(RepairerTest, RecordsOfAnotherVolumeStay) {
  Delete(schema::CookieKey(InodeNumber(dir_), CookieOf(dir_, "file")));
  const auto refused = [&] {
    const Sequence before = store_.db().last_applied();
    RepairSink sink;
    const auto done =
        RepairVolume({store_.db(), volume_, regions_, Epoch(7), WallTime{1, 0}}, sink);
    EXPECT_EQ(store_.db().last_applied(), before);
    return absl::IsFailedPrecondition(done.status());
  };
  Edit<v1::VolumeRecord>(schema::VolumeKey(),
                         [](v1::VolumeRecord& record) { record.set_format(9); });
  EXPECT_TRUE(refused());
  Edit<v1::VolumeRecord>(schema::VolumeKey(), [](v1::VolumeRecord& record) {
    record.set_format(1);
    record.set_volume(std::string(16, 'x'));
  });
  EXPECT_TRUE(refused());
}

TEST_F(RepairerTest, SessionsEnd) {
  v1::SessionRecord session;
  session.set_client(std::string(16, 'c'));
  session.set_host("ws1");
  Put(schema::SessionKey(SessionId(3)), session.SerializeAsString());
  v1::StoredReply reply;
  Put(schema::ReplyKey(SessionId(3), 1), reply.SerializeAsString());
  Put(schema::ReplyKey(SessionId(4), 1), reply.SerializeAsString());
  Repair();
  EXPECT_THAT(actions_, Contains(HasSubstr("session: session 3: ended (host ws1")));
}

// A hundred histories of many damages at once: whatever it is, one repair is enough.
TEST_F(RepairerTest, ManyDamagesAtOnce) {
  std::vector<std::pair<std::string, std::string>> sound;
  for (auto cursor = store_.db().Scan("", "", Tier::kAll); cursor->Valid(); cursor->Next()) {
    sound.emplace_back(cursor->key(), cursor->value());
  }
  for (unsigned seed = 1; seed <= 100 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    unsigned state = seed;
    const auto random = [&](std::size_t below) {
      state = state * 1664525 + 1013904223;
      return (state >> 8) % below;
    };
    for (auto cursor = store_.db().Scan("", "", Tier::kAll); cursor->Valid(); cursor->Next()) {
      Delete(std::string(cursor->key()));
    }
    for (const auto& [key, value] : sound) Put(key, value);
    for (std::size_t i = 0; i <= seed % 8; ++i) {
      auto [key, value] = sound[random(sound.size())];
      switch (random(4)) {
        case 0:
          Delete(key);
          break;
        case 1:
          if (key != schema::VolumeKey() && !value.empty()) value[random(value.size())] ^= 1;
          Put(key, value);
          break;
        case 2:
          if (key.size() > 1) key[1 + random(key.size() - 1)] ^= 1;
          Put(key, value);
          break;
        default:
          Put(key, sound[random(sound.size())].second);
          break;
      }
    }
    std::vector<std::string> actions;
    RepairSink sink;
    const auto done = RepairVolume({store_.db(), volume_, {}, Epoch(7), WallTime{1, 0}}, sink);
    if (absl::IsFailedPrecondition(done.status())) continue;  // the volume record became another's
    ASSERT_TRUE(done.ok()) << done.status();
    EXPECT_THAT(Check(), IsEmpty()) << ::testing::PrintToString(lines_);
    EXPECT_EQ(RepairOnce(&actions), 0u) << ::testing::PrintToString(actions);
  }
}

}  // namespace
}  // namespace reel::mdc
