// Real threads, a real store on image files; only the transport is missing.
#include "mdc/serve/volume_server.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <atomic>
#include <functional>
#include <map>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "mdc/check/checker.h"
#include "mdc/serve/candidate.h"
#include "mdc/testing/test_volume.h"

namespace reel::mdc {
namespace {

// What a client's stream would be: keeps the replies, and lets the test wait for one.
class Peer final : public StreamPeer {
 public:
  void Send(v1::ServerFrame frame) override {
    MutexLock lock(mutex_);
    for (v1::Reply& reply : *frame.mutable_replies()) replies_[reply.id()] = std::move(reply);
    changed_.NotifyAll();
  }
  void End() override {
    MutexLock lock(mutex_);
    ended_ = true;
    changed_.NotifyAll();
  }
  void Taken(std::size_t requests) override {
    MutexLock lock(mutex_);
    taken_ += requests;
  }
  v1::Reply Wait(std::uint64_t id) {
    MutexLock lock(mutex_);
    while (!replies_.contains(id) && !ended_) changed_.Wait(mutex_);
    v1::Reply reply = replies_[id];
    replies_.erase(id);
    return reply;
  }
  void WaitForEnd() {
    MutexLock lock(mutex_);
    while (!ended_) changed_.Wait(mutex_);
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::map<std::uint64_t, v1::Reply> replies_ ABSL_GUARDED_BY(mutex_);
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::size_t taken_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Stands still, so that no tick comes; whoever reads it next can be made to do something first.
class StandingClock final : public Clock {
 public:
  std::uint64_t NowMs() const override {
    if (armed_.exchange(false)) on_next_();
    return 1000;
  }
  WallTime WallNow() const override { return {}; }
  void OnNext(std::function<void()> action) {
    on_next_ = std::move(action);
    armed_ = true;
  }

 private:
  std::function<void()> on_next_;
  mutable std::atomic<bool> armed_{false};
};

class VolumeServerTest : public testing::Test {
 protected:
  VolumeServerOptions Options() {
    VolumeServerOptions options;
    options.volume = "reel";
    options.luns = volume_.paths();
    options.on_failure = [this](const absl::Status& status) {
      ADD_FAILURE() << status;
      if (peer_ != nullptr) peer_->End();  // no answer comes any more
    };
    return options;
  }
  void Start(const Clock& clock = SystemClock()) {
    auto server = TakeAndServe(Options(), SeatOptions(), clock);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  void StartOnFailingStore() {
    VolumeServerOptions options = Options();
    options.on_failure = [this](const absl::Status&) { ++failures_; };
    auto server = TakeAndServe(options, SeatOptions(), SystemClock());
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    Connect();
  }
  void Connect(std::uint64_t resume = 0) {
    peer_ = std::make_shared<Peer>();
    stream_ = server_->AddStream(peer_);
    v1::Request request;
    v1::Hello& hello = *request.mutable_hello();
    hello.set_protocol_min(1);
    hello.set_protocol_max(1);
    hello.set_volume("reel");
    hello.set_client(client_.ToBytes());
    hello.set_resume_session(resume);
    const v1::Reply reply = Call(request);
    ASSERT_EQ(reply.error(), 0) << reply.message();
    session_ = reply.hello().session();
  }
  std::uint64_t Post(v1::Request request) {
    request.set_id(++last_id_);
    v1::ClientFrame frame;
    *frame.add_requests() = std::move(request);
    server_->Post(stream_, std::move(frame));
    return last_id_;
  }
  v1::Reply Call(v1::Request request) { return peer_->Wait(Post(std::move(request))); }
  // In a slot of its own.
  std::uint64_t PostIn(std::uint32_t slot, v1::Request request) {
    request.set_slot(slot);
    request.set_slot_sequence(++sequences_[slot]);
    return Post(std::move(request));
  }
  static v1::Request CreateOf(const std::string& name) {
    v1::Request request;
    request.mutable_create()->set_parent(1);
    request.mutable_create()->set_name(name);
    request.mutable_create()->set_mode(S_IFREG | 0644);
    return request;
  }
  static v1::Request LookupOf(const std::string& name) {
    v1::Request request;
    request.mutable_lookup()->set_parent(1);
    request.mutable_lookup()->set_name(name);
    return request;
  }
  void ExpectSound() {
    auto volume = OpenVolumeByName("reel", volume_.paths(), LunAccess::kReadOnly);
    ASSERT_TRUE(volume.ok()) << volume.status();
    StoreOptions options;
    options.read_only = true;
    auto store = Store::Open(*volume, options);
    ASSERT_TRUE(store.ok()) << store.status();
    CheckSink sink;
    sink.on_phase = [](std::string_view) {};
    sink.on_problem = [](const Problem& problem) {
      ADD_FAILURE() << problem.code << ": " << problem.where << ": " << problem.what;
    };
    CheckVolume({(*store)->db(), volume_.descriptor(), (*store)->regions()}, sink);
  }

  TestVolumeOnImages volume_;
  std::unique_ptr<VolumeServer> server_;
  std::shared_ptr<Peer> peer_;
  StreamId stream_;
  Uuid client_ = Uuid::Random();
  std::uint64_t session_ = 0;
  std::uint64_t last_id_ = 0;
  std::map<std::uint32_t, std::uint64_t> sequences_;
  std::atomic<int> failures_{0};  // of StartOnFailingStore's
};

TEST_F(VolumeServerTest, AnsweredChangesSurviveARestart) {
  Start();
  Connect();
  std::vector<std::uint64_t> ids;
  for (std::uint32_t i = 0; i < 500; ++i) {
    ids.push_back(PostIn(1 + i % 64, CreateOf(absl::StrCat("file", i))));
    if (i % 64 == 63) {
      for (const std::uint64_t id : ids) EXPECT_EQ(peer_->Wait(id).error(), 0);
      ids.clear();
    }
  }
  for (const std::uint64_t id : ids) EXPECT_EQ(peer_->Wait(id).error(), 0);
  ASSERT_TRUE(server_->Stop().ok());
  peer_->WaitForEnd();
  server_.reset();

  // The session was not over: it resumes, and what it reads now is not in memory yet.
  Start();
  Connect(session_);
  v1::Request reclaim;
  reclaim.mutable_reclaim()->set_done(true);
  EXPECT_EQ(Call(reclaim).error(), 0);
  for (std::uint32_t i = 0; i < 500; i += 7) {
    EXPECT_EQ(Call(LookupOf(absl::StrCat("file", i))).error(), 0) << i;
  }
  EXPECT_EQ(Call(LookupOf("nothing")).error(), ENOENT);
  v1::Request again = CreateOf("file499");
  again.set_slot(1 + 499 % 64);
  again.set_slot_sequence(sequences_[1 + 499 % 64]);
  EXPECT_EQ(Call(again).error(), 0);  // was done before: its stored reply
  v1::Request goodbye;
  goodbye.mutable_goodbye();
  EXPECT_EQ(Call(goodbye).error(), 0);
  peer_->WaitForEnd();
  ASSERT_TRUE(server_->Stop().ok());
  server_.reset();
  ExpectSound();
}

TEST_F(VolumeServerTest, AVolumeIsServedOnce) {
  Start();
  const auto second = TakeAndServe(Options(), SeatOptions(), SystemClock());
  EXPECT_TRUE(absl::IsUnavailable(second.status())) << second.status();
  VolumeServerOptions other = Options();
  other.volume = "none";
  EXPECT_TRUE(absl::IsNotFound(TakeAndServe(other, SeatOptions(), SystemClock()).status()));
}

TEST_F(VolumeServerTest, TheStoreTakesBlocksOfItsPoolBeforeItIsFull) {
  Start();
  Connect();
  ASSERT_EQ(peer_->Wait(PostIn(1, CreateOf("file"))).error(), 0);
  v1::Request lookup = LookupOf("file");
  const std::uint64_t inode = Call(lookup).entry().attr().inode();
  // Twice the first region, in values that do not compress.
  std::string value(60'000, ' ');
  std::uint64_t random = 1;
  for (int i = 0; i < 800; ++i) {
    for (char& c : value) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      c = static_cast<char>(random >> 56);
    }
    v1::Request request;
    v1::SetXattr& set = *request.mutable_set_xattr();
    set.set_inode(inode);
    set.set_name(absl::StrCat("user.", i));
    set.set_value(value);
    const v1::Reply reply = peer_->Wait(PostIn(1, request));
    ASSERT_EQ(reply.error(), 0) << reply.message() << " at " << i;
  }
  ASSERT_TRUE(server_->Stop().ok());
  server_.reset();
  ExpectSound();
  auto volume = OpenVolumeByName("reel", volume_.paths(), LunAccess::kReadOnly);
  ASSERT_TRUE(volume.ok());
  StoreOptions options;
  options.read_only = true;
  auto store = Store::Open(*volume, options);
  ASSERT_TRUE(store.ok());
  EXPECT_GT((*store)->regions().size(), 1u);
}

// The resident looks at the queue, then at the clock, then leaves: what comes in between found the
// seat taken.
TEST_F(VolumeServerTest, ARequestDuringTheThreadsExitNeedsNoTick) {
  StandingClock clock;
  Start(clock);
  Mutex mutex;
  CondVar changed;
  bool done = false;
  ASSERT_TRUE(server_->RunOnCore([&](const Core&) {  // a visit, whose end wakes the resident
    server_->RunOnCore([&](const Core&) {
      clock.OnNext([&] {
        server_->RunOnCore([&](const Core&) {
          MutexLock lock(mutex);
          done = true;
          changed.NotifyAll();
        });
      });
    });
  }));
  {
    MutexLock lock(mutex);
    while (!done) changed.Wait(mutex);
  }
  EXPECT_TRUE(server_->Stop().ok());
  server_.reset();
}

// A program that waits for an answer waits for ever where neither comes.
TEST_F(VolumeServerTest, AcceptedRequestsRunWhenTheServerStops) {
  constexpr int kRounds = 10, kCallers = 4;
  for (int round = 0; round < kRounds; ++round) {
    Start();
    std::atomic<std::uint64_t> taken{0}, ran{0};
    std::vector<Thread> callers;
    for (int i = 0; i < kCallers; ++i) {
      callers.emplace_back([&] {
        while (server_->RunOnCore([&](const Core&) { ++ran; })) ++taken;
      });
    }
    while (ran == 0) {
    }
    EXPECT_TRUE(server_->Stop().ok());
    for (Thread& caller : callers) caller.Join();
    EXPECT_EQ(taken, ran);
    server_.reset();
  }
}

// … and where the store has failed.
TEST_F(VolumeServerTest, AcceptedRequestsFailWhenTheStoreHasFailed) {
  StartOnFailingStore();
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
  signal(SIGXFSZ, SIG_IGN);
  const rlim_t before = std::exchange(limit.rlim_cur, 0);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);  // no image can be written any more
  Mutex mutex;
  CondVar changed;
  bool refused = false;
  PostIn(1, CreateOf("file"));
  while (failures_ == 0) std::this_thread::yield();
  // A client that registers needs the store: the core learns that it has failed.
  v1::Request hello;
  hello.set_id(1);
  hello.mutable_hello()->set_protocol_min(1);
  hello.mutable_hello()->set_protocol_max(1);
  hello.mutable_hello()->set_volume("reel");
  hello.mutable_hello()->set_client(Uuid::Random().ToBytes());
  v1::ClientFrame frame;
  *frame.add_requests() = std::move(hello);
  server_->Post(server_->AddStream(std::make_shared<Peer>()), std::move(frame));
  while (!refused) {
    bool ended = false;
    const auto end = [&](bool refuses) {
      MutexLock lock(mutex);
      refused = refuses;
      ended = true;
      changed.NotifyAll();
    };
    ASSERT_TRUE(server_->RunOnCore([&](const Core&) { end(false); }, [&] { end(true); }));
    MutexLock lock(mutex);
    while (!ended) changed.Wait(mutex);
  }
  EXPECT_TRUE(refused);
  limit.rlim_cur = before;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  EXPECT_FALSE(server_->Stop().ok());
  server_.reset();
}

TEST_F(VolumeServerTest, AdministrationSeesTheVolume) {
  Start();
  Connect();
  Mutex mutex;
  CondVar changed;
  bool done = false;
  v1::ShowReply show;
  v1::StatReply stat;
  v1::WhoReply who;
  ASSERT_TRUE(server_->RunOnCore([&](const Core& core) {
    core.Describe(show);
    server_->Complete(show);
    core.Describe(stat);
    server_->Complete(stat);
    core.Describe(who);
    MutexLock lock(mutex);
    done = true;
    changed.NotifyAll();
  }));
  {
    MutexLock lock(mutex);
    while (!done) changed.Wait(mutex);
  }
  EXPECT_EQ(show.seat(), "lun0");
  ASSERT_EQ(show.pools_size(), 1);
  EXPECT_EQ(show.pools(0).luns(1).path(), volume_.paths()[1]);
  EXPECT_GT(show.store_free_bytes(), 0u);
  EXPECT_GT(show.store_bytes(), show.store_free_bytes());
  EXPECT_EQ(stat.epoch(), server_->epoch().value());
  ASSERT_EQ(who.sessions_size(), 1);
  EXPECT_TRUE(who.sessions(0).connected());
}

}  // namespace
}  // namespace reel::mdc
