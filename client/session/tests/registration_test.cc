// What a controller sends along with its answer to Hello.
#include "client/session/registration.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <deque>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/session/mdc_stream.h"
#include "client/session/session.h"
#include "client/testing/fake_mdc.h"
#include "proto/status.h"
#include "volume/base/env.h"
#include "volume/testing/sample_volume.h"

namespace reel::client {
namespace {

// Brings these frames, and ends. An answer to Hello gets its request's id.
class ScriptedStream final : public MdcStream {
 public:
  explicit ScriptedStream(std::deque<v1::ServerFrame> frames) : frames_(std::move(frames)) {}

  bool Send(const v1::ClientFrame& frame) override {
    hello_id_ = frame.requests(0).id();
    return true;
  }
  bool Receive(v1::ServerFrame* frame) override {
    if (frames_.empty()) return false;
    *frame = std::move(frames_.front());
    frames_.pop_front();
    for (v1::Reply& reply : *frame->mutable_replies()) {
      if (reply.has_hello()) reply.set_id(hello_id_);
    }
    return true;
  }
  void Cancel() override {}
  absl::Status Finish() override { return absl::OkStatus(); }

 private:
  std::deque<v1::ServerFrame> frames_;
  std::uint64_t hello_id_ = 0;
};

v1::ServerFrame Answer() {
  v1::ServerFrame frame;
  v1::HelloReply& hello = *frame.add_replies()->mutable_hello();
  hello.set_session(7);
  hello.set_slots(4);
  hello.set_lease_ms(1'000);
  hello.set_protocol(1);
  return frame;
}

absl::StatusOr<Greeting> Greet(std::deque<v1::ServerFrame> frames) {
  ScriptedStream stream(std::move(frames));
  std::string active;
  HelloFrom from;
  from.volume = "studio";
  return SayHello(stream, from, &active);
}

// A recall that was lost with its stream would be waited for until this host is evicted.
TEST(RegistrationTest, WhatComesAlongWithTheAnswerIsKept) {
  v1::ServerFrame before, frame = Answer();
  before.add_callbacks()->mutable_recall_attr()->set_inode(99);
  frame.add_callbacks()->mutable_recall_attr()->set_inode(100);
  frame.add_replies()->set_id(3);
  const auto greeting = Greet({std::move(before), std::move(frame), Answer()});
  ASSERT_TRUE(greeting.ok()) << greeting.status();
  EXPECT_EQ(greeting->hello.session(), 7u);
  ASSERT_EQ(greeting->rest.callbacks_size(), 2);
  EXPECT_EQ(greeting->rest.callbacks(0).recall_attr().inode(), 99u);
  EXPECT_EQ(greeting->rest.callbacks(1).recall_attr().inode(), 100u);
  ASSERT_EQ(greeting->rest.replies_size(), 1);
  EXPECT_EQ(greeting->rest.replies(0).id(), 3u);
}

TEST(RegistrationTest, AnAnswerWithoutWhatASessionNeedsIsRefused) {
  for (const int field : {1, 2, 3}) {
    v1::ServerFrame frame = Answer();
    v1::HelloReply& hello = *frame.mutable_replies(0)->mutable_hello();
    if (field == 1) hello.set_session(0);
    if (field == 2) hello.set_slots(0);
    if (field == 3) hello.set_lease_ms(0);
    EXPECT_EQ(ErrnoOf(Greet({std::move(frame)}).status()), EIO) << field;
  }
  EXPECT_TRUE(absl::IsUnavailable(Greet({}).status()));
}

// Never answers one.
class RecallCount final : public SessionEvents {
 public:
  void OnRecall(std::uint64_t, v1::TokenMode, const TokenSpan&) override { ++count; }
  void OnEvicted() override {}
  std::vector<v1::Reclaim> CollectReclaims() override { return {}; }
  std::atomic<int> count{0};
};

TEST(RegistrationTest, ARecallThatComesAlongReachesItsClient) {
  FakeMdc mdc(FakeMdcOptions{.descriptor = SampleVolume({{4, {{16, 2}}}})});
  RecallCount held, wanted;
  Session::Options options;
  options.volume = "studio";
  options.mdcs = {"a:1"};
  auto holder = Session::Connect(options, mdc, held, SystemClock());
  auto other = Session::Connect(options, mdc, wanted, SystemClock());
  ASSERT_TRUE(holder.ok() && other.ok());
  v1::Request get;
  get.mutable_layout_get()->set_inode(mdc.CreateFile());
  get.mutable_layout_get()->set_mode(v1::TOKEN_EXCLUSIVE);
  get.mutable_layout_get()->set_length_bytes(1);
  ASSERT_TRUE((*holder)->Call(get, {}).ok());
  std::thread wants([&] { (void)(*other)->Call(get, {}); });
  while (held.count < 1) std::this_thread::yield();
  mdc.DropStreams();
  while (held.count < 2) std::this_thread::yield();
  (*holder)->Shutdown();
  wants.join();
  (*other)->Shutdown();
}

}  // namespace
}  // namespace reel::client
