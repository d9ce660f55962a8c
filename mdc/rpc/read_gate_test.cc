#include "mdc/rpc/read_gate.h"

#include <gtest/gtest.h>

namespace reel::mdc {
namespace {

TEST(ReadGate, PausesForManyRequestsAndGoesOnWithHalf) {
  ReadGate gate;
  EXPECT_TRUE(gate.Queued(ReadGate::kMaxRequests - 1, 100));
  EXPECT_FALSE(gate.Queued(1, 100));
  EXPECT_TRUE(gate.Taken());
  EXPECT_FALSE(gate.Taken());  // it had gone on already
  EXPECT_FALSE(gate.Taken());  // nothing is there
}

TEST(ReadGate, AFewRequestsOfManyBytesPauseItToo) {
  ReadGate gate;
  constexpr std::size_t kFrame = std::size_t{4} << 20;
  EXPECT_TRUE(gate.Queued(1, kFrame));
  EXPECT_FALSE(gate.Queued(1, kFrame));
  EXPECT_FALSE(gate.Taken());  // more than half is left
  EXPECT_TRUE(gate.Taken());
  EXPECT_TRUE(gate.Queued(1, kFrame));
}

TEST(ReadGate, FramesWithoutRequestsCount) {
  ReadGate gate;
  EXPECT_FALSE(gate.Queued(0, ReadGate::kMaxBytes));
  EXPECT_TRUE(gate.Taken());
}

}  // namespace
}  // namespace reel::mdc
