// The models themselves: what they must let pass, and what not.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>

#include "tests/sim/data_model.h"
#include "tests/sim/lock_model.h"
#include "tests/sim/name_history.h"

namespace reel::sim {
namespace {

using Kind = NameOp::Kind;
using Verdict = NameHistory::Verdict;

class NamesTest : public testing::Test {
 protected:
  void Add(Kind kind, int slot, std::uint64_t inode, int error, std::uint64_t began,
           std::uint64_t ended) {
    const bool made = kind == Kind::kCreate || kind == Kind::kMakeUnnamed ||
                      (kind == Kind::kLookup && error == 0);
    history_.Begin({.kind = kind,
                    .slot = slot,
                    .inode = inode,
                    .mode = made ? S_IFREG | 0644u : 0u,
                    .error = error,
                    .known = ended != NameOp::kNever,
                    .began = began,
                    .ended = ended});
  }
  Verdict Check() {
    std::string why;
    return history_.Check(why);
  }
  NameHistory history_;
};

TEST_F(NamesTest, AnAnswerMayComeFromAnyMomentOfTheCall) {
  Add(Kind::kCreate, 0, 7, 0, 10, 30);
  Add(Kind::kLookup, 0, 0, ENOENT, 15, 25);
  Add(Kind::kLookup, 0, 7, 0, 16, 26);
  EXPECT_EQ(Check(), Verdict::kExplained);
}

TEST_F(NamesTest, NoReadSeesTheOldAfterTheNew) {
  Add(Kind::kCreate, 0, 7, 0, 10, 30);
  Add(Kind::kLookup, 0, 7, 0, 15, 20);
  Add(Kind::kLookup, 0, 0, ENOENT, 21, 25);
  EXPECT_EQ(Check(), Verdict::kNoOrder);
}

TEST_F(NamesTest, AnsweredChangesAreNotLost) {
  Add(Kind::kCreate, 0, 7, 0, 10, 20);
  Add(Kind::kLookup, 0, 0, ENOENT, 30, 40);
  EXPECT_EQ(Check(), Verdict::kNoOrder);
}

TEST_F(NamesTest, UnansweredChangesMayHappenLateOrNever) {
  Add(Kind::kCreate, 0, 0, 0, 10, NameOp::kNever);
  Add(Kind::kLookup, 0, 0, ENOENT, 30, 40);
  Add(Kind::kLookup, 0, 9, 0, 50, 60);
  EXPECT_EQ(Check(), Verdict::kExplained);
  Add(Kind::kLookup, 0, 0, ENOENT, 70, 80);
  EXPECT_EQ(Check(), Verdict::kNoOrder);
}

TEST_F(NamesTest, ARetriedRemovalIsDoneOnce) {
  Add(Kind::kCreate, 0, 7, 0, 10, 20);
  Add(Kind::kUnlink, 0, 0, ENOENT, 30, 40);
  EXPECT_EQ(Check(), Verdict::kNoOrder);
}

// Whatever error its caller was told instead.
TEST_F(NamesTest, AnUnansweredLinkOfAFileWithoutANameMayHaveHappened) {
  Add(Kind::kMakeUnnamed, 0, 7, 0, 10, 20);
  history_.Begin(
      {.kind = Kind::kLink, .slot_to = 0, .inode = 7, .error = EIO, .known = false, .began = 30});
  Add(Kind::kLookup, 0, 7, 0, 40, 50);
  EXPECT_EQ(Check(), Verdict::kExplained);
}

TEST_F(NamesTest, AnEarlyReplyMayBeLostUntilItIsSynced) {
  for (const bool synced : {false, true}) {
    history_ = {};
    history_.Begin({.kind = Kind::kCreate,
                    .inode = 7,
                    .mode = S_IFREG | 0644u,
                    .began = 10,
                    .ended = 20,
                    .host = 1,
                    .early_number = 3});
    if (synced) history_.Synced(1, 0, 30);
    history_.Lost(1, 3);
    EXPECT_EQ(history_.losses(1), 1u);
    Add(Kind::kLookup, 0, 0, ENOENT, 40, 50);
    EXPECT_EQ(Check(), synced ? Verdict::kNoOrder : Verdict::kExplained);
  }
}

class DataTest : public testing::Test {
 protected:
  static constexpr std::uint64_t kCell = DataModel::kCellBytes;
  // In a world in which time goes by with each step.
  template <typename Steps>
  void In(Steps steps) {
    ASSERT_TRUE(scheduler_.Run(steps, 1000 * kMs));
  }
  void Pass() { scheduler_.Sleep(100); }
  std::uint32_t Write(int host, std::uint64_t offset_bytes, bool durable = false) {
    const std::uint32_t write = model_.BeginWrite(5, {host, 1}, {offset_bytes, kCell}, false);
    Pass();
    model_.EndWrite(write, true, durable);
    Pass();
    return write;
  }
  // A read that shows these bytes.
  bool Shows(int host, std::uint64_t offset_bytes, std::uint32_t write) {
    Pass();
    std::vector<std::byte> bytes(kCell);
    if (write != 0) model_.Fill(write, bytes);
    const std::size_t before = model_.violations().size();
    const Micros began = scheduler_.now();
    Pass();
    model_.EndRead(5, {host, 1}, began, {offset_bytes, kCell}, bytes, false);
    return model_.violations().size() == before;
  }

  Scheduler scheduler_{1};
  DataModel model_{scheduler_};
};

TEST_F(DataTest, AReadShowsTheLastWriteAndNoOther) {
  In([&] {
    const std::uint32_t first = Write(1, 0);
    const std::uint32_t second = Write(2, 0);
    EXPECT_TRUE(Shows(3, 0, second));
    EXPECT_FALSE(Shows(3, 0, first));
    EXPECT_FALSE(Shows(3, 0, 0));
    EXPECT_FALSE(Shows(3, kCell, first));  // bytes of another place
    EXPECT_TRUE(Shows(3, kCell, 0));
  });
}

TEST_F(DataTest, OfWritesAtOnceEitherIsShownButNotTheOldAfterTheNew) {
  In([&] {
    const std::uint32_t old = Write(1, 0);
    const std::uint32_t fresh = model_.BeginWrite(5, {2, 1}, {0, kCell}, false);
    Pass();
    EXPECT_TRUE(Shows(3, 0, old));
    EXPECT_TRUE(Shows(3, 0, fresh));
    EXPECT_FALSE(Shows(3, 0, old));
  });
}

TEST_F(DataTest, UnsyncedWritesMayGoWithTheirSession) {
  In([&] {
    const std::uint32_t synced = Write(1, 0);
    model_.EndFsync(5, {1, 1}, scheduler_.now(), true);
    Write(1, 0);
    model_.SessionOver(1);
    EXPECT_TRUE(Shows(2, 0, synced));
    EXPECT_FALSE(Shows(2, 0, 0));
  });
}

TEST_F(DataTest, FsyncReportsALoss) {
  In([&] {
    Write(1, 0);
    model_.SessionOver(1);
    model_.SessionNoticed(1);
    model_.EndFsync(5, {1, 1}, scheduler_.now(), true);
    EXPECT_FALSE(Shows(2, 0, 0));
  });
}

TEST_F(DataTest, ALostWriteThatWasNotShownNeverIs) {
  In([&] {
    const std::uint32_t lost = Write(1, 0);
    model_.SessionOver(1);
    EXPECT_TRUE(Shows(2, 0, 0));
    EXPECT_FALSE(Shows(2, 0, lost));
  });
}

TEST_F(DataTest, ALostWriteThatIsShownWasNotLostYet) {
  In([&] {
    const std::uint32_t lost = Write(1, 0);
    model_.SessionOver(1);
    EXPECT_TRUE(Shows(2, 0, lost));
    EXPECT_FALSE(Shows(2, 0, 0));
  });
}

TEST_F(DataTest, AWriteAcrossTheEndOfItsSessionIsDecidedAtItsReturn) {
  In([&] {
    const std::uint32_t late = model_.BeginWrite(5, {1, 1}, {0, kCell}, false);
    Pass();
    model_.SessionOver(1);
    EXPECT_TRUE(Shows(2, 0, 0));
    model_.SessionNoticed(1);
    Pass();
    model_.EndWrite(late, true, false);
    EXPECT_TRUE(Shows(2, 0, late));
  });
}

TEST_F(DataTest, ALostWriteIsNeverShownOverALaterOne) {
  In([&] {
    const std::uint32_t lost = Write(1, 0);
    model_.SessionOver(1);
    Write(2, 0);
    EXPECT_FALSE(Shows(3, 0, lost));
  });
}

TEST_F(DataTest, ALostWriteMayComeOutAgainWhenWhatHidItIsLostToo) {
  In([&] {
    const std::uint32_t lost = Write(1, 0);
    model_.SessionOver(1);
    const std::uint32_t above = Write(2, 0);
    EXPECT_TRUE(Shows(2, 0, above));
    model_.SessionOver(2);
    EXPECT_TRUE(Shows(3, 0, lost));
    EXPECT_FALSE(Shows(3, 0, above));
  });
}

TEST_F(DataTest, ALostWriteIsGoneOnceSomethingSafeWasShownOverIt) {
  In([&] {
    const std::uint32_t lost = Write(1, 0);
    model_.SessionOver(1);
    const std::uint32_t above = Write(2, 0);
    EXPECT_TRUE(Shows(3, 0, above));
    model_.SessionOver(2);
    EXPECT_FALSE(Shows(3, 0, lost));
  });
}

TEST_F(DataTest, PowerFailureMayBringALostWriteBack) {
  In([&] {
    const std::uint32_t lost = Write(1, 0);
    model_.SessionOver(1);
    EXPECT_TRUE(Shows(2, 0, 0));
    model_.PowerFailed();
    EXPECT_TRUE(Shows(3, 0, lost));
  });
}

TEST_F(DataTest, AWriteReadByAnotherHostSurvivesItsSession) {
  In([&] {
    const std::uint32_t seen = Write(1, 0);
    const std::uint32_t synced = Write(1, kCell);
    model_.EndFsync(5, {1, 1}, scheduler_.now(), true);
    const std::uint32_t later = Write(1, 0);
    EXPECT_TRUE(Shows(2, 0, later));
    model_.SessionOver(1);
    EXPECT_FALSE(Shows(3, 0, seen));
    model_.PowerFailed();
    EXPECT_TRUE(Shows(3, 0, seen));
    EXPECT_FALSE(Shows(3, 0, 0));
    EXPECT_TRUE(Shows(3, kCell, synced));
    EXPECT_FALSE(Shows(3, kCell, 0));
  });
}

TEST_F(DataTest, AFailedFlushLosesOnlyItsHostsWrites) {
  In([&] {
    const std::uint32_t own = Write(1, 0);
    const std::uint32_t others = Write(3, kCell);
    EXPECT_TRUE(Shows(2, 0, own));
    EXPECT_TRUE(Shows(2, kCell, others));
    model_.FlushFailed(1);
    EXPECT_TRUE(Shows(2, 0, 0));
    EXPECT_FALSE(Shows(2, kCell, 0));
  });
}

TEST_F(DataTest, AnUnawareHostDecidesNothing) {
  In([&] {
    const std::uint32_t lost = Write(1, 0);
    model_.SessionOver(1);
    EXPECT_TRUE(Shows(1, 0, 0));
    EXPECT_TRUE(Shows(2, 0, lost));
  });
}

TEST_F(DataTest, FsyncReportsAnUndoneWrite) {
  In([&] {
    Write(1, 0);
    model_.SessionOver(1);
    model_.SessionNoticed(1);
    EXPECT_TRUE(Shows(2, 0, 0));
    model_.EndFsync(5, {1, 1}, scheduler_.now(), true);
    EXPECT_EQ(model_.violations().size(), 1u);
  });
}

TEST_F(DataTest, AWriteThatHadBegunToLandIsNotDoneUnderALaterSession) {
  In([&] {
    const std::uint32_t write = model_.BeginWrite(5, {1, 1}, {0, kCell}, false);
    std::vector<std::byte> bytes(kCell);
    model_.Fill(write, bytes);
    Pass();
    model_.Landed(1, bytes);
    Pass();
    model_.CheckDoneOnce(write);
    model_.SessionOver(1);
    model_.CheckDoneOnce(write);
    EXPECT_TRUE(model_.violations().empty());
    Pass();
    model_.SessionNoticed(1);
    model_.CheckDoneOnce(write);
    EXPECT_EQ(model_.violations().size(), 1u);
  });
}

TEST_F(DataTest, AWriteMayBeLostWithASessionWhoseEndWasNoticedBeforeItReturned) {
  In([&] {
    model_.SessionOver(1);
    Pass();
    const std::uint32_t before = model_.BeginWrite(5, {1, 1}, {0, kCell}, false);
    Pass();
    model_.SessionNoticed(1);
    Pass();
    const std::uint32_t after = model_.BeginWrite(5, {1, 1}, {kCell, kCell}, false);
    model_.EndWrite(before, true, false);
    model_.EndWrite(after, true, false);
    EXPECT_TRUE(Shows(1, 0, 0));
    EXPECT_FALSE(Shows(1, kCell, 0));
    // Nobody passes over that: it is shown, and so it is lost.
    model_.EndFsync(5, {1, 1}, scheduler_.now(), true);
    EXPECT_EQ(model_.violations().size(), 2u);
  });
}

TEST_F(DataTest, OfAWriteThatWasCutShortTheRestNeverHappens) {
  In([&] {
    const std::uint32_t write = model_.BeginWrite(5, {1, 1}, {0, 2 * kCell}, false);
    Pass();
    model_.CutShort(write, kCell);
    model_.EndWrite(write, true, false);
    Pass();
    EXPECT_TRUE(Shows(1, 0, write));
    EXPECT_FALSE(Shows(1, kCell, write));
    const std::size_t before = model_.violations().size();
    model_.EndStat(5, {1, 1}, scheduler_.now(), kCell);
    EXPECT_EQ(model_.violations().size(), before);
    model_.EndStat(5, {1, 1}, scheduler_.now(), 2 * kCell);
    EXPECT_EQ(model_.violations().size(), before + 1);
  });
}

TEST_F(DataTest, PagesOfAFailedWriteMayGoAfterARead) {
  In([&] {
    const std::uint32_t through = model_.BeginWrite(5, {1, 1}, {0, kCell}, false);
    const std::uint32_t past = model_.BeginWrite(5, {1, 1}, {kCell, kCell}, false);
    model_.GoesThroughPages(through);
    EXPECT_TRUE(Shows(1, 0, through));
    EXPECT_TRUE(Shows(1, kCell, past));
    model_.EndWrite(through, false, false);
    model_.EndWrite(past, false, false);
    EXPECT_TRUE(Shows(1, 0, 0));
    EXPECT_FALSE(Shows(1, kCell, 0));
  });
}

TEST_F(DataTest, AStoreDuringAZeroingMayGoWithItsPage) {
  In([&] {
    const std::uint32_t zeroing = model_.BeginWrite(5, {1, 1}, {0, kCell}, true);
    const std::uint32_t others = Write(2, 0);
    const std::uint32_t inside = model_.BeginWrite(5, {1, 2}, {0, kCell}, false);
    const std::uint32_t outside = model_.BeginWrite(5, {1, 2}, {kCell, kCell}, false);
    for (const std::uint32_t stored : {inside, outside}) {
      model_.GoesThroughPages(stored);
      model_.EndWrite(stored, true, false);
    }
    EXPECT_TRUE(Shows(1, 0, inside));
    model_.EndWrite(zeroing, true, false);
    EXPECT_TRUE(Shows(3, 0, others));
    EXPECT_FALSE(Shows(3, kCell, 0));
  });
}

TEST_F(DataTest, ANewFileMayBeReportedLostUntilItIsSynced) {
  In([&] {
    model_.Made(1, 5);
    model_.Made(1, 6);
    model_.EndFsync(6, {1, 1}, scheduler_.now(), true);
    Pass();
    model_.SessionOver(1);
    Pass();
    model_.SessionNoticed(1);
    model_.EndFsync(7, {1, 1}, scheduler_.now() + 1, true);  // tells of names that are lost
    Pass();
    EXPECT_TRUE(model_.MayReport(5, 1, scheduler_.now()));
    EXPECT_FALSE(model_.MayReport(5, 2, scheduler_.now()));
  });
}

TEST_F(DataTest, ALossIsReportedOncePerOpenFile) {
  In([&] {
    Write(1, 0);
    Pass();
    EXPECT_FALSE(model_.MayReport(5, 1, 0));
    const Micros opened = scheduler_.now();
    model_.SessionOver(1);
    Pass();
    model_.SessionNoticed(1);
    Pass();
    const Micros later = scheduler_.now();
    EXPECT_TRUE(model_.MayReport(5, 1, opened));
    EXPECT_TRUE(model_.MayReport(5, 1, later));  // nobody was told
    model_.EndFsync(5, {1, 1}, later, false);
    EXPECT_TRUE(model_.MayReport(6, 1, later));  // of names
    model_.EndFsync(5, {1, 1}, later, true);
    EXPECT_FALSE(model_.MayReport(5, 1, later));
    EXPECT_TRUE(model_.MayReport(5, 1, opened));
  });
}

TEST_F(DataTest, ASizeIsOneThatSomethingMadeAndNothingHasChangedSince) {
  In([&] {
    const auto finds = [&](std::uint64_t size_bytes) {
      const std::size_t before = model_.violations().size();
      const Micros began = scheduler_.now();
      Pass();
      model_.EndStat(5, {2, 1}, began, size_bytes);
      return model_.violations().size() == before;
    };
    Write(1, 4 * kCell);
    EXPECT_TRUE(finds(5 * kCell));
    EXPECT_FALSE(finds(4096));
    EXPECT_FALSE(finds(0));
    const std::uint32_t cut = model_.BeginWrite(5, {1, 1}, {kCell, 9 * kCell}, true);
    model_.SetsSize(cut, kCell);
    EXPECT_TRUE(finds(5 * kCell));
    EXPECT_TRUE(finds(kCell));
    model_.EndWrite(cut, true, true);
    Pass();
    EXPECT_FALSE(finds(5 * kCell));
    EXPECT_TRUE(finds(kCell));
  });
}

TEST_F(DataTest, AppendsGoToTheEndAndNeverOverlap) {
  In([&] {
    const auto append = [&](std::uint32_t write, std::uint64_t to) {
      const std::size_t before = model_.violations().size();
      model_.EndAppend(write, to);
      model_.EndWrite(write, true, false);
      Pass();
      return model_.violations().size() == before;
    };
    Write(1, kCell);
    const std::uint32_t first = model_.BeginAppend(5, {1, 1}, kCell);
    const std::uint32_t second = model_.BeginAppend(5, {2, 1}, kCell);
    const std::uint32_t third = model_.BeginAppend(5, {3, 1}, kCell);
    Pass();
    EXPECT_TRUE(append(first, 2 * kCell));
    EXPECT_FALSE(append(second, 2 * kCell));
    EXPECT_FALSE(append(third, 8 * kCell));  // behind a gap
    EXPECT_FALSE(append(model_.BeginAppend(5, {3, 1}, kCell), kCell));
  });
}

TEST(LocksTest, TwoHostsExcludeEachOther) {
  LockModel locks;
  locks.Granted({.inode = 1, .host = 1, .owner = 1, .first = 0, .last = 9, .exclusive = true});
  locks.Granted({.inode = 1, .host = 2, .owner = 1, .first = 10, .last = 19, .exclusive = true});
  EXPECT_TRUE(locks.violations().empty());
  locks.GivenUp(1, 1, 1);
  locks.Granted({.inode = 1, .host = 3, .owner = 1, .first = 5, .last = 15, .exclusive = false});
  EXPECT_EQ(locks.violations().size(), 1u);
}

TEST(LocksTest, HeldLocksAreVisible) {
  LockModel locks;
  locks.Granted({.inode = 1, .host = 1, .owner = 1, .first = 0, .last = 9, .exclusive = true});
  const LockModel::Held held = locks.held().front();
  locks.Missed(held);
  EXPECT_EQ(locks.violations().size(), 1u);
  locks.GivenUp(1, 1, 1);
  locks.Granted(held);  // once more, since that look began
  locks.Missed(held);
  EXPECT_EQ(locks.violations().size(), 1u);
}

}  // namespace
}  // namespace reel::sim
