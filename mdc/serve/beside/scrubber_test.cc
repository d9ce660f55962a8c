// Scrubs of a volume that is served, on image files: nothing is wrong with one that is busy, and
// what is planted in its store is found while clients go on.
#include "mdc/serve/beside/scrubber.h"

#include <atomic>
#include <future>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "mdc/metadb/schema.h"
#include "mdc/serve/candidate.h"
#include "mdc/testing/test_volume.h"

namespace reel::mdc {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

// A client that makes and removes files, each request in its slot when the last one was answered.
class BusyClient final : public StreamPeer {
 public:
  explicit BusyClient(VolumeServer& server) : server_(server) {}
  void Send(v1::ServerFrame frame) override {
    MutexLock lock(mutex_);
    for (v1::Reply& reply : *frame.mutable_replies()) {
      last_ = std::move(reply);
      ++answers_;
    }
    changed_.NotifyAll();
  }
  void End() override {
    MutexLock lock(mutex_);
    ended_ = true;
    changed_.NotifyAll();
  }
  void Taken(std::size_t) override {}

  v1::Reply Ask(StreamId stream, v1::Request request, bool changes) {
    std::uint64_t before = 0;
    {
      MutexLock lock(mutex_);
      before = answers_;
    }
    request.set_id(++last_id_);
    if (changes) {
      request.set_slot(1);
      request.set_slot_sequence(++sequence_);
    }
    v1::ClientFrame frame;
    *frame.add_requests() = std::move(request);
    server_.Post(stream, std::move(frame));
    MutexLock lock(mutex_);
    while (answers_ == before && !ended_) changed_.Wait(mutex_);
    return last_;
  }

 private:
  VolumeServer& server_;
  std::uint64_t last_id_ = 0;
  std::uint64_t sequence_ = 0;
  Mutex mutex_;
  CondVar changed_;
  v1::Reply last_ ABSL_GUARDED_BY(mutex_);
  std::uint64_t answers_ ABSL_GUARDED_BY(mutex_) = 0;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

class ScrubberTest : public testing::Test {
 protected:
  ScrubberTest() { Start(); }

  void Start(std::uint64_t scrub_bytes = Scrubber::kMostBytes) {
    VolumeServerOptions options;
    options.volume = "reel";
    options.luns = volume_.paths();
    options.scrub_bytes = scrub_bytes;
    options.on_failure = [](const absl::Status& status) { ADD_FAILURE() << status; };
    auto server = TakeAndServe(options, SeatOptions(), SystemClock());
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  void Stop() {
    ASSERT_TRUE(server_->Stop().ok());
    server_.reset();
  }
  template <typename T>
  T OnCore(std::function<T(Core&)> ask) {
    std::promise<T> promise;
    EXPECT_TRUE(server_->RunOnCore([&](Core& core) { promise.set_value(ask(core)); }));
    return promise.get_future().get();
  }
  JobId Begin(std::uint64_t rate_records = 0) {
    return OnCore<JobId>([&](Core& core) {
      v1::StartJobRequest request;
      request.set_kind(v1::JOB_SCRUB);
      request.set_rate_records(rate_records);
      const auto job = core.StartJob(request);
      EXPECT_TRUE(job.ok()) << job.status();
      return job.ok() ? job->job : JobId(0);
    });
  }
  v1::JobRecord Job(JobId id) {
    return OnCore<v1::JobRecord>([id](Core& core) {
      v1::JobsReply reply;
      core.Describe(reply);
      for (const auto& job : reply.jobs()) {
        if (job.job() == id.value()) return job.record();
      }
      return v1::JobRecord();
    });
  }
  // When it is over.
  v1::JobRecord AwaitEnd(JobId id) {
    for (;;) {
      v1::JobRecord record = Job(id);
      if (record.state() != v1::JOB_RUNNING) return record;
    }
  }
  std::vector<std::string> Alarms() {
    return OnCore<std::vector<std::string>>([](Core& core) {
      v1::ShowReply show;
      core.Describe(show);
      return std::vector<std::string>(show.alarms().begin(), show.alarms().end());
    });
  }
  // Runs `while_busy` while a client makes, fills and removes files.
  void WhileBusy(const std::function<void()>& while_busy) {
    std::atomic<bool> over{false};
    std::promise<void> begun;
    std::thread client([&] { BeBusy(over, begun); });
    begun.get_future().get();
    while_busy();
    over = true;
    client.join();
  }
  // As what a client changes; it is wrong.
  void Plant(const WriteBatch& batch) {
    Stop();
    auto volume = OpenVolumeByName("reel", volume_.paths(), LunAccess::kReadWrite);
    ASSERT_TRUE(volume.ok()) << volume.status();
    {
      auto store = Store::Open(*volume, {});
      ASSERT_TRUE(store.ok()) << store.status();
      ASSERT_TRUE((*store)->db().Apply(batch).ok());
      ASSERT_TRUE((*store)->db().Sync().ok());
    }
    volume = absl::UnavailableError("closed");
    Start();
  }

  TestVolumeOnImages volume_;
  std::unique_ptr<VolumeServer> server_;

 private:
  void BeBusy(std::atomic<bool>& over, std::promise<void>& begun) {
    auto peer = std::make_shared<BusyClient>(*server_);
    const StreamId stream = server_->AddStream(peer);
    v1::Request request;
    v1::Hello& hello = *request.mutable_hello();
    hello.set_protocol_min(1);
    hello.set_protocol_max(1);
    hello.set_volume("reel");
    hello.set_client(Uuid::Random().ToBytes());
    ASSERT_EQ(peer->Ask(stream, request, false).error(), 0);
    for (int i = 0; !over; ++i) {
      const std::string name = absl::StrCat("file", i % 50);
      request.Clear();
      if (i / 50 % 2 == 0) {
        request.mutable_create()->set_parent(1);
        request.mutable_create()->set_name(name);
        request.mutable_create()->set_mode(S_IFREG | 0644);
        const v1::Reply made = peer->Ask(stream, request, true);
        ASSERT_EQ(made.error(), 0);
        v1::Request fill;
        v1::LayoutGet& get = *fill.mutable_layout_get();
        get.set_inode(made.entry().attr().inode());
        get.set_mode(v1::TOKEN_EXCLUSIVE);
        get.set_allocate(true);
        get.set_length_bytes(1 << 16);
        ASSERT_EQ(peer->Ask(stream, fill, true).error(), 0);
      } else {
        request.mutable_unlink()->set_parent(1);
        request.mutable_unlink()->set_name(name);
        request.mutable_unlink()->set_lets_go(true);
        ASSERT_EQ(peer->Ask(stream, request, true).error(), 0);
      }
      if (i == 49) begun.set_value();
      if (i % 50 != 49) continue;
      request.Clear();
      request.mutable_renew();
      ASSERT_EQ(peer->Ask(stream, request, false).error(), 0);
    }
    request.Clear();
    request.mutable_goodbye();
    (void)peer->Ask(stream, request, false);
    server_->StreamEnded(stream);
  }
};

TEST_F(ScrubberTest, FindsNothingInABusyVolumeHoweverOften) {
  WhileBusy([&] {
    for (int round = 0; round < 25; ++round) {
      const v1::JobRecord record = AwaitEnd(Begin());
      ASSERT_EQ(record.state(), v1::JOB_DONE) << record.problem();
      ASSERT_EQ(record.scrub().problems(), 0u) << record.DebugString();
      EXPECT_GT(record.scrub().looked_records(), 0u);
    }
  });
  EXPECT_THAT(Alarms(), IsEmpty());
}

TEST_F(ScrubberTest, DamageIsFoundBesideAClientAndIsAnAlarm) {
  WriteBatch batch;
  v1::DirentRecord entry;
  entry.set_inode(777);
  entry.set_cookie(5);
  entry.set_type(S_IFREG);
  batch.Put(schema::DirentKey(kRootInode, "nowhere"), entry.SerializeAsString());
  Plant(batch);
  WhileBusy([&] {
    const v1::JobRecord record = AwaitEnd(Begin());
    EXPECT_EQ(record.state(), v1::JOB_DONE);
    EXPECT_GT(record.scrub().problems(), 0u);
    EXPECT_THAT(record.scrub().lines(), Contains(HasSubstr("names inode 777")));
  });
  EXPECT_THAT(Alarms(), Contains(HasSubstr("fsck.reelfs --repair reel")));
  // The next controller says so, too.
  Stop();
  Start();
  EXPECT_THAT(Alarms(), Contains(HasSubstr("fsck.reelfs --repair reel")));
}

TEST_F(ScrubberTest, APausedScrubRestsUntilItIsResumed) {
  const JobId job = Begin(/*rate_records=*/1);
  const auto change = [&](v1::JobState state) {
    return OnCore<absl::Status>([&](Core& core) { return core.ChangeJob(job, state).status(); });
  };
  EXPECT_TRUE(change(v1::JOB_PAUSED).ok());
  EXPECT_EQ(Job(job).state(), v1::JOB_PAUSED);
  EXPECT_TRUE(change(v1::JOB_RUNNING).ok());
  EXPECT_EQ(AwaitEnd(job).state(), v1::JOB_DONE);
  EXPECT_FALSE(change(v1::JOB_CANCELLED).ok()) << "it is over";
}

TEST_F(ScrubberTest, OneThatIsCancelledEndsAndTheNextOneRuns) {
  WhileBusy([&] {
    const JobId slow = Begin(/*rate_records=*/1);
    EXPECT_TRUE(OnCore<absl::Status>([&](Core& core) {
                  return core.ChangeJob(slow, v1::JOB_CANCELLED).status();
                }).ok());
    EXPECT_EQ(AwaitEnd(Begin()).state(), v1::JOB_DONE);
    EXPECT_EQ(Job(slow).state(), v1::JOB_CANCELLED);
  });
}

TEST_F(ScrubberTest, RefusesWhatItHasNoMemoryFor) {
  Stop();
  Start(/*scrub_bytes=*/64);
  WhileBusy([&] {
    const v1::JobRecord record = AwaitEnd(Begin());
    EXPECT_EQ(record.state(), v1::JOB_FAILED);
    EXPECT_THAT(record.problem(), HasSubstr("scrub_memory_mib"));
  });
  EXPECT_THAT(Alarms(), IsEmpty()) << "nothing is known to be wrong";
}

}  // namespace
}  // namespace reel::mdc
