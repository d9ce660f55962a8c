// What is taken from a target's answers, and what of them a LUN may lack.
#include "volume/iscsi/iscsi_facts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "absl/strings/escaping.h"
#include "volume/lun/lun_fault.h"

namespace reel {
namespace {

using Kind = ScsiOutcome::Kind;

// A target's answers by command; of INQUIRY, by page.
enum class Command : std::uint16_t {
  kReady = 0x00,
  kInquiry = 0x12,
  kReadKeys = 0x5e,
  kCapacity = 0x9e,
  kPages = 0x100,
  kSerial = 0x180,
  kDesignators = 0x183,
  kLimits = 0x1b0,
};

class ScriptedTarget {
 public:
  ScriptedTarget() {
    Says(Command::kReady, "");
    Says(Command::kInquiry, "0000050200");
    Says(Command::kCapacity, "0000000000003fff00001000");
    Says(Command::kPages, "00000004008083b0");
    Says(Command::kSerial, "00800003616231");
    Says(Command::kDesignators, "0083000c010300086000000000000001");
    Says(Command::kLimits, "00b0003c00000001000000080000000400");
    Says(Command::kReadKeys, "0000000000000000");
  }
  void Says(Command command, const std::string& hex) {
    answers_[command] = {};
    answers_[command].outcome.kind = Kind::kDone;
    answers_[command].bytes = absl::HexStringToBytes(hex);
  }
  void Fails(Command command, Kind kind, std::uint8_t key = 0, std::uint16_t code = 0) {
    ScsiOutcome& outcome = (answers_[command] = {}).outcome;
    outcome.kind = kind;
    outcome.sense = key != 0;
    outcome.key = key;
    outcome.code = code;
  }
  absl::StatusOr<IscsiFacts> Ask() {
    return AskForFacts(1, [this](const scsi::Cdb& cdb, std::span<std::byte> buffer) {
      const bool page = cdb.bytes[0] == 0x12 && (cdb.bytes[1] & 1) != 0;
      auto [outcome, text] =
          answers_.at(static_cast<Command>(page ? 0x100 | cdb.bytes[2] : cdb.bytes[0]));
      const std::size_t size = std::min(text.size(), buffer.size());
      std::memcpy(buffer.data(), text.data(), size);
      outcome.transferred_bytes = size;
      return outcome;
    });
  }

 private:
  struct Answer {
    ScsiOutcome outcome;
    std::string bytes;
  };
  std::map<Command, Answer> answers_;
};

constexpr Command kOptional[] = {Command::kPages, Command::kSerial, Command::kDesignators,
                                 Command::kLimits, Command::kReadKeys};

TEST(IscsiFactsTest, TakesWhatTheTargetSays) {
  const auto facts = ScriptedTarget().Ask();
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(facts->size_bytes, 0x4000U * 4096);
  EXPECT_EQ(facts->logical_block_bytes, 4096U);
  EXPECT_EQ(facts->max_transfer_bytes, 8U * 4096);
  EXPECT_EQ(facts->optimal_io_bytes, 4U * 4096);
  EXPECT_TRUE(facts->reservations);
  EXPECT_EQ(facts->identity, "3.6000000000000001/ab1");
}

TEST(IscsiFactsTest, ATargetMayKnowNothingBeyondItsSize) {
  ScriptedTarget target;
  for (const Command command : kOptional) target.Fails(command, Kind::kCheck, 5, 0x2400);
  const auto facts = target.Ask();
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(facts->size_bytes, 0x4000U * 4096);
  EXPECT_FALSE(facts->reservations);
  EXPECT_EQ(facts->identity, "");
}

// Else its identity would be another one on the next connection, which would never be taken.
TEST(IscsiFactsTest, ATargetThatCannotAnswerJustNowIsNotOneThatKnowsNothing) {
  for (const Command command : kOptional) {
    for (const Kind kind : {Kind::kBusy, Kind::kAborted, Kind::kUnknown}) {
      ScriptedTarget target;
      target.Fails(command, kind);
      const auto facts = target.Ask();
      ASSERT_FALSE(facts.ok()) << static_cast<int>(command);
      EXPECT_NE(FaultOf(facts.status()), LunFault::kNone) << facts.status();
    }
  }
}

TEST(IscsiFactsTest, PagesThatMakeNoSenseAreNone) {
  ScriptedTarget target;
  for (const Command page : {Command::kSerial, Command::kDesignators, Command::kLimits}) {
    target.Says(page, "ff");
  }
  const auto facts = target.Ask();
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(facts->max_transfer_bytes, 1U << 20);
  EXPECT_EQ(facts->identity, "/");
}

TEST(IscsiFactsTest, NoDiskAndOddBlocksAreRefused) {
  ScriptedTarget none;
  none.Says(Command::kInquiry, "7f00050200");
  none.Fails(Command::kReady, Kind::kCheck, 5, 0x2500);
  EXPECT_TRUE(absl::IsNotFound(none.Ask().status()));
  ScriptedTarget odd;
  odd.Says(Command::kCapacity, "0000000000003fff00000208");
  EXPECT_TRUE(absl::IsInvalidArgument(odd.Ask().status()));
}

}  // namespace
}  // namespace reel
