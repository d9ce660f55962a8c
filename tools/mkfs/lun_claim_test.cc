// mkfs takes the LUNs of a volume that was there before, while hosts of it still have writes.
#include "tools/mkfs/lun_claim.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tools/mkfs/forced_luns.h"
#include "volume/base/aligned_buffer.h"
#include "volume/format/label.h"
#include "volume/format/reservation_key.h"
#include "volume/lun/lun_fault.h"
#include "volume/testing/faulty_lun.h"
#include "volume/testing/sample_volume.h"
#include "volume/testing/shared_lun.h"

namespace reel::tools {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class LunClaimTest : public ::testing::Test {
 protected:
  LunClaimTest() : former_(Uuid::Random()) {
    EXPECT_TRUE(WriteLabel(bytes_, {.lun = Uuid::Random(),
                                    .name = "a",
                                    .volume = former_,
                                    .size_bytes = bytes_.size_bytes()})
                    .ok());
    volume_ = Open("mkfs");
  }

  OpenVolume Open(const std::string& host) {
    OpenVolume volume;
    volume.descriptor = descriptor_;
    volume.luns.push_back(lun_.NewPath(host));
    return volume;
  }
  // A host that is registered, on a LUN that a controller had.
  std::unique_ptr<Lun> FormerHost(std::uint64_t key) {
    auto host = lun_.NewPath("host");
    controller_ = lun_.NewPath("controller");
    const std::uint64_t controllers = MakeControllerKey(former_, Epoch(7), 1);
    EXPECT_TRUE(controller_->reservations()->Register(controllers).done());
    EXPECT_TRUE(controller_->reservations()->Reserve(controllers).done());
    EXPECT_TRUE(host->reservations()->Register(key).done());
    return host;
  }

  const VolumeDescriptor descriptor_ = SampleVolume({{4, {{16, 1}}}});
  const Uuid former_;
  FaultyLun bytes_{FaultyLun::Options{.name = "a", .size_bytes = 4 * kMiB}};
  SharedLun lun_{bytes_};
  OpenVolume volume_;
  std::unique_ptr<Lun> controller_;
};

TEST_F(LunClaimTest, WhatAHostOfTheFormerVolumeStillHasIsRefused) {
  const auto host = FormerHost(MakeSessionKey(former_, Epoch(7), 1));
  LunClaim claim(volume_);
  ASSERT_TRUE(claim.Take().ok());
  EXPECT_EQ(lun_.resets(), 1) << "what the target has already is over";
  claim.Keep();
  const AlignedBuffer bytes = AlignedBuffer::Zeroed(4096);
  EXPECT_EQ(FaultOf(host->Write(kMiB, bytes.span())), LunFault::kFenced);
  const absl::Status written = volume_.luns[0]->Write(kMiB, bytes.span());
  EXPECT_TRUE(written.ok()) << written;
}

TEST_F(LunClaimTest, TheFirstControllerTakesItOver) {
  {
    LunClaim claim(volume_);
    ASSERT_TRUE(claim.Take().ok());
    EXPECT_EQ(lun_.resets(), 0) << "nobody was there";
    claim.Keep();
  }
  ASSERT_NE(lun_.Holder(), 0U);
  OpenVolume later = Open("controller");
  mdc::Fencer fencer(later);
  std::uint64_t quarantine_ms = 0;
  ASSERT_TRUE(fencer.Take(Epoch(1), &quarantine_ms).ok());
  EXPECT_THAT(lun_.Keys(), ElementsAre(lun_.Holder()));
  EXPECT_TRUE(later.luns[0]->Flush().ok());
}

TEST_F(LunClaimTest, AVolumeThatIsNotMadeKeepsNothing) {
  {
    LunClaim claim(volume_);
    ASSERT_TRUE(claim.Take().ok());
  }
  EXPECT_THAT(lun_.Keys(), IsEmpty());
  EXPECT_EQ(lun_.Holder(), 0U);
}

TEST_F(LunClaimTest, WhatIsOfSomethingElseStays) {
  const auto host = FormerHost(/*key=*/0x1234);
  const auto keys = lun_.Keys();
  LunClaim claim(volume_);
  const absl::Status taken = claim.Take();
  EXPECT_TRUE(absl::IsFailedPrecondition(taken));
  EXPECT_THAT(std::string(taken.message()), HasSubstr("reel-label unreserve"));
  EXPECT_EQ(lun_.Keys(), keys);
}

TEST_F(LunClaimTest, WhereOneIsOfSomethingElseAllStay) {
  const auto host = FormerHost(MakeSessionKey(former_, Epoch(7), 1));
  const auto keys = lun_.Keys();
  FaultyLun other_bytes{FaultyLun::Options{.name = "b", .size_bytes = 4 * kMiB}};
  SharedLun other{other_bytes};
  const auto stranger = other.NewPath("stranger");
  ASSERT_TRUE(stranger->reservations()->Register(0x1234).done());
  const auto second = other.NewPath("mkfs");
  EXPECT_TRUE(absl::IsFailedPrecondition(
      EndFormerRegistrations({volume_.luns[0].get(), second.get()}).status()));
  EXPECT_EQ(lun_.Keys(), keys);
}

// Its seat is where this host does not see it: a controller may be at work there.
TEST_F(LunClaimTest, NobodyIsCutOffWhoMayBeServed) {
  std::vector<std::vector<PickedLun>> picked(1);
  picked[0].emplace_back().lun = lun_.NewPath("mkfs");
  EXPECT_TRUE(CheckForcedLuns(picked, {}).ok()) << "nobody is registered";
  const auto host = FormerHost(MakeSessionKey(former_, Epoch(7), 1));
  const absl::Status refused = CheckForcedLuns(picked, {});
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("--luns"));
}

}  // namespace
}  // namespace reel::tools
