// Who may cache what, and who has to wait for it.
#include "gmock/gmock.h"
#include "mdc/testing/core_harness.h"

namespace reel::mdc {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class CacheTest : public testing::Test {
 protected:
  CacheTest() {
    a_.caches_ = b_.caches_ = true;
    a_.Register();
    b_.Register();
  }
  std::vector<std::uint64_t> Cacheable(const Client& client) {
    return {client.last_.cacheable().begin(), client.last_.cacheable().end()};
  }

  CoreHarness harness_;
  Client a_{harness_, 1}, b_{harness_, 2};
};

TEST_F(CacheTest, RepliesGrantTheTokensOfWhatTheyDescribe) {
  const std::uint64_t inode = a_.Create("file");
  EXPECT_THAT(Cacheable(a_), ElementsAre(inode));
  ASSERT_EQ(b_.Do(Client::LookupOf("file")), 0);
  EXPECT_THAT(Cacheable(b_), ElementsAre(1, inode));
  ASSERT_EQ(b_.Do(Client::LookupOf("nothing")), ENOENT);
  EXPECT_THAT(Cacheable(b_), ElementsAre(1));  // it may remember the absence
}

TEST_F(CacheTest, ASessionThatDoesNotCacheGetsNoToken) {
  Client plain(harness_, 3);
  plain.Register();
  plain.Create("file");
  EXPECT_THAT(Cacheable(plain), IsEmpty());
}

TEST_F(CacheTest, AChangeWaitsForTheCachesOfOthers) {
  ASSERT_EQ(a_.Do(Client::LookupOf("file")), ENOENT);
  const std::uint64_t create = b_.SendIn(1, Client::CreateOf("file"));
  harness_.Run();
  EXPECT_FALSE(b_.Answered(create));
  EXPECT_THAT(a_.attr_recalls_, ElementsAre(1));
  // Nothing new while somebody waits, to the one that caches or to others.
  ASSERT_EQ(a_.Do(Client::LookupOf("other")), ENOENT);
  EXPECT_THAT(Cacheable(a_), IsEmpty());
  ASSERT_EQ(a_.Do(Client::AttrReturnOf({1})), 0);
  ASSERT_TRUE(b_.Answered(create));
  EXPECT_EQ(b_.Answer(create).error(), 0);
  ASSERT_EQ(a_.Do(Client::LookupOf("file")), 0);
}

TEST_F(CacheTest, TheSessionsOwnCacheIsUpdatedNotRecalled) {
  ASSERT_EQ(a_.Do(Client::LookupOf("file")), ENOENT);
  const std::uint64_t inode = a_.Create("file");
  EXPECT_THAT(a_.attr_recalls_, IsEmpty());
  ASSERT_EQ(a_.last_.changed_size(), 1);  // the directory; the file was not cached before
  EXPECT_EQ(a_.last_.changed(0).inode(), 1u);
  ASSERT_EQ(a_.Do(Client::UnlinkOf("file"), true), 0);
  ASSERT_EQ(a_.last_.changed_size(), 2);
  EXPECT_EQ(a_.last_.changed(1).inode(), inode);
  EXPECT_EQ(a_.last_.changed(1).mode(), 0u);  // gone
  ASSERT_EQ(a_.Do(Client::GetAttrOf(inode)), ESTALE);
}

TEST_F(CacheTest, ARemovalThatWaitsForItsOwnDataTokenDropsTheCacheAtOnce) {
  const std::uint64_t inode = a_.Create("file");
  ASSERT_EQ(a_.Do(Client::LayoutOf(inode, v1::TOKEN_EXCLUSIVE)), 0);
  ASSERT_EQ(a_.Do(Client::UnlinkOf("file"), true), 0);
  ASSERT_EQ(a_.last_.changed_size(), 1);
  EXPECT_EQ(a_.last_.changed(0).inode(), inode);
  EXPECT_EQ(a_.last_.changed(0).mode(), 0u);
  harness_.Pass(200, {&a_, &b_});
  ASSERT_EQ(a_.recalls_.size(), 1u);
  ASSERT_EQ(a_.Do(Client::ReturnOf(inode), true), 0);
  harness_.Pass(200, {&a_, &b_});
  EXPECT_EQ(a_.Do(Client::GetAttrOf(inode)), ESTALE);
  EXPECT_THAT(a_.attr_recalls_, IsEmpty());
}

TEST_F(CacheTest, ARecallOnItsWayIsAnsweredByItself) {
  const std::uint64_t inode = a_.Create("file");
  ASSERT_EQ(a_.Do(Client::LayoutOf(inode, v1::TOKEN_SHARED)), 0);
  v1::Request chmod;
  chmod.mutable_set_attr()->set_inode(inode);
  chmod.mutable_set_attr()->set_fields(v1::SetAttr::MODE);
  const std::uint64_t id = b_.SendIn(1, chmod);
  harness_.Run();
  EXPECT_THAT(a_.attr_recalls_, ElementsAre(inode));
  ASSERT_EQ(a_.Do(Client::UnlinkOf("file"), true), 0);
  ASSERT_EQ(a_.last_.changed_size(), 1);
  EXPECT_NE(a_.last_.changed(0).mode(), 0u);
  EXPECT_FALSE(b_.Answered(id));
  ASSERT_EQ(a_.Do(Client::AttrReturnOf({inode})), 0);
  EXPECT_TRUE(b_.Answered(id));
}

TEST_F(CacheTest, ARemovalDoesNotWaitForOtherCaches) {
  const std::uint64_t inode = a_.Create("file");
  ASSERT_EQ(b_.Do(Client::GetAttrOf(inode)), 0);
  ASSERT_EQ(a_.Do(Client::UnlinkOf("file"), true), 0);
  EXPECT_THAT(b_.attr_recalls_, ElementsAre(inode));
  ASSERT_EQ(b_.Do(Client::AttrReturnOf({inode})), 0);
  ASSERT_EQ(b_.Do(Client::GetAttrOf(inode)), ESTALE);
  EXPECT_THAT(Cacheable(b_), IsEmpty());
}

TEST_F(CacheTest, TheCacheOfAnUnlinkedInodeGoesWithIt) {
  const std::uint64_t inode = a_.Create("file", /*open=*/true);
  ASSERT_EQ(a_.Do(Client::UnlinkOf("file"), true), 0);
  ASSERT_EQ(b_.Do(Client::GetAttrOf(inode)), 0);  // A has it open
  EXPECT_THAT(Cacheable(b_), ElementsAre(inode));
  ASSERT_EQ(a_.Do(Client::CloseOf(inode)), 0);
  harness_.Pass(200, {&a_, &b_});
  EXPECT_THAT(b_.attr_recalls_, ElementsAre(inode));
  ASSERT_EQ(b_.Do(Client::AttrReturnOf({inode})), 0);
  ASSERT_EQ(b_.Do(Client::GetAttrOf(inode)), ESTALE);
}

TEST_F(CacheTest, AWaitForTheTokenOfARemovedInodeEnds) {
  const std::uint64_t inode = a_.Create("file");
  ASSERT_EQ(b_.Do(Client::GetAttrOf(inode)), 0);
  v1::Request chmod;
  chmod.mutable_set_attr()->set_inode(inode);
  chmod.mutable_set_attr()->set_fields(v1::SetAttr::MODE);
  const std::uint64_t id = a_.SendIn(1, chmod);
  harness_.Run();
  ASSERT_FALSE(a_.Answered(id));
  ASSERT_EQ(b_.Do(Client::UnlinkOf("file"), true), 0);
  ASSERT_TRUE(a_.Answered(id));
  EXPECT_EQ(a_.Answer(id).error(), ESTALE);
}

// A second answer to one recall would give up what was granted after the first.
TEST_F(CacheTest, AResumedSessionGetsEachRecallOnce) {
  const std::uint64_t inode = a_.Create("file");
  ASSERT_EQ(a_.Resume(), 0);
  v1::Request chmod;
  chmod.mutable_set_attr()->set_inode(inode);
  chmod.mutable_set_attr()->set_fields(v1::SetAttr::MODE);
  b_.SendIn(1, chmod);
  harness_.Run();
  harness_.Pass(200, {&a_, &b_});
  EXPECT_THAT(a_.attr_recalls_, ElementsAre(inode));
}

TEST_F(CacheTest, AnOpenAfterALookupSurvivesARemoval) {
  const std::uint64_t inode = a_.Create("file");
  const auto remove = [&](std::uint64_t removed) {
    ASSERT_EQ(b_.Do(Client::LookupOf("file")), 0);
    const std::uint64_t unlink = a_.SendIn(1, Client::UnlinkOf("file"));
    harness_.Run();
    EXPECT_FALSE(a_.Answered(unlink));
    ASSERT_EQ(b_.Do(Client::AttrReturnOf({1})), 0);
    ASSERT_EQ(b_.Do(Client::AttrReturnOf({removed})), 0);
    ASSERT_TRUE(a_.Answered(unlink));
  };
  remove(inode);
  ASSERT_EQ(b_.Do(Client::OpenOf(inode)), 0);
  harness_.Pass(1000, {&a_, &b_});
  EXPECT_EQ(b_.Do(Client::GetAttrOf(inode)), 0);
  ASSERT_EQ(b_.Do(Client::CloseOf(inode)), 0);
  EXPECT_EQ(b_.Do(Client::OpenOf(inode)), ESTALE);

  const std::uint64_t next = a_.Create("file");
  remove(next);
  harness_.Pass(1000, {&a_, &b_});  // nobody came
  EXPECT_EQ(b_.Do(Client::OpenOf(next)), ESTALE);
  EXPECT_EQ(harness_.Counter("orphans.now"), 0u);
}

TEST_F(CacheTest, AnAllocationWaitsForARemovalUnderWay) {
  constexpr std::uint64_t kPiece = 64 << 20;
  const auto fill = [](std::uint64_t inode, std::uint64_t piece) {
    return Client::LayoutOf(inode, v1::TOKEN_EXCLUSIVE, true, piece * kPiece, kPiece);
  };
  const std::uint64_t big = b_.Create("big");
  std::uint64_t pieces = 0;
  while (pieces < 100 && b_.Do(fill(big, pieces), true) == 0) ++pieces;
  ASSERT_GT(pieces, 4u);
  ASSERT_LT(pieces, 100u);
  ASSERT_EQ(b_.Do(Client::ReturnOf(big), true), 0);
  const std::uint64_t next = b_.Create("next");
  ASSERT_EQ(b_.Do(fill(next, 0), true), ENOSPC);

  ASSERT_EQ(a_.Do(Client::LookupOf("big")), 0);  // and may open it, for a moment longer
  const std::uint64_t unlink = b_.SendIn(1, Client::UnlinkOf("big"));
  harness_.Run();
  ASSERT_EQ(a_.Do(Client::AttrReturnOf({1})), 0);
  ASSERT_EQ(a_.Do(Client::AttrReturnOf({big})), 0);
  ASSERT_TRUE(b_.Answered(unlink));
  const std::uint64_t first = b_.SendIn(1, fill(next, 0));
  harness_.Pass(100, {&a_, &b_});
  ASSERT_TRUE(b_.Answered(first));
  EXPECT_EQ(b_.Answer(first).error(), 0);
  for (std::uint64_t piece = 1; piece < pieces; ++piece) {
    EXPECT_EQ(b_.Do(fill(next, piece), true), 0) << piece;
  }
  EXPECT_EQ(b_.Do(fill(next, pieces), true), ENOSPC);
}

TEST_F(CacheTest, AnAllocationFailsWhereNoSpaceComesBack) {
  const std::uint64_t inode = a_.Create("file", /*open=*/true);
  ASSERT_EQ(a_.Do(Client::LayoutOf(inode, v1::TOKEN_EXCLUSIVE, true), true), 0);
  ASSERT_EQ(a_.Do(Client::UnlinkOf("file"), true), 0);
  ASSERT_EQ(a_.Do(Client::CloseOf(inode)), 0);
  ASSERT_EQ(a_.Do(Client::ReturnOf(inode), true), 0);  // each of these queues a step of removal
  harness_.Pass(500, {&a_, &b_});
  constexpr std::uint64_t kPiece = 256 << 20;
  const std::uint64_t big = b_.Create("big");
  int error = 0;
  for (std::uint64_t piece = 0; error == 0 && piece < 100; ++piece) {
    const auto request = Client::LayoutOf(big, v1::TOKEN_EXCLUSIVE, true, piece * kPiece, kPiece);
    const std::uint64_t id = b_.SendIn(1, request);
    harness_.Run();  // no time goes by
    ASSERT_TRUE(b_.Answered(id));
    error = b_.Answer(id).error();
  }
  EXPECT_EQ(error, ENOSPC);
}

TEST_F(CacheTest, OnlyTheExclusiveHolderSetsSizeAndTimes) {
  const std::uint64_t inode = a_.Create("file");
  ASSERT_EQ(b_.Do(Client::GetAttrOf(inode)), 0);
  const std::uint64_t write = a_.Send(Client::LayoutOf(inode, v1::TOKEN_EXCLUSIVE));
  harness_.Run();
  EXPECT_FALSE(a_.Answered(write));
  EXPECT_THAT(b_.attr_recalls_, ElementsAre(inode));
  ASSERT_EQ(b_.Do(Client::AttrReturnOf({inode})), 0);
  EXPECT_TRUE(a_.Answered(write));
  // The other one's question makes the writer tell, and only then may it cache the answer.
  const std::uint64_t ask = b_.Send(Client::GetAttrOf(inode));
  harness_.Run();
  EXPECT_FALSE(b_.Answered(ask));
  ASSERT_EQ(a_.Do(Client::ReturnOf(inode, v1::TOKEN_SHARED), true), 0);
  ASSERT_TRUE(b_.Answered(ask));
  EXPECT_EQ(b_.Answer(ask).cacheable_size(), 1);
}

TEST_F(CacheTest, AnAccessTimeRecallsNothing) {
  const std::uint64_t inode = a_.Create("file");
  ASSERT_EQ(b_.Do(Client::GetAttrOf(inode)), 0);
  harness_.clock_.now_ms += 1'000;
  v1::Request read;
  read.mutable_set_attr()->set_inode(inode);
  read.mutable_set_attr()->set_fields(v1::SetAttr::ACCESSED);
  read.mutable_set_attr()->mutable_atime()->set_seconds(std::int64_t{1} << 40);
  ASSERT_EQ(a_.Do(read, true), 0);
  EXPECT_THAT(b_.attr_recalls_, IsEmpty());
  ASSERT_EQ(a_.last_.changed_size(), 1);
  EXPECT_LT(a_.last_.changed(0).atime().seconds(), std::int64_t{1} << 40) << "it has not come yet";
}

TEST_F(CacheTest, AccessTimesToldTogetherRecallNothingAndWaitForNoSync) {
  const std::uint64_t inode = a_.Create("file");
  ASSERT_EQ(b_.Do(Client::GetAttrOf(inode)), 0);
  harness_.clock_.now_ms += 1'000;
  harness_.hold_syncs_ = true;
  v1::Request request;
  v1::Accessed::Read& read = *request.mutable_accessed()->add_reads();
  read.set_inode(inode);
  read.mutable_time()->set_seconds(std::int64_t{1} << 40);
  ASSERT_EQ(a_.Do(request), 0);
  EXPECT_THAT(b_.attr_recalls_, IsEmpty());
  EXPECT_EQ(a_.last_.changed_size(), 1);
  harness_.hold_syncs_ = false;
  harness_.Run();
}

TEST_F(CacheTest, ARecallNeverOvertakesItsGrant) {
  harness_.hold_syncs_ = true;
  const std::uint64_t create = a_.SendIn(1, Client::CreateOf("file"));  // not durable yet
  const std::uint64_t grant = a_.Send(Client::LookupOf("file"));
  b_.SendIn(1, Client::CreateOf("other"));
  harness_.Run();
  a_.log_.clear();
  harness_.hold_syncs_ = false;
  harness_.Run();
  EXPECT_THAT(a_.log_, ElementsAre(absl::StrCat("reply ", create), absl::StrCat("reply ", grant),
                                   "attr recall 1"));
}

TEST_F(CacheTest, AReturnIsAnsweredBehindTheGrantsBeforeIt) {
  harness_.hold_syncs_ = true;
  a_.SendIn(1, Client::CreateOf("file"));
  const std::uint64_t grant = a_.Send(Client::LookupOf("file"));
  const std::uint64_t back = a_.Send(Client::AttrReturnOf({1}));
  harness_.Run();
  EXPECT_FALSE(a_.Answered(back));
  harness_.hold_syncs_ = false;
  harness_.Run();
  ASSERT_TRUE(a_.Answered(grant));
  EXPECT_EQ(a_.log_.back(), absl::StrCat("reply ", back));
}

TEST_F(CacheTest, ALostRecallIsSentAgain) {
  ASSERT_EQ(a_.Do(Client::LookupOf("file")), ENOENT);
  a_.Disconnect();
  const std::uint64_t create = b_.SendIn(1, Client::CreateOf("file"));
  harness_.Run();
  ASSERT_EQ(a_.Resume(), 0);
  harness_.Pass(100, {&a_, &b_});
  EXPECT_THAT(a_.attr_recalls_, ElementsAre(1));
  ASSERT_EQ(a_.Do(Client::AttrReturnOf({1})), 0);
  EXPECT_TRUE(b_.Answered(create));
}

TEST_F(CacheTest, TheCachesOfADeadClientGoWithItsSession) {
  ASSERT_EQ(a_.Do(Client::LookupOf("file")), ENOENT);
  const std::uint64_t create = b_.SendIn(1, Client::CreateOf("file"));
  harness_.Pass(2 * harness_.options_.session_lease_ms, {&b_});
  EXPECT_TRUE(a_.evicted_);
  EXPECT_TRUE(b_.Answered(create));
}

TEST_F(CacheTest, ANewEpochKnowsOfNoCaches) {
  ASSERT_EQ(a_.Do(Client::LookupOf("file")), ENOENT);
  harness_.Restart();
  for (Client* client : {&a_, &b_}) {
    ASSERT_EQ(client->Resume(), 0);
    ASSERT_EQ(client->Reclaim(), 0);
  }
  EXPECT_EQ(b_.Do(Client::CreateOf("file"), true), 0);
  EXPECT_THAT(a_.attr_recalls_, IsEmpty());
}

TEST_F(CacheTest, ALookupAheadBringsATokenThatIsFree) {
  const std::uint64_t inode = a_.Create("file");
  ASSERT_EQ(b_.Do(Client::LookAheadOf("file")), 0);
  EXPECT_THAT(Cacheable(b_), ElementsAre(1, inode));
  const v1::LayoutReply& layout = b_.last_.entry().layout();
  EXPECT_EQ(layout.mode(), v1::TOKEN_SHARED);
  EXPECT_EQ(layout.token_length_blocks(), 0u) << "of all of it";
  EXPECT_EQ(layout.attr().inode(), inode);
  // The controller knows of it: a writer has it recalled.
  const std::uint64_t write = a_.SendIn(1, Client::LayoutOf(inode, v1::TOKEN_EXCLUSIVE, true));
  harness_.Run();
  EXPECT_FALSE(a_.Answered(write));
  EXPECT_EQ(b_.recalls_.size(), 1u);
}

TEST_F(CacheTest, ALookupAheadTakesNothingFromAWriter) {
  const std::uint64_t inode = a_.Create("file");
  ASSERT_EQ(a_.Do(Client::LayoutOf(inode, v1::TOKEN_EXCLUSIVE)), 0);
  EXPECT_EQ(b_.Do(Client::LookAheadOf("file")), EAGAIN);
  EXPECT_THAT(b_.last_.cacheable(), IsEmpty());
  EXPECT_EQ(b_.Do(Client::LookAheadOf("nothing")), ENOENT);
  harness_.Pass(200, {&a_, &b_});
  EXPECT_THAT(a_.recalls_, IsEmpty());
  // Who waits for an answer has it recalled.
  const std::uint64_t lookup = b_.Send(Client::LookupOf("file"));
  harness_.Run();
  EXPECT_FALSE(b_.Answered(lookup));
  EXPECT_EQ(a_.recalls_.size(), 1u);
}

TEST_F(CacheTest, ALookupAheadStandsInNobodysTurn) {
  const std::uint64_t inode = a_.Create("file");
  ASSERT_EQ(a_.Do(Client::LayoutOf(inode, v1::TOKEN_SHARED)), 0);
  const std::uint64_t write = b_.SendIn(1, Client::LayoutOf(inode, v1::TOKEN_EXCLUSIVE, true));
  harness_.Run();
  EXPECT_FALSE(b_.Answered(write));
  ASSERT_EQ(a_.Do(Client::LookAheadOf("file")), 0);
  EXPECT_FALSE(a_.last_.entry().has_layout()) << "a recall is on its way";
}

}  // namespace
}  // namespace reel::mdc
