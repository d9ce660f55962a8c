#include "client/session/session.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <functional>
#include <thread>
#include <vector>

#include "client/base/lease.h"
#include "client/session/request_queue.h"
#include "client/testing/fake_mdc.h"
#include "client/testing/test_interrupt.h"
#include "proto/status.h"
#include "volume/base/env.h"
#include "volume/base/mutex.h"
#include "volume/testing/sample_volume.h"

namespace reel::client {
namespace {

class Events : public SessionEvents {
 public:
  void OnRecall(std::uint64_t, v1::TokenMode, const TokenSpan&) override {}
  void OnEvicted() override {
    ++evictions;
    if (on_evicted) on_evicted();
  }
  std::vector<v1::Reclaim> CollectReclaims() override {
    ++reclaims;
    std::vector<v1::Reclaim> all(2);
    all[0].add_opens(100);
    if (on_collect) on_collect();
    return all;
  }
  std::function<void()> on_collect;
  RecallWork LookAtRecalls() const override {
    MutexLock lock(mutex);
    return work;
  }
  void Work(RecallWork now) {
    MutexLock lock(mutex);
    work = std::move(now);
  }
  std::atomic<int> evictions{0}, reclaims{0};
  std::function<void()> on_evicted;
  mutable Mutex mutex;
  RecallWork work ABSL_GUARDED_BY(mutex);
};

class SessionTest : public testing::Test {
 protected:
  SessionTest() : SessionTest(FakeMdcOptions{.descriptor = SampleVolume({{4, {{16, 2}}}})}) {}
  explicit SessionTest(FakeMdcOptions options) : mdc(std::move(options)) {
    inode = mdc.CreateFile();
  }
  ~SessionTest() override {
    if (session) session->Shutdown();
    EXPECT_EQ(mdc.wrongs(), std::vector<std::string>());
  }

  void Connect(std::uint32_t soft_timeout_ms = 0) {
    Session::Options options;
    options.volume = "studio";
    options.mdcs = {"a:1", "b:1"};
    options.soft_timeout_ms = soft_timeout_ms;
    auto connected = Session::Connect(options, mdc, events, SystemClock());
    ASSERT_TRUE(connected.ok()) << connected.status();
    session = *std::move(connected);
  }
  v1::Request Chmod(std::uint32_t mode) {
    v1::Request request;
    request.mutable_set_attr()->set_inode(inode);
    request.mutable_set_attr()->set_fields(v1::SetAttr::MODE);
    request.mutable_set_attr()->set_mode(mode);
    return request;
  }
  v1::Request GetAttr() {
    v1::Request request;
    request.mutable_get_attr()->set_inode(inode);
    return request;
  }
  absl::StatusOr<v1::Reply> Call(v1::Request request) {
    return session->Call(std::move(request), CallOptions{});
  }
  template <typename Condition>
  static void Until(Condition condition) {
    while (!condition()) std::this_thread::yield();
  }

  FakeMdc mdc;
  Events events;
  std::uint64_t inode = 0;
  std::unique_ptr<Session> session;
};

TEST_F(SessionTest, RefusesAnUnknownVolumeAndAMissingController) {
  Session::Options options;
  options.volume = "nowhere";
  options.mdcs = {"a:1"};
  EXPECT_EQ(Session::Connect(options, mdc, events, SystemClock()).status().code(),
            absl::StatusCode::kNotFound);
  mdc.SetDown(true);
  options.volume = "studio";
  const absl::Status down = Session::Connect(options, mdc, events, SystemClock()).status();
  EXPECT_EQ(down.code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(down.message().find("a:1 is down"), std::string::npos) << down;
}

TEST_F(SessionTest, CallsAreAnsweredAndErrorsAreErrno) {
  Connect();
  EXPECT_EQ(session->descriptor().name, "studio");
  EXPECT_TRUE(session->LeaseHolds());
  ASSERT_TRUE(Call(Chmod(0600)).ok());
  EXPECT_EQ(Call(GetAttr())->attr().attr().mode() & 07777u, 0600u);
  v1::Request unknown;
  unknown.mutable_stat_fs();
  EXPECT_EQ(ErrnoOf(Call(unknown).status()), EOPNOTSUPP);
}

TEST_F(SessionTest, ManyCallersShareFewSlots) {
  Connect();
  std::vector<std::thread> threads;
  for (int i = 0; i < 40; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 50; ++n) EXPECT_TRUE(Call(Chmod(0644)).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(mdc.CountOf(v1::Request::kSetAttr), 2000u);
}

TEST_F(SessionTest, AMutationWhoseReplyWasLostHappensOnce) {
  Connect();
  mdc.LoseReplies(true);
  std::thread caller([&] { EXPECT_TRUE(Call(Chmod(0600)).ok()); });
  Until([&] { return mdc.CountOf(v1::Request::kSetAttr) == 1; });
  mdc.DropStreams();
  caller.join();
  EXPECT_EQ(mdc.CountOf(v1::Request::kSetAttr), 1u);
  EXPECT_EQ(mdc.repetitions(), 1u);
}

TEST_F(SessionTest, ADroppedStreamIsNeverSeenByCallers) {
  Connect();
  std::atomic<bool> stop{false};
  std::thread dropper([&] {
    for (int i = 0; i < 20; ++i) {
      const std::uint64_t before = mdc.CountOf(v1::Request::kSetAttr);
      Until([&] { return stop || mdc.CountOf(v1::Request::kSetAttr) > before + 20; });
      mdc.DropStreams();
    }
  });
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 200; ++n) EXPECT_TRUE(Call(n % 2 ? Chmod(0644) : GetAttr()).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  stop = true;
  dropper.join();
  EXPECT_EQ(mdc.CountOf(v1::Request::kSetAttr), 800u);
}

TEST_F(SessionTest, AnInterruptEndsTheWaitButNotTheMutation) {
  Connect();
  mdc.LoseReplies(true);
  TestInterrupt flag;
  std::atomic<int> done{0};
  std::thread caller([&] {
    CallOptions options;
    options.interrupt = &flag;
    options.on_done = [&](const absl::StatusOr<v1::Reply>& reply) {
      EXPECT_TRUE(reply.ok());
      ++done;
    };
    EXPECT_EQ(ErrnoOf(session->Call(Chmod(0600), options).status()), EINTR);
  });
  Until([&] { return mdc.CountOf(v1::Request::kSetAttr) == 1; });
  flag.Raise();
  caller.join();
  EXPECT_EQ(done, 0);
  mdc.DropStreams();
  Until([&] { return done == 1; });
  EXPECT_EQ(mdc.CountOf(v1::Request::kSetAttr), 1u);
}

TEST_F(SessionTest, SoftMountsGiveUp) {
  Connect(/*soft_timeout_ms=*/50);
  mdc.SetDown(true);
  EXPECT_EQ(ErrnoOf(Call(GetAttr()).status()), ETIMEDOUT);
  mdc.SetDown(false);
  Until([&] { return Call(GetAttr()).ok(); });
}

TEST_F(SessionTest, ShutdownEndsCallsWhileTheControllerIsAway) {
  Connect();
  mdc.SetDown(true);
  std::thread caller([&] { EXPECT_EQ(ErrnoOf(Call(GetAttr()).status()), ESHUTDOWN); });
  session->Shutdown();
  caller.join();
  EXPECT_EQ(ErrnoOf(Call(GetAttr()).status()), ESHUTDOWN);
  EXPECT_FALSE(session->LeaseHolds());
}

TEST_F(SessionTest, AnEvictionFailsSentCallsAndGoesOn) {
  Connect();
  const std::uint64_t first = session->session_id();
  mdc.LoseReplies(true);
  std::thread caller([&] { EXPECT_EQ(ErrnoOf(Call(Chmod(0600)).status()), EIO); });
  Until([&] { return mdc.CountOf(v1::Request::kSetAttr) == 1; });
  mdc.Evict(first);
  caller.join();
  mdc.LoseReplies(false);
  EXPECT_TRUE(Call(Chmod(0640)).ok());
  EXPECT_NE(session->session_id(), first);
  EXPECT_EQ(events.evictions, 1);
  EXPECT_EQ(mdc.CountOf(v1::Request::kSetAttr), 2u);
}

TEST_F(SessionTest, ASyncOfALostChangeFails) {
  Connect();
  const std::uint64_t first = session->session_id();
  mdc.SetSilent(true);
  v1::Request create;
  create.mutable_create()->set_name("new");
  const std::uint64_t early_number = session->SendDelegated(create, {});
  ASSERT_NE(early_number, 0u);
  TestInterrupt flags[2];
  std::vector<std::thread> callers;
  for (TestInterrupt& flag : flags) {
    callers.emplace_back([&] { EXPECT_EQ(ErrnoOf(session->Sync(early_number, 0, &flag)), EIO); });
  }
  Until([&] { return flags[0].asked() > 0 && flags[1].asked() > 0; });
  mdc.SetSilent(false);
  mdc.Evict(first);
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(session->losses(), 1u);
  EXPECT_TRUE(session->Sync(early_number, 1, nullptr).ok());
}

// The end of its session and its caller's interrupt at once.
TEST_F(SessionTest, ACallThatWasNeverSentEndsOnce) {
  Connect();
  const std::uint64_t first = session->session_id();
  mdc.SetDown(true);
  Until([&] { return session->Away(); });
  std::atomic<int> ends{0};
  TestInterrupt flag;
  std::thread caller([&] {
    v1::Request request;
    request.mutable_set_lock();
    CallOptions options;
    options.interrupt = &flag;
    options.on_done = [&](const absl::StatusOr<v1::Reply>&) { ++ends; };
    EXPECT_EQ(ErrnoOf(session->Call(std::move(request), options).status()), EINTR);
  });
  Until([&] { return flag.asked() > 0; });
  std::atomic<bool> returned{false};
  events.on_evicted = [&] {
    flag.Raise();
    Until([&] { return returned.load(); });
  };
  mdc.Evict(first);
  mdc.SetDown(false);
  caller.join();
  returned = true;
  ASSERT_TRUE(Call(GetAttr()).ok());  // the end of the first session is behind it
  EXPECT_EQ(ends, 1);
}

TEST_F(SessionTest, ANewEpochGetsTheReclaimsFirst) {
  Connect();
  mdc.LoseReplies(true);
  std::thread caller([&] { EXPECT_TRUE(Call(Chmod(0600)).ok()); });
  Until([&] { return mdc.CountOf(v1::Request::kSetAttr) == 1; });
  mdc.Restart();
  caller.join();
  EXPECT_EQ(events.reclaims, 1);
  EXPECT_EQ(mdc.OpensOf(100), 1u);
  EXPECT_EQ(mdc.CountOf(v1::Request::kSetAttr), 1u);
}

class ShortLeaseTest : public SessionTest {
 protected:
  ShortLeaseTest()
      : SessionTest(FakeMdcOptions{.descriptor = SampleVolume({{4, {{16, 2}}}}), .lease_ms = 150}) {
  }
};

TEST_F(ShortLeaseTest, TheLeaseEndsWithoutTheControllerAndComesBack) {
  Connect();
  mdc.SetSilent(true);
  Until([&] { return !session->LeaseHolds(); });
  mdc.SetSilent(false);
  mdc.DropStreams();
  Until([&] { return session->LeaseHolds(); });
  EXPECT_EQ(events.evictions, 0);
}

TEST_F(ShortLeaseTest, TheLeaseIsRenewedWithoutCalls) {
  Connect();
  const std::uint64_t registered = session->session_id();
  Until([&] { return mdc.CountOf(v1::Request::kRenew) >= 6 && session->LeaseHolds(); });
  EXPECT_EQ(session->session_id(), registered);
}

// The controller takes for open what it is told of; its close must come, or the file is open for
// good.
TEST_F(SessionTest, ACloseBehindTheClaimOfItsOpenIsSent) {
  Connect();
  const auto close = [&] {
    v1::Request request;
    request.mutable_close()->set_inode(100);
    session->Post(std::move(request));
  };
  mdc.SetSilent(true);
  close();  // and opened again without a word
  events.on_collect = [&] {
    session->Claims(100);
    close();
  };
  mdc.SetSilent(false);
  mdc.Restart();
  ASSERT_TRUE(Call(GetAttr()).ok());
  EXPECT_EQ(events.reclaims, 1);
  EXPECT_EQ(mdc.CountOf(v1::Request::kClose), 1u);
  EXPECT_EQ(mdc.OpensOf(100), 0u);
}

class OtherVolumeTest : public ShortLeaseTest {
 protected:
  static constexpr auto kOwn = [] { return SampleVolume({{4, {{16, 2}}}}).volume; };
  void ExpectGone(bool compares) {
    Connect();
    mdc.Serve(SampleUuid(99), compares);
    EXPECT_EQ(ErrnoOf(Call(GetAttr()).status()), ENODEV);
    EXPECT_EQ(session->session_id(), 0u);
    EXPECT_EQ(events.evictions, 1);
    EXPECT_EQ(ErrnoOf(Call(Chmod(0600)).status()), ENODEV);
    EXPECT_EQ(mdc.CountOf(v1::Request::kSetAttr), 0u);
    session->Post(GetAttr());  // nobody waits
  }
};

TEST_F(OtherVolumeTest, ARemadeVolumeGivesErrors) {
  ExpectGone(/*compares=*/true);
}

TEST_F(OtherVolumeTest, AControllerThatDoesNotCompareIsFoundOut) {
  ExpectGone(/*compares=*/false);
}

TEST_F(OtherVolumeTest, TheMountGoesOnWhenItsVolumeComesBack) {
  ExpectGone(/*compares=*/true);
  mdc.Serve(kOwn(), /*compares=*/true);
  Until([&] { return Call(GetAttr()).ok(); });
  EXPECT_TRUE(session->LeaseHolds());
}

class ShutOutTest : public ShortLeaseTest {
 protected:
  void ShutOut(int error) {
    Connect();
    mdc.ShutOut(error);
    EXPECT_EQ(ErrnoOf(Call(GetAttr()).status()), ENODEV);
    EXPECT_EQ(session->session_id(), 0u);
    EXPECT_EQ(events.evictions, 1);
    EXPECT_EQ(ErrnoOf(Call(Chmod(0600)).status()), ENODEV) << "and at once from now on";
  }
};

TEST_F(ShutOutTest, ARevokedCertificateGivesErrorsUntilAnotherOneIsThere) {
  ShutOut(EACCES);
  mdc.ShutOut(0);
  Until([&] { return Call(GetAttr()).ok(); });
  EXPECT_TRUE(session->LeaseHolds());
}

TEST_F(ShutOutTest, SoDoesACertificateOfAnotherName) {
  ShutOut(EPERM);
}

TEST_F(SessionTest, OneControllersRefusalEndsNoSessionWhoseLeaseHolds) {
  Connect();
  const std::uint64_t registered = session->session_id();
  mdc.ShutOut(EACCES);
  session->Post(GetAttr());
  mdc.ShutOut(0);
  EXPECT_TRUE(Call(Chmod(0600)).ok()) << "it waits";
  EXPECT_EQ(session->session_id(), registered);
  EXPECT_EQ(events.evictions, 0);
}

// Two volumes of one name: one of the controllers that are named has the other one.
TEST_F(SessionTest, AnotherVolumeInItsPlaceEndsNoSessionWhoseLeaseHolds) {
  Connect();
  const std::uint64_t registered = session->session_id();
  mdc.ShowInstead(SampleUuid(99), 3);
  EXPECT_TRUE(Call(Chmod(0600)).ok()) << "it waits";
  EXPECT_EQ(session->session_id(), registered);
  EXPECT_EQ(events.evictions, 0);
}

// A token that is given back late would be one that was granted meanwhile.
TEST(RequestQueueTest, ReturnsOfAttributeTokensDieWithTheirStream) {
  RequestQueue queue;
  std::vector<PendingCallPtr> returns;
  for (const bool sent : {true, false}) {
    v1::Request request;
    request.mutable_attr_return()->add_inodes(1);
    returns.push_back(std::make_shared<PendingCall>(std::move(request)));
    queue.Add(returns.back());
    if (sent) queue.TakeFrame(0);
  }
  ASSERT_TRUE(queue.CanSend());
  EXPECT_EQ(queue.StreamLost(), returns);
  EXPECT_FALSE(queue.CanSend());
}

// ---- recalls that cannot be answered ------------------------------------------------------------

class GivingUpTest : public SessionTest {
 protected:
  static constexpr std::uint32_t kLeaseMs = 200;
  GivingUpTest()
      : SessionTest(
            FakeMdcOptions{.descriptor = SampleVolume({{4, {{16, 2}}}}), .lease_ms = kLeaseMs}) {}
  static RecallWork Stuck() {
    return {.any = true,
            .stalled_ms = GiveUpMs(kLeaseMs),
            .trouble = "lun0: no route",
            .lost_lun = "0123456789abcdef",
            .lost_ms = PathPatienceMs(kLeaseMs)};
  }
  void AwaitRenewals(std::uint64_t more) {
    const std::uint64_t before = mdc.CountOf(v1::Request::kRenew);
    Until([&] { return mdc.CountOf(v1::Request::kRenew) >= before + more; });
  }
};

TEST_F(GivingUpTest, AClientWithoutItsLunAsksToBeEvictedWhileOthersWait) {
  Connect();
  events.Work(Stuck());
  Until([&] { return mdc.CountOf(v1::Request::kGiveUp) >= 2; });
  EXPECT_EQ(events.evictions, 0) << "nobody waits";
  Until([&] { return session->LeaseHolds(); });  // what was refused goes on
  mdc.LetGiveUp();
  Until([&] { return events.evictions > 0; });
  events.Work({});
  // Not one after the other: the lease of a new session holds a moment before it has its number,
  // and until Work was heard of, that one may have been given up, too.
  Until([&] { return session->session_id() != 0 && session->LeaseHolds(); });
}

TEST_F(GivingUpTest, TheLeaseEndsBeforeTheControllerLearnsOfIt) {
  Connect();
  mdc.HoldReplies(v1::Request::kGiveUp);
  events.Work(Stuck());
  Until([&] { return mdc.CountOf(v1::Request::kGiveUp) >= 1; });
  EXPECT_FALSE(session->LeaseHolds());
  AwaitRenewals(3);
  EXPECT_FALSE(session->LeaseHolds()) << "no renewal makes it good, as it may be granted";
  events.Work({});
  mdc.ReleaseReplies();
  Until([&] { return session->LeaseHolds(); });
}

TEST_F(GivingUpTest, NoClientGivesUpWhileARecallProgresses) {
  Connect();
  mdc.LetGiveUp();
  RecallWork slow = Stuck();
  slow.stalled_ms = GiveUpMs(kLeaseMs) - 1;
  events.Work(slow);
  AwaitRenewals(2);
  EXPECT_TRUE(mdc.recall_work().any());
  EXPECT_EQ(mdc.recall_work().stalled_ms(), slow.stalled_ms);
  EXPECT_EQ(mdc.recall_work().trouble(), "lun0: no route");
  RecallWork reaches_all = Stuck();
  reaches_all.lost_lun.clear();
  events.Work(reaches_all);
  AwaitRenewals(2);
  RecallWork just_lost = Stuck();
  just_lost.lost_ms = 0;
  events.Work(just_lost);
  AwaitRenewals(2);
  RecallWork nobody_waits = Stuck();
  nobody_waits.any = false;
  events.Work(nobody_waits);
  AwaitRenewals(2);
  EXPECT_EQ(mdc.CountOf(v1::Request::kGiveUp), 0U);
  EXPECT_EQ(events.evictions, 0);
}

}  // namespace
}  // namespace reel::client
