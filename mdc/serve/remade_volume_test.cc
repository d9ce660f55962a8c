// A controller that has a volume open whose LUNs become another volume's: it takes nothing of that
// one, and writes nothing to it; where the new one has the name, it is a candidate of that.
#include <gtest/gtest.h>

#include <chrono>

#include "absl/strings/str_cat.h"
#include "mdc/seat/seat_lun.h"
#include "mdc/serve/candidate.h"
#include "mdc/serve/takeover.h"
#include "mdc/serve/volume_server.h"
#include "mdc/testing/test_volume.h"
#include "volume/base/aligned_buffer.h"
#include "volume/base/coding.h"

namespace reel::mdc {
namespace {

class RemadeVolumeTest : public testing::Test {
 protected:
  VolumeServerOptions Options() {
    VolumeServerOptions options;
    options.volume = "reel";
    options.luns = volume_.paths();
    options.on_failure = [](const absl::Status& status) { ADD_FAILURE() << status; };
    return options;
  }
  SeatOptions Seat() {
    SeatOptions seat;
    seat.volume = volume_.descriptor().volume;
    return seat;
  }
  Contest Open() {
    Contest contest;
    auto volume = OpenVolumeByName("reel", volume_.paths(), LunAccess::kReadWrite);
    EXPECT_TRUE(volume.ok()) << volume.status();
    contest.volume = std::make_unique<OpenVolume>(*std::move(volume));
    auto lun = SeatLun::Open(contest.volume->seat_name(), contest.volume->descriptor.volume);
    EXPECT_TRUE(lun.ok()) << lun.status();
    contest.lun = *std::move(lun);
    contest.claimed = true;
    return contest;
  }
  // From now on its label says that the LUN is another volume's.
  void Relabel(std::size_t number, const Uuid& volume) {
    auto lun = OpenLun(volume_.paths()[number], LunAccess::kReadWrite);
    ASSERT_TRUE(lun.ok());
    auto reading = ReadLabel(**lun);
    ASSERT_TRUE(reading.ok());
    reading->label.volume = volume;
    ++reading->label.generation;
    ASSERT_TRUE(WriteLabel(**lun, reading->label).ok());
  }
  // Its controller is at work.
  ArbitrationBlock BlockOfOther() {
    ArbitrationBlock block;
    block.state = ArbitrationBlock::State::kHeld;
    block.volume = other_;
    block.epoch = Epoch(1);
    block.beat = 5;
    block.holder = Uuid::Random();
    block.seat_ms = 1500;
    block.host = "other";
    return block;
  }
  void WriteBlock(const ArbitrationBlock& block) {
    auto lun = OpenLun(volume_.paths()[0], LunAccess::kReadWrite);
    ASSERT_TRUE(lun.ok());
    ASSERT_TRUE(WriteArbitration(**lun, block).ok());
  }
  // The beginning of both LUNs: all that a takeover would write to first.
  std::string Bytes() {
    constexpr std::size_t kLooked = 4 * kMiB;
    std::string bytes;
    for (const std::string& path : volume_.paths()) {
      auto lun = OpenLun(path, LunAccess::kReadOnly);
      const AlignedBuffer buffer(kLooked);
      EXPECT_TRUE((*lun)->Read(0, buffer.span()).ok());
      bytes += AsText(buffer.span());
    }
    return bytes;
  }

  TestVolumeOnImages volume_;
  const Uuid other_ = Uuid::Random();
};

TEST_F(RemadeVolumeTest, AForgottenStandbyTakesNothingOfAnotherVolume) {
  Contest contest = Open();
  contest.look = *contest.lun->Look(SystemClock());
  Relabel(0, other_);
  Relabel(1, other_);
  WriteBlock(BlockOfOther());
  const std::string before = Bytes();
  EXPECT_TRUE(absl::IsFailedPrecondition(contest.lun->Look(SystemClock()).status()));
  const Takeover takeover = TakeOver(contest, Options(), Seat(), SystemClock());
  EXPECT_TRUE(absl::IsFailedPrecondition(takeover.status)) << takeover.status;
  EXPECT_EQ(takeover.server, nullptr);
  EXPECT_EQ(Bytes(), before);
}

TEST_F(RemadeVolumeTest, AVolumeThatLostALunToAnotherIsNotTaken) {
  Contest contest = Open();
  contest.look = *contest.lun->Look(SystemClock());
  Relabel(1, other_);
  const std::string before = Bytes();
  const Takeover takeover = TakeOver(contest, Options(), Seat(), SystemClock());
  EXPECT_TRUE(absl::IsFailedPrecondition(takeover.status)) << takeover.status;
  EXPECT_FALSE(takeover.won);
  EXPECT_EQ(Bytes(), before);
}

TEST_F(RemadeVolumeTest, ALunWhoseLabelIsDamagedIsStillItsVolumes) {
  Contest contest = Open();
  auto lun = OpenLun(volume_.paths()[0], LunAccess::kReadWrite);
  const AlignedBuffer zeros = AlignedBuffer::Zeroed(kLabelBytes);
  ASSERT_TRUE((*lun)->Write(kLabelOffset, zeros.span()).ok());
  EXPECT_TRUE(contest.lun->Look(SystemClock()).ok()) << "by the copy";
  ASSERT_TRUE((*lun)->Write(kLabelCopyOffset, zeros.span()).ok());
  EXPECT_TRUE(contest.lun->Look(SystemClock()).ok()) << "fsck.reelfs can mend it";
}

TEST_F(RemadeVolumeTest, ACandidateFollowsTheNameToTheNewVolume) {
  VolumeRole role("reel");
  auto candidate = Candidate::Open(Options(), Seat(), role, SystemClock());
  ASSERT_TRUE(candidate.ok()) << candidate.status();
  volume_.Remake();
  auto server = (*candidate)->Begin();
  ASSERT_TRUE(server.ok()) << server.status();
  ASSERT_NE(*server, nullptr);
  EXPECT_EQ(role.volume(), volume_.descriptor().volume);
  EXPECT_TRUE((*server)->Stop({}).ok());
}

}  // namespace
}  // namespace reel::mdc
