// reeladm qos against made-up answers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/commands/command_table.h"
#include "tools/commands/testing/fake_api.h"

namespace reel::tools {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class QosCommandsTest : public ::testing::Test {
 protected:
  QosCommandsTest() {
    api_.AddVolume("reel1");
    api_.Answer("Bandwidth", bandwidth_);
    v1::BandwidthReply::Set& set = *bandwidth_.add_sets();
    set.set_pool("data");
    set.set_rate_bytes(1000 << 20);
    set.set_rate_requests(40'000);
    set.set_reservable_bytes(900 << 20);
    set.set_others_percent(100);
  }
  void AddReservation() {
    bandwidth_.mutable_sets(0)->set_dealt(true);
    bandwidth_.mutable_sets(0)->set_others_percent(80);
    v1::BandwidthReply::Reservation& one = *bandwidth_.add_reservations();
    one.set_reservation(3);
    one.mutable_record()->set_kind(v1::RESERVATION_CLIENT);
    one.mutable_record()->set_name("grade1");
    one.mutable_record()->set_rate_bytes(288 << 20);
    one.mutable_record()->set_frames(24);
    one.mutable_record()->set_frame_bytes(12 << 20);
    one.set_used_bytes(200 << 20);
    v1::BandwidthReply::Share& share = *bandwidth_.add_shares();
    share.set_session(5);
    share.set_host("ws2");
    share.set_pool("data");
    share.set_rate_bytes(700 << 20);
    share.set_held(true);
  }
  std::string Run(const Words& words) {
    auto outcome = RunAdminCommand(context_, words);
    EXPECT_TRUE(outcome.ok()) << outcome.status();
    return outcome.value_or("");
  }
  int ExitCode(const Words& words) {
    return AdminExitCode(RunAdminCommand(context_, words).status());
  }

  FakeApi api_;
  v1::BandwidthReply bandwidth_;
  AdminContext context_{.api = api_, .volume = {}};
};

TEST_F(QosCommandsTest, WithoutReservationsItSaysThatNobodyIsHeldBack) {
  EXPECT_THAT(Run({"qos"}), ContainsRegex("data/0 +1000 MiB/s +40000 +900 MiB/s"));
  EXPECT_THAT(Run({"qos"}), HasSubstr("nobody is held back"));
}

TEST_F(QosCommandsTest, ReservationsAndWhatEachGets) {
  AddReservation();
  const std::string text = Run({"qos"});
  EXPECT_THAT(text, ContainsRegex("3 +client +grade1 +- +288 MiB/s +24 x 12 MiB +- +200 MiB/s"));
  EXPECT_THAT(text, ContainsRegex("5 +ws2 +data/0 +- +700 MiB/s +0 B/s +yes"));
  EXPECT_THAT(text, HasSubstr("80 %"));
  EXPECT_THAT(text, Not(HasSubstr("nobody is held back")));
  bandwidth_.add_unpaced("ws9");
  EXPECT_THAT(Run({"qos"}), HasSubstr("Not held back: ws9"));
}

TEST_F(QosCommandsTest, ACapacityIsOfAPoolOrOfOneSet) {
  Run({"qos", "capacity", "data", "1600M", "40000"});
  auto asked = api_.Asked<v1::SetBandwidthRequest>().capacity();
  EXPECT_EQ(asked.pool(), "data");
  EXPECT_FALSE(asked.has_stripe_set());
  EXPECT_EQ(asked.rate_bytes(), 1600u << 20);
  EXPECT_EQ(asked.rate_requests(), 40'000u);
  Run({"qos", "capacity", "data/1", "none"});
  asked = api_.Asked<v1::SetBandwidthRequest>().capacity();
  EXPECT_EQ(asked.stripe_set(), 1u);
  EXPECT_EQ(asked.rate_bytes(), 0u);
  EXPECT_EQ(ExitCode({"qos", "capacity", "data/x", "1G"}), 2);
  EXPECT_EQ(ExitCode({"qos", "capacity", "data"}), 2);
}

TEST_F(QosCommandsTest, AReservationIsInBytesOrInFrames) {
  Run({"qos", "reserve", "client", "grade1", "24x12M"});
  auto asked = api_.Asked<v1::SetBandwidthRequest>().reserve();
  EXPECT_EQ(asked.kind(), v1::RESERVATION_CLIENT);
  EXPECT_EQ(asked.rate_bytes(), 288u << 20);
  EXPECT_EQ(asked.frames(), 24u);
  Run({"qos", "reserve", "tree", "dailies", "400M", "data", "fast"});
  asked = api_.Asked<v1::SetBandwidthRequest>().reserve();
  EXPECT_EQ(asked.kind(), v1::RESERVATION_TREE);
  EXPECT_EQ(asked.pools_size(), 2);
  EXPECT_EQ(ExitCode({"qos", "reserve", "client", "grade1", "quick"}), 2);
  EXPECT_EQ(ExitCode({"qos", "reserve", "disk", "grade1", "1G"}), 2);
  EXPECT_EQ(ExitCode({"qos", "reserve", "file", "/proc/self/maps", "1G"}), 1);
}

TEST_F(QosCommandsTest, AReleaseIsByNameOrByNumber) {
  Run({"qos", "release", "client", "grade1"});
  EXPECT_EQ(api_.Asked<v1::SetBandwidthRequest>().release().name(), "grade1");
  Run({"qos", "release", "3"});
  EXPECT_EQ(api_.Asked<v1::SetBandwidthRequest>().release().reservation(), 3u);
  EXPECT_EQ(ExitCode({"qos", "release", "all"}), 2);
}

}  // namespace
}  // namespace reel::tools
