#include "volume/testing/shared_lun.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "volume/base/aligned_buffer.h"
#include "volume/lun/lun_fault.h"
#include "volume/testing/faulty_lun.h"

namespace reel {
namespace {

using ::testing::ElementsAre;
using Outcome = ReservationResult::Outcome;

class SharedLunTest : public ::testing::Test {
 protected:
  static absl::Status Write(Lun& lun, int byte) {
    AlignedBuffer block(4096);
    std::memset(block.data(), byte, block.size());
    return lun.Write(0, block.span());
  }
  int First() {
    const AlignedBuffer block(4096);
    EXPECT_TRUE(bytes_.Read(0, block.span()).ok());
    return static_cast<int>(*block.data());
  }

  FaultyLun bytes_;
  SharedLun target_{bytes_};
  std::unique_ptr<Lun> mdc_ = target_.NewPath("mdc");
  std::unique_ptr<Lun> host_ = target_.NewPath("host");
};

TEST_F(SharedLunTest, OnlyRegistrantsWriteAndAPreemptedOneDoesNot) {
  EXPECT_TRUE(Write(*host_, 1).ok());
  ASSERT_TRUE(mdc_->reservations()->Register(1).done());
  ASSERT_TRUE(mdc_->reservations()->Reserve(1).done());
  EXPECT_TRUE(IsFenced(Write(*host_, 2)));
  ASSERT_TRUE(host_->reservations()->Register(2).done());
  EXPECT_EQ(host_->reservations()->Register(3).outcome, Outcome::kConflict);
  EXPECT_TRUE(Write(*host_, 3).ok());
  EXPECT_THAT(target_.Keys(), ElementsAre(1, 2));
  ASSERT_TRUE(mdc_->reservations()->Preempt(1, 2).done());
  EXPECT_EQ(mdc_->reservations()->Preempt(1, 2).outcome, Outcome::kConflict);
  EXPECT_TRUE(IsFenced(Write(*host_, 4)));
  EXPECT_EQ(First(), 3);
}

TEST_F(SharedLunTest, AHeldWriteLandsAfterItsPathIsLostUnlessReset) {
  for (const bool reset : {false, true}) {
    ASSERT_TRUE(Write(*mdc_, 0).ok());
    target_.HoldWrites();
    std::thread writer([&] { EXPECT_EQ(FaultOf(Write(*host_, 7)), LunFault::kUnknown); });
    while (target_.held_writes() == 0) std::this_thread::yield();
    target_.Cut("host");
    writer.join();
    EXPECT_EQ(FaultOf(Write(*host_, 8)), LunFault::kClosed);
    EXPECT_EQ(reset && mdc_->reservations()->ResetLun().done(), reset);
    target_.ReleaseWrites();
    EXPECT_EQ(First(), reset ? 0 : 7);
    EXPECT_TRUE(host_->Reopen().ok());
  }
}

TEST_F(SharedLunTest, AnUnknownChangeIsCarriedOutOrNot) {
  target_.LoseNextChange(false);
  EXPECT_EQ(mdc_->reservations()->Register(1).outcome, Outcome::kUnknown);
  EXPECT_THAT(target_.Keys(), ElementsAre());
  target_.LoseNextChange(true);
  EXPECT_EQ(mdc_->reservations()->Register(1).outcome, Outcome::kUnknown);
  EXPECT_THAT(target_.Keys(), ElementsAre(1));
  target_.Restart();
  EXPECT_EQ(FaultOf(mdc_->reservations()->ReadKeys().status()), LunFault::kClosed);
  EXPECT_TRUE(mdc_->Reopen().ok());
  EXPECT_THAT(mdc_->reservations()->ReadKeys()->keys, ElementsAre());
}

}  // namespace
}  // namespace reel
