// A LUN with two portals, each a proxy before one real target: which of them a path goes by, and
// what moves with it. (Nothing does.)
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "volume/base/aligned_buffer.h"
#include "volume/iscsi/iscsi_path.h"
#include "volume/iscsi/iscsi_portals.h"
#include "volume/lun/lun.h"
#include "volume/lun/lun_fault.h"
#include "volume/lun/reservation.h"
#include "volume/scsi/lun_times.h"
#include "volume/testing/tcp_proxy.h"
#include "volume/testing/tgt_target.h"

namespace reel {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::uint64_t kBytes = 4096;
constexpr std::uint64_t kMine = 0x7e51, kOther = 0x7e52;

// A port at which nobody listens.
int ClosedPort(const TgtTarget& target) {
  return TcpProxy(target.port()).port();
}

TEST(PortalMemoryTest, OnesThatFailedLatelyComeLast) {
  PortalMemory memory;
  const std::vector<std::string> portals{"a", "b", "c"};
  EXPECT_THAT(memory.Order(portals, 0), ElementsAre(0, 1, 2));
  EXPECT_TRUE(memory.NoteFailed("b", 1'000));
  EXPECT_TRUE(memory.NoteFailed("a", 2'000));
  EXPECT_FALSE(memory.NoteFailed("a", 3'000)) << "no news";
  EXPECT_THAT(memory.Order(portals, 3'000), ElementsAre(2, 1, 0));
  EXPECT_THAT(memory.Order(portals, 1'000 + PortalShunMs()), ElementsAre(1, 2, 0));
  EXPECT_TRUE(memory.NoteAnswered("a"));
  EXPECT_FALSE(memory.NoteAnswered("a"));
  EXPECT_THAT(memory.Order(portals, 3'000), ElementsAre(0, 2, 1));
}

class IscsiPortalsTest : public testing::Test {
 protected:
  std::string Url(std::initializer_list<int> ports, const std::string& options = "") const {
    std::string url = "iscsi://";
    for (const int port : ports) {
      absl::StrAppend(&url, url.back() == '/' ? "" : ",", "127.0.0.1:", port);
    }
    const std::string one = target_.Url(1, options);
    return absl::StrCat(url, one.substr(one.find('/', url.find("//") + 2)));
  }
  std::unique_ptr<Lun> Open(const std::string& url) {
    auto lun = OpenLun(url, LunAccess::kReadWrite);
    EXPECT_TRUE(lun.ok()) << lun.status();
    return lun.ok() ? *std::move(lun) : nullptr;
  }
  std::unique_ptr<Lun> OpenBoth(const std::string& options = "") {
    return Open(Url({first_.port(), second_.port()}, options));
  }
  static absl::Status Write(Lun& lun) { return lun.Write(0, AlignedBuffer::Zeroed(kBytes).span()); }
  // A write that is on its way when `then` happens.
  static absl::Status WriteAnd(Lun& lun, TcpProxy& proxy, const std::function<void()>& then) {
    proxy.HoldAnswers();
    absl::Status outcome;
    std::thread writer([&] { outcome = Write(lun); });
    EXPECT_TRUE(proxy.AwaitRequests(kBytes));
    then();
    writer.join();
    return outcome;
  }

  TgtTarget target_;
  TcpProxy first_{target_.port()}, second_{target_.port()};
};

TEST_F(IscsiPortalsTest, APathGoesByTheFirstThatAnswers) {
  const auto lun = OpenBoth();
  ASSERT_NE(lun, nullptr);
  EXPECT_EQ(first_.connections(), 1);
  EXPECT_EQ(second_.connections(), 0);
  const auto past = Open(Url({ClosedPort(target_), second_.port()}));
  ASSERT_NE(past, nullptr);
  EXPECT_EQ(second_.connections(), 1);
  EXPECT_TRUE(Write(*past).ok());
}

TEST_F(IscsiPortalsTest, ASilentPortalHoldsOneOpenUpAndNotEach) {
  first_.HoldAnswers();
  const std::string url = Url({first_.port(), second_.port()});
  for (int i = 1; i <= 3; ++i) {
    const auto lun = Open(url);
    ASSERT_NE(lun, nullptr);
    EXPECT_EQ(second_.connections(), i);
    EXPECT_EQ(first_.connections(), 1);
  }
}

TEST_F(IscsiPortalsTest, ALostPathGoesOnByTheOtherAndLaterByTheFirstAgain) {
  const auto lun = OpenBoth();
  ASSERT_NE(lun, nullptr);
  for (int round = 1; round <= 2; ++round) {
    for (TcpProxy* lost : {&first_, &second_}) {
      TcpProxy& next = lost == &first_ ? second_ : first_;
      const int before = next.connections();
      // As with one portal: of unknown outcome, nothing is sent again, and it is for others to
      // mend.
      const absl::Status unknown = WriteAnd(*lun, *lost, [&] { lost->Cut(); });
      EXPECT_EQ(FaultOf(unknown), LunFault::kUnknown) << unknown;
      EXPECT_EQ(FaultOf(Write(*lun)), LunFault::kClosed);
      EXPECT_EQ(next.connections(), before) << "it went on by itself";
      ASSERT_TRUE(lun->Reopen().ok());
      EXPECT_EQ(next.connections(), before + 1);
      EXPECT_EQ(lost->connections(), round) << "the lost one is the last to be tried";
      EXPECT_TRUE(Write(*lun).ok());
    }
  }
}

TEST_F(IscsiPortalsTest, APathWithoutAnotherPortalComesBackByTheLostOne) {
  const auto lun = Open(Url({first_.port(), ClosedPort(target_)}));
  ASSERT_NE(lun, nullptr);
  first_.Cut();
  EXPECT_FALSE(Write(*lun).ok());
  EXPECT_TRUE(lun->Reopen().ok());
  EXPECT_EQ(first_.connections(), 2);
}

TEST_F(IscsiPortalsTest, AKeyDoesNotMoveWithThePath) {
  const auto lun = OpenBoth(), other = OpenBoth();
  ASSERT_TRUE(lun->reservations()->Register(kMine).done());
  ASSERT_TRUE(other->reservations()->Register(kOther).done());
  ASSERT_TRUE(other->reservations()->Reserve(kOther).done());
  ASSERT_TRUE(Write(*lun).ok());
  first_.Cut();
  EXPECT_FALSE(Write(*lun).ok());
  ASSERT_TRUE(lun->Reopen().ok());
  EXPECT_TRUE(IsFenced(Write(*lun))) << "another nexus, which nobody has registered";
  ASSERT_TRUE(lun->reservations()->Register(kMine).done());
  EXPECT_TRUE(Write(*lun).ok());
}

TEST_F(IscsiPortalsTest, APathThatWasFencedStaysSoByTheOtherPortal) {
  const auto lun = OpenBoth(), other = OpenBoth();
  ASSERT_TRUE(lun->reservations()->Register(kMine).done());
  ASSERT_TRUE(other->reservations()->Register(kOther).done());
  ASSERT_TRUE(other->reservations()->Reserve(kOther).done());
  first_.Cut();  // both paths
  EXPECT_FALSE(Write(*lun).ok());
  EXPECT_FALSE(Write(*other).ok());
  ASSERT_TRUE(other->Reopen().ok());
  const auto controller = OpenBoth();
  ASSERT_TRUE(controller->reservations()->Register(kOther + 1).done());
  ASSERT_TRUE(controller->reservations()->Preempt(kOther + 1, kMine).done());
  ASSERT_TRUE(lun->Reopen().ok());
  EXPECT_TRUE(IsFenced(Write(*lun)));
  const auto keys = controller->reservations()->ReadKeys();
  ASSERT_TRUE(keys.ok()) << keys.status();
  EXPECT_EQ(std::count(keys->keys.begin(), keys->keys.end(), kMine), 0) << "it came back by itself";
}

TEST_F(IscsiPortalsTest, ASilentPortalIsLostLongBeforeACommandsTime) {
  const auto lun = OpenBoth("timeout_ms=120000");
  ASSERT_NE(lun, nullptr);
  const auto began = std::chrono::steady_clock::now();
  const absl::Status unknown = WriteAnd(*lun, first_, [] {});
  EXPECT_EQ(FaultOf(unknown), LunFault::kUnknown) << unknown;
  EXPECT_THAT(std::string(unknown.message()), HasSubstr("silent"));
  const auto took = std::chrono::steady_clock::now() - began;
  EXPECT_GE(took, std::chrono::milliseconds(PortalAnswerMs()));
  EXPECT_LT(took, std::chrono::milliseconds(10 * PortalAnswerMs()));
  ASSERT_TRUE(lun->Reopen().ok());
  EXPECT_EQ(second_.connections(), 1);
}

TEST_F(IscsiPortalsTest, AnIdlePathAsksWhetherItsPortalIsThere) {
  const auto lun = OpenBoth();
  first_.HoldAnswers();
  EXPECT_TRUE(first_.AwaitRequests(48)) << "a NOP-Out";
}

TEST_F(IscsiPortalsTest, APortalThatLeadsToAnotherLunIsNotTaken) {
  TgtTarget stranger({.luns = 1, .lun_bytes = 8 << 20, .chap_user = "", .chap_secret = ""});
  const auto lun = Open(Url({first_.port(), stranger.port()}));
  ASSERT_NE(lun, nullptr);
  first_.Cut();
  EXPECT_FALSE(Write(*lun).ok());
  ASSERT_TRUE(lun->Reopen().ok());
  EXPECT_EQ(first_.connections(), 2) << "the one that leads to it";
}

TEST_F(IscsiPortalsTest, WhereNoneLeadsToTheLunEachIsNamedWithWhatItSays) {
  const int closed = ClosedPort(target_);
  std::string url = Url({closed, first_.port()});
  url.replace(url.find(":target/"), 8, ":nowhere/");
  const absl::Status status = OpenLun(url, LunAccess::kReadWrite).status();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr(absl::StrCat("by portal 127.0.0.1:", closed)),
                    HasSubstr(absl::StrCat("; by portal 127.0.0.1:", first_.port())),
                    Not(HasSubstr("\n"))));
}

TEST_F(IscsiPortalsTest, EachPortalIsLookedAtByItself) {
  TgtTarget stranger({.luns = 1, .lun_bytes = 8 << 20, .chap_user = "", .chap_secret = ""});
  const auto url =
      ParseIscsiUrl(Url({first_.port(), ClosedPort(target_), stranger.port(), second_.port()}));
  ASSERT_TRUE(url.ok()) << url.status();
  const auto looks = LookAtPortals(*url);
  ASSERT_EQ(looks.size(), 4U);
  EXPECT_TRUE(looks[0].status.ok()) << looks[0].status;
  EXPECT_TRUE(absl::IsUnavailable(looks[1].status)) << looks[1].status;
  EXPECT_TRUE(absl::IsFailedPrecondition(looks[2].status)) << looks[2].status;
  EXPECT_TRUE(looks[3].status.ok()) << looks[3].status;
}

}  // namespace
}  // namespace reel
