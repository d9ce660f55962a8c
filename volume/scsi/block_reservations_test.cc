#include "volume/scsi/block_reservations.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/pr.h>
#include <scsi/sg.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "volume/lun/fd_lun.h"

namespace reel {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;
using Outcome = ReservationResult::Outcome;

std::vector<DevicePath> NoPaths() {
  return {};
}

absl::Status Claimed() {
  return absl::OkStatus();
}

TEST(BlockReservationsTest, NothingIsRegisteredWithoutTheClaim) {
  const UniqueFd nowhere(open("/dev/null", O_RDWR | O_CLOEXEC));
  absl::Status claim = absl::FailedPreconditionError("in use on this host");
  int claims = 0;
  BlockReservations reservations(
      DevicePath("device", [&](unsigned long request,
                               void* argument) { return ioctl(nowhere.get(), request, argument); }),
      NoPaths, [&] {
        ++claims;
        return claim;
      });
  const ReservationResult refused = reservations.Register(7);
  EXPECT_EQ(refused.outcome, Outcome::kNotDone);
  EXPECT_TRUE(absl::IsAborted(refused.status)) << refused.status;
  EXPECT_TRUE(absl::IsAborted(reservations.ClaimPath()));
  claim = absl::OkStatus();
  EXPECT_FALSE(absl::IsAborted(reservations.Register(7).status)) << "it was asked, and has none";
  EXPECT_EQ(claims, 3);
}

// The kernel of a SCSI device, which answers READ KEYS as it is told.
struct Answer {
  int error = 0;  // of the call itself
  std::uint8_t status = 0, key = 0;
  std::uint16_t code = 0;
  std::uint16_t host_status = 0;
};
class AskedDevice {
 public:
  explicit AskedDevice(std::vector<Answer> answers) : answers_(std::move(answers)) {}

  absl::StatusOr<std::unique_ptr<BlockReservations>> Find() {
    return BlockReservations::Find(
        DevicePath("/dev/some-lun", [this](unsigned long request,
                                           void* argument) { return Control(request, argument); }),
        NoPaths, Claimed, std::chrono::milliseconds(50));
  }
  std::size_t questions() const { return questions_; }

 private:
  // The last answer is for all questions that follow.
  int Control(unsigned long request, void* argument) {
    EXPECT_EQ(request, static_cast<unsigned long>(SG_IO));
    const Answer& answer = answers_[std::min(questions_++, answers_.size() - 1)];
    errno = answer.error;
    if (answer.error != 0) return -1;
    auto& header = *static_cast<sg_io_hdr_t*>(argument);
    header.status = answer.status;
    header.host_status = answer.host_status;
    header.sb_len_wr = 0;
    if (answer.status != 2) return 0;
    const std::array<std::uint8_t, 18> sense{0x70,
                                             0,
                                             answer.key,
                                             0,
                                             0,
                                             0,
                                             0,
                                             10,
                                             0,
                                             0,
                                             0,
                                             0,
                                             static_cast<std::uint8_t>(answer.code >> 8),
                                             static_cast<std::uint8_t>(answer.code & 0xff)};
    std::copy(sense.begin(), sense.end(), header.sbp);
    header.sb_len_wr = sense.size();
    return 0;
  }

  const std::vector<Answer> answers_;
  std::size_t questions_ = 0;
};

TEST(BlockReservationsTest, OnlyADeviceThatKnowsNoneHasNone) {
  for (const Answer& answer : {
           Answer{.error = ENOTTY},
           Answer{.error = EINVAL},  // a loop device
           Answer{.error = EOPNOTSUPP},
           Answer{.status = 2, .key = 5, .code = 0x2000},
           Answer{.status = 2, .key = 5, .code = 0x2400},
       }) {
    AskedDevice device({answer});
    const auto found = device.Find();
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(*found, nullptr);
    EXPECT_EQ(device.questions(), 1U);
  }
}

TEST(BlockReservationsTest, ADeviceThatIsAskedAtABadMomentIsAskedAgain) {
  for (const Answer& answer : {
           Answer{.error = EAGAIN},  // a multipath device that is suspended
           Answer{.error = ENOMEM}, Answer{.error = EIO},
           Answer{.status = 2, .key = 6, .code = 0x2900},  // a unit attention
           Answer{.status = 2, .key = 2, .code = 0x0401},  // becoming ready
           Answer{.status = 2, .key = 11, .code = 0},      // aborted
           Answer{.status = 0x08},                         // busy
           Answer{.status = 0x28},                         // task set full
           Answer{.status = 0x40},                         // task aborted
           Answer{.host_status = 0x0e},                    // the transport was disturbed
       }) {
    AskedDevice device({answer, answer, Answer{}});
    const auto found = device.Find();
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_NE(*found, nullptr);
    EXPECT_EQ(device.questions(), 3U);
  }
}

TEST(BlockReservationsTest, ADeviceThatCannotSayWhetherItHasAnyIsNotOpened) {
  for (const Answer& answer : {
           Answer{.error = EPERM},
           Answer{.error = EAGAIN},
           Answer{.error = ENODEV},
           Answer{.status = 2, .key = 6, .code = 0x2900},
           Answer{.status = 2, .key = 2, .code = 0x0401},
           Answer{.status = 2, .key = 4, .code = 0x4400},  // a hardware error
           Answer{.status = 2, .key = 5, .code = 0x2500},  // the LUN is gone
           Answer{.status = 0x08},
           Answer{.status = 0x18},
           Answer{.status = 0x40},
           Answer{.host_status = 0x01},
       }) {
    AskedDevice device({answer});
    const auto found = device.Find();
    ASSERT_FALSE(found.ok()) << answer.error << ", " << int{answer.status};
    EXPECT_FALSE(absl::IsUnimplemented(found.status())) << found.status();
    EXPECT_THAT(std::string(found.status().message()),
                AllOf(HasSubstr("/dev/some-lun: READ KEYS: "), HasSubstr("try again"),
                      Not(HasSubstr("\n"))));
  }
}

TEST(BlockReservationsTest, AConflictIsOneHoweverTheKernelPutsIt) {
  const auto outcome_of = [](int result) {
    BlockReservations reservations(
        DevicePath("/dev/some-lun", [result](unsigned long, void*) { return result; }), NoPaths,
        Claimed);
    return reservations.Reserve(7).outcome;
  };
  EXPECT_EQ(outcome_of(0), Outcome::kDone);
  EXPECT_EQ(outcome_of(0x18), Outcome::kConflict);
  EXPECT_EQ(outcome_of(0x110018), Outcome::kConflict) << "Linux 5";
  EXPECT_EQ(outcome_of(0x000118), Outcome::kConflict) << "Linux 6.1";
  EXPECT_EQ(outcome_of(0x000402), Outcome::kNotDone) << "CHECK CONDITION, a failure of the target";
  EXPECT_EQ(outcome_of(0x0e0000), Outcome::kUnknown) << "the transport was disturbed";
  EXPECT_EQ(outcome_of(0x030018), Outcome::kUnknown) << "timed out, and the rest says nothing";
}

// The kernel says no more than that it was refused; who asks the device again, asks to be
// registered.
TEST(BlockReservationsTest, ARefusedRegistrationSaysWhereToLookAndSendsNothingElse) {
  std::vector<unsigned long> requests;
  BlockReservations reservations(DevicePath("/dev/some-lun",
                                            [&](unsigned long request, void*) {
                                              requests.push_back(request);
                                              return 2;
                                            }),
                                 NoPaths, Claimed);
  const ReservationResult refused = reservations.Register(7);
  EXPECT_EQ(refused.outcome, Outcome::kNotDone);
  EXPECT_THAT(std::string(refused.status.message()),
              AllOf(HasSubstr("/dev/some-lun: REGISTER: refused by the device"),
                    HasSubstr("CHECK CONDITION"), HasSubstr("dmesg"),
                    HasSubstr("/etc/rtslib-fb-target/pr"), Not(HasSubstr("\n"))));
  EXPECT_THAT(requests, Each(IOC_PR_REGISTER));
}

// ---- several paths ------------------------------------------------------------------------------

// A target with a registration for each path, of which some do not answer.
class MultipathTest : public ::testing::Test {
 protected:
  int Control(const std::string& path, unsigned long request, void* argument) {
    if (lost_.contains(path)) {
      errno = EIO;
      return -1;
    }
    if (request == SG_IO) return AnswerKeys(path, *static_cast<sg_io_hdr_t*>(argument));
    EXPECT_EQ(request, static_cast<unsigned long>(IOC_PR_REGISTER));
    const auto& change = *static_cast<pr_registration*>(argument);
    std::uint64_t& key = keys_[path];
    if (key != change.old_key) return 0x18;
    if (breaks_at_ == path) {
      lost_.insert(path);
      return 0x0e0000;
    }
    key = change.new_key;
    return 0;
  }
  int AnswerKeys(const std::string& path, sg_io_hdr_t& header) {
    header.status = busy_[path] > 0 ? 0x08 : 0;
    if (busy_[path]-- > 0) return 0;
    std::vector<std::byte> answer(8);
    for (const auto& [name, key] : keys_) {
      for (int shift = 56; key != 0 && shift >= 0; shift -= 8) {
        answer.push_back(static_cast<std::byte>(key >> shift & 0xff));
      }
    }
    answer[7] = static_cast<std::byte>(answer.size() - 8);
    const auto fits = std::min<std::size_t>(answer.size(), header.dxfer_len);
    std::copy_n(answer.begin(), fits, static_cast<std::byte*>(header.dxferp));
    header.resid = static_cast<int>(header.dxfer_len - fits);
    return 0;
  }
  DevicePath Path(const std::string& name) {
    return {name, [this, name](unsigned long request, void* argument) {
              return Control(name, request, argument);
            }};
  }

  std::map<std::string, std::uint64_t> keys_{{"sda", 0}, {"sdb", 0}};
  std::map<std::string, int> busy_;  // so many questions are not answered
  std::set<std::string> lost_;
  std::string breaks_at_;  // is lost with the change that comes by it, which is not done
  BlockReservations reservations_{
      DevicePath("/dev/mapper/lun",
                 [this](unsigned long request, void* argument) {
                   EXPECT_EQ(request, static_cast<unsigned long>(SG_IO)) << "of all paths, or none";
                   return AnswerKeys("the device", *static_cast<sg_io_hdr_t*>(argument));
                 }),
      [this] {
        return std::vector<DevicePath>{Path("sda"), Path("sdb")};
      },
      Claimed};
};

TEST_F(MultipathTest, AKeyIsRegisteredOnEachPath) {
  EXPECT_TRUE(reservations_.Register(7).done());
  EXPECT_THAT(keys_, ElementsAre(Pair("sda", 7), Pair("sdb", 7)));
  EXPECT_EQ(reservations_.Register(7).outcome, Outcome::kConflict);
  EXPECT_TRUE(reservations_.Unregister(7).done());
  EXPECT_THAT(keys_, ElementsAre(Pair("sda", 0), Pair("sdb", 0)));
  EXPECT_EQ(reservations_.Unregister(7).outcome, Outcome::kConflict);
}

TEST_F(MultipathTest, APathThatIsLostIsLeftOutAndGetsTheKeyWhenItIsBack) {
  lost_ = {"sda"};
  EXPECT_TRUE(reservations_.Register(7).done());
  EXPECT_THAT(keys_, ElementsAre(Pair("sda", 0), Pair("sdb", 7)));
  lost_ = {};
  EXPECT_EQ(reservations_.Register(8).outcome, Outcome::kConflict) << "another key";
  EXPECT_THAT(keys_, ElementsAre(Pair("sda", 0), Pair("sdb", 7)));
  EXPECT_TRUE(reservations_.Register(7).done());
  EXPECT_THAT(keys_, ElementsAre(Pair("sda", 7), Pair("sdb", 7)));
}

TEST_F(MultipathTest, APathThatIsOnlyBusyIsAskedAgainAndNeverLeftOut) {
  busy_["sda"] = 2;
  EXPECT_TRUE(reservations_.Register(7).done());
  EXPECT_THAT(keys_, ElementsAre(Pair("sda", 7), Pair("sdb", 7)));
  busy_["sda"] = 1'000'000;
  EXPECT_EQ(reservations_.Unregister(7).outcome, Outcome::kNotDone);
  EXPECT_THAT(keys_, ElementsAre(Pair("sda", 7), Pair("sdb", 7)));
}

TEST_F(MultipathTest, NothingIsRegisteredWhereNoPathAnswers) {
  lost_ = {"sda", "sdb"};
  const ReservationResult result = reservations_.Register(7);
  EXPECT_EQ(result.outcome, Outcome::kNotDone);
  EXPECT_THAT(std::string(result.status.message()),
              AllOf(HasSubstr("/dev/mapper/lun: one of its paths does not answer: sd"),
                    Not(HasSubstr("\n"))));
}

TEST_F(MultipathTest, APathOnWhichAKeyMayYetLandIsNotLeftOut) {
  breaks_at_ = "sdb";
  EXPECT_EQ(reservations_.Register(7).outcome, Outcome::kUnknown);
  EXPECT_THAT(keys_, ElementsAre(Pair("sda", 0), Pair("sdb", 0)));
  EXPECT_EQ(reservations_.Register(8).outcome, Outcome::kNotDone);
  EXPECT_THAT(keys_, ElementsAre(Pair("sda", 0), Pair("sdb", 0)));
  breaks_at_ = "";
  lost_ = {};
  EXPECT_TRUE(reservations_.Register(8).done());
  lost_ = {"sdb"};
  EXPECT_EQ(reservations_.Unregister(8).outcome, Outcome::kUnknown) << "it has it still";
}

TEST_F(MultipathTest, AKeyThatTheHostHasOnAPathIsAConflict) {
  keys_["sdb"] = 5;
  EXPECT_EQ(reservations_.Register(7).outcome, Outcome::kConflict);
  EXPECT_THAT(keys_, ElementsAre(Pair("sda", 0), Pair("sdb", 5)));
}

TEST_F(MultipathTest, AKeyIsGoneOnlyWhereALostPathDoesNotHaveIt) {
  keys_ = {{"sda", 7}, {"sdb", 0}};
  lost_ = {"sdb"};
  EXPECT_TRUE(reservations_.Unregister(7).done());
  keys_ = {{"sda", 7}, {"sdb", 7}};
  EXPECT_EQ(reservations_.Unregister(7).outcome, Outcome::kUnknown);
  EXPECT_EQ(reservations_.Unregister(7).outcome, Outcome::kUnknown);
  keys_["sdb"] = 0;  // PREEMPT
  EXPECT_EQ(reservations_.Unregister(7).outcome, Outcome::kConflict);
}

}  // namespace
}  // namespace reel
