#include "mdc/serve/block_mover.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "volume/testing/faulty_lun.h"
#include "volume/testing/sample_volume.h"

namespace reel::mdc {
namespace {

constexpr std::uint64_t kBlockBytes = 4096;

// Takes writes, and keeps what it had.
class ForgetfulLun final : public Lun {
 public:
  explicit ForgetfulLun(Lun& lun) : lun_(lun) {}
  const std::string& name() const override { return lun_.name(); }
  std::uint64_t size_bytes() const override { return lun_.size_bytes(); }
  std::uint32_t logical_block_bytes() const override { return lun_.logical_block_bytes(); }
  void Start(LunRequest& request) override {
    if (request.kind == LunRequest::Kind::kWrite) return request.Complete(absl::OkStatus());
    lun_.Start(request);
  }
  absl::Status Flush() override { return lun_.Flush(); }
  absl::Status Discard(std::uint64_t, std::uint64_t) override { return absl::OkStatus(); }
  absl::Status ClaimForThisProcess() override { return absl::OkStatus(); }

 private:
  Lun& lun_;
};

// Two LUNs, four blocks on each before the next.
class BlockMoverTest : public testing::Test {
 protected:
  BlockMoverTest() {
    volume_.descriptor = SampleVolume({{4, {{1'000, 2}}}});
    for (int i = 0; i < 2; ++i) {
      auto lun = std::make_unique<FaultyLun>();
      luns_.push_back(lun.get());
      volume_.luns.push_back(std::move(lun));
    }
    for (FaultyLun* lun : luns_) {
      AlignedBuffer content(1 << 20);
      for (std::size_t i = 0; i < content.size(); ++i) {
        content.data()[i] = static_cast<std::byte>(i * 7 + i / kBlockBytes);
      }
      EXPECT_TRUE(lun->Write(kMiB, content.span()).ok());
      EXPECT_TRUE(lun->Flush().ok());
    }
  }
  ~BlockMoverTest() override {
    if (mover_ != nullptr) mover_->Stop();
  }

  static BlockCopy Copy(std::uint64_t from, std::uint64_t to, std::uint64_t length) {
    return {{PoolId(0), PoolBlock(from), length}, {PoolId(0), PoolBlock(to), length}};
  }
  // How the order ends.
  absl::Status Do(std::vector<BlockCopy> copies) {
    if (mover_ == nullptr) {
      maps_.emplace(std::make_unique<OpenVolume>(volume_));
      mover_ = std::make_unique<BlockMover>(
          *maps_, [this] { return term_; },
          [this](CopyId, const absl::Status& outcome, bool may_land) {
            MutexLock lock(mutex_);
            outcome_ = outcome;
            may_land_ = may_land;
            ended_.NotifyOne();
          });
    }
    mover_->Order({.id = CopyId(1), .copies = std::move(copies)});
    MutexLock lock(mutex_);
    while (!outcome_) ended_.Wait(mutex_);
    return *std::exchange(outcome_, std::nullopt);
  }
  // What a host would find after a loss of power; the run lies within one unit of a LUN.
  std::string Durable(std::uint64_t block, std::uint64_t length) const {
    const std::uint64_t unit = block / 4;
    return luns_[unit % 2]->DurableContent(kMiB + (unit / 2 * 4 + block % 4) * kBlockBytes,
                                           length * kBlockBytes);
  }

  OpenVolume volume_;
  std::optional<VolumeMaps> maps_;
  std::vector<FaultyLun*> luns_;
  absl::Status term_;
  Mutex mutex_;
  CondVar ended_;
  std::optional<absl::Status> outcome_ ABSL_GUARDED_BY(mutex_);
  bool may_land_ = false;
  std::unique_ptr<BlockMover> mover_;
};

TEST_F(BlockMoverTest, WhatCountsAsCopiedIsDurable) {
  const std::string first = Durable(2, 2), last = Durable(20, 4);
  ASSERT_TRUE(Do({Copy(2, 802, 2), Copy(20, 1'000, 4)}).ok());
  EXPECT_EQ(Durable(802, 2), first);
  EXPECT_EQ(Durable(1'000, 4), last);
  EXPECT_EQ(luns_[0]->unflushed_writes() + luns_[1]->unflushed_writes(), 0u);
}

TEST_F(BlockMoverTest, ACopyCrossesUnitsAndChunks) {
  std::vector<std::string> before;
  for (std::uint64_t block = 3; block < 303; ++block) before.push_back(Durable(block, 1));
  ASSERT_TRUE(Do({Copy(3, 5'002, 300)}).ok());
  for (std::uint64_t i = 0; i < 300; ++i) EXPECT_EQ(Durable(5'002 + i, 1), before[i]) << i;
}

TEST_F(BlockMoverTest, NothingIsSentWhenTheTermIsOver) {
  term_ = absl::AbortedError("the term is over");
  const auto before = luns_[0]->counters();
  EXPECT_EQ(Do({Copy(0, 800, 4)}).code(), absl::StatusCode::kAborted);
  EXPECT_EQ(luns_[0]->counters().writes, before.writes);
  EXPECT_FALSE(may_land_);
}

TEST_F(BlockMoverTest, AWriteOfUnknownOutcomeMayLand) {
  luns_[1]->FailNext(1, LunFault::kUnknown);
  EXPECT_FALSE(Do({Copy(0, 804, 4)}).ok());  // its old blocks lie on the other LUN
  EXPECT_TRUE(may_land_);
}

TEST_F(BlockMoverTest, AWriteThatWasAbortedIsOver) {
  luns_[1]->FailNext(1, LunFault::kAborted);
  EXPECT_FALSE(Do({Copy(0, 804, 4)}).ok());
  EXPECT_FALSE(may_land_);
}

TEST_F(BlockMoverTest, AFlushThatFailsIsNoCopy) {
  luns_[1]->FailFlush(1);
  EXPECT_FALSE(Do({Copy(0, 804, 4)}).ok());
}

TEST_F(BlockMoverTest, WhatIsReadBackOtherwiseIsNoCopy) {
  const std::shared_ptr<Lun> sound =
      std::exchange(volume_.luns[1], std::make_unique<ForgetfulLun>(*luns_[1]));
  const absl::Status outcome = Do({Copy(0, 804, 4)});
  EXPECT_EQ(outcome.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(outcome.message()), testing::HasSubstr("blocks from 804 on"));
  mover_->Stop();
}

}  // namespace
}  // namespace reel::mdc
