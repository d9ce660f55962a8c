// Limits: who is refused what, and when.
#include "gmock/gmock.h"
#include "mdc/core/tests/quota_volume.h"

namespace reel::mdc {
namespace {

using testing::HasSubstr;

constexpr std::uint32_t kAnn = 1000;
constexpr std::uint32_t kBob = 1001;

class QuotaLimitsTest : public QuotaVolume {
 protected:
  QuotaLimitsTest() { CountAll(); }
  ~QuotaLimitsTest() override { EXPECT_EQ(Charged(), Recounted()); }

  int Allocate(std::uint64_t inode, std::uint64_t first, std::uint64_t blocks) {
    return a_.Do(As(0, BlocksFor(inode, first, blocks)), true);
  }
};

TEST_F(QuotaLimitsTest, NobodyMakesMoreFilesThanTheHardLimit) {
  ASSERT_TRUE(LimitFiles("user", kAnn, 0, 2).ok());
  EXPECT_NE(Make(kAnn, "one"), 0u);
  EXPECT_NE(Make(kAnn, "two"), 0u);
  EXPECT_EQ(Make(kAnn, "three"), 0u);
  EXPECT_EQ(a_.last_.error(), EDQUOT);
  EXPECT_THAT(a_.last_.message(), HasSubstr("user 1000 has 2 files, and may have 2"));
  EXPECT_NE(Make(kBob, "three"), 0u);
  EXPECT_EQ(a_.Do(Client::UnlinkOf("one"), true), 0);
  EXPECT_NE(Make(kAnn, "four"), 0u);
  EXPECT_EQ(FilesOf("user", kAnn), 2u);
}

TEST_F(QuotaLimitsTest, BlocksAreGivenUpToTheHardLimit) {
  ASSERT_TRUE(LimitBlocks("group", kAnn, 0, 10).ok());
  const std::uint64_t file = Make(kAnn, "file", true);
  ASSERT_EQ(Allocate(file, 0, 8), 0);
  EXPECT_EQ(BlocksOf("group", kAnn), 8u);
  EXPECT_EQ(Allocate(file, 8, 3), EDQUOT);
  EXPECT_EQ(BlocksOf("group", kAnn), 8u);
  ASSERT_EQ(Allocate(file, 6, 4), 0);  // two of them are there
  EXPECT_EQ(Allocate(file, 10, 1), EDQUOT);
  EXPECT_EQ(BlocksOf("group", kAnn), 10u);
  EXPECT_EQ(a_.Do(As(kAnn, SizeOf(file, 0)), true), 0);
  EXPECT_EQ(BlocksOf("group", kAnn), 0u);
  EXPECT_EQ(Allocate(file, 4, 1), 0);
}

TEST_F(QuotaLimitsTest, FallocateIsRefusedBeforeItTakesAny) {
  ASSERT_TRUE(LimitBlocks("user", kAnn, 0, 10).ok());
  const std::uint64_t file = Make(kAnn, "file", true);
  ASSERT_EQ(a_.Do(As(kAnn, BlocksFor(file, 0, 1)), true), 0);
  EXPECT_EQ(a_.Do(As(kAnn, ReserveOf(file, 0, 12)), true), EDQUOT);
  EXPECT_EQ(BlocksOf("user", kAnn), 1u);
  EXPECT_EQ(a_.Do(As(kAnn, ReserveOf(file, 0, 10)), true), 0);
  EXPECT_EQ(BlocksOf("user", kAnn), 10u);
}

TEST_F(QuotaLimitsTest, ANewFileWithoutRoomForItsFirstBytesIsThere) {
  ASSERT_TRUE(LimitBlocks("user", kAnn, 0, 4).ok());
  ASSERT_EQ(Allocate(Make(kAnn, "full", true), 0, 4), 0);
  v1::Request create = As(kAnn, Client::CreateOf("next", true));
  create.mutable_create()->set_token(v1::TOKEN_EXCLUSIVE);
  create.mutable_create()->set_allocate_bytes(kBlock);
  EXPECT_EQ(a_.Do(create, true), 0);
  EXPECT_EQ(BlocksOf("user", kAnn), 4u);
}

TEST_F(QuotaLimitsTest, WhoLooksAfterThemIsToldOfEachLimit) {
  ASSERT_TRUE(LimitBlocks("user", kAnn, 4, 10).ok());
  const std::uint64_t quiet = Make(kAnn, "quiet", true);
  ASSERT_EQ(Allocate(quiet, 0, 5), 0);
  EXPECT_TRUE(harness_.quota_notices_.empty()) << "nobody wants to know";
  ASSERT_EQ(a_.Do(As(kAnn, SizeOf(quiet, 0)), true), 0);

  harness_.options_.quota_notices = true;
  Restart();
  const std::uint64_t file = Make(kAnn, "file", true);
  ASSERT_EQ(Allocate(file, 0, 4), 0);
  EXPECT_TRUE(harness_.quota_notices_.empty());
  ASSERT_EQ(Allocate(file, 4, 1), 0);
  ASSERT_EQ(harness_.quota_notices_.size(), 1u);
  const QuotaNotice soft = harness_.quota_notices_[0];
  EXPECT_EQ(soft.event, "soft");
  EXPECT_EQ(soft.kind, "user");
  EXPECT_EQ(soft.id, kAnn);
  EXPECT_EQ(soft.of, "space");
  EXPECT_EQ(soft.used, 5 * kBlock);
  EXPECT_EQ(soft.soft, 4 * kBlock);
  EXPECT_EQ(soft.hard, 10 * kBlock);
  EXPECT_THAT(soft.text, HasSubstr("user 1000 is above its soft limit"));
  ASSERT_EQ(Allocate(file, 5, 5), 0);
  ASSERT_EQ(harness_.quota_notices_.size(), 2u);
  EXPECT_EQ(harness_.quota_notices_[1].event, "hard");
  EXPECT_EQ(Allocate(file, 10, 1), EDQUOT);
  EXPECT_EQ(harness_.quota_notices_.size(), 2u) << "a refusal is no news";
  // The way down is none for whoever looks after it; the next crossing is.
  ASSERT_EQ(a_.Do(As(kAnn, SizeOf(file, 0)), true), 0);
  ASSERT_EQ(LimitFiles("user", kAnn, 0, 2).code(), absl::StatusCode::kOk);
  EXPECT_EQ(Make(kAnn, "third"), 0u);
  EXPECT_EQ(harness_.quota_notices_.size(), 2u) << "it had so many before";
}

TEST_F(QuotaLimitsTest, RootIsNeverLimited) {
  EXPECT_EQ(LimitFiles("user", 0, 0, 1).code(), absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE(LimitFiles("user", kAnn, 0, 1).ok());
  ASSERT_NE(Make(kAnn, "hers"), 0u);
  const std::uint64_t file = Make(0, "roots");
  EXPECT_EQ(a_.Do(As(0, OwnerChangeOf(file, kAnn)), true), 0);  // past it
  EXPECT_EQ(FilesOf("user", kAnn), 2u);
  EXPECT_EQ(Make(kAnn, "another"), 0u);
}

TEST_F(QuotaLimitsTest, AnOwnerGivesNoGroupMoreThanItMayHave) {
  ASSERT_TRUE(LimitFiles("group", kBob, 0, 1).ok());
  ASSERT_NE(Make(kBob, "his"), 0u);
  const std::uint64_t file = Make(kAnn, "hers");
  v1::Request chgrp = OwnerChangeOf(file, kBob);
  chgrp.mutable_set_attr()->set_fields(v1::SetAttr::GID);
  EXPECT_EQ(a_.Do(As(kAnn, chgrp), true), EDQUOT);
  EXPECT_EQ(FilesOf("group", kBob), 1u);
}

TEST_F(QuotaLimitsTest, ARemovedFileIsChargedUntilItsLastClose) {
  ASSERT_TRUE(LimitBlocks("user", kAnn, 0, 4).ok());
  const std::uint64_t file = Make(kAnn, "file", true);
  ASSERT_EQ(Allocate(file, 0, 4), 0);
  ASSERT_EQ(a_.Do(Client::UnlinkOf("file"), true), 0);
  EXPECT_EQ(BlocksOf("user", kAnn), 4u);
  EXPECT_EQ(a_.Do(Client::ReturnOf(file), true), 0);
  EXPECT_EQ(a_.Do(Client::CloseOf(file)), 0);
  harness_.Tick();
  EXPECT_EQ(BlocksOf("user", kAnn), 0u);
  EXPECT_EQ(FilesOf("user", kAnn), 0u);
}

TEST_F(QuotaLimitsTest, BlocksThatComeBackAreWaitedFor) {
  harness_.options_.steps.reaped = 1;
  Restart();
  ASSERT_TRUE(LimitBlocks("user", kAnn, 0, 4).ok());
  const std::uint64_t file = Make(kAnn, "file", true);
  for (const std::uint64_t block : {0, 2, 4, 6}) ASSERT_EQ(Allocate(file, block, 1), 0);
  ASSERT_EQ(a_.Do(Client::CloseOf(file)), 0);
  ASSERT_EQ(a_.Do(Client::ReturnOf(file), true), 0);
  const std::uint64_t next = Make(kAnn, "next", true);
  harness_.hold_syncs_ = true;
  const std::uint64_t removed = a_.SendIn(1, Client::UnlinkOf("file"));
  const std::uint64_t written = a_.SendIn(2, BlocksFor(next, 0, 4));
  harness_.Run();
  harness_.hold_syncs_ = false;
  harness_.Pass(500, {&a_, &b_});
  EXPECT_EQ(a_.Answer(removed).error(), 0);
  EXPECT_EQ(a_.Answer(written).error(), 0);
}

TEST_F(QuotaLimitsTest, SoftLimitsHoldWhenTheirGraceTimeIsOver) {
  v1::SetQuotasRequest grace;
  grace.mutable_grace()->set_kind("user");
  grace.mutable_grace()->set_files_seconds(60);
  ASSERT_TRUE(Set(grace).ok());
  ASSERT_TRUE(LimitFiles("user", kAnn, 1, 5).ok());
  EXPECT_NE(Make(kAnn, "one"), 0u);
  EXPECT_EQ(QuotaOf("user", kAnn).files_state(), "");
  EXPECT_NE(Make(kAnn, "two"), 0u);
  EXPECT_EQ(QuotaOf("user", kAnn).files_state(), "grace");
  EXPECT_EQ(QuotaOf("user", kAnn).files_grace_left_seconds(), 60u);
  harness_.Pass(59'000, {&a_, &b_});
  EXPECT_NE(Make(kAnn, "three"), 0u);
  harness_.Pass(2'000, {&a_, &b_});
  EXPECT_EQ(QuotaOf("user", kAnn).files_state(), "over");
  EXPECT_EQ(Make(kAnn, "four"), 0u);
  EXPECT_EQ(a_.last_.error(), EDQUOT);
  for (const char* name : {"one", "two"}) EXPECT_EQ(a_.Do(Client::UnlinkOf(name), true), 0);
  EXPECT_EQ(QuotaOf("user", kAnn).files_state(), "");
  EXPECT_NE(Make(kAnn, "four"), 0u);  // another grace time
}

TEST_F(QuotaLimitsTest, BlocksAheadPutNobodyAboveALimit) {
  ASSERT_TRUE(LimitBlocks("user", kAnn, 600, 4000).ok());
  const std::uint64_t file = Make(kAnn, "file", true);
  ASSERT_EQ(Allocate(file, 0, 512), 0);  // would have as many ahead
  EXPECT_LE(BlocksOf("user", kAnn), 600u);
  EXPECT_EQ(QuotaOf("user", kAnn).space_state(), "");
}

TEST_F(QuotaLimitsTest, WhatOthersHaveAheadComesBackBeforeAnybodyIsRefused) {
  ASSERT_TRUE(LimitBlocks("user", kAnn, 0, 20).ok());
  const std::uint64_t file = Make(kAnn, "file", true), next = Make(kAnn, "next", true);
  ASSERT_EQ(Allocate(file, 0, 15), 0);
  v1::Request ahead = As(kAnn, BlocksFor(next, 0, 10));
  ahead.mutable_layout_get()->set_ahead(true);
  EXPECT_EQ(a_.Do(ahead, true), EDQUOT) << "nobody waits for that";
  EXPECT_TRUE(a_.recalls_.empty());

  const std::uint64_t refused = a_.SendIn(2, As(kAnn, BlocksFor(next, 0, 10)));
  harness_.Pass(100, {&a_, &b_});
  ASSERT_EQ(a_.recalls_.size(), 1u);
  EXPECT_EQ(a_.recalls_[0].inode(), file);
  EXPECT_FALSE(a_.Answered(refused));
  harness_.Pass(1'500, {&a_, &b_});
  EXPECT_EQ(a_.Answer(refused).error(), EDQUOT) << "it waits for a second";

  const std::uint64_t written = a_.SendIn(2, As(kAnn, BlocksFor(next, 0, 10)));
  harness_.Pass(100, {&a_, &b_});
  v1::Request commit;
  commit.mutable_layout_commit()->set_inode(file);
  commit.mutable_layout_commit()->set_size_bytes(5 * kBlock);
  commit.mutable_layout_commit()->set_release_tail(true);
  EXPECT_EQ(a_.Do(commit, true), 0);
  EXPECT_EQ(a_.Do(Client::ReturnOf(file), true), 0);
  harness_.Pass(100, {&a_, &b_});
  EXPECT_EQ(a_.Answer(written).error(), 0);
  EXPECT_EQ(BlocksOf("user", kAnn), 15u);
}

// A client may give a token back before it hears of the blocks that it got under it.
TEST_F(QuotaLimitsTest, BlocksAheadOfAFileThatNobodyHoldsAreFreed) {
  ASSERT_TRUE(LimitBlocks("user", kAnn, 0, 20).ok());
  const std::uint64_t file = Make(kAnn, "file", true), next = Make(kAnn, "next", true);
  ASSERT_EQ(Allocate(file, 0, 15), 0);
  v1::Request commit;
  commit.mutable_layout_commit()->set_inode(file);
  commit.mutable_layout_commit()->set_size_bytes(2 * kBlock);
  EXPECT_EQ(a_.Do(commit, true), 0);
  EXPECT_EQ(a_.Do(Client::ReturnOf(file), true), 0);
  a_.recalls_.clear();
  const std::uint64_t written = a_.SendIn(2, As(kAnn, BlocksFor(next, 0, 10)));
  harness_.Pass(100, {&a_, &b_});
  ASSERT_TRUE(a_.Answered(written));
  EXPECT_EQ(a_.Answer(written).error(), 0);
  EXPECT_TRUE(a_.recalls_.empty());
  EXPECT_EQ(BlocksOf("user", kAnn), 12u) << "what is before the end of the file stays";
}

// Who has lowered its token keeps what it knows of the blocks, and may write there again.
TEST_F(QuotaLimitsTest, BlocksAheadThatASessionMayStillKnowAreNotFreed) {
  ASSERT_TRUE(LimitBlocks("user", kAnn, 0, 20).ok());
  const std::uint64_t file = Make(kAnn, "file", true), next = Make(kAnn, "next", true);
  ASSERT_EQ(Allocate(file, 0, 15), 0);
  EXPECT_EQ(a_.Do(Client::ReturnOf(file, v1::TOKEN_SHARED), true), 0);
  a_.recalls_.clear();
  const std::uint64_t refused = a_.SendIn(2, As(kAnn, BlocksFor(next, 0, 10)));
  harness_.Pass(100, {&a_, &b_});
  ASSERT_EQ(a_.recalls_.size(), 1u);
  EXPECT_EQ(a_.recalls_[0].inode(), file);
  EXPECT_EQ(BlocksOf("user", kAnn), 15u);
  EXPECT_FALSE(a_.Answered(refused));
  EXPECT_EQ(a_.Do(Client::ReturnOf(file), true), 0);
  harness_.Pass(100, {&a_, &b_});
  EXPECT_EQ(a_.Answer(refused).error(), 0);
  EXPECT_EQ(BlocksOf("user", kAnn), 10u);
}

TEST_F(QuotaLimitsTest, BlocksAheadAreAskedForAgainFromWhoeverComesToHoldTheFile) {
  ASSERT_TRUE(LimitBlocks("user", kAnn, 0, 20).ok());
  const std::uint64_t file = Make(kAnn, "file", true), next = Make(kAnn, "next", true);
  ASSERT_EQ(Allocate(file, 0, 15), 0);
  EXPECT_EQ(a_.Do(Client::ReturnOf(file), true), 0);
  ASSERT_EQ(a_.Do(As(kAnn, Client::LayoutOf(file, v1::TOKEN_EXCLUSIVE, false, 0, kBlock))), 0);
  a_.recalls_.clear();
  a_.SendIn(2, As(kAnn, BlocksFor(next, 0, 10)));
  harness_.Pass(100, {&a_, &b_});
  ASSERT_EQ(a_.recalls_.size(), 1u);
  EXPECT_EQ(a_.recalls_[0].inode(), file);
}

TEST_F(QuotaLimitsTest, UsageAndLimitsSurviveAFailover) {
  ASSERT_TRUE(LimitFiles("user", kAnn, 0, 1).ok());
  ASSERT_NE(Make(kAnn, "one"), 0u);
  Restart();
  EXPECT_EQ(FilesOf("user", kAnn), 1u);
  EXPECT_EQ(Make(kAnn, "two"), 0u);
  EXPECT_EQ(a_.last_.error(), EDQUOT);
}

TEST_F(QuotaLimitsTest, SwitchedOffNothingIsRefusedAndSwitchedOnItIsCountedAnew) {
  ASSERT_TRUE(LimitFiles("user", kAnn, 0, 1).ok());
  ASSERT_NE(Make(kAnn, "one"), 0u);
  ASSERT_TRUE(Switch("off").ok());
  ASSERT_NE(Make(kAnn, "two"), 0u);
  CountAll();
  EXPECT_EQ(FilesOf("user", kAnn), 2u);
  EXPECT_EQ(Make(kAnn, "three"), 0u);
}

TEST_F(QuotaLimitsTest, WhatIsMadeInATreeBelongsToIt) {
  AddTree("scans");
  const std::uint64_t top = MakeDir(1, "top");
  ASSERT_EQ(a_.Do(As(kAnn, TreeOf(top, "scans")), true), EPERM);
  ASSERT_EQ(a_.Do(As(0, TreeOf(top, "other")), true), EINVAL);
  ASSERT_EQ(a_.Do(As(0, TreeOf(top, "scans")), true), 0);
  const std::uint64_t below = MakeDir(top, "below");
  EXPECT_EQ(a_.Do(As(kAnn, XattrOf(below, "reelfs.tree"))), 0);
  EXPECT_EQ(a_.last_.data().data(), "scans");
  const std::uint64_t file = Make(kAnn, "file", true, below);
  ASSERT_EQ(Allocate(file, 0, 3), 0);
  EXPECT_EQ(QuotaOf("tree", 0, "scans").files(), 3u);
  EXPECT_EQ(QuotaOf("tree", 0, "scans").bytes(), 3 * kBlock);
  EXPECT_EQ(a_.Do(As(kAnn, XattrOf(top, "reelfs.quota"))), 0);
  EXPECT_THAT(a_.last_.data().data(),
              HasSubstr("tree \"scans\" bytes=12288 soft=0 hard=0 files=3"));
}

TEST_F(QuotaLimitsTest, StatFsOfATreeShowsItsLimit) {
  AddTree("scans");
  const std::uint64_t top = MakeDir(1, "top");
  ASSERT_EQ(a_.Do(As(0, TreeOf(top, "scans")), true), 0);
  ASSERT_TRUE(LimitBlocks("tree", 0, 0, 100, "scans").ok());
  ASSERT_EQ(Allocate(Make(0, "file", true, top), 0, 30), 0);
  EXPECT_EQ(a_.Do(As(kAnn, XattrOf(top, "reelfs.space"))), 0);
  EXPECT_EQ(a_.last_.data().data(), absl::StrCat(100 * kBlock, " ", 70 * kBlock));
  v1::Request request;
  request.mutable_stat_fs();
  EXPECT_EQ(a_.Do(request), 0);
  const std::uint64_t all = a_.last_.stat_fs().total_blocks();
  EXPECT_GT(all, 100u);
  EXPECT_FALSE(a_.last_.stat_fs().of_inode());
  request.mutable_stat_fs()->set_inode(top);
  EXPECT_EQ(a_.Do(request), 0);
  EXPECT_EQ(a_.last_.stat_fs().total_blocks(), 100u);
  EXPECT_EQ(a_.last_.stat_fs().free_blocks(), 70u);
  EXPECT_TRUE(a_.last_.stat_fs().of_inode());
  request.mutable_stat_fs()->set_inode(4711);  // which has been removed
  EXPECT_EQ(a_.Do(request), 0);
  EXPECT_EQ(a_.last_.stat_fs().total_blocks(), all);
  EXPECT_FALSE(a_.last_.stat_fs().of_inode());
}

TEST_F(QuotaLimitsTest, NothingMovesFromTreeToTree) {
  AddTree("scans");
  const std::uint64_t top = MakeDir(1, "top");
  ASSERT_EQ(a_.Do(As(0, TreeOf(top, "scans")), true), 0);
  const std::uint64_t in = Make(0, "in", false, top);
  const std::uint64_t out = Make(0, "out");
  EXPECT_EQ(a_.Do(RenameOf(1, "out", top, "out"), true), EXDEV);
  EXPECT_EQ(a_.Do(RenameOf(top, "in", 1, "in"), true), EXDEV);
  EXPECT_EQ(a_.Do(RenameOf(1, "out", top, "in", /*RENAME_EXCHANGE*/ 2), true), EXDEV);
  EXPECT_EQ(a_.Do(LinkOf(in, 1, "link"), true), EXDEV);
  EXPECT_EQ(a_.Do(LinkOf(out, top, "link"), true), EXDEV);
  EXPECT_EQ(a_.Do(RenameOf(top, "in", top, "still in"), true), 0);
  EXPECT_EQ(a_.Do(RenameOf(1, "top", 1, "renamed"), true), 0);
  v1::SetQuotasRequest remove;
  remove.set_remove_tree("scans");
  ASSERT_TRUE(Set(remove).ok());
  EXPECT_EQ(a_.Do(RenameOf(top, "still in", 1, "in"), true), 0);
}

TEST_F(QuotaLimitsTest, SetAndListSayWhatIsWrong) {
  EXPECT_EQ(Set(LimitsOf("host", 1)).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Set(LimitsOf("tree", 1)).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(LimitFiles("user", kAnn, 2, 1).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Switch("perhaps").code(), absl::StatusCode::kInvalidArgument);
  AddTree("scans");
  v1::SetQuotasRequest again;
  again.set_add_tree("scans");
  EXPECT_EQ(Set(again).code(), absl::StatusCode::kAlreadyExists);
  again.set_add_tree("two words");
  EXPECT_EQ(Set(again).code(), absl::StatusCode::kInvalidArgument);
}

// ---- what sessions may make by themselves -------------------------------------------------------

class QuotaDelegationTest : public QuotaLimitsTest {
 protected:
  static v1::Request OpenOf(const std::string& name, std::uint32_t reserved = 0) {
    v1::Request request = As(kAnn, Client::CreateOf(name, /*open=*/true));
    request.mutable_create()->set_token(v1::TOKEN_EXCLUSIVE);
    request.mutable_create()->set_reserved_inodes(reserved);
    request.mutable_create()->set_reserved_bytes(2 * kBlock);
    return request;
  }
  std::vector<v1::ReservedInode> HoldRoot(std::uint32_t reserved) {
    a_.Create("zeroth");
    EXPECT_EQ(a_.Do(Client::LookupOf("nothing")), ENOENT);
    EXPECT_EQ(a_.Do(OpenOf("first", reserved), true), 0);
    return {a_.last_.reserved_inodes().begin(), a_.last_.reserved_inodes().end()};
  }
  static v1::Request Delegated(v1::Request request, const v1::ReservedInode& reserved) {
    v1::Replay& decided = *request.mutable_delegated();
    decided.mutable_time()->set_seconds(777);
    decided.set_inode(reserved.inode());
    decided.set_generation(reserved.generation());
    return request;
  }
};

TEST_F(QuotaDelegationTest, WhatIsReservedIsChargedAndNeverRefused) {
  ASSERT_TRUE(LimitFiles("user", kAnn, 0, 400).ok());
  const auto reserved = HoldRoot(3);
  ASSERT_EQ(reserved.size(), 3u);
  EXPECT_TRUE(reserved[0].owned());
  EXPECT_EQ(reserved[0].uid(), kAnn);
  ASSERT_TRUE(LimitFiles("user", kAnn, 0, 4).ok());  // one there, three reserved
  EXPECT_EQ(Make(kAnn, "other"), 0u);
  EXPECT_EQ(a_.last_.error(), EDQUOT);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(a_.Do(Delegated(OpenOf(absl::StrCat("made ", i)), reserved[i]), true), 0);
  }
  EXPECT_EQ(FilesOf("user", kAnn), 4u);
  EXPECT_EQ(Make(kAnn, "other"), 0u);
}

TEST_F(QuotaDelegationTest, WhatIsGivenBackIsChargedNoMore) {
  ASSERT_TRUE(LimitFiles("user", kAnn, 0, 400).ok());
  ASSERT_EQ(HoldRoot(3).size(), 3u);
  ASSERT_TRUE(LimitFiles("user", kAnn, 0, 4).ok());
  EXPECT_EQ(a_.Do(Client::AttrReturnOf({1})), 0);
  for (int i = 0; i < 3; ++i) EXPECT_NE(Make(kAnn, absl::StrCat("made ", i)), 0u);
  EXPECT_EQ(Make(kAnn, "one more"), 0u);
}

TEST_F(QuotaDelegationTest, NothingIsReservedNearALimit) {
  ASSERT_TRUE(LimitFiles("user", kAnn, 0, 20).ok());
  EXPECT_TRUE(HoldRoot(3).empty());
}

TEST_F(QuotaDelegationTest, NothingIsReservedForClientsThatDoNotKnowOfQuotas) {
  Client old(harness_, 3);
  old.caches_ = true;
  old.features_ = v1::FEATURE_EARLY_REPLY | v1::FEATURE_DELEGATION;
  old.Register();
  old.Create("zeroth");
  EXPECT_EQ(old.Do(Client::LookupOf("nothing")), ENOENT);
  EXPECT_EQ(old.Do(OpenOf("first", 3), true), 0);
  EXPECT_EQ(old.last_.reserved_inodes_size(), 0);
}

}  // namespace
}  // namespace reel::mdc
