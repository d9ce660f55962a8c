// What the receiving thread may wait for: something is mounted upon a directory of the mount, so
// the kernel is not told to forget names, and what it keeps is waited out.
#include "client/vfs/event_router.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <future>
#include <thread>

#include "client/testing/test_clocks.h"
#include "gtest/gtest.h"
#include "proto/status.h"

namespace reel::client {
namespace {

constexpr std::uint64_t kMountedUpon = 1;

class SentSession : public Session {
 public:
  absl::StatusOr<v1::Reply> Call(v1::Request request, const CallOptions& options) override {
    {
      MutexLock lock(mutex_);
      for (const std::uint64_t inode : request.attr_return().inodes()) returned_.push_back(inode);
      changed_.NotifyAll();
    }
    if (options.on_done) options.on_done(v1::Reply());
    return v1::Reply();
  }
  void Post(v1::Request) override {}
  bool LeaseHolds() const override { return true; }
  std::uint64_t LeaseLeftMs() const override { return 10'000; }
  std::uint64_t session_id() const override { return 1; }
  const VolumeDescriptor& descriptor() const override { return descriptor_; }
  bool Away() const override { return false; }
  void Shutdown() override {}

  std::vector<std::uint64_t> returned() {
    MutexLock lock(mutex_);
    return returned_;
  }
  void AwaitReturn() {
    MutexLock lock(mutex_);
    while (returned_.empty()) changed_.Wait(mutex_);
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::vector<std::uint64_t> returned_ ABSL_GUARDED_BY(mutex_);
  VolumeDescriptor descriptor_;
};

// Counts what it hears of.
class HearingData : public FileData {
 public:
  explicit HearingData(const LookedAtClock& clock) : clock_(clock) {}
  absl::Status Start(Session&, OpenVolume&) override { return absl::OkStatus(); }
  absl::StatusOr<std::size_t> Read(std::uint64_t, std::uint64_t, std::span<std::byte>,
                                   const IoContext&) override {
    return ErrnoStatus(EIO);
  }
  absl::StatusOr<ByteRange> Write(std::uint64_t, std::uint64_t, std::span<const std::byte>,
                                  const IoContext&) override {
    return ErrnoStatus(EIO);
  }
  absl::Status Fsync(std::uint64_t, const IoContext&) override { return absl::OkStatus(); }
  absl::Status Flush(std::uint64_t, const IoContext&) override { return absl::OkStatus(); }
  absl::Status SyncWritten(const IoContext&) override { return absl::OkStatus(); }
  absl::StatusOr<v1::Attr> SetAttr(v1::SetAttr, const IoContext&) override { return v1::Attr(); }
  absl::Status Allocate(std::uint64_t, std::uint32_t, std::uint64_t, std::uint64_t,
                        const IoContext&) override {
    return absl::OkStatus();
  }
  absl::StatusOr<std::uint64_t> Seek(std::uint64_t, std::uint64_t, bool,
                                     const IoContext&) override {
    return 0;
  }
  void Overlay(v1::Attr&) const override {}
  absl::StatusOr<v1::Attr> Open(std::uint64_t, bool, const IoContext&) override {
    return v1::Attr();
  }
  bool HasUncommittedWrites(std::uint64_t) const override { return false; }
  void NoteAccess(const v1::Attr&, AtimePolicy) override {}
  void OpenDirectory(std::uint64_t) override {}
  void RegisterOpens(std::uint64_t, std::function<void()> done) override { done(); }
  std::uint64_t ExpectedBytes() const override { return 0; }
  void Created(const v1::EntryReply&, std::uint64_t, std::uint64_t) override {}
  void Close(std::uint64_t) override {}
  absl::Status Stop() override { return absl::OkStatus(); }
  void OnRecall(std::uint64_t, v1::TokenMode, const TokenSpan&) override { ++recalls; }
  void OnEvicted() override {}
  std::vector<v1::Reclaim> CollectReclaims() override {
    collected_ms = clock_.NowMs();
    return {};
  }

  std::atomic<int> recalls{0};
  std::atomic<std::uint64_t> collected_ms{0};

 private:
  const LookedAtClock& clock_;
};

class EventRouterTest : public testing::Test {
 protected:
  EventRouterTest() {
    auto session = std::make_unique<SentSession>();
    sent_ = session.get();
    session_ = std::move(session);
    locks_.Start(*session_);
    EXPECT_TRUE(kernel_names_.Start(
        {.forget = [] { return true; }, .is_mounted_upon = [] { return true; }}));
  }
  ~EventRouterTest() override { router_.Stop(); }
  // The kernel keeps a name of the directory.
  void ShowName() {
    v1::Request request;
    request.mutable_lookup()->set_parent(kMountedUpon);
    request.mutable_lookup()->set_name("a");
    v1::Reply reply;
    reply.add_cacheable(kMountedUpon);
    reply.set_error(ENOENT);
    router_.OnReply(request, reply);
    ASSERT_NE(names_.ShowName(kMountedUpon, "a", 0, kernel_names_.IsQuiet(kMountedUpon)), 0u);
  }
  // The kernel keeps a file's attributes, or has them for a moment.
  void ShowFile(std::uint64_t inode, bool keep = true) {
    v1::Request request;
    request.mutable_get_attr()->set_inode(inode);
    v1::Reply reply;
    reply.add_cacheable(inode);
    v1::Attr& attr = *reply.mutable_attr()->mutable_attr();
    attr.set_inode(inode);
    attr.set_mode(S_IFREG | 0644);
    router_.OnReply(request, reply);
    ASSERT_EQ(names_.Show(attr, kernel_names_.ShownUntilMs(), keep),
              keep ? NameCache::Shown::kKept : NameCache::Shown::kMoment);
  }
  // A recall of a file of which the kernel is told in vain, so often; until it was, for the first
  // time.
  void RecallUnknown(std::size_t times, bool keep = true) {
    ShowFile(7, keep);
    not_known_ = times;
    router_.OnRecallAttr(7, /*to_shared=*/false);
    while (told().empty()) std::this_thread::yield();
  }
  std::vector<std::uint64_t> told() {
    MutexLock lock(told_mutex_);
    return told_;
  }
  // On what stands for the receiving thread; false: it waits.
  bool Receives(std::function<void()> event) {
    received_.push_back(std::async(std::launch::async, std::move(event)));
    return received_.back().wait_for(std::chrono::seconds(10)) == std::future_status::ready;
  }
  void WaitedOut() { clock_.GoOn(KernelNames::kKeptMs); }

  LookedAtClock clock_;
  NameCache names_;
  KernelNames kernel_names_{names_, clock_};
  HearingData data_{clock_};
  FileLocks locks_;
  std::unique_ptr<Session> session_;
  SentSession* sent_ = nullptr;
  EventRouter router_{data_, names_, kernel_names_, locks_, session_, [this](std::uint64_t inode) {
                        MutexLock lock(told_mutex_);
                        told_.push_back(inode);
                        return told_.size() > not_known_;
                      }};
  Mutex told_mutex_;
  std::vector<std::uint64_t> told_ ABSL_GUARDED_BY(told_mutex_);
  std::size_t not_known_ = 0;  // times that the kernel was told, and did not know the inode
  std::vector<std::future<void>> received_;
};

TEST_F(EventRouterTest, RecallsAndRenewalsGoOnWhileNamesAreWaitedOut) {
  ShowName();
  v1::Request renew;
  renew.mutable_renew();
  EXPECT_TRUE(Receives([&] { router_.OnRecallAttr(kMountedUpon, /*to_shared=*/false); }));
  EXPECT_TRUE(Receives([&] { router_.OnRecall(7, v1::TOKEN_NONE, kWholeFile); }));
  EXPECT_TRUE(Receives([&] { router_.OnReply(renew, v1::Reply()); }));
  EXPECT_TRUE(Receives([&] { router_.OnStreamLost(); }));
  EXPECT_TRUE(Receives([&] { router_.OnRecall(8, v1::TOKEN_NONE, kWholeFile); }));
  EXPECT_TRUE(Receives([&] { router_.OnReply(renew, v1::Reply()); }));
  EXPECT_EQ(data_.recalls, 2);
  EXPECT_TRUE(sent_->returned().empty());
  WaitedOut();
}

TEST_F(EventRouterTest, ATokenGoesBackWhenNamesHaveBeenWaitedOut) {
  ShowName();
  EXPECT_TRUE(Receives([&] { router_.OnRecallAttr(kMountedUpon, /*to_shared=*/false); }));
  EXPECT_TRUE(sent_->returned().empty());
  WaitedOut();
  sent_->AwaitReturn();
  EXPECT_EQ(sent_->returned(), std::vector<std::uint64_t>{kMountedUpon});
}

TEST_F(EventRouterTest, TheKernelIsToldOfAFileBeforeItsTokenGoesBack) {
  ShowFile(7);
  router_.OnRecallAttr(7, /*to_shared=*/false);
  sent_->AwaitReturn();
  EXPECT_EQ(told(), std::vector<std::uint64_t>{7});
}

// The reply that the kernel learns of it by may not have been taken in yet.
TEST_F(EventRouterTest, AFileThatTheKernelDoesNotKnowYetIsToldOfAgain) {
  RecallUnknown(1);
  EXPECT_TRUE(sent_->returned().empty());
  WaitedOut();
  sent_->AwaitReturn();
  EXPECT_EQ(told(), (std::vector<std::uint64_t>{7, 7}));
}

// The moment begins when the kernel takes it in.
TEST_F(EventRouterTest, AFileThatTheKernelIsShownForAMomentIsToldOfAgain) {
  RecallUnknown(1, /*keep=*/false);
  EXPECT_TRUE(sent_->returned().empty());
  WaitedOut();
  sent_->AwaitReturn();
  EXPECT_EQ(told(), (std::vector<std::uint64_t>{7, 7}));
}

// What was shown long ago has been taken in, so the kernel has dropped the inode.
TEST_F(EventRouterTest, AFileThatTheKernelKnowsNoMoreIsToldOfOnce) {
  ShowFile(7);
  not_known_ = 1;
  clock_.GoOn(KernelNames::kSlackMs);
  (void)clock_.NowMs();
  router_.OnRecallAttr(7, /*to_shared=*/false);
  sent_->AwaitReturn();
  EXPECT_EQ(told(), std::vector<std::uint64_t>{7});
}

// The recall comes again on the next stream; the first telling of it may still be under way.
TEST_F(EventRouterTest, AStreamThatIsLostInARecallTellsTheKernelFirst) {
  RecallUnknown(2);
  router_.OnStreamLost();
  router_.OnRecallAttr(7, /*to_shared=*/false);
  while (told().size() < 2 && sent_->returned().empty()) std::this_thread::yield();
  const bool early = !sent_->returned().empty();
  WaitedOut();
  sent_->AwaitReturn();
  ASSERT_FALSE(early);
  while (told().size() < 4) std::this_thread::yield();  // each once more
}

// On the next stream the token of a directory whose old names the kernel still keeps.
TEST_F(EventRouterTest, ATokenGoesBackOnceAndWhenALostStreamsNamesHaveBeenWaitedOut) {
  ShowName();
  EXPECT_TRUE(Receives([&] { router_.OnStreamLost(); }));
  ShowFile(7);
  router_.OnRecallAttr(7, /*to_shared=*/false);
  for (int i = 0; i < 2; ++i) router_.OnRecallAttr(8, /*to_shared=*/false);
  clock_.AwaitLooks(8);
  EXPECT_TRUE(sent_->returned().empty());
  WaitedOut();
  while (sent_->returned().size() < 2) std::this_thread::yield();
  router_.Stop();
  std::vector<std::uint64_t> returned = sent_->returned();
  std::ranges::sort(returned);
  EXPECT_EQ(returned, (std::vector<std::uint64_t>{7, 8}));
}

TEST_F(EventRouterTest, NothingIsClaimedBeforeTheKernelWasToldOfFiles) {
  ShowFile(7);
  ShowFile(8, /*keep=*/false);
  router_.OnStreamLost();
  (void)router_.CollectReclaims();
  std::vector<std::uint64_t> files = told();
  std::ranges::sort(files);
  EXPECT_EQ(files, (std::vector<std::uint64_t>{7, 8}));
}

// In the new epoch nobody recalls what the kernel keeps.
TEST_F(EventRouterTest, NothingIsClaimedBeforeNamesHaveBeenWaitedOut) {
  ShowName();
  const std::uint64_t lost_ms = clock_.NowMs();
  EXPECT_TRUE(Receives([&] { router_.OnStreamLost(); }));
  auto claimed = std::async(std::launch::async, [&] { (void)router_.CollectReclaims(); });
  EXPECT_TRUE(Receives([&] { router_.OnRecall(7, v1::TOKEN_NONE, kWholeFile); }));
  WaitedOut();
  claimed.wait();
  EXPECT_GT(data_.collected_ms, lost_ms + KernelNames::kKeptMs);
}

}  // namespace
}  // namespace reel::client
