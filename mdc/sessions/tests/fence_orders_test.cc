#include "mdc/sessions/fence_orders.h"

#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "mdc/sessions/key_numbers.h"

namespace reel::mdc {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

TEST(FenceOrders, EachOrderHasANumberOfItsOwnAndLeavesOnce) {
  FenceOrders orders;
  FenceRun run;
  run.victims = {7, 8};
  run.lun = Uuid();
  orders.Order(run);
  orders.OrderOff({9});
  const auto taken = orders.Take();
  ASSERT_THAT(taken, SizeIs(2));
  EXPECT_NE(taken[0].id, taken[1].id);
  EXPECT_EQ(run.stage, FenceRun::Stage::kFencing);
  EXPECT_EQ(run.id, taken[0].id);
  EXPECT_THAT(taken[0].victims, ElementsAre(7, 8));
  EXPECT_EQ(taken[0].lun, run.lun);
  EXPECT_TRUE(taken[0].drain);
  EXPECT_THAT(taken[1].victims, ElementsAre(9));
  EXPECT_EQ(taken[1].lun, std::nullopt);
  EXPECT_FALSE(taken[1].drain);
  EXPECT_THAT(orders.Take(), IsEmpty());
  orders.Order(run);
  EXPECT_NE(run.id, taken[0].id);
}

TEST(FenceOrders, SessionsAreHereOnceByNumber) {
  FenceOrders orders;
  orders.Add(SessionId(2));
  orders.Add(SessionId(1));
  orders.Add(SessionId(2));
  EXPECT_THAT(orders.sessions(), ElementsAre(SessionId(1), SessionId(2)));
  orders.Remove(SessionId(1));
  EXPECT_THAT(orders.sessions(), ElementsAre(SessionId(2)));
}

TEST(KeyNumbers, NoKeyIsGivenTwice) {
  std::set<std::uint64_t> keys;
  for (std::uint64_t epoch = 1; epoch <= 3; ++epoch) {
    KeyNumbers numbers(Uuid{}, Epoch{epoch});
    for (int i = 0; i < 100; ++i) keys.insert(numbers.Take().value());
  }
  EXPECT_THAT(keys, SizeIs(300));
}

}  // namespace
}  // namespace reel::mdc
