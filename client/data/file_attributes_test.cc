// What the data path does to an inode's attributes: set-id bits, access and modification times.
#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "client/data/file_data.h"
#include "client/testing/data_cluster.h"

namespace reel::client {
namespace {

TEST(FileAttributesTest, SetIdBitsGoWithTheFirstWriteOfAnother) {
  DataCluster cluster({});
  const std::uint64_t inode = cluster.mdc().CreateFile(0106755);
  const auto client = cluster.Mount();
  v1::Credentials user;
  user.set_uid(1000);
  client->Write(inode, 0, "x", {.credentials = &user});
  v1::Attr attr = cluster.mdc().AttrOf(inode);
  client->data().Overlay(attr);
  EXPECT_EQ(attr.mode(), 0100755u);
  EXPECT_EQ(attr.size_bytes(), 1u);
  EXPECT_TRUE(client->Fsync(inode).ok());
  EXPECT_EQ(cluster.mdc().AttrOf(inode).mode(), 0100755u);
}

// The kernel takes the mode that it knows for valid a little longer, and a program may set the bits
// anew as soon as its write has returned.
TEST(FileAttributesTest, TheKernelLearnsOfClearedSetIdBitsBeforeAModeIsSet) {
  DataCluster cluster({.data = {.commit_age_ms = 60'000}});
  const auto client = cluster.Mount();
  std::vector<std::uint64_t> forgotten;
  client->on_forget = [&](std::uint64_t inode) { forgotten.push_back(inode); };
  v1::Credentials user;
  user.set_uid(1000);
  for (const bool direct : {false, true}) {
    const std::uint64_t inode = cluster.mdc().CreateFile(0106755);
    const IoContext io{.credentials = &user, .direct = direct};
    client->Write(inode, 0, std::string(4'096, 'x'), io);
    EXPECT_EQ(std::exchange(forgotten, {}), std::vector{inode});
    client->Write(inode, 0, std::string(4'096, 'y'), io);
    EXPECT_TRUE(forgotten.empty());
    EXPECT_TRUE(client->data().SendDelayed(inode, {}).ok());
    EXPECT_EQ(cluster.mdc().AttrOf(inode).mode(), 0100755u);
  }
}

TEST(FileAttributesTest, SetGroupIdWithoutExecutionGoesWithTheWriteOfAStranger) {
  class Groups : public CallerGroups {
   public:
    std::vector<std::uint32_t> Get() const override { return {0}; }
  } groups;
  DataCluster cluster({});
  const auto client = cluster.Mount();
  v1::Credentials user;
  user.set_uid(1000);
  user.set_gid(1000);
  for (const CallerGroups* of :
       {static_cast<const CallerGroups*>(&groups), static_cast<const CallerGroups*>(nullptr)}) {
    const std::uint64_t inode = cluster.mdc().CreateFile(0102644);
    client->Write(inode, 0, "x", {.credentials = &user, .groups = of});
    EXPECT_TRUE(client->Fsync(inode).ok());
    EXPECT_EQ(cluster.mdc().AttrOf(inode).mode(), of == nullptr ? 0100644u : 0102644u);
  }
}

// The answer to another's question may be on its way while what was written is committed.
TEST(FileAttributesTest, AnAnswerFromBeforeACommitDoesNotTakeTheSizeBack) {
  DataCluster cluster({});
  const std::uint64_t inode = cluster.mdc().CreateFile();
  const auto client = cluster.Mount();
  v1::Attr attr = cluster.mdc().AttrOf(inode);
  client->Write(inode, 0, "text");
  EXPECT_EQ(cluster.Mount()->Read(inode, 0, 4), "text");  // which takes the right to write away
  client->data().Overlay(attr);
  EXPECT_EQ(attr.size_bytes(), 4u);
}

// A file that is removed here before the controller hears of it lets go of bytes that nobody will
// read, but not of the size that they gave it: someone may be looking at it just then.
TEST(FileAttributesTest, ARemovedFileKeepsTheSizeThatWasWritten) {
  DataCluster cluster({.data = {.commit_age_ms = 60'000}});
  const std::uint64_t inode = cluster.mdc().CreateFile();
  const auto client = cluster.Mount();
  v1::Attr before = cluster.mdc().AttrOf(inode);
  client->Write(inode, 0, "text");
  v1::Attr removed = before;
  removed.set_nlink(0);
  removed.set_change(before.change() + 1);
  bool let_go = false;
  const auto send = [&](bool lets_go) {
    let_go = lets_go;
    return std::uint64_t{7};
  };
  EXPECT_EQ(client->data().RemoveLast(removed, /*only_here=*/true, send), 7u);
  EXPECT_TRUE(let_go);
  EXPECT_EQ(removed.size_bytes(), 4u);
  client->data().Overlay(before);
  EXPECT_EQ(before.size_bytes(), 4u);
  EXPECT_EQ(before.nlink(), 0u);
}

// Another host may have it open, and read it.
TEST(FileAttributesTest, ARemovedFileThatMayBeOpenElsewhereKeepsTheBytesThatWereWritten) {
  DataCluster cluster({.data = {.commit_age_ms = 60'000}});
  const std::uint64_t inode = cluster.mdc().CreateFile();
  const auto client = cluster.Mount(), other = cluster.Mount();
  client->Write(inode, 0, "text");
  v1::Attr removed = cluster.mdc().AttrOf(inode);
  bool let_go = true;
  const auto send = [&](bool lets_go) {
    let_go = lets_go;
    return std::uint64_t{7};
  };
  client->data().RemoveLast(removed, /*only_here=*/false, send);
  EXPECT_FALSE(let_go);
  EXPECT_EQ(other->Read(inode, 0, 4), "text");
  // All is told; that the token has gone back the client may not have heard yet.
  while (!let_go) client->data().RemoveLast(removed, /*only_here=*/false, send);
}

// The commit's answer would say less of the file than its new name's does, and would be taken for
// older.
TEST(FileAttributesTest, AFileIsNotMovedWhileItsCommitIsOnItsWay) {
  DataCluster cluster({});
  const std::uint64_t inode = cluster.mdc().CreateFile();
  const auto client = cluster.Mount();
  const auto move = [&] { return client->data().Move(inode, [] { return std::uint64_t{7}; }); };
  EXPECT_EQ(move(), 7u) << "nothing is known of it";
  ASSERT_TRUE(client->data().Open(inode, true, {.handle = 1}).ok());  // else its tail goes back
  client->Write(inode, 0, "text");
  const std::uint64_t before = cluster.mdc().CountOf(v1::Request::kLayoutCommit);
  cluster.mdc().HoldReplies(v1::Request::kLayoutCommit);
  std::thread sync([&] { EXPECT_TRUE(client->Fsync(inode).ok()); });
  while (cluster.mdc().CountOf(v1::Request::kLayoutCommit) == before) std::this_thread::yield();
  EXPECT_EQ(move(), 0u);
  cluster.mdc().ReleaseReplies();
  sync.join();
  EXPECT_EQ(move(), 7u);
}

// The last file of a message sends it, as does the end.
TEST(FileAttributesTest, AccessTimesOfManyFilesAreToldTogether) {
  DataCluster cluster({.data = {.commit_age_ms = 60'000}});
  auto client = cluster.Mount();
  std::vector<std::uint64_t> inodes;
  for (int i = 0; i <= kMaxReads; ++i) {
    inodes.push_back(cluster.mdc().CreateFile());
    client->Write(inodes.back(), 0, "text");
  }
  const auto told = [&] { return cluster.mdc().CountOf(v1::Request::kAccessed); };
  for (int i = 0; i < kMaxReads; ++i) {
    client->Read(inodes[i], 0, 4);
    client->Read(inodes[i], 0, 4);
  }
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (told() == 0 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  EXPECT_GT(cluster.mdc().AttrOf(inodes[0]).atime().seconds(), 0);
  EXPECT_LE(told(), 2u) << "one, or a second where they had waited long";
  client->Read(inodes[kMaxReads], 0, 4);
  client.reset();
  EXPECT_GT(cluster.mdc().AttrOf(inodes[kMaxReads]).atime().seconds(), 0);
  EXPECT_EQ(cluster.mdc().CountOf(v1::Request::kSetAttr), 0u);
}

TEST(FileAttributesTest, WhatIsReadAgainWhileItIsToldOfGoesWithLaterMessages) {
  DataCluster cluster({.data = {.atime = AtimePolicy::kStrict, .commit_age_ms = 60'000}});
  auto client = cluster.Mount();
  std::vector<std::uint64_t> inodes;
  for (int i = 0; i < 2 * kMaxReads - 1; ++i) inodes.push_back(cluster.mdc().CreateFile());
  cluster.mdc().HoldReplies(v1::Request::kAccessed);
  for (int i = 0; i < kMaxReads; ++i) client->Read(inodes[i], 0, 4);
  for (const std::uint64_t inode : inodes) client->Read(inode, 0, 4);
  cluster.mdc().ReleaseReplies();
  client.reset();
  for (const std::uint64_t inode : inodes) {
    EXPECT_GT(cluster.mdc().AttrOf(inode).atime().seconds(), 0);
  }
}

// By a controller of an earlier release.
TEST(FileAttributesTest, AnAccessTimeIsSentOnceUntilTheFileChanges) {
  DataCluster cluster({.mdc = {.features = 0}});
  const std::uint64_t inode = cluster.mdc().CreateFile();
  const auto client = cluster.Mount();
  const auto reported = [&](std::uint64_t times) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (cluster.mdc().CountOf(v1::Request::kSetAttr) < times &&
           std::chrono::steady_clock::now() < until) {
      std::this_thread::yield();
    }
    return cluster.mdc().CountOf(v1::Request::kSetAttr);
  };
  client->Write(inode, 0, "text");
  EXPECT_TRUE(client->Fsync(inode).ok());
  for (int i = 0; i < 5; ++i) client->Read(inode, 0, 4);
  v1::Attr attr;
  attr.set_inode(inode);
  client->data().Overlay(attr);
  EXPECT_GT(attr.atime().seconds(), 0);  // shown here at once
  EXPECT_EQ(reported(1), 1u);
  client->Write(inode, 0, "more");
  client->Read(inode, 0, 4, {.no_atime = true});
  EXPECT_EQ(cluster.mdc().CountOf(v1::Request::kSetAttr), 1u);
  client->Read(inode, 0, 4);
  EXPECT_EQ(reported(2), 2u);
}

// What is being written here is told of later: it may be gone by then, as a journal is.
TEST(FileAttributesTest, NoAccessTimeIsSentOfAFileThatIsRemovedSoon) {
  DataCluster cluster({.data = {.commit_age_ms = 60'000}});
  const auto client = cluster.Mount();
  std::uint64_t reported = 1;
  for (int tries = 0; tries < 5 && reported != 0; ++tries) {  // the second may be over just then
    const std::uint64_t before = cluster.mdc().CountOf(v1::Request::kSetAttr);
    v1::Attr attr = cluster.mdc().AttrOf(cluster.mdc().CreateFile());
    client->Write(attr.inode(), 0, "text");
    EXPECT_EQ(client->Read(attr.inode(), 0, 4), "text");
    client->data().RemoveLast(attr, /*only_here=*/true,
                              [](bool lets_go) -> std::uint64_t { return lets_go ? 1 : 0; });
    EXPECT_GT(attr.atime().seconds(), 0);
    const std::uint64_t other = cluster.mdc().CreateFile();
    client->Write(other, 0, "text");
    EXPECT_TRUE(client->Fsync(other).ok());  // behind all that was sent
    reported = cluster.mdc().CountOf(v1::Request::kSetAttr) - before;
  }
  EXPECT_EQ(reported, 0u);
}

TEST(FileAttributesTest, ExplicitTimesWinOverThoseOfWrites) {
  DataCluster cluster({.data = {.commit_age_ms = 60'000}});
  const std::uint64_t inode = cluster.mdc().CreateFile();
  const auto client = cluster.Mount();
  client->Write(inode, 0, "x");
  v1::SetAttr set;
  set.set_inode(inode);
  set.set_fields(v1::SetAttr::MTIME);
  set.mutable_mtime()->set_seconds(1234);
  ASSERT_TRUE(client->data().SetAttr(set, {}).ok());
  EXPECT_TRUE(client->Fsync(inode).ok());
  EXPECT_EQ(cluster.mdc().AttrOf(inode).mtime().seconds(), 1234);
  EXPECT_EQ(cluster.mdc().AttrOf(inode).size_bytes(), 1u);
}

class DelayedAttributesTest : public testing::Test {
 protected:
  explicit DelayedAttributesTest(FakeMdcOptions mdc = {})
      : cluster_({.mdc = mdc, .data = {.commit_age_ms = 60'000}}) {
    client_->Write(inode_, 0, "x");
  }

  std::optional<v1::Attr> SetMode(std::uint32_t mode) {
    v1::SetAttr set;
    set.set_inode(inode_);
    set.set_fields(v1::SetAttr::MODE);
    set.set_mode(mode);
    return client_->data().DelayAttributes(set, cluster_.mdc().AttrOf(inode_));
  }
  std::uint32_t Mode(TestClient& client) {
    v1::Attr attr = cluster_.mdc().AttrOf(inode_);
    client.data().Overlay(attr);
    return attr.mode() & 07777;
  }

  DataCluster cluster_;
  const std::uint64_t inode_ = cluster_.mdc().CreateFile(0100600);
  const std::unique_ptr<TestClient> client_ = cluster_.Mount();
};

TEST_F(DelayedAttributesTest, TheNextCommitSendsDelayedAttributes) {
  const auto attr = SetMode(0644);
  ASSERT_TRUE(attr);
  EXPECT_EQ(attr->mode(), 0100644u);
  ASSERT_TRUE(SetMode(0640));
  EXPECT_EQ(Mode(*client_), 0640u);
  EXPECT_EQ(cluster_.mdc().CountOf(v1::Request::kSetAttr), 0u);
  EXPECT_TRUE(client_->Fsync(inode_).ok());
  EXPECT_EQ(cluster_.mdc().CountOf(v1::Request::kSetAttr), 1u) << "both as one";
  EXPECT_EQ(cluster_.mdc().AttrOf(inode_).mode(), 0100640u);
  EXPECT_EQ(Mode(*client_), 0640u);
}

class AttributesAlongTest : public DelayedAttributesTest {
 protected:
  AttributesAlongTest() : DelayedAttributesTest({.features = v1::FEATURE_COMMIT_ATTRIBUTES}) {}
};

TEST_F(AttributesAlongTest, ACommitBringsThem) {
  ASSERT_TRUE(SetMode(0640));
  EXPECT_TRUE(client_->Fsync(inode_).ok());
  EXPECT_EQ(cluster_.mdc().CountOf(v1::Request::kSetAttr), 0u);
  EXPECT_EQ(cluster_.mdc().AttrOf(inode_).mode(), 0100640u);
  EXPECT_EQ(Mode(*client_), 0640u);
}

TEST_F(AttributesAlongTest, WithNothingToCommitTheyGoByThemselves) {
  EXPECT_TRUE(client_->Fsync(inode_).ok());
  ASSERT_TRUE(SetMode(0640));
  EXPECT_TRUE(client_->Fsync(inode_).ok());
  EXPECT_EQ(cluster_.mdc().CountOf(v1::Request::kSetAttr), 1u);
  EXPECT_EQ(cluster_.mdc().AttrOf(inode_).mode(), 0100640u);
}

TEST_F(AttributesAlongTest, WhereTheyAreRefusedTheBytesAreCommitted) {
  ASSERT_TRUE(SetMode(0640));
  cluster_.mdc().RefuseAlong(EACCES);
  EXPECT_EQ(ErrnoOf(client_->Fsync(inode_)), EACCES);
  EXPECT_EQ(Mode(*client_), 0600u);
  EXPECT_EQ(cluster_.Mount()->Read(inode_, 0, 10), "x");
}

// As one of before, which took over with the commit on its way.
TEST(AttributesAlong, WhatTheControllerDoesNotKnowGoesByItself) {
  DataCluster cluster(
      {.mdc = {.knows_attributes_along = false, .features = v1::FEATURE_COMMIT_ATTRIBUTES}});
  const std::uint64_t inode = cluster.mdc().CreateFile(0100600);
  const auto client = cluster.Mount();
  client->Write(inode, 0, "x");
  v1::SetAttr set;
  set.set_inode(inode);
  set.set_fields(v1::SetAttr::MODE);
  set.set_mode(0640);
  ASSERT_TRUE(client->data().DelayAttributes(set, cluster.mdc().AttrOf(inode)));
  EXPECT_TRUE(client->Fsync(inode).ok());
  EXPECT_EQ(cluster.mdc().CountOf(v1::Request::kSetAttr), 1u);
  EXPECT_EQ(cluster.mdc().AttrOf(inode).mode(), 0100640u);
}

TEST_F(AttributesAlongTest, ThoseOfARefusedCommitGoByThemselves) {
  ASSERT_TRUE(SetMode(0640));
  cluster_.mdc().Refuse(v1::Request::kLayoutCommit, EIO);
  EXPECT_FALSE(client_->Fsync(inode_).ok());
  EXPECT_EQ(cluster_.mdc().CountOf(v1::Request::kSetAttr), 1u);
  EXPECT_EQ(cluster_.mdc().AttrOf(inode_).mode(), 0100640u);
}

TEST_F(DelayedAttributesTest, FdatasyncSendsNoDelayedAttributes) {
  ASSERT_TRUE(SetMode(0644));
  EXPECT_TRUE(client_->data().Fsync(inode_, {.data_only = true}).ok());
  EXPECT_EQ(cluster_.mdc().AttrOf(inode_).size_bytes(), 1u);
  EXPECT_EQ(cluster_.mdc().CountOf(v1::Request::kSetAttr), 0u);
  EXPECT_TRUE(client_->Fsync(inode_).ok());
  EXPECT_EQ(cluster_.mdc().AttrOf(inode_).mode(), 0100644u);
}

TEST_F(DelayedAttributesTest, DelayedAttributesAreSentBeforeTheTokenGoes) {
  ASSERT_TRUE(SetMode(0644));
  const auto other = cluster_.Mount();
  EXPECT_EQ(other->Read(inode_, 0, 1), "x");
  EXPECT_EQ(Mode(*other), 0644u);
  EXPECT_FALSE(SetMode(0600)) << "others may look now";
}

TEST_F(DelayedAttributesTest, DelayedAttributesAreSentBeforeADirectSetAttr) {
  ASSERT_TRUE(SetMode(0644));
  EXPECT_TRUE(client_->data().SendDelayed(inode_, {}).ok());
  EXPECT_EQ(cluster_.mdc().AttrOf(inode_).mode(), 0100644u);
  EXPECT_TRUE(client_->data().SendDelayed(inode_, {}).ok());
  EXPECT_EQ(cluster_.mdc().CountOf(v1::Request::kSetAttr), 1u);
}

TEST_F(DelayedAttributesTest, ALaterWriteOverridesADelayedTime) {
  v1::SetAttr set;
  set.set_inode(inode_);
  set.set_fields(v1::SetAttr::MTIME);
  set.mutable_mtime()->set_seconds(1234);
  ASSERT_TRUE(client_->data().DelayAttributes(set, cluster_.mdc().AttrOf(inode_)));
  v1::Attr attr = cluster_.mdc().AttrOf(inode_);
  client_->data().Overlay(attr);
  EXPECT_EQ(attr.mtime().seconds(), 1234);
  client_->Write(inode_, 0, "y");
  EXPECT_TRUE(client_->Fsync(inode_).ok());
  EXPECT_GT(cluster_.mdc().AttrOf(inode_).mtime().seconds(), 1234);
}

TEST_F(DelayedAttributesTest, ALaterReadOverridesADelayedTime) {
  v1::SetAttr set;
  set.set_inode(inode_);
  set.set_fields(v1::SetAttr::ATIME);
  set.mutable_atime()->set_seconds(1234);
  ASSERT_TRUE(client_->data().DelayAttributes(set, cluster_.mdc().AttrOf(inode_)));
  EXPECT_EQ(client_->Read(inode_, 0, 1), "x");
  EXPECT_TRUE(client_->Fsync(inode_).ok());
  v1::Attr attr = cluster_.mdc().AttrOf(inode_);
  EXPECT_GT(attr.atime().seconds(), 1234);
  client_->data().Overlay(attr);
  EXPECT_GT(attr.atime().seconds(), 1234);
}

TEST_F(DelayedAttributesTest, FsyncReportsDelayedAttributesLostWithTheSession) {
  EXPECT_TRUE(client_->Fsync(inode_).ok());
  ASSERT_TRUE(SetMode(0644));
  cluster_.mdc().Evict(client_->session().session_id());
  while (Mode(*client_) == 0644u) std::this_thread::yield();
  EXPECT_FALSE(client_->Fsync(inode_).ok());
  EXPECT_EQ(cluster_.mdc().AttrOf(inode_).mode(), 0100600u);
}

}  // namespace
}  // namespace reel::client
