// From sense data and statuses to what a request may do next.
#include "volume/scsi/scsi_outcome.h"

#include <gtest/gtest.h>

#include "absl/strings/str_format.h"
#include "volume/lun/lun_fault.h"

namespace reel {
namespace {

using Kind = ScsiOutcome::Kind;

// As a request sees it that ended so.
LunFault FaultOfSense(std::uint8_t key, std::uint16_t code, bool deferred = false) {
  ScsiOutcome outcome;
  (void)TakeSense(key, code, deferred, outcome);
  return outcome.kind == Kind::kDone ? LunFault::kNone : FaultOf(FailureOf(outcome));
}

struct Row {
  std::uint8_t key;
  std::uint16_t code;
  Kind kind;
  LunFault fault;
};

class SenseTest : public testing::TestWithParam<Row> {};

TEST_P(SenseTest, ClassifiesSenseByTheNextStep) {
  const Row& row = GetParam();
  ScsiOutcome outcome;
  (void)TakeSense(row.key, row.code, false, outcome);
  const std::string sense = absl::StrFormat("%x %02x/%02x", row.key, row.code >> 8, row.code & 255);
  EXPECT_EQ(outcome.kind, row.kind) << sense;
  EXPECT_EQ(FaultOfSense(row.key, row.code), row.fault) << sense;
}

INSTANTIATE_TEST_SUITE_P(
    All, SenseTest,
    testing::Values(
        // RECOVERED ERROR is success.
        Row{1, 0x0000, Kind::kDone, LunFault::kNone}, Row{1, 0x1701, Kind::kDone, LunFault::kNone},
        // NOT READY that passes.
        Row{2, 0x0400, Kind::kBusy, LunFault::kBusy}, Row{2, 0x0401, Kind::kBusy, LunFault::kBusy},
        Row{2, 0x0404, Kind::kBusy, LunFault::kBusy}, Row{2, 0x0407, Kind::kBusy, LunFault::kBusy},
        Row{2, 0x0409, Kind::kBusy, LunFault::kBusy}, Row{2, 0x040a, Kind::kBusy, LunFault::kBusy},
        Row{2, 0x040b, Kind::kBusy, LunFault::kBusy}, Row{2, 0x040c, Kind::kBusy, LunFault::kBusy},
        Row{2, 0x0414, Kind::kBusy, LunFault::kBusy}, Row{2, 0x0800, Kind::kBusy, LunFault::kBusy},
        Row{2, 0x3e00, Kind::kBusy, LunFault::kBusy},
        // NOT READY that does not.
        Row{2, 0x0402, Kind::kCheck, LunFault::kNone},
        Row{2, 0x0403, Kind::kCheck, LunFault::kNone},
        Row{2, 0x0412, Kind::kCheck, LunFault::kNone},
        Row{2, 0x041b, Kind::kCheck, LunFault::kNone},
        Row{2, 0x3a00, Kind::kCheck, LunFault::kNone},
        // UNIT ATTENTION: not executed; of too many in a row time has to mend them.
        Row{6, 0x2900, Kind::kBusy, LunFault::kBusy}, Row{6, 0x2a06, Kind::kBusy, LunFault::kBusy},
        // ABORTED COMMAND, and what says nothing.
        Row{11, 0x0000, Kind::kAborted, LunFault::kAborted},
        Row{11, 0x4700, Kind::kAborted, LunFault::kAborted},
        Row{11, 0x1001, Kind::kCheck, LunFault::kNone},
        Row{0, 0x0000, Kind::kAborted, LunFault::kAborted},
        // Final.
        Row{3, 0x1100, Kind::kCheck, LunFault::kNone},
        Row{4, 0x4400, Kind::kCheck, LunFault::kNone},
        Row{5, 0x2500, Kind::kCheck, LunFault::kNone},
        Row{7, 0x2700, Kind::kCheck, LunFault::kNone},
        Row{7, 0x2707, Kind::kCheck, LunFault::kNone},
        Row{14, 0x1d00, Kind::kCheck, LunFault::kNone}));

TEST(ScsiOutcomeTest, OnlyAUnitAttentionIsSentAgainAtOnce) {
  ScsiOutcome outcome;
  EXPECT_TRUE(TakeSense(6, 0x2900, false, outcome));
  EXPECT_FALSE(TakeSense(2, 0x040a, false, outcome));
  EXPECT_FALSE(TakeSense(11, 0x0000, false, outcome));
}

// An earlier command was acknowledged and came to nothing: to try this one again would hide that.
TEST(ScsiOutcomeTest, ADeferredErrorIsReported) {
  EXPECT_EQ(FaultOfSense(3, 0x0c00, true), LunFault::kNone);
  ScsiOutcome outcome;
  EXPECT_FALSE(TakeSense(2, 0x040a, true, outcome));
  EXPECT_EQ(outcome.kind, Kind::kCheck);
  EXPECT_FALSE(TakeSense(11, 0x0000, true, outcome));
  EXPECT_EQ(outcome.kind, Kind::kCheck);
  EXPECT_TRUE(TakeSense(1, 0x1701, true, outcome)) << "mended; this command was not executed";
}

TEST(ScsiOutcomeTest, OtherOutcomesHaveMessages) {
  const auto fault = [](Kind kind) {
    ScsiOutcome outcome;
    outcome.kind = kind;
    return FaultOf(FailureOf(outcome));
  };
  EXPECT_EQ(fault(Kind::kConflict), LunFault::kFenced);
  EXPECT_EQ(fault(Kind::kAborted), LunFault::kAborted);
  EXPECT_EQ(fault(Kind::kBusy), LunFault::kBusy);
  EXPECT_EQ(fault(Kind::kUnknown), LunFault::kUnknown);
  EXPECT_EQ(fault(Kind::kClosed), LunFault::kClosed);
  EXPECT_EQ(fault(Kind::kDone), LunFault::kNone) << "too few bytes: final";
}

}  // namespace
}  // namespace reel
