// Requests with early replies: until when they are kept, and how they are replayed.
#include "client/session/request_queue.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace reel::client {
namespace {

class EarlyRequestsTest : public testing::Test {
 protected:
  EarlyRequestsTest() { queue_.SessionBegins(4 + 1); }  // the last is for what recalls wait for
  PendingCallPtr Add(const std::string& name) {
    v1::Request request;
    request.mutable_create()->set_name(name);
    auto call = std::make_shared<PendingCall>(std::move(request));
    queue_.Add(call);
    return call;
  }
  std::vector<std::string> Sent() {
    std::vector<std::string> names;
    while (queue_.CanSend()) {
      const v1::ClientFrame frame = queue_.TakeFrame(0);
      for (const v1::Request& request : frame.requests()) {
        names.push_back(request.has_reclaim() ? "reclaim" : request.create().name());
        if (request.has_replay()) names.back() += std::to_string(request.replay().inode());
      }
    }
    return names;
  }
  void ReplyEarly(const PendingCallPtr& call, std::uint64_t sequence, std::uint64_t inode = 0) {
    v1::Reply reply;
    reply.set_id(call->request.id());
    reply.set_sequence(sequence);
    reply.mutable_early();
    reply.mutable_entry()->mutable_attr()->set_inode(inode);
    EXPECT_EQ(queue_.NoteEarlyReply(reply), call);
  }
  void NewEpoch() {
    (void)queue_.StreamLost();
    queue_.Resumed(/*new_epoch=*/true);
    v1::Request reclaim;
    reclaim.mutable_reclaim();
    queue_.AddFirst({std::make_shared<PendingCall>(reclaim)});
  }
  using Names = std::vector<std::string>;
  RequestQueue queue_;
};

TEST_F(EarlyRequestsTest, EarlyRequestsKeepTheirSlotsUntilTheyAreDurable) {
  std::vector<PendingCallPtr> calls;
  for (const char* name : {"a", "b", "c", "d", "e"}) calls.push_back(Add(name));
  EXPECT_EQ(Sent(), (Names{"a", "b", "c", "d"}));
  ReplyEarly(calls[0], 10);
  EXPECT_FALSE(queue_.ManyEarly());
  ReplyEarly(calls[1], 11);
  EXPECT_TRUE(queue_.ManyEarly());
  EXPECT_EQ(Sent(), Names{});
  EXPECT_EQ(queue_.confirmed(), 0u);
  queue_.Durable(10);
  EXPECT_EQ(queue_.confirmed(), calls[0]->early_number);
  EXPECT_EQ(Sent(), Names{"e"});
  queue_.Durable(11);
  EXPECT_EQ(queue_.confirmed(), calls[1]->early_number);
}

TEST_F(EarlyRequestsTest, ReplaysGoFirstInANewEpochInTheirOldOrder) {
  const auto a = Add("a"), b = Add("b"), c = Add("c");
  Sent();
  ReplyEarly(c, 10, 103);
  ReplyEarly(a, 11, 101);
  NewEpoch();
  EXPECT_EQ(Sent(), (Names{"c103", "a101", "reclaim", "b"}));
  // A sequence of another epoch says nothing of them.
  queue_.Durable(1000);
  EXPECT_EQ(queue_.confirmed(), 0u);
  // Lost again half way.
  EXPECT_EQ(queue_.Answered(c->request.id()), c);
  queue_.Confirmed(c);
  EXPECT_EQ(queue_.confirmed(), c->early_number);
  NewEpoch();
  EXPECT_EQ(Sent(), (Names{"a101", "reclaim", "b"}));
  EXPECT_EQ(queue_.Answered(a->request.id()), a);
  queue_.Confirmed(a);
  EXPECT_EQ(queue_.confirmed(), a->early_number);
}

TEST_F(EarlyRequestsTest, AReplayIsRepeatedWhenItsReplyIsLost) {
  const auto a = Add("a"), b = Add("b");
  Sent();
  ReplyEarly(a, 10, 101);
  NewEpoch();
  Sent();
  ReplyEarly(b, 20);  // of the new epoch, which goes on
  (void)queue_.StreamLost();
  queue_.Resumed(/*new_epoch=*/false);
  EXPECT_EQ(Sent(), Names{"a"});
  EXPECT_EQ(queue_.Answered(a->request.id()), a);
}

TEST_F(EarlyRequestsTest, NoReplayIsSentInTheSameEpoch) {
  const auto a = Add("a");
  Sent();
  ReplyEarly(a, 10);
  (void)queue_.StreamLost();
  queue_.Resumed(/*new_epoch=*/false);
  EXPECT_EQ(Sent(), Names{});
  queue_.Durable(10);
  EXPECT_EQ(queue_.confirmed(), a->early_number);
}

TEST_F(EarlyRequestsTest, ADelegatedRequestIsRepeatedUntilItIsAnswered) {
  const auto call = [](const std::string& name) {
    v1::Request request;
    request.mutable_create()->set_name(name);
    return std::make_shared<PendingCall>(std::move(request));
  };
  v1::Replay decided;
  decided.set_inode(101);
  const auto a = call("a"), b = call("b"), late = call("late");
  const auto waits = Add("waits");
  EXPECT_EQ(queue_.SendDelegated(a, decided), 1u);
  decided.set_inode(102);
  decided.add_extents()->set_pool_block(55);
  EXPECT_EQ(queue_.SendDelegated(b, decided), 2u);
  EXPECT_EQ(b->request.delegated().extents_size(), 0);  // they came from there
  EXPECT_EQ(queue_.SendDelegated(late, decided), 0u);   // so many at a time
  EXPECT_EQ(Sent(), (Names{"waits", "a", "b"}));
  queue_.Durable(1000);  // says nothing of what has no answer
  EXPECT_EQ(queue_.confirmed(), 0u);
  // The same epoch: first of all, as it was.
  (void)queue_.StreamLost();
  queue_.Resumed(/*new_epoch=*/false);
  EXPECT_TRUE(a->request.has_delegated());
  EXPECT_EQ(Sent(), (Names{"a", "b", "waits"}));
  EXPECT_EQ(queue_.Answered(a->request.id()), a);
  queue_.Confirmed(a);
  EXPECT_EQ(queue_.confirmed(), 1u);
  // Another one: done again.
  NewEpoch();
  EXPECT_EQ(Sent(), (Names{"b102", "reclaim", "waits"}));
  EXPECT_FALSE(b->request.has_delegated());
  ASSERT_EQ(b->request.replay().extents_size(), 1);
  EXPECT_EQ(b->request.replay().extents(0).pool_block(), 55u);
}

TEST_F(EarlyRequestsTest, AReplayNamesTheBlocksOfItsReply) {
  const auto a = Add("a");
  Sent();
  v1::Reply reply;
  reply.set_id(a->request.id());
  v1::LayoutReply& layout = *reply.mutable_entry()->mutable_layout();
  layout.add_extents()->set_pool_block(55);
  layout.mutable_extents(0)->set_state(v1::EXTENT_UNWRITTEN);
  layout.add_extents()->set_state(v1::EXTENT_HOLE);
  EXPECT_EQ(queue_.NoteEarlyReply(reply), a);
  NewEpoch();
  ASSERT_EQ(a->request.replay().extents_size(), 1);
  EXPECT_EQ(a->request.replay().extents(0).pool_block(), 55u);
}

TEST_F(EarlyRequestsTest, EarlyRequestsEndWithTheSession) {
  const auto a = Add("a");
  Sent();
  ReplyEarly(a, 10);
  EXPECT_TRUE(queue_.SessionOver().empty());
  queue_.SessionBegins(4);
  EXPECT_EQ(Sent(), Names{});
  EXPECT_EQ(queue_.confirmed(), a->early_number);
}

// Else two hosts, all of whose slots wait for each other's tokens, would wait for ever.
TEST(RequestQueueTest, RequestsThatRecallsWaitForHaveReservedSlots) {
  RequestQueue queue;
  queue.SessionBegins(32);
  for (int i = 0; i < 40; ++i) {
    v1::Request request;
    request.mutable_layout_get()->set_allocate(true);
    queue.Add(std::make_shared<PendingCall>(std::move(request)));
  }
  EXPECT_EQ(queue.TakeFrame(0).requests_size(), 30);
  EXPECT_EQ(queue.SendDelegated(std::make_shared<PendingCall>(v1::Request()), {}), 0u);
  v1::Request back;
  back.mutable_layout_return()->set_inode(7);
  queue.Add(std::make_shared<PendingCall>(back));
  v1::Request needed;
  needed.mutable_layout_get()->set_allocate(true);
  const auto under_token = std::make_shared<PendingCall>(needed);
  under_token->under_token = true;
  queue.Add(under_token);
  const v1::ClientFrame frame = queue.TakeFrame(0);
  ASSERT_EQ(frame.requests_size(), 2);
  EXPECT_TRUE(frame.requests(0).has_layout_return());
  EXPECT_TRUE(frame.requests(1).has_layout_get());
  // A slot of those that came free is kept again.
  EXPECT_NE(queue.Answered(frame.requests(0).id()), nullptr);
  EXPECT_FALSE(queue.CanSend());
}

TEST(RequestQueueTest, AResumedSessionMayHaveFewerSlots) {
  RequestQueue queue;
  queue.SessionBegins(256);
  const auto add = [&](int count) {
    v1::Request create;
    create.mutable_create()->set_name("file");
    for (int i = 0; i < count; ++i) queue.Add(std::make_shared<PendingCall>(create));
    std::vector<v1::Request> sent;
    while (queue.CanSend()) {
      const v1::ClientFrame frame = queue.TakeFrame(0);
      sent.insert(sent.end(), frame.requests().begin(), frame.requests().end());
    }
    return sent;
  };
  const std::vector<v1::Request> first = add(100);
  ASSERT_EQ(first.size(), 100u);
  (void)queue.StreamLost();
  queue.LimitSlots(64);
  queue.Resumed(/*new_epoch=*/true);
  const std::vector<v1::Request> again = add(1);
  ASSERT_EQ(again.size(), 100u) << "as they were";
  EXPECT_EQ(again.back().slot(), first.back().slot());
  for (const v1::Request& request : again) ASSERT_NE(queue.Answered(request.id()), nullptr);
  (void)add(0);
  for (const v1::Request& request : add(200)) EXPECT_LE(request.slot(), 64u);
}

// What leaves a moment later, with what comes meanwhile: nobody may wait for any of it.
TEST(RequestQueueTest, OnlyWhatNobodyWaitsForGathers) {
  RequestQueue queue;
  queue.SessionBegins(256);
  EXPECT_TRUE(queue.MayGather());
  v1::Request create;
  create.mutable_create()->set_name("by itself");
  ASSERT_NE(queue.SendDelegated(std::make_shared<PendingCall>(create), {}), 0u);
  v1::Request close;
  close.mutable_close()->set_inode(5);
  queue.Add(std::make_shared<PendingCall>(close));
  EXPECT_TRUE(queue.MayGather());
  queue.Add(std::make_shared<PendingCall>(create));
  EXPECT_FALSE(queue.MayGather());
  EXPECT_EQ(queue.TakeFrame(0).requests_size(), 3);
  EXPECT_TRUE(queue.MayGather());
  v1::Request sync;
  sync.mutable_sync();
  queue.Add(std::make_shared<PendingCall>(sync));
  EXPECT_FALSE(queue.MayGather());
  (void)queue.TakeFrame(0);
  for (int i = 0; i < 32; ++i) queue.Add(std::make_shared<PendingCall>(close));
  EXPECT_TRUE(queue.MayGather());
  queue.Add(std::make_shared<PendingCall>(close));
  EXPECT_FALSE(queue.MayGather()) << "so many leave at once";
}

// Else they would close what the new epoch has just been told of.
TEST(RequestQueueTest, ClosesOfReclaimedFilesAreDropped) {
  RequestQueue queue;
  queue.SessionBegins(4);
  const auto close = [&](std::uint64_t inode) {
    v1::Request request;
    request.mutable_close()->set_inode(inode);
    queue.Add(std::make_shared<PendingCall>(std::move(request)));
  };
  close(5);
  close(6);
  EXPECT_EQ(queue.TakeFrame(0).requests_size(), 2);  // and no answer
  close(7);
  (void)queue.StreamLost();
  queue.Resumed(/*new_epoch=*/true);
  for (const std::uint64_t inode : {5, 7, 8}) queue.Claims(inode);
  close(8);  // after it was claimed: it closes what the new epoch is told of
  queue.DropClosesOfClaimed();
  const v1::ClientFrame frame = queue.TakeFrame(0);
  ASSERT_EQ(frame.requests_size(), 2);
  EXPECT_EQ(frame.requests(0).close().inode(), 6u);
  EXPECT_EQ(frame.requests(1).close().inode(), 8u);
  EXPECT_FALSE(queue.CanSend());
}

// ---- the order of sending -----------------------------------------------------------------------

class OrderTest : public testing::Test {
 protected:
  OrderTest() { queue_.SessionBegins(64); }
  static v1::Request Get() {
    v1::Request request;
    request.mutable_get_attr()->set_inode(1);
    return request;
  }
  static v1::Request Close() {
    v1::Request request;
    request.mutable_close()->set_inode(2);
    return request;
  }
  static v1::Request Return() {
    v1::Request request;
    request.mutable_attr_return()->add_inodes(3);
    return request;
  }
  static v1::Request Write() {
    v1::Request request;
    request.mutable_layout_get()->set_inode(2);
    request.mutable_layout_get()->set_allocate(true);
    return request;
  }
  static v1::Request Commit() {
    v1::Request request;
    request.mutable_layout_commit()->set_inode(4);
    return request;
  }
  void Add(v1::Request request) { queue_.Add(std::make_shared<PendingCall>(std::move(request))); }
  std::vector<v1::Request::OpCase> Sent() {
    std::vector<v1::Request::OpCase> sent;
    while (queue_.CanSend()) {
      const v1::ClientFrame frame = queue_.TakeFrame(0);
      for (const v1::Request& request : frame.requests()) {
        sent.push_back(request.op_case());
        ids_[request.op_case()] = request.id();
      }
    }
    return sent;
  }
  // So many that no other one goes; none is answered.
  void Fill(const v1::Request& request, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) Add(request);
    EXPECT_EQ(Sent().size(), count);
  }
  using Ops = std::vector<v1::Request::OpCase>;
  static constexpr std::size_t kMostWaiting = 2048, kMostBrief = 1024;
  RequestQueue queue_;
  std::map<v1::Request::OpCase, std::uint64_t> ids_;
};

TEST_F(OrderTest, NothingOvertakesACloseHoweverManyAreOnTheirWay) {
  Fill(Close(), kMostWaiting);
  Add(Close());  // which lowers a token, say
  Add(Write());  // and this gets it again
  EXPECT_EQ(Sent(), Ops{});
  queue_.Answered(ids_[v1::Request::kClose]);
  EXPECT_EQ(Sent(), (Ops{v1::Request::kClose, v1::Request::kLayoutGet}));
}

TEST_F(OrderTest, NothingOvertakesAReturnOfAttributesHoweverManyAreOnTheirWay) {
  Fill(Return(), kMostBrief);
  Add(Return());
  Add(Write());
  Add(Commit());
  Add(Get());
  EXPECT_EQ(Sent(), Ops{});
  queue_.Answered(ids_[v1::Request::kAttrReturn]);
  EXPECT_EQ(Sent(), (Ops{v1::Request::kAttrReturn, v1::Request::kLayoutGet,
                         v1::Request::kLayoutCommit, v1::Request::kGetAttr}));
}

// They may wait for hosts that wait for us.
TEST_F(OrderTest, RecallAnswersOvertakeRequestsThatWait) {
  Fill(Get(), kMostWaiting);
  Add(Get());
  Add(Write());
  Add(Commit());
  Add(Return());
  v1::Request renew;
  renew.mutable_renew();
  Add(renew);
  EXPECT_EQ(Sent(),
            (Ops{v1::Request::kLayoutCommit, v1::Request::kAttrReturn, v1::Request::kRenew}));
  queue_.Answered(ids_[v1::Request::kGetAttr]);
  EXPECT_EQ(Sent(), (Ops{v1::Request::kGetAttr, v1::Request::kLayoutGet}));
}

TEST_F(OrderTest, AReturnOfADirectoryFollowsItsDelegatedChanges) {
  Fill(Get(), kMostWaiting);
  Add(Get());
  Add(Write());
  v1::Request create;
  create.mutable_create()->set_parent(3);
  v1::Replay early_number;
  early_number.set_inode(9);
  ASSERT_NE(queue_.SendDelegated(std::make_shared<PendingCall>(create), early_number), 0u);
  Add(Return());
  EXPECT_EQ(Sent(), (Ops{v1::Request::kCreate, v1::Request::kAttrReturn}));
}

}  // namespace
}  // namespace reel::client
