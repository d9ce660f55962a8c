// What the controller knows of opens, when its answers cross closes.
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <functional>
#include <thread>
#include <vector>

#include "client/testing/data_cluster.h"
#include "client/testing/test_interrupt.h"
#include "proto/status.h"

namespace reel::client {
namespace {

class OpensTest : public testing::Test {
 protected:
  // Begins an open, which the controller carries out; its reply is held. Ends it by a signal, after
  // `meanwhile`.
  void OpenAndGiveUp(const std::function<void()>& meanwhile) {
    const std::uint64_t before = cluster_.mdc().CountOf(v1::Request::kOpen);
    cluster_.mdc().HoldReplies(v1::Request::kOpen);
    TestInterrupt signal;
    std::thread open([&] {
      const auto attr = client_->data().Open(inode_, true, {.interrupt = &signal});
      EXPECT_EQ(ErrnoOf(attr.status()), EINTR);
    });
    while (cluster_.mdc().CountOf(v1::Request::kOpen) == before) std::this_thread::yield();
    meanwhile();
    signal.Raise();
    open.join();
  }
  // Until whatever was sent before is answered.
  void AwaitIdle() {
    v1::Request renew;
    renew.mutable_renew();
    ASSERT_TRUE(client_->session().Call(std::move(renew), {}).ok());
  }
  void AwaitOpens(std::uint64_t count) {
    while (cluster_.mdc().OpensOf(inode_) != count) std::this_thread::yield();
  }

  DataCluster cluster_{{.mdc = {.opens_grant = true}}};
  const std::uint64_t inode_ = cluster_.mdc().CreateFile();
  const std::unique_ptr<TestClient> client_ = cluster_.Mount();
};

// Meanwhile the token that it brings was given up, and somebody else has opened the file without a
// word.
TEST_F(OpensTest, AReplyWithoutACallerGrantsNothing) {
  OpenAndGiveUp([&] { client_->Write(inode_, 0, "x"); });
  while (cluster_.mdc().HasWriter(inode_)) std::this_thread::yield();
  EXPECT_EQ(client_->Read(inode_, 0, 10), "x");
  const v1::Attr known = cluster_.mdc().AttrOf(inode_);
  ASSERT_TRUE(client_->data().Open(inode_, true, {.known = &known}).ok());
  AwaitOpens(0);
  cluster_.mdc().ReleaseReplies();
  AwaitIdle();
  client_->Write(inode_, 0, "y");  // with the token: else the commit is wrong
  EXPECT_TRUE(client_->Fsync(inode_).ok());
  AwaitOpens(1);
  client_->data().Close(inode_);
  AwaitOpens(0);
}

TEST_F(OpensTest, AnOpenWithoutACallerIsClosed) {
  OpenAndGiveUp([] {});
  AwaitOpens(1);
  cluster_.mdc().ReleaseReplies();
  AwaitOpens(0);
}

TEST_F(OpensTest, AnOpenWhoseReplyIsLostIsClosedToo) {
  OpenAndGiveUp([] {});
  AwaitOpens(1);
  cluster_.mdc().HoldReplies(v1::Request::OP_NOT_SET);
  cluster_.mdc().DropStreams();
  AwaitOpens(0);
}

// A file that was made in the last epoch, and closed, is made again: it is open by that.
TEST_F(OpensTest, ACloseAfterAFileWasMadeAgainDoesNotOvertakeAnOpen) {
  v1::Request made;
  made.mutable_create()->set_open(true);
  v1::Reply reply;
  reply.mutable_entry()->mutable_attr()->set_inode(inode_);
  ASSERT_TRUE(client_->data().Open(inode_, false, {}).ok());
  client_->data().Close(inode_);
  std::atomic<bool> stop = false;
  std::vector<std::thread> replay;
  for (int i = 0; i < 4; ++i) {
    replay.emplace_back([&] {
      while (!stop) client_->data().OnReplayed(made, reply);
    });
  }
  for (int i = 0; i < 300; ++i) {
    ASSERT_TRUE(client_->data().Open(inode_, false, {}).ok());
    AwaitIdle();
    EXPECT_EQ(cluster_.mdc().OpensOf(inode_), 1u) << i;
    client_->data().Close(inode_);
  }
  stop = true;
  for (std::thread& thread : replay) thread.join();
}

TEST(FileOpensTest, AFileIsSettledWhenNobodyWritesItAndAllIsTold) {
  DataCluster cluster({.data = {.commit_age_ms = 60'000}});
  const std::uint64_t inode = cluster.mdc().CreateFile();
  const auto client = cluster.Mount();
  EXPECT_TRUE(client->data().IsSettled(inode)) << "of which nothing is known here";
  ASSERT_TRUE(client->data().Open(inode, /*write=*/false, {.handle = 1}).ok());
  EXPECT_TRUE(client->data().IsSettled(inode));
  ASSERT_TRUE(client->data().Open(inode, /*write=*/true, {.handle = 2}).ok());
  EXPECT_FALSE(client->data().IsSettled(inode));
  client->data().Close(inode);
  client->data().Close(inode);
  EXPECT_TRUE(client->data().IsSettled(inode));
  client->Write(inode, 0, std::string(5'000, 'x'));
  EXPECT_FALSE(client->data().IsSettled(inode)) << "its size is to be told, and its tail to go";
  EXPECT_TRUE(client->Fsync(inode).ok());
  while (!client->data().IsSettled(inode)) std::this_thread::yield();
  EXPECT_EQ(cluster.mdc().ExtentsOf(inode).back().end(), FileBlock(2));
}

// Whoever asked has given up, and nobody else has heard of it.
TEST(FileOpensTest, AFileWhoseTimesAreBeingSetIsNotSettled) {
  DataCluster cluster({});
  const std::uint64_t inode = cluster.mdc().CreateFile();
  const auto client = cluster.Mount();
  cluster.mdc().HoldReplies(v1::Request::kSetAttr);
  TestInterrupt interrupt;
  const std::uint64_t before = cluster.mdc().CountOf(v1::Request::kSetAttr);
  std::thread setter([&] {
    v1::SetAttr set;
    set.set_inode(inode);
    set.set_fields(v1::SetAttr::MTIME);
    EXPECT_EQ(ErrnoOf(client->data().SetAttr(set, {.interrupt = &interrupt}).status()), EINTR);
  });
  while (cluster.mdc().CountOf(v1::Request::kSetAttr) == before) std::this_thread::yield();
  interrupt.Raise();
  setter.join();
  EXPECT_FALSE(client->data().IsSettled(inode));
  cluster.mdc().ReleaseReplies();
  while (!client->data().IsSettled(inode)) std::this_thread::yield();
}

// The session was lost, and the file removed before its opens were registered in the new one. An
// open that relied on that would be of a file that nobody keeps.
TEST_F(OpensTest, AnOpenAfterARefusedRegistrationAsksTheController) {
  ASSERT_TRUE(client_->data().Open(inode_, false, {}).ok());
  const std::uint64_t session = client_->session().session_id();
  cluster_.mdc().Refuse(v1::Request::kOpen, ESTALE);
  cluster_.mdc().Evict(session);
  while (client_->session().session_id() == session) std::this_thread::yield();
  AwaitIdle();
  ASSERT_EQ(cluster_.mdc().OpensOf(inode_), 0u);
  ASSERT_TRUE(client_->data().Open(inode_, false, {}).ok());
  EXPECT_EQ(cluster_.mdc().OpensOf(inode_), 1u);
}

// It may be refused yet, when the open has been answered.
TEST_F(OpensTest, AnOpenBehindARegistrationWithoutAnAnswerAsksTheController) {
  ASSERT_TRUE(client_->data().Open(inode_, false, {}).ok());
  const std::uint64_t session = client_->session().session_id();
  const std::uint64_t opens = cluster_.mdc().CountOf(v1::Request::kOpen);
  cluster_.mdc().HoldReplies(v1::Request::kOpen);
  cluster_.mdc().Evict(session);
  while (cluster_.mdc().CountOf(v1::Request::kOpen) == opens) std::this_thread::yield();
  std::thread open([&] { EXPECT_TRUE(client_->data().Open(inode_, false, {}).ok()); });
  while (cluster_.mdc().CountOf(v1::Request::kOpen) < opens + 2) std::this_thread::yield();
  cluster_.mdc().ReleaseReplies();
  open.join();
}

}  // namespace
}  // namespace reel::client
