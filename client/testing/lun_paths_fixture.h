// A host with one path to a LUN that others use, too, and what of a session matters to it.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "client/luns/lun_io.h"
#include "client/luns/lun_paths.h"
#include "client/session/session.h"
#include "client/testing/test_interrupt.h"
#include "proto/status.h"
#include "volume/base/aligned_buffer.h"
#include "volume/base/mutex.h"
#include "volume/format/stripe_map.h"
#include "volume/testing/faulty_lun.h"
#include "volume/testing/sample_volume.h"
#include "volume/testing/shared_lun.h"

namespace reel::client {

inline constexpr std::uint32_t kBlock = 4096;

// What of a session matters here; as the controller, it fences before it grants a key.
class FakeSession final : public Session {
 public:
  explicit FakeSession(Reservations& controller) : controller_(controller) {}

  absl::StatusOr<v1::Reply> Call(v1::Request request, const CallOptions&) override {
    EXPECT_TRUE(request.has_new_key());
    if (refuse_) return ErrnoStatus(ESTALE, "evicted");
    const MutexLock lock(mutex_);
    FenceKey();
    key_on_lun_ = ++last_key_;
    v1::Reply reply;
    reply.mutable_key()->set_key(key_on_lun_);
    ++asked_;
    return reply;
  }
  void Post(v1::Request) override {}
  bool LeaseHolds() const override { return lease_; }
  std::uint64_t session_id() const override { return id_; }
  std::uint64_t key() const override { return first_key_; }
  const VolumeDescriptor& descriptor() const override { return descriptor_; }
  void Shutdown() override {}

  void Fence() {
    const MutexLock lock(mutex_);
    FenceKey();
  }
  // The next session; what the events say of it is the test's.
  void BeginNext() {
    const MutexLock lock(mutex_);
    first_key_ = key_on_lun_ = ++last_key_;
    ++id_;
  }

  std::atomic<bool> lease_{true};
  std::atomic<bool> refuse_{false};
  std::atomic<int> asked_{0};
  std::atomic<std::uint64_t> id_{1};
  std::atomic<std::uint64_t> first_key_{100};

 private:
  void FenceKey() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (key_on_lun_ != 0) (void)controller_.Preempt(1, key_on_lun_);
    EXPECT_TRUE(controller_.ResetLun().done());
  }

  Reservations& controller_;
  Mutex mutex_;
  std::uint64_t key_on_lun_ ABSL_GUARDED_BY(mutex_) = 100;
  std::uint64_t last_key_ ABSL_GUARDED_BY(mutex_) = 100;
  VolumeDescriptor descriptor_;
};

class LunPathsTest : public testing::Test {
 protected:
  LunPathsTest() {
    EXPECT_TRUE(mdc_->reservations()->Register(1).done());
    EXPECT_TRUE(mdc_->reservations()->Reserve(1).done());
    volume_.descriptor = SampleVolume({{1, {{64, 1}}}}, kBlock);
    volume_.luns.push_back(target_.NewPath("host"));
    MakePaths({});
  }
  void MakePaths(const LunPaths::Options& options, const Clock& clock = SystemClock()) {
    io_.reset();
    paths_ = std::make_unique<LunPaths>(volume_, session_, clock, options);
    io_ = std::make_unique<LunIo>(volume_, *paths_);
  }
  absl::Status Write(std::uint64_t block, char byte, const Interrupt* interrupt = nullptr,
                     std::uint64_t session = 0) {
    AlignedBuffer data(kBlock);
    std::memset(data.data(), byte, kBlock);
    LunMarks marks;
    return io_->Write(
        {&extent_, 1}, block * kBlock, data.span(), marks,
        {.session = session != 0 ? session : session_.session_id(), .interrupt = interrupt});
  }
  char Read(std::uint64_t block) {
    const AlignedBuffer data(kBlock);
    const absl::Status status =
        io_->Read({&extent_, 1}, block * kBlock, kBlock, data.span(), {.session = session_.id_});
    EXPECT_TRUE(status.ok()) << status;
    return static_cast<char>(*data.data());
  }
  // Where on the LUN it lies.
  std::uint64_t At(std::uint64_t block) const {
    std::vector<LunRange> lun_ranges;
    const StripeMap stripes(volume_.descriptor);
    EXPECT_TRUE(stripes.Map(PoolId(0), PoolBlock(0), block * kBlock, kBlock, lun_ranges).ok());
    return lun_ranges.at(0).offset_bytes;
  }
  // Past this host's paths.
  void WriteAsAnother(std::uint64_t block, char byte) {
    AlignedBuffer data(kBlock);
    std::memset(data.data(), byte, kBlock);
    EXPECT_TRUE(bytes_.Write(At(block), data.span()).ok());
  }
  char ReadAsAnother(std::uint64_t block) {
    const AlignedBuffer data(kBlock);
    EXPECT_TRUE(bytes_.Read(At(block), data.span()).ok());
    return static_cast<char>(*data.data());
  }
  void AwaitHeldWrite() {
    while (target_.held_writes() == 0) std::this_thread::yield();
  }

  FaultyLun bytes_;
  SharedLun target_{bytes_};
  std::unique_ptr<Lun> mdc_ = target_.NewPath("mdc");
  FakeSession session_{*mdc_->reservations()};
  OpenVolume volume_;
  const Extent extent_{.file_block = FileBlock(0),
                       .length_blocks = 32,
                       .state = ExtentState::kWritten,
                       .pool = PoolId(0),
                       .pool_block = PoolBlock(0)};
  std::unique_ptr<LunPaths> paths_;
  std::unique_ptr<LunIo> io_;
};

}  // namespace reel::client
