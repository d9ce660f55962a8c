// What the data path does to an inode's attributes: set-id bits, access and modification times.
#include <gtest/gtest.h>

#include "client/file_data.h"
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

TEST(FileAttributesTest, AReadIsToldOnceUntilTheFileChanges) {
  DataCluster cluster({});
  const std::uint64_t inode = cluster.mdc().CreateFile();
  const auto client = cluster.Mount();
  const auto settle = [&] {
    v1::Request request;
    request.mutable_get_attr()->set_inode(inode);
    return client->session().Call(std::move(request), {})->attr().attr().atime();
  };
  client->Write(inode, 0, "text");
  EXPECT_TRUE(client->Fsync(inode).ok());
  for (int i = 0; i < 5; ++i) client->Read(inode, 0, 4);
  v1::Attr attr;
  attr.set_inode(inode);
  client->data().Overlay(attr);
  EXPECT_GT(settle().seconds(), 0);
  EXPECT_EQ(cluster.mdc().CountOf(v1::Request::kSetAttr), 1u);
  client->Write(inode, 0, "more");
  client->Read(inode, 0, 4, {.no_atime = true});
  settle();
  EXPECT_EQ(cluster.mdc().CountOf(v1::Request::kSetAttr), 1u);
  client->Read(inode, 0, 4);
  settle();
  EXPECT_EQ(cluster.mdc().CountOf(v1::Request::kSetAttr), 2u);
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

}  // namespace
}  // namespace reel::client
