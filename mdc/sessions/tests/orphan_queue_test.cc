#include "mdc/sessions/orphan_queue.h"

#include <cstdint>
#include <optional>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace reel::mdc {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::size_t kMostChanged = 1000;
constexpr InodeNumber kOne(1), kTwo(2), kThree(3);

class OrphanQueueTest : public testing::Test {
 protected:
  void Add(const std::vector<InodeNumber>& inodes) {
    for (const InodeNumber inode : inodes) orphans_.Add(inode);
  }
  // One turn, whose steps change so many records each.
  std::vector<InodeNumber> Turn(std::size_t records_of_step = 0) {
    std::vector<InodeNumber> begun;
    orphans_.BeginTurn();
    while (const std::optional<InodeNumber> inode = orphans_.BeginStep()) {
      begun.push_back(*inode);
      orphans_.Committed(records_of_step, Sequence());
      orphans_.EndStep();
    }
    return begun;
  }

  OrphanQueue orphans_{kMostChanged};
};

TEST_F(OrphanQueueTest, NoStepIsDueBeforeItIsQueued) {
  Add({kOne});
  EXPECT_TRUE(orphans_.Contains(kOne));
  EXPECT_EQ(orphans_.size(), 1u);
  EXPECT_THAT(Turn(), IsEmpty());
}

TEST_F(OrphanQueueTest, StepsBeginInTheOrderInWhichTheyBecameDue) {
  Add({kOne, kTwo, kThree});
  orphans_.Queue(kThree);
  orphans_.Queue(kOne);
  orphans_.Queue(kTwo, OrphanQueue::Place::kFirst);
  EXPECT_EQ(orphans_.next(), kTwo);
  EXPECT_THAT(Turn(), ElementsAre(kTwo, kThree, kOne));
  EXPECT_EQ(orphans_.next(), std::nullopt);
}

TEST_F(OrphanQueueTest, AtMostOneStepOfAnInodeIsDue) {
  Add({kOne, kTwo});
  orphans_.Queue(kOne);
  orphans_.Queue(kTwo);
  orphans_.Queue(kTwo, OrphanQueue::Place::kFirst);
  EXPECT_THAT(Turn(), ElementsAre(kOne, kTwo)) << "it keeps its place";
  orphans_.Queue(kTwo);
  EXPECT_THAT(Turn(), ElementsAre(kTwo));
}

TEST_F(OrphanQueueTest, OnlyOrphansGetSteps) {
  orphans_.Queue(kOne);
  Add({kTwo});
  orphans_.Remove(kTwo);
  orphans_.Queue(kTwo);
  EXPECT_THAT(Turn(), IsEmpty());
}

TEST_F(OrphanQueueTest, AStepThatIsDueOutlastsTheRemoval) {
  Add({kOne});
  orphans_.Queue(kOne);
  orphans_.Remove(kOne);
  EXPECT_THAT(Turn(), ElementsAre(kOne));
  EXPECT_FALSE(orphans_.Contains(kOne)) << "by which the core sees that nothing is left to be done";
}

TEST_F(OrphanQueueTest, AllAreQueuedInTheOrderOfTheirNumbers) {
  Add({kThree, kOne, kTwo});
  orphans_.QueueAll();
  EXPECT_THAT(Turn(), ElementsAre(kOne, kTwo, kThree));
}

TEST_F(OrphanQueueTest, ATurnBeginsABoundedNumberOfSteps) {
  for (std::uint64_t inode = 1; inode <= OrphanQueue::kTurnSteps + 1; ++inode) {
    orphans_.Add(InodeNumber(inode));
  }
  orphans_.QueueAll();
  EXPECT_EQ(Turn().size(), OrphanQueue::kTurnSteps);
  EXPECT_THAT(Turn(), ElementsAre(InodeNumber(OrphanQueue::kTurnSteps + 1)));
}

TEST_F(OrphanQueueTest, ATurnEndsWhenItsStepsHaveChangedEnough) {
  Add({kOne, kTwo, kThree});
  orphans_.QueueAll();
  EXPECT_THAT(Turn(kMostChanged / 2), ElementsAre(kOne, kTwo));
  EXPECT_THAT(Turn(kMostChanged / 2), ElementsAre(kThree));
}

TEST_F(OrphanQueueTest, SpaceComesBackUntilTheLastStepIsDurable) {
  Add({kOne});
  EXPECT_FALSE(orphans_.FreesSpace(Sequence())) << "a file that is open still";
  orphans_.Queue(kOne);
  EXPECT_TRUE(orphans_.FreesSpace(Sequence())) << "due";
  orphans_.BeginTurn();
  ASSERT_EQ(orphans_.BeginStep(), kOne);
  EXPECT_TRUE(orphans_.FreesSpace(Sequence())) << "under way";
  orphans_.Committed(1, Sequence(7));
  orphans_.EndStep();
  EXPECT_TRUE(orphans_.FreesSpace(Sequence(6))) << "not durable";
  EXPECT_FALSE(orphans_.FreesSpace(Sequence(7)));
  orphans_.Committed(0, Sequence());
  EXPECT_TRUE(orphans_.FreesSpace(Sequence(6))) << "a step without a commit changes nothing";
}

TEST_F(OrphanQueueTest, ALateOpenEndsAfterItsTime) {
  orphans_.BeginLateOpen(kTwo, 1000, /*promised=*/false);
  orphans_.BeginLateOpen(kOne, 1001, /*promised=*/false);
  EXPECT_THAT(orphans_.EndLateOpens(1000 + OrphanQueue::kLateOpenMs - 1), IsEmpty());
  EXPECT_THAT(orphans_.EndLateOpens(1000 + OrphanQueue::kLateOpenMs), ElementsAre(kTwo));
  orphans_.BeginLateOpen(kOne, 1300, /*promised=*/false);
  EXPECT_THAT(orphans_.EndLateOpens(UINT64_MAX), ElementsAre(kOne, kOne)) << "as often as it began";
  EXPECT_THAT(orphans_.EndLateOpens(UINT64_MAX), IsEmpty());
}

TEST_F(OrphanQueueTest, APromisedLateOpenEndsForNobodyWhoNeedsSpace) {
  orphans_.BeginLateOpen(kOne, 1000, /*promised=*/true);
  orphans_.BeginLateOpen(kTwo, 1000, /*promised=*/false);
  EXPECT_THAT(orphans_.EndLateOpensForSpace(), ElementsAre(kTwo));
  EXPECT_THAT(orphans_.EndLateOpensForSpace(), IsEmpty());
  EXPECT_THAT(orphans_.EndLateOpens(1000 + OrphanQueue::kLateOpenMs), ElementsAre(kOne));
}

}  // namespace
}  // namespace reel::mdc
