// Streams ask for layouts before they need them.
#include "client/tokens/file_access.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <future>
#include <thread>

#include "client/testing/data_cluster.h"
#include "client/testing/test_interrupt.h"

namespace reel::client {
namespace {

constexpr std::uint64_t kRecord = 1 << 20;

class StreamTest : public testing::Test {
 protected:
  StreamTest() : cluster_(Shape()), inode_(cluster_.mdc().CreateFile()) {}

  static ClusterShape Shape() {
    ClusterShape shape{.block_bytes = 65536, .rows = 300};
    shape.mdc.run_blocks = 100'000;
    shape.mdc.preallocated_blocks = 64;  // 4 MiB with each allocation
    return shape;
  }
  void Write(TestClient& client, std::uint64_t from, std::uint64_t to) {
    for (std::uint64_t i = from; i < to; ++i) {
      client.Write(inode_, i * kRecord, std::string(kRecord, static_cast<char>('a' + i % 26)));
    }
  }

  DataCluster cluster_;
  const std::uint64_t inode_;
};

TEST_F(StreamTest, AWriterGoesOnWithoutAController) {
  const auto client = cluster_.Mount();
  ASSERT_TRUE(client->data().Open(inode_, true, {}).ok());
  // 5 MiB with the first write, which waits, and 4 MiB more with each question that none waits for.
  std::uint64_t next = 0;
  while (cluster_.mdc().CountOf(v1::Request::kLayoutGet) < 3) {
    Write(*client, next, next + 1);
    ASSERT_LT(++next, 12u);
  }
  cluster_.mdc().SetSilent(true);
  Write(*client, next, 12);
  EXPECT_EQ(client->Read(inode_, 11 * kRecord, 3), "lll");
  cluster_.mdc().SetSilent(false);
  cluster_.mdc().DropStreams();  // what was asked for in the silence is asked for again
  Write(*client, 12, 20);
  EXPECT_TRUE(client->Fsync(inode_).ok());
  EXPECT_EQ(client->Read(inode_, 19 * kRecord, 3), "ttt");
  client->data().Close(inode_);
}

TEST_F(StreamTest, ARandomWriterPrefetchesNothing) {
  const auto client = cluster_.Mount();
  ASSERT_TRUE(client->data().Open(inode_, true, {}).ok());
  for (const std::uint64_t record : {0, 14, 7, 28, 21}) Write(*client, record, record + 1);
  const std::uint64_t gets = cluster_.mdc().CountOf(v1::Request::kLayoutGet);
  EXPECT_EQ(gets, 5u);
  EXPECT_TRUE(client->Fsync(inode_).ok());
  EXPECT_EQ(cluster_.mdc().CountOf(v1::Request::kLayoutGet), gets);
}

// ---- at a pace ----------------------------------------------------------------------------------

// A stream of 24 frames a second into one file, and perhaps a reader of it on another host.
class PacedStreamTest : public testing::Test {
 protected:
  static constexpr std::uint64_t kFrameBytes = 65'536;
  static constexpr std::uint64_t kFps = 24;

  PacedStreamTest()
      : cluster_(Shape(clock_)),
        inode_(cluster_.mdc().CreateFile()),
        writer_(cluster_.Mount()),
        reader_(cluster_.Mount()) {}

  static ClusterShape Shape(const Clock& clock) {
    ClusterShape shape{.block_bytes = 16'384, .rows = 900};
    shape.mdc.run_blocks = 100'000;
    shape.mdc.preallocated_blocks = 64;
    shape.mdc.lease_ms = 1'000'000;
    shape.clock = &clock;
    return shape;
  }
  static std::string Frame(std::uint64_t i) {
    return std::string(kFrameBytes, static_cast<char>('a' + i % 26));
  }
  // Until whatever was prefetched has been answered.
  void AwaitIdle() {
    while (cluster_.mdc().WaitingFor(inode_) != 0) std::this_thread::yield();
    for (TestClient* client : {writer_.get(), reader_.get()}) {
      v1::Request renew;
      renew.mutable_renew();
      ASSERT_TRUE(client->session().Call(std::move(renew), {}).ok());
    }
  }
  // Interrupts who waits for longer than a LUN may take on a slow machine: by then it is the
  // controller who is missing.
  class Patience final : public Interrupt {
   public:
    bool interrupted() const override { return ++asked_ > 500; }

   private:
    mutable std::atomic<int> asked_{0};  // once in kPoll
  };

  // So many frames, of which the reader gets the one that is `behind`; 0: there is none.
  void Go(std::uint64_t frames, std::uint64_t behind, bool controller = true) {
    for (const std::uint64_t end = next_ + frames; next_ < end; ++next_) {
      const Patience patience;
      const IoContext io{.interrupt = controller ? nullptr : &patience};
      const auto wrote = writer_->TryWrite(inode_, next_ * kFrameBytes, Frame(next_), io);
      ASSERT_TRUE(wrote.ok()) << "frame " << next_ << ": " << wrote.status();
      if (behind != 0 && next_ >= behind) {
        const std::uint64_t frame = next_ - behind;
        ASSERT_EQ(reader_->Read(inode_, frame * kFrameBytes, kFrameBytes, io), Frame(frame))
            << "frame " << frame;
      }
      clock_.Advance(1'000 / kFps);
      if (controller) AwaitIdle();
    }
  }
  void WithoutController(std::uint64_t frames, std::uint64_t behind) {
    cluster_.mdc().SetSilent(true);
    Go(frames, behind, /*controller=*/false);
    cluster_.mdc().SetSilent(false);
    cluster_.mdc().DropStreams();  // what was asked for in the silence is asked for again
  }

  ManualClock clock_;
  DataCluster cluster_;
  const std::uint64_t inode_;
  const std::unique_ptr<TestClient> writer_;
  const std::unique_ptr<TestClient> reader_;
  std::uint64_t next_ = 0;
};

TEST_F(PacedStreamTest, AWriterHasBlocksForAsLongAsAFailoverTakesThreeTimes) {
  ASSERT_TRUE(writer_->data().Open(inode_, true, {}).ok());
  Go(12 * kFps, 0);
  WithoutController(StreamPace::kPrefetchMs / 1'000 * kFps, 0);
  EXPECT_TRUE(writer_->Fsync(inode_).ok());
  writer_->data().Close(inode_);
}

TEST_F(PacedStreamTest, AReaderTenSecondsBehindHasMostExtents) {
  ASSERT_TRUE(writer_->data().Open(inode_, true, {}).ok());
  Go(11 * kFps, 0);
  ASSERT_TRUE(reader_->data().Open(inode_, false, {}).ok());
  Go(10 * kFps, 10 * kFps);
  for (std::uint64_t round = 0; round < 4; ++round) {
    WithoutController(7 * kFps, 10 * kFps);
    Go(kFps + 17 * round, 10 * kFps);  // the silence finds it at different places
  }
  reader_->data().Close(inode_);
  writer_->data().Close(inode_);
}

// The controller may die before it has heard the answer.
TEST_F(PacedStreamTest, ARecallBehindAWriterDoesNotStopIt) {
  std::promise<void> may_yield;
  std::atomic<bool> recalled = false;
  writer_->on_recall = [&, may = may_yield.get_future().share()](std::uint64_t) {
    recalled = true;
    may.wait();
  };
  ASSERT_TRUE(writer_->data().Open(inode_, true, {}).ok());
  Go(2 * kFps, 0);
  std::thread read([&] { EXPECT_EQ(reader_->Read(inode_, 0, 3), "aaa"); });
  while (!recalled) std::this_thread::yield();
  Go(kFps, 0, /*controller=*/false);
  const TestInterrupt hurry(/*raised=*/true);  // fails where it would wait
  EXPECT_EQ(ErrnoOf(writer_->TryWrite(inode_, 0, "b", {.interrupt = &hurry}).status()), EINTR)
      << "what is recalled is not changed any more";
  may_yield.set_value();
  read.join();
  EXPECT_EQ(reader_->Read(inode_, (next_ - 1) * kFrameBytes, kFrameBytes), Frame(next_ - 1));
  writer_->data().Close(inode_);
}

}  // namespace
}  // namespace reel::client
