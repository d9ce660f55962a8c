// A tool at work on a volume, as controllers of other hosts see it.
#include "mdc/serve/tool_seat.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "mdc/seat/seat_check.h"
#include "mdc/seat/succession.h"
#include "mdc/testing/test_volume.h"

namespace reel::mdc {
namespace {

class ToolSeatTest : public testing::Test {
 protected:
  ToolSeatTest() {
    elsewhere_.volume = volume_.descriptor().volume;
    elsewhere_.machine = Uuid::Random();
    elsewhere_.host = "mdc2";
    elsewhere_.address = "mdc2:7440";
    auto lun = SeatLun::Open(volume_.paths()[0], elsewhere_.volume);
    EXPECT_TRUE(lun.ok()) << lun.status();
    lun_ = *std::move(lun);
  }
  absl::StatusOr<std::unique_ptr<ToolSeat>> Take() {
    auto volume = OpenVolumeByName("reel", volume_.paths(), LunAccess::kReadWrite);
    if (!volume.ok()) return volume.status();
    return ToolSeat::Take(
        *std::move(volume), "tool 1", [](const absl::Status& status) { FAIL() << status; },
        SystemClock());
  }
  SeatLook Look() { return *lun_->Look(SystemClock()); }

  TestVolumeOnImages volume_;
  SeatOptions elsewhere_;
  std::unique_ptr<SeatLun> lun_;
};

TEST_F(ToolSeatTest, AnotherControllerSeesTheToolsBeats) {
  auto tool = Take();
  ASSERT_TRUE(tool.ok()) << tool.status();
  SeatWatch watch(elsewhere_);
  EXPECT_EQ(watch.Consider(Look()), SeatWatch::Verdict::kHeld);
  while (!watch.SawChange()) {  // it beats
    ASSERT_EQ(watch.Consider(Look()), SeatWatch::Verdict::kHeld);
  }
  EXPECT_FALSE(HolderDiedHere(Look(), elsewhere_, Epoch(0)));
  EXPECT_EQ(Look().block->program, "tool 1");
  // Its store is opened in the seat's epoch, and a controller's comes after it.
  EXPECT_EQ(Look().block->epoch, (*tool)->epoch());
  const absl::Status second = Take().status();
  EXPECT_TRUE(absl::IsFailedPrecondition(second)) << second;
  tool->reset();
  EXPECT_EQ(SeatWatch(elsewhere_).Consider(Look()), SeatWatch::Verdict::kFree);
  EXPECT_TRUE(MayFollow(Look(), elsewhere_, /*ordered=*/false).ok());
}

TEST_F(ToolSeatTest, OrdersOfAdministratorsStay) {
  ArbitrationBlock stopped;
  stopped.volume = elsewhere_.volume;
  stopped.stopped = stopped.maintenance = true;
  ASSERT_TRUE(lun_->Write(stopped).done());
  auto tool = Take();
  ASSERT_TRUE(tool.ok()) << tool.status();
  EXPECT_TRUE(Look().block->stopped);
  tool->reset();
  EXPECT_EQ(Look().block->state, ArbitrationBlock::State::kFree);
  EXPECT_TRUE(Look().block->stopped);
  EXPECT_TRUE(Look().block->maintenance);
}

TEST_F(ToolSeatTest, TheToolTakesNothingFromABeatingController) {
  ArbitrationBlock block;
  block.state = ArbitrationBlock::State::kHeld;
  block.volume = elsewhere_.volume;
  block.seat_ms = kDefaultSeatMs;
  block.host = "mdc2";
  block.address = "mdc2:7440";
  ASSERT_TRUE(lun_->Write(block).done());
  std::atomic<bool> ended = false;
  std::thread beats([&] {
    for (; !ended; ++block.beat) EXPECT_TRUE(lun_->Write(block).done());
  });
  const absl::Status refused = Take().status();
  ended = true;
  beats.join();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_NE(refused.message().find("mdc2:7440"), refused.message().npos) << refused;
}

}  // namespace
}  // namespace reel::mdc
