#include "client/inode/uncommitted.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>

namespace reel::client {
namespace {

constexpr std::size_t kManyRanges = 1'000;

std::string Show(const BlockSet& blocks) {
  std::string all;
  blocks.ForEach([&](FileBlock first, std::uint64_t count) {
    all += std::to_string(first.value()) + "+" + std::to_string(count) + " ";
  });
  return all;
}
LunMarks Mark(std::uint32_t lun, std::uint64_t at) {
  return {{.lun = lun, .first = at, .last = at}};
}

class UncommittedTest : public testing::Test {
 protected:
  // Unwritten blocks are written, and the bytes are on LUN 1.
  void Write(std::uint64_t first, std::uint64_t end) {
    file_.CountWritten(/*size=*/false);
    file_.AddBlocks(FileBlock(first), end - first);
    file_.CountOnLuns(Mark(1, first));
  }
  void SetMtime(std::int64_t seconds) {
    v1::SetAttr delayed;
    delayed.set_fields(v1::SetAttr::MTIME | v1::SetAttr::ATIME);
    delayed.mutable_mtime()->set_seconds(seconds);
    delayed.mutable_atime()->set_seconds(seconds);
    file_.CountDelayed(delayed);
  }
  v1::Attr Shown() const {
    v1::Attr attr;
    file_.ShowDelayed(attr);
    return attr;
  }
  Uncommitted::Taken Begin() { return file_.Begin(kManyRanges, /*with_delayed=*/true); }
  void Done(Uncommitted::Taken& taken) {
    file_.End(taken);
    file_.NoteCommitted(taken.through);
  }

  Uncommitted file_;
};

TEST_F(UncommittedTest, ACommitTakesAllDirtyState) {
  EXPECT_FALSE(file_.any());
  Write(0, 4);
  const Uncommitted::Through through = file_.now();
  EXPECT_TRUE(file_.any_for_readers());
  Uncommitted::Taken taken = Begin();
  EXPECT_EQ(Show(taken.blocks), "0+4 ");
  EXPECT_EQ(taken.marks.size(), 1u);
  EXPECT_TRUE(taken.mtime && taken.wrote && !taken.size);
  EXPECT_FALSE(file_.any());
  EXPECT_TRUE(file_.running() && file_.mtime() && file_.wrote()) << "it is on its way";
  EXPECT_FALSE(file_.IsCommitted(through));
  Done(taken);
  EXPECT_FALSE(file_.running() || file_.mtime() || file_.wrote());
  EXPECT_TRUE(file_.IsCommitted(through) && file_.all_committed());
}

TEST_F(UncommittedTest, ChangesDuringACommitWaitForTheNext) {
  Write(0, 4);
  Uncommitted::Taken taken = Begin();
  Write(8, 9);
  const Uncommitted::Through through = file_.now();
  Done(taken);
  EXPECT_FALSE(file_.IsCommitted(through));
  taken = Begin();
  EXPECT_EQ(Show(taken.blocks), "8+1 ");
  Done(taken);
  EXPECT_TRUE(file_.IsCommitted(through));
}

TEST_F(UncommittedTest, APartialCommitDoesNotCoverTheChanges) {
  for (const std::uint64_t first : {0, 10, 20}) Write(first, first + 1);
  const Uncommitted::Through through = file_.now();
  Uncommitted::Taken taken = file_.Begin(2, true);
  EXPECT_EQ(Show(taken.blocks), "0+1 10+1 ");
  EXPECT_FALSE(file_.unflushed().empty()) << "the rest has to be flushed, too";
  Done(taken);
  EXPECT_FALSE(file_.IsCommitted(through));
  taken = file_.Begin(2, true);
  Done(taken);
  EXPECT_TRUE(file_.IsCommitted(through));
}

TEST_F(UncommittedTest, BlocksWrittenAgainDuringACommitAreDirtyAgain) {
  file_.NoteRewritten(FileBlock(0), FileBlock(8));
  EXPECT_FALSE(file_.any()) << "none is on its way";
  Write(2, 6);
  Uncommitted::Taken taken = Begin();
  file_.NoteRewritten(FileBlock(4), FileBlock(10));
  EXPECT_EQ(file_.lost_flushes(), 0u);
  EXPECT_EQ(Show(file_.LoseFlush(taken.blocks)), "4+2 ");
  EXPECT_EQ(file_.lost_flushes(), 1u);
}

TEST_F(UncommittedTest, ALossBeforeACommitSparesBlocksOnTheirWay) {
  Write(0, 4);
  Uncommitted::Taken taken = Begin();
  file_.NoteRewritten(FileBlock(2), FileBlock(4));
  Write(6, 8);
  EXPECT_EQ(Show(file_.TakeDirtyBlocks()), "6+2 ");
  EXPECT_EQ(file_.block_ranges(), 0u);
  EXPECT_TRUE(file_.any()) << "the time is still to be told";
}

TEST_F(UncommittedTest, BlocksPutBackAreDirtyAgain) {
  Write(0, 4);
  file_.CountWritten(/*size=*/true);
  file_.NoteSetIdTaken(/*sgid=*/false);
  Uncommitted::Taken taken = Begin();
  EXPECT_TRUE(taken.size && taken.kill_set_id && !taken.kill_sgid);
  EXPECT_TRUE(file_.takes_set_id());
  const Uncommitted::Through through = file_.now();
  file_.End(taken);
  file_.NoteCommitted(taken.through);
  file_.PutBackBlocks(taken.blocks, taken.marks);
  file_.PutBackAttributes(taken);
  EXPECT_TRUE(file_.size() && file_.takes_set_id() && file_.wrote() && file_.any_on_luns());
  EXPECT_TRUE(file_.all_committed());
  file_.CountAgain();
  EXPECT_TRUE(file_.IsCommitted(through)) << "who waited for what was settled does not";
  EXPECT_FALSE(file_.all_committed());
  EXPECT_EQ(Show(Begin().blocks), "0+4 ");
}

TEST_F(UncommittedTest, AnExplicitTimeReplacesThatOfWrites) {
  Write(0, 1);
  EXPECT_TRUE(file_.ForgetMtime());
  EXPECT_FALSE(file_.ForgetMtime());
  EXPECT_TRUE(Begin().mtime) << "that bytes were written is told by it all the same";
}

TEST_F(UncommittedTest, DelayedAttributesShowUntilTheyAreSent) {
  SetMtime(5);
  const Uncommitted::Through through = file_.now();
  EXPECT_TRUE(file_.any() && file_.delayed() && !file_.any_of_data() && !file_.only_time());
  Uncommitted::Taken data_only = file_.Begin(kManyRanges, /*with_delayed=*/false);
  Done(data_only);
  EXPECT_FALSE(file_.IsCommitted(through));
  Uncommitted::Taken taken = Begin();
  EXPECT_EQ(Shown().mtime().seconds(), 5);
  SetMtime(7);
  EXPECT_EQ(Shown().mtime().seconds(), 7);
  Done(taken);
  EXPECT_TRUE(file_.IsCommitted(through));
  file_.PutBackAttributes(taken);
  EXPECT_EQ(Shown().mtime().seconds(), 7) << "the later one counts";
}

TEST_F(UncommittedTest, RefusedAttributesAreNotPutBack) {
  SetMtime(5);
  Uncommitted::Taken taken = Begin();
  EXPECT_TRUE(file_.delayed_on_its_way());
  file_.NoteDelayedRefused();
  EXPECT_FALSE(file_.delayed());
  file_.End(taken);
  EXPECT_FALSE(taken.delayed);
}

TEST_F(UncommittedTest, AWriteAndAReadMoveDelayedTimes) {
  SetMtime(5);
  Uncommitted::Taken taken = Begin();
  SetMtime(6);
  file_.CountWritten(/*size=*/false);
  v1::Time now;
  now.set_seconds(9);
  file_.NoteRead(now);
  const v1::Attr shown = Shown();
  EXPECT_FALSE(shown.has_mtime()) << "the write's own time is newer";
  EXPECT_EQ(shown.atime().seconds(), 9);
}

TEST_F(UncommittedTest, ClearedSetIdBitsDoNotShow) {
  v1::Attr attr;
  attr.set_mode(S_IFREG | S_ISUID | S_ISGID | 0640);
  file_.HideSetId(attr);
  EXPECT_EQ(attr.mode() & 07000, unsigned{S_ISUID | S_ISGID});
  file_.NoteSetIdTaken(/*sgid=*/false);
  file_.HideSetId(attr);
  EXPECT_EQ(attr.mode() & 07000, unsigned{S_ISGID}) << "without group execution it means locks";
  file_.NoteSetIdTaken(/*sgid=*/true);
  Uncommitted::Taken taken = Begin();
  file_.HideSetId(attr);
  EXPECT_EQ(attr.mode() & 07000, 0u);
}

TEST_F(UncommittedTest, UncommittedBlocksHoldUpTheirToken) {
  Write(4, 6);
  EXPECT_TRUE(file_.AnyWithToken(FileBlock(5), 10));
  EXPECT_FALSE(file_.AnyWithToken(FileBlock(6), 10));
  file_.CountWritten(/*size=*/true);
  EXPECT_TRUE(file_.AnyWithToken(FileBlock(6), 10));
}

TEST_F(UncommittedTest, NothingIsLeftToCommitAfterALostSession) {
  Write(0, 4);
  SetMtime(5);
  Uncommitted::Taken taken = Begin();
  Write(6, 8);
  const Uncommitted::Through through = file_.now();
  file_.Void();
  EXPECT_FALSE(file_.any() || file_.delayed());
  EXPECT_TRUE(file_.IsCommitted(through));
  EXPECT_TRUE(file_.running()) << "it has to end";
  file_.End(taken);
  EXPECT_FALSE(taken.delayed);
}

}  // namespace
}  // namespace reel::client
