#include "mdc/sessions/parked_operations.h"

#include <memory>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace reel::mdc {
namespace {

constexpr InodeNumber kLowInode(1), kHighInode(2);
constexpr SessionId kGoes(1), kStays(2);

PendingRef Parked(SessionId session = kGoes) {
  auto op = std::make_shared<Pending>();
  op->session = session;
  return op;
}

TEST(ParkedOperations, ALineKeepsItsOrder) {
  ParkedOperations parked;
  const PendingRef first = Parked(), second = Parked(), removal = Parked();
  parked.Add(kLowInode, first);
  parked.Add(kLowInode, second);
  EXPECT_EQ(parked.First(kLowInode), first);
  parked.Add(kLowInode, removal, ParkedOperations::Place::kFirst);
  EXPECT_EQ(parked.First(kLowInode), removal);
  parked.Remove(kLowInode, removal);
  parked.Remove(kLowInode, first);
  EXPECT_EQ(parked.First(kLowInode), second);
  parked.Remove(kLowInode, second);
  EXPECT_EQ(parked.First(kLowInode), nullptr);
  EXPECT_FALSE(parked.Any(kLowInode));
}

// Another one may have come before it while it ran.
TEST(ParkedOperations, AnOperationLeavesTheMiddleOfALine) {
  ParkedOperations parked;
  const PendingRef runs = Parked(), removal = Parked();
  parked.Add(kLowInode, runs);
  parked.Add(kLowInode, removal, ParkedOperations::Place::kFirst);
  parked.Remove(kLowInode, runs);
  EXPECT_EQ(parked.First(kLowInode), removal);
}

TEST(ParkedOperations, AnOperationKnowsItsLine) {
  ParkedOperations parked;
  const PendingRef op = Parked();
  parked.Add(kLowInode, op);
  EXPECT_EQ(op->queued_on, kLowInode);
  parked.Remove(kLowInode, op);
  EXPECT_EQ(op->queued_on, InodeNumber(0));
}

TEST(ParkedOperations, AParkedOperationDoesNotWaitForItself) {
  ParkedOperations parked;
  const PendingRef op = Parked();
  EXPECT_FALSE(parked.AnyBut(kLowInode, *op));
  parked.Add(kLowInode, op);
  EXPECT_FALSE(parked.AnyBut(kLowInode, *op));
  EXPECT_TRUE(parked.AnyBut(kLowInode, *Parked()));
  parked.Add(kLowInode, Parked());
  EXPECT_TRUE(parked.AnyBut(kLowInode, *op));
}

TEST(ParkedOperations, LinesAreWokenOnceEachTheLowestFirst) {
  ParkedOperations parked;
  parked.Wake(kHighInode);
  parked.Wake(kLowInode);
  parked.Wake(kHighInode);
  EXPECT_EQ(parked.TakeWoken(), kLowInode);
  EXPECT_EQ(parked.TakeWoken(), kHighInode);
  EXPECT_EQ(parked.TakeWoken(), std::nullopt);
  parked.Add(kHighInode, Parked());
  parked.WakeIfAny(kLowInode);
  parked.WakeIfAny(kHighInode);
  EXPECT_EQ(parked.TakeWoken(), kHighInode);
  EXPECT_EQ(parked.TakeWoken(), std::nullopt);
}

TEST(ParkedOperations, AnEndedSessionLeavesItsLines) {
  ParkedOperations parked;
  const PendingRef gone = Parked(kGoes), other = Parked(kStays), elsewhere = Parked(kStays);
  parked.Add(kLowInode, gone);
  parked.Add(kLowInode, other);
  parked.Add(kHighInode, elsewhere);
  parked.CancelOf(kGoes);
  EXPECT_TRUE(gone->cancelled);
  EXPECT_FALSE(other->cancelled || elsewhere->cancelled);
  EXPECT_EQ(parked.TakeWoken(), kLowInode);
  EXPECT_EQ(parked.TakeWoken(), std::nullopt);
}

TEST(ParkedOperations, AStepOfARemovalIsNobodysWait) {
  ParkedOperations parked;
  const PendingRef step = Parked(kGoes), op = Parked(kStays);
  step->reap = kLowInode;
  parked.Add(kLowInode, step);
  parked.Add(kLowInode, op);
  EXPECT_FALSE(parked.AnyOf(kGoes));
  EXPECT_TRUE(parked.AnyOf(kStays));
  op->cancelled = true;
  EXPECT_FALSE(parked.AnyOf(kStays));
}

}  // namespace
}  // namespace reel::mdc
