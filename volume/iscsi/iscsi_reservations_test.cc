// Reservations of a real target, as the controller uses them to fence hosts.
#include "volume/iscsi/iscsi_reservations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "volume/base/aligned_buffer.h"
#include "volume/lun/io_batch.h"
#include "volume/lun/lun_fault.h"
#include "volume/testing/tcp_proxy.h"
#include "volume/testing/tgt_target.h"

namespace reel {
namespace {

using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;
using Outcome = ReservationResult::Outcome;

constexpr std::uint64_t kMdc = 0x4d44430000000001;
constexpr std::uint64_t kNextMdc = 0x4d44430000000002;
constexpr std::uint64_t kHost = 0x484f535400000001;

// One path to the LUN: a host.
class Path {
 public:
  explicit Path(const std::string& url) {
    auto lun = OpenLun(url, LunAccess::kReadWrite);
    EXPECT_TRUE(lun.ok()) << lun.status();
    if (lun.ok()) lun_ = *std::move(lun);
  }
  Lun& lun() { return *lun_; }
  Reservations& keys() { return *lun_->reservations(); }
  absl::Status Write() {
    return lun_->Write(0, AlignedBuffer::Zeroed(lun_->logical_block_bytes()).span());
  }
  absl::Status Read() {
    const AlignedBuffer block(lun_->logical_block_bytes());
    return lun_->Read(0, block.span());
  }
  std::vector<std::uint64_t> Keys() {
    const auto registrations = keys().ReadKeys();
    EXPECT_TRUE(registrations.ok()) << registrations.status();
    return registrations.ok() ? registrations->keys : std::vector<std::uint64_t>();
  }
  std::uint64_t Holder() {
    const auto holder = keys().ReadHolder();
    EXPECT_TRUE(holder.ok()) << holder.status();
    if (!holder.ok() || !holder->has_value()) return 0;
    EXPECT_TRUE((*holder)->write_exclusive_registrants_only);
    return (*holder)->key;
  }

 private:
  std::unique_ptr<Lun> lun_;
};

class IscsiReservationsTest : public ::testing::Test {
 protected:
  // The controller holds the reservation, and a host is registered.
  void SetUpVolume() {
    ASSERT_TRUE(mdc_.keys().Register(kMdc).done());
    ASSERT_TRUE(mdc_.keys().Reserve(kMdc).done());
    ASSERT_TRUE(host_.keys().Register(kHost).done());
  }

  TgtTarget target_;
  TcpProxy proxy_{target_.port()};
  Path mdc_{target_.Url()};
  Path host_{target_.Url(1, "", proxy_.port())};
  Path stranger_{target_.Url()};
};

TEST_F(IscsiReservationsTest, OnlyRegistrantsWrite) {
  EXPECT_THAT(mdc_.Keys(), IsEmpty());
  EXPECT_EQ(mdc_.Holder(), 0U);
  EXPECT_TRUE(stranger_.Write().ok());
  SetUpVolume();
  EXPECT_THAT(stranger_.Keys(), UnorderedElementsAre(kMdc, kHost));
  EXPECT_EQ(stranger_.Holder(), kMdc);
  EXPECT_TRUE(mdc_.Write().ok());
  EXPECT_TRUE(host_.Write().ok());
  EXPECT_TRUE(IsFenced(stranger_.Write()));
  EXPECT_TRUE(stranger_.Read().ok());
}

TEST_F(IscsiReservationsTest, APathHasOneKey) {
  SetUpVolume();
  EXPECT_EQ(host_.keys().Register(kNextMdc).outcome, Outcome::kConflict);
  EXPECT_THAT(host_.Keys(), UnorderedElementsAre(kMdc, kHost));
  EXPECT_EQ(host_.keys().Unregister(kMdc).outcome, Outcome::kConflict);
  EXPECT_TRUE(host_.keys().Unregister(kHost).done());
  EXPECT_TRUE(IsFenced(host_.Write()));
  EXPECT_TRUE(host_.keys().Register(kNextMdc).done());
  EXPECT_TRUE(host_.Write().ok());
}

TEST_F(IscsiReservationsTest, APreemptedHostIsFencedForWritesAndReads) {
  SetUpVolume();
  EXPECT_TRUE(host_.Write().ok());
  const ReservationResult preempted = mdc_.keys().Preempt(kMdc, kHost);
  EXPECT_TRUE(preempted.done()) << preempted.status;
  const absl::Status fenced = host_.Write();
  EXPECT_EQ(FaultOf(fenced), LunFault::kFenced) << fenced;
  EXPECT_TRUE(host_.Read().ok());
  EXPECT_EQ(host_.keys().Preempt(kHost, kMdc).outcome, Outcome::kConflict);
  EXPECT_EQ(mdc_.Holder(), kMdc);
  // The same preemption again finds nobody: the loser of a race learns that it lost.
  EXPECT_EQ(mdc_.keys().Preempt(kMdc, kHost).outcome, Outcome::kConflict);
  // What a key that is used twice would do, and why none is.
  EXPECT_TRUE(host_.keys().Register(kHost).done());
  EXPECT_TRUE(host_.Write().ok());
}

TEST_F(IscsiReservationsTest, TheReservationPassesByPreemption) {
  SetUpVolume();
  Path next(target_.Url());
  EXPECT_TRUE(next.keys().Register(kNextMdc).done());
  EXPECT_EQ(next.keys().Reserve(kNextMdc).outcome, Outcome::kConflict);
  EXPECT_TRUE(next.keys().Preempt(kNextMdc, kMdc).done());
  EXPECT_EQ(next.Holder(), kNextMdc);
  EXPECT_TRUE(IsFenced(mdc_.Write()));
  EXPECT_TRUE(host_.Write().ok());
}

TEST_F(IscsiReservationsTest, AResetKeepsRegistrationsAndHealthyHostsGoOn) {
  SetUpVolume();
  ASSERT_TRUE(mdc_.keys().Preempt(kMdc, kHost).done());
  ASSERT_TRUE(host_.keys().Register(kNextMdc).done());
  const ReservationResult reset = mdc_.keys().ResetLun();
  EXPECT_TRUE(reset.done()) << reset.status;
  EXPECT_THAT(mdc_.Keys(), UnorderedElementsAre(kMdc, kNextMdc));
  EXPECT_EQ(mdc_.Holder(), kMdc);
  EXPECT_TRUE(host_.Write().ok()) << "the unit attention is not the host's to see";
  EXPECT_TRUE(mdc_.Write().ok());
  EXPECT_TRUE(IsFenced(stranger_.Write()));
}

TEST_F(IscsiReservationsTest, AResetWaitsForOwnCommandsAndHarmsNone) {
  SetUpVolume();
  const AlignedBuffer data = AlignedBuffer::Zeroed(16 << 20);
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    while (!stop) {
      IoBatch batch;
      batch.Add(mdc_.lun(), LunRequest::Kind::kWrite, 0, {data.data(), data.size()});
      const absl::Status status = batch.Run();
      EXPECT_TRUE(status.ok()) << status;
    }
  });
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(mdc_.keys().ResetLun().done());
  stop = true;
  writer.join();
}

TEST_F(IscsiReservationsTest, ClearTakesAllAway) {
  SetUpVolume();
  EXPECT_EQ(stranger_.keys().Clear(kMdc).outcome, Outcome::kConflict);
  EXPECT_TRUE(mdc_.keys().Clear(kMdc).done());
  EXPECT_THAT(mdc_.Keys(), IsEmpty());
  EXPECT_EQ(mdc_.Holder(), 0U);
  EXPECT_TRUE(stranger_.Write().ok());
}

TEST_F(IscsiReservationsTest, APathThatIsOpenedAgainHasNoKey) {
  SetUpVolume();
  proxy_.Cut();
  EXPECT_FALSE(host_.Write().ok());
  EXPECT_EQ(host_.keys().Register(kHost).outcome, Outcome::kNotDone);
  ASSERT_TRUE(host_.lun().Reopen().ok());
  EXPECT_TRUE(IsFenced(host_.Write()));
}

TEST_F(IscsiReservationsTest, AChangeThatIsCutOffIsUnknown) {
  SetUpVolume();
  proxy_.HoldAnswers();
  ReservationResult result;
  std::thread changer([&] { result = host_.keys().Unregister(kHost); });
  EXPECT_TRUE(proxy_.AwaitRequests(scsi::kReserveOutBytes));
  proxy_.Cut();
  changer.join();
  EXPECT_EQ(result.outcome, Outcome::kUnknown) << result.status;
  EXPECT_EQ(FaultOf(result.status), LunFault::kUnknown);
}

}  // namespace
}  // namespace reel
