#include "mdc/sessions/step_queue.h"

#include <memory>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace reel::mdc {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

PendingRef Step(std::uint64_t session = 1) {
  auto op = std::make_shared<Pending>();
  op->session = SessionId(session);
  return op;
}

TEST(StepQueue, ATurnTakesTheFirstSteps) {
  static_assert(StepQueue::kTurnSteps == 2);
  StepQueue steps;
  const PendingRef one = Step(), two = Step(), three = Step();
  for (const PendingRef& op : {one, two, three}) steps.Add(op);
  EXPECT_THAT(steps.TakeTurn(), ElementsAre(one, two));
  steps.Add(one);  // its next step is behind the others
  EXPECT_THAT(steps.TakeTurn(), ElementsAre(three, one));
  EXPECT_TRUE(steps.empty());
  EXPECT_THAT(steps.TakeTurn(), IsEmpty());
}

TEST(StepQueue, AQueuedOperationIsRunByNothingElse) {
  StepQueue steps;
  const PendingRef op = Step();
  steps.Add(op);
  EXPECT_TRUE(op->unfinished && op->fetching);
  steps.TakeTurn();
  EXPECT_FALSE(op->unfinished);
  EXPECT_TRUE(op->fetching);  // until it runs
}

TEST(StepQueue, TheStepsOfASessionAreCancelledWithIt) {
  StepQueue steps;
  const PendingRef gone = Step(1), other = Step(2);
  steps.Add(gone);
  steps.Add(other);
  steps.CancelOf(SessionId(1));
  EXPECT_TRUE(gone->cancelled);
  EXPECT_FALSE(other->cancelled);
}

}  // namespace
}  // namespace reel::mdc
