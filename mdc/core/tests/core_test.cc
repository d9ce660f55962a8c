#include "mdc/core/core.h"

#include "gmock/gmock.h"
#include "mdc/testing/core_world.h"

namespace reel::mdc {
namespace {

using testing::ElementsAre;

class CoreTest : public testing::Test {
 protected:
  World world_;
  Client a_{world_, 1}, b_{world_, 2}, c_{world_, 3};
};

// ---- registration
// ----------------------------------------------------------------------------------

TEST_F(CoreTest, AStreamBeginsWithHello) {
  a_.Connect();
  EXPECT_EQ(a_.Do(Client::GetAttrOf(1)), ENOTCONN);
  EXPECT_TRUE(a_.ended_);
  a_.Register();
  EXPECT_EQ(a_.Do(Client::GetAttrOf(1)), 0);
  EXPECT_EQ(a_.Hello(), EPROTO);  // twice
  EXPECT_TRUE(a_.ended_);
}

TEST_F(CoreTest, HelloThatCannotBeServedIsRefused) {
  const auto refused = [&](void (*spoil)(v1::Hello&)) {
    a_.Connect();
    v1::Request request;
    v1::Hello& hello = *request.mutable_hello();
    hello.set_protocol_min(1);
    hello.set_protocol_max(1);
    hello.set_volume("reel");
    hello.set_client(a_.uuid_.ToBytes());
    spoil(hello);
    return a_.Do(request);
  };
  EXPECT_EQ(refused([](v1::Hello& h) { h.set_protocol_min(8), h.set_protocol_max(9); }),
            EPROTONOSUPPORT);
  EXPECT_EQ(refused([](v1::Hello& h) { h.set_volume("other"); }), ENOENT);
  EXPECT_EQ(refused([](v1::Hello& h) { h.set_client("short"); }), EINVAL);
  EXPECT_EQ(refused([](v1::Hello& h) { h.set_resume_session(77); }), ESTALE);
  EXPECT_EQ(world_.Sessions(), 0u);
}

TEST_F(CoreTest, TheNewestCommonProtocolIsSpokenAndFeaturesAreThoseThatBothHave) {
  const auto hello = [&](std::uint32_t oldest, std::uint32_t newest, std::uint64_t features) {
    a_.Connect();
    v1::Request request;
    v1::Hello& said = *request.mutable_hello();
    said.set_protocol_min(oldest);
    said.set_protocol_max(newest);
    said.set_features(features);
    said.set_volume("reel");
    said.set_host("ws1");
    said.set_client(a_.uuid_.ToBytes());
    return a_.Do(request);
  };
  const std::uint64_t all = ~std::uint64_t{0};
  ASSERT_EQ(hello(1, 1, 0), 0);  // as before there were ranges
  EXPECT_EQ(a_.last_.hello().protocol(), 1U);
  EXPECT_EQ(a_.last_.hello().features(), 0U);
  const ProtocolRange ours = SpokenProtocol();
  ASSERT_EQ(hello(1, ours.newest + 3, all), 0);
  EXPECT_EQ(a_.last_.hello().protocol(), ours.newest);
  const std::uint64_t by_choice = v1::FEATURE_FORETELL;  // of the administrator
  EXPECT_EQ(a_.last_.hello().features() | by_choice, SpokenFeatures(ours));
  EXPECT_EQ(hello(ours.newest + 1, ours.newest + 2, all), EPROTONOSUPPORT);
  EXPECT_EQ(a_.last_.message(),
            absl::StrCat("no common protocol version: mount.reelfs on ws1 speaks ", ours.newest + 1,
                         " to ", ours.newest + 2, ", reel-mdcd on its host speaks ",
                         ProtocolText(ours), "; upgrade reel-mdcd on its host"));
}

TEST_F(CoreTest, AFarewellGoesToThoseWhoKnowTheWord) {
  const auto hello = [](Client& client, std::uint64_t features) {
    client.Connect();
    v1::Request request;
    v1::Hello& said = *request.mutable_hello();
    said.set_protocol_min(1);
    said.set_protocol_max(2);
    said.set_features(features);
    said.set_volume("reel");
    said.set_client(client.uuid_.ToBytes());
    return client.Do(request);
  };
  ASSERT_EQ(hello(a_, v1::FEATURE_FAREWELL), 0);
  ASSERT_EQ(hello(b_, 0), 0);
  world_.core_->SayFarewell("it goes", /*stopped=*/true);
  world_.Run();
  ASSERT_EQ(a_.farewells_.size(), 1U);
  EXPECT_EQ(a_.farewells_[0].reason(), "it goes");
  EXPECT_TRUE(a_.farewells_[0].stopped());
  EXPECT_TRUE(b_.farewells_.empty());
  EXPECT_FALSE(b_.evicted_);
}

TEST_F(CoreTest, TheDescriptorComesToThoseWhoLackIt) {
  a_.Connect();
  v1::Request request;
  v1::Hello& hello = *request.mutable_hello();
  hello.set_protocol_min(1);
  hello.set_protocol_max(1);
  hello.set_volume("reel");
  hello.set_client(a_.uuid_.ToBytes());
  hello.set_map_generation(3);
  hello.set_mounted_volume(world_.volume_.volume.ToBytes());
  ASSERT_EQ(a_.Do(request), 0);
  EXPECT_TRUE(a_.last_.hello().volume_descriptor().empty());
  b_.Connect();
  hello.set_client(b_.uuid_.ToBytes());
  hello.set_map_generation(2);
  ASSERT_EQ(b_.Do(request), 0);
  const std::string& framed = b_.last_.hello().volume_descriptor();
  EXPECT_EQ(DecodeDescriptor(std::as_bytes(std::span(framed))).value(), world_.volume_);
}

TEST_F(CoreTest, OnlyTheSameClientResumesASession) {
  a_.Register();
  b_.Connect();
  EXPECT_EQ(b_.Hello(a_.session_), EPERM);
  EXPECT_EQ(a_.Do(Client::GetAttrOf(1)), 0);
}

TEST_F(CoreTest, ASecondStreamReplacesTheFirst) {
  a_.Register();
  const StreamId first = a_.stream_;
  ASSERT_EQ(a_.Resume(), 0);
  EXPECT_EQ(a_.Do(Client::GetAttrOf(1)), 0);
  v1::Request late = Client::GetAttrOf(1);
  world_.core_->OnRequest(first, late);  // was in the queue still
  world_.Run();
  EXPECT_EQ(world_.Sessions(), 1u);
}

TEST_F(CoreTest, TooManySessionsAreRefused) {
  world_.options_.max_sessions = 1;
  world_.Restart();
  a_.Register();
  b_.Connect();
  EXPECT_EQ(b_.Hello(), EMFILE);
  v1::Request goodbye;
  goodbye.mutable_goodbye();
  EXPECT_EQ(a_.Do(goodbye), 0);
  EXPECT_TRUE(a_.ended_);
  EXPECT_EQ(b_.Hello(), 0);
}

// ---- exactly once
// ----------------------------------------------------------------------------------

TEST_F(CoreTest, ARepeatedMutationIsAnsweredFromItsReply) {
  a_.Register();
  const std::uint64_t inode = a_.Create("file");
  ASSERT_EQ(a_.Resume(), 0);
  --a_.sequences_[1];
  EXPECT_EQ(a_.Create("file"), inode);
  EXPECT_EQ(world_.Counter("operation.replays"), 1u);
}

TEST_F(CoreTest, ARepeatedMutationIsAnsweredAfterARestartToo) {
  a_.Register();
  const std::uint64_t inode = a_.Create("file", /*open=*/true);
  ASSERT_EQ(a_.Do(Client::UnlinkOf("file"), true), 0);
  world_.Restart();
  ASSERT_EQ(a_.Resume(), 0);
  EXPECT_TRUE(a_.must_reclaim_);
  v1::Reclaim reclaim;
  reclaim.add_opens(inode);
  ASSERT_EQ(a_.Reclaim(reclaim), 0);
  --a_.sequences_[1];
  EXPECT_EQ(a_.Do(Client::UnlinkOf("file"), true), 0);  // done once; not ENOENT
  EXPECT_EQ(a_.Do(Client::UnlinkOf("file"), true), ENOENT);
}

TEST_F(CoreTest, AnOpenThatCameWithACreateIsMadeAnewForItsRepetition) {
  a_.Register();
  world_.hold_syncs_ = true;
  const std::uint64_t id = a_.SendIn(1, Client::CreateOf("file", /*open=*/true));
  world_.Run();
  EXPECT_FALSE(a_.Answered(id));  // the controller dies before it answers
  world_.Restart();
  ASSERT_EQ(a_.Resume(), 0);
  ASSERT_EQ(a_.Reclaim(), 0);
  --a_.sequences_[1];
  const std::uint64_t inode = a_.Create("file", /*open=*/true);
  ASSERT_EQ(a_.Do(Client::UnlinkOf("file"), true), 0);
  world_.Pass(500, {&a_});
  EXPECT_EQ(a_.Do(Client::GetAttrOf(inode)), 0);  // still open
}

TEST_F(CoreTest, ARemovalThatWaitsForTheEndOfGraceIsNotQuickerThanARepeatedCreateWithItsOpen) {
  a_.Register();
  b_.Register();
  world_.hold_syncs_ = true;
  (void)a_.SendIn(1, Client::CreateOf("file", /*open=*/true));
  world_.Run();
  world_.Restart();
  ASSERT_EQ(b_.Resume(), 0);
  ASSERT_EQ(b_.Reclaim(), 0);
  const std::uint64_t removal = b_.SendIn(1, Client::UnlinkOf("file"));
  ASSERT_EQ(a_.Resume(), 0);
  ASSERT_EQ(a_.Reclaim(), 0);  // the last one
  world_.Pass(100, {&a_, &b_});
  EXPECT_TRUE(b_.Answered(removal));
  --a_.sequences_[1];
  const std::uint64_t inode = a_.Create("file", /*open=*/true);
  world_.Pass(1000, {&a_, &b_});
  EXPECT_EQ(a_.Do(Client::GetAttrOf(inode)), 0);  // still open
}

TEST_F(CoreTest, AFailedMutationIsRepeatedWithItsError) {
  a_.Register();
  EXPECT_EQ(a_.Do(Client::UnlinkOf("none"), true), ENOENT);
  b_.Register();
  b_.Create("none");
  --a_.sequences_[1];
  EXPECT_EQ(a_.Do(Client::UnlinkOf("none"), true), ENOENT);
  EXPECT_EQ(a_.Do(Client::UnlinkOf("none"), true), 0);
}

TEST_F(CoreTest, SlotsAndSequencesThatNoClientSendsEndTheStream) {
  const auto refused = [&](std::uint32_t slot, std::uint64_t sequence) {
    a_.Register();
    a_.sequences_.clear();
    a_.Create(absl::StrCat("file", slot, ".", sequence));
    v1::Request request = Client::CreateOf("other");
    request.set_slot(slot);
    request.set_slot_sequence(sequence);
    return a_.Do(request) == EPROTO && a_.ended_;
  };
  EXPECT_TRUE(refused(0, 0));   // none
  EXPECT_TRUE(refused(65, 1));  // beyond what was given
  EXPECT_TRUE(refused(1, 3));   // jumps
  EXPECT_TRUE(refused(2, 2));   // does not begin with 1
  EXPECT_TRUE(refused(2, 0));
  a_.Register();
  a_.sequences_.clear();
  a_.Create("x1");
  a_.Create("x2");
  --a_.sequences_[1], --a_.sequences_[1];
  EXPECT_EQ(a_.Do(Client::CreateOf("x1"), true), EPROTO);  // goes back
}

TEST_F(CoreTest, AnUnknownOperationIsAnErrorOfItsOwn) {
  a_.Register();
  EXPECT_EQ(a_.Do(v1::Request()), EOPNOTSUPP);
  EXPECT_EQ(a_.Do(Client::GetAttrOf(1)), 0);
}

// ---- durability
// ------------------------------------------------------------------------------------

TEST_F(CoreTest, RepliesWaitForWhatTheySawAndForNothingElse) {
  a_.Register();
  const std::uint64_t old = a_.Create("old");
  world_.hold_syncs_ = true;
  const std::uint64_t create = a_.SendIn(1, Client::CreateOf("new"));
  const std::uint64_t untouched = a_.Send(Client::GetAttrOf(old));
  const std::uint64_t changed = a_.Send(Client::GetAttrOf(1));
  world_.Run();
  EXPECT_FALSE(a_.Answered(create));
  EXPECT_TRUE(a_.Answered(untouched));
  EXPECT_FALSE(a_.Answered(changed));  // it shows the directory's new times
  world_.hold_syncs_ = false;
  world_.Run();
  EXPECT_TRUE(a_.Answered(create));
  EXPECT_TRUE(a_.Answered(changed));
}

TEST_F(CoreTest, ARecallNeverOvertakesItsGrant) {
  a_.Register();
  b_.Register();
  const std::uint64_t inode = a_.Create("file");
  a_.log_.clear();
  world_.hold_syncs_ = true;
  const std::uint64_t grant =
      a_.SendIn(2, Client::LayoutOf(inode, v1::TOKEN_EXCLUSIVE, /*allocate=*/true));
  b_.Send(Client::LayoutOf(inode, v1::TOKEN_SHARED));
  world_.Run();
  EXPECT_TRUE(a_.log_.empty());
  world_.hold_syncs_ = false;
  world_.Run();
  EXPECT_THAT(a_.log_, ElementsAre(absl::StrCat("reply ", grant), absl::StrCat("recall ", inode)));
}

// ---- tokens
// ----------------------------------------------------------------------------------------

TEST_F(CoreTest, AnExclusiveTokenIsRecalledForAReader) {
  a_.Register();
  b_.Register();
  const std::uint64_t inode = a_.Create("file");
  ASSERT_EQ(a_.Do(Client::LayoutOf(inode, v1::TOKEN_EXCLUSIVE)), 0);
  EXPECT_EQ(a_.last_.layout().mode(), v1::TOKEN_EXCLUSIVE);
  const std::uint64_t waiting = b_.Send(Client::LayoutOf(inode, v1::TOKEN_SHARED));
  world_.Run();
  EXPECT_FALSE(b_.Answered(waiting));
  ASSERT_EQ(a_.recalls_.size(), 1u);
  EXPECT_EQ(a_.recalls_[0].mode(), v1::TOKEN_SHARED);
  // What it holds it may go on using until it answers.
  EXPECT_EQ(a_.Do(Client::LayoutOf(inode, v1::TOKEN_EXCLUSIVE, true), true), 0);
  EXPECT_EQ(a_.Do(Client::ReturnOf(inode, v1::TOKEN_SHARED), true), 0);
  ASSERT_TRUE(b_.Answered(waiting));
  EXPECT_EQ(b_.Answer(waiting).layout().mode(), v1::TOKEN_SHARED);
}

TEST_F(CoreTest, WaitersAreServedInTurn) {
  for (Client* client : {&a_, &b_, &c_}) client->Register();
  const std::uint64_t inode = a_.Create("file");
  ASSERT_EQ(a_.Do(Client::LayoutOf(inode, v1::TOKEN_SHARED)), 0);
  const std::uint64_t writer = b_.Send(Client::LayoutOf(inode, v1::TOKEN_EXCLUSIVE));
  // Would go well with the token of A, but stands behind the writer.
  const std::uint64_t reader = c_.Send(Client::LayoutOf(inode, v1::TOKEN_SHARED));
  world_.Run();
  EXPECT_FALSE(c_.Answered(reader));
  ASSERT_EQ(a_.Do(Client::ReturnOf(inode), true), 0);
  EXPECT_TRUE(b_.Answered(writer));
  EXPECT_FALSE(c_.Answered(reader));
  ASSERT_EQ(b_.recalls_.size(), 1u);
  ASSERT_EQ(b_.Do(Client::ReturnOf(inode, v1::TOKEN_SHARED), true), 0);
  EXPECT_TRUE(c_.Answered(reader));
}

TEST_F(CoreTest, TwoReadersThatBothWantToWriteGetTheirTurns) {
  a_.Register();
  b_.Register();
  const std::uint64_t inode = a_.Create("file");
  ASSERT_EQ(a_.Do(Client::LayoutOf(inode, v1::TOKEN_SHARED)), 0);
  ASSERT_EQ(b_.Do(Client::LayoutOf(inode, v1::TOKEN_SHARED)), 0);
  const std::uint64_t first = a_.Send(Client::LayoutOf(inode, v1::TOKEN_EXCLUSIVE));
  const std::uint64_t second = b_.Send(Client::LayoutOf(inode, v1::TOKEN_EXCLUSIVE));
  world_.Run();
  ASSERT_EQ(b_.recalls_.size(), 1u);
  ASSERT_EQ(b_.Do(Client::ReturnOf(inode), true), 0);
  EXPECT_TRUE(a_.Answered(first));
  EXPECT_FALSE(b_.Answered(second));
  ASSERT_EQ(a_.recalls_.size(), 1u);
  ASSERT_EQ(a_.Do(Client::ReturnOf(inode), true), 0);
  EXPECT_TRUE(b_.Answered(second));
}

TEST_F(CoreTest, AReturnAndANewRequestKeepTheirOrder) {
  a_.Register();
  b_.Register();
  const std::uint64_t inode = a_.Create("file");
  ASSERT_EQ(a_.Do(Client::LayoutOf(inode, v1::TOKEN_EXCLUSIVE)), 0);
  a_.SendIn(1, Client::ReturnOf(inode));
  const std::uint64_t again = a_.Send(Client::LayoutOf(inode, v1::TOKEN_EXCLUSIVE));
  world_.Run();
  EXPECT_EQ(a_.Answer(again).layout().mode(), v1::TOKEN_EXCLUSIVE);
  b_.Send(Client::LayoutOf(inode, v1::TOKEN_EXCLUSIVE));
  world_.Run();
  EXPECT_EQ(a_.recalls_.size(), 1u);  // the controller knows that A holds it
}

TEST_F(CoreTest, ARecallThatWasLostWithItsStreamIsSentAgain) {
  a_.Register();
  b_.Register();
  const std::uint64_t inode = a_.Create("file");
  ASSERT_EQ(a_.Do(Client::LayoutOf(inode, v1::TOKEN_EXCLUSIVE)), 0);
  a_.Disconnect();
  const std::uint64_t waiting = b_.Send(Client::LayoutOf(inode, v1::TOKEN_EXCLUSIVE));
  world_.Run();
  ASSERT_EQ(a_.Resume(), 0);
  world_.Pass(100, {&a_, &b_});
  ASSERT_EQ(a_.recalls_.size(), 1u);
  ASSERT_EQ(a_.Do(Client::ReturnOf(inode), true), 0);
  EXPECT_TRUE(b_.Answered(waiting));
}

TEST_F(CoreTest, AReturnStandsEvenIfItsCommitFails) {
  a_.Register();
  b_.Register();
  const std::uint64_t inode = a_.Create("file");
  ASSERT_EQ(a_.Do(Client::LayoutOf(inode, v1::TOKEN_EXCLUSIVE)), 0);
  const std::uint64_t waiting = b_.Send(Client::LayoutOf(inode, v1::TOKEN_EXCLUSIVE));
  v1::Request back = Client::ReturnOf(inode);
  v1::BlockRange& never = *back.mutable_layout_return()->mutable_commit()->add_written();
  never.set_file_block(5);
  never.set_length_blocks(1);
  EXPECT_EQ(a_.Do(back, true), ESTALE);
  EXPECT_TRUE(b_.Answered(waiting));
}

// ---- leases
// ----------------------------------------------------------------------------------------

TEST_F(CoreTest, ASilentSessionIsEvictedAndItsTokensGoToOthers) {
  a_.Register();
  b_.Register();
  const std::uint64_t inode = a_.Create("file");
  ASSERT_EQ(a_.Do(Client::LayoutOf(inode, v1::TOKEN_EXCLUSIVE)), 0);
  const std::uint64_t waiting = b_.Send(Client::LayoutOf(inode, v1::TOKEN_EXCLUSIVE));
  world_.Pass(9'000, {&b_});
  EXPECT_FALSE(b_.Answered(waiting));
  world_.Pass(2'000, {&b_});
  EXPECT_TRUE(b_.Answered(waiting));
  EXPECT_TRUE(a_.evicted_);
  EXPECT_TRUE(a_.ended_);
  EXPECT_EQ(a_.Resume(), ESTALE);
  EXPECT_EQ(a_.Hello(), 0);  // as a new session
}

TEST_F(CoreTest, NothingIsGivenAwayBeforeTheEvictionIsDurable) {
  a_.Register();
  b_.Register();
  const std::uint64_t inode = a_.Create("file");
  ASSERT_EQ(a_.Do(Client::LayoutOf(inode, v1::TOKEN_EXCLUSIVE)), 0);
  const std::uint64_t waiting = b_.Send(Client::LayoutOf(inode, v1::TOKEN_EXCLUSIVE));
  world_.Run();
  world_.hold_syncs_ = true;
  world_.Pass(11'000, {&b_});
  world_.core_->OnDurable(Sequence(1));  // of something older
  world_.Run();
  EXPECT_FALSE(b_.Answered(waiting));
  EXPECT_FALSE(a_.evicted_);
  world_.hold_syncs_ = false;
  world_.Run();
  EXPECT_TRUE(b_.Answered(waiting));
  EXPECT_TRUE(a_.evicted_);
}

TEST_F(CoreTest, AnEvictionHalfDoneIsCompletedByTheNextController) {
  a_.Register();
  b_.Register();
  world_.hold_syncs_ = true;
  world_.Pass(11'000, {&b_});
  world_.Restart();
  EXPECT_EQ(a_.Resume(), ESTALE);
  ASSERT_EQ(b_.Resume(), 0);
  ASSERT_EQ(b_.Reclaim(), 0);
  world_.Pass(10'000, {&b_});  // nobody knows when its lease had ended
  EXPECT_EQ(world_.Sessions(), 1u);
  EXPECT_EQ(b_.Do(Client::GetAttrOf(1)), 0);  // nobody else holds up grace
}

TEST_F(CoreTest, AControllerThatWasStoppedItselfEvictsNobody) {
  a_.Register();
  world_.Pass(200, {&a_});
  world_.clock_.now_ms += 60'000;  // as by SIGSTOP: no tick in between
  world_.core_->OnTick();
  world_.Run();
  EXPECT_FALSE(a_.evicted_);
  EXPECT_EQ(a_.Do(Client::GetAttrOf(1)), 0);
}

// ---- grace
// -----------------------------------------------------------------------------------------

TEST_F(CoreTest, NobodyIsServedUntilAllHaveReclaimed) {
  a_.Register();
  b_.Register();
  const std::uint64_t inode = a_.Create("file");
  ASSERT_EQ(a_.Do(Client::LayoutOf(inode, v1::TOKEN_EXCLUSIVE)), 0);
  world_.Restart();
  ASSERT_EQ(b_.Resume(), 0);
  ASSERT_EQ(b_.Reclaim(), 0);
  const std::uint64_t early = b_.Send(Client::LayoutOf(inode, v1::TOKEN_EXCLUSIVE));
  const std::uint64_t read = b_.Send(Client::GetAttrOf(1));
  world_.Run();
  EXPECT_FALSE(b_.Answered(early));
  EXPECT_FALSE(b_.Answered(read));

  ASSERT_EQ(a_.Resume(), 0);
  v1::Reclaim reclaim;
  reclaim.add_tokens()->set_inode(inode);
  reclaim.mutable_tokens(0)->set_mode(v1::TOKEN_EXCLUSIVE);
  ASSERT_EQ(a_.Reclaim(reclaim), 0);
  EXPECT_TRUE(b_.Answered(read));
  EXPECT_FALSE(b_.Answered(early));  // A holds it still
  EXPECT_EQ(a_.recalls_.size(), 1u);
}

TEST_F(CoreTest, GraceEndsWithTheLeaseOfWhoDoesNotComeBack) {
  a_.Register();
  b_.Register();
  world_.Restart();
  ASSERT_EQ(b_.Resume(), 0);
  ASSERT_EQ(b_.Reclaim(), 0);
  const std::uint64_t read = b_.Send(Client::GetAttrOf(1));
  world_.Pass(9'900, {&b_});
  EXPECT_FALSE(b_.Answered(read));
  world_.Pass(300, {&b_});
  EXPECT_TRUE(b_.Answered(read));
  EXPECT_EQ(a_.Resume(), ESTALE);
}

TEST_F(CoreTest, ReclaimComesBeforeAllElse) {
  a_.Register();
  world_.Restart();
  ASSERT_EQ(a_.Resume(), 0);
  EXPECT_EQ(a_.Do(Client::GetAttrOf(1)), EPROTO);
  EXPECT_TRUE(a_.ended_);
}

TEST_F(CoreTest, WhoReclaimsWhatAnotherHoldsIsEvicted) {
  a_.Register();
  b_.Register();
  const std::uint64_t inode = a_.Create("file");
  world_.Restart();
  v1::Reclaim reclaim;
  reclaim.add_tokens()->set_inode(inode);
  reclaim.mutable_tokens(0)->set_mode(v1::TOKEN_EXCLUSIVE);
  ASSERT_EQ(a_.Resume(), 0);
  ASSERT_EQ(a_.Reclaim(reclaim), 0);
  ASSERT_EQ(b_.Resume(), 0);
  EXPECT_EQ(b_.Reclaim(reclaim), -1);
  EXPECT_TRUE(b_.evicted_);
  world_.Pass(10'000, {&a_});  // it may not have heard of that
  EXPECT_EQ(a_.Do(Client::GetAttrOf(1)), 0);
}

// Nobody waits for it: it needs no message of its own.
TEST_F(CoreTest, TheAnswerToACloseTravelsWithAnother) {
  a_.Register();
  b_.Register();
  const std::uint64_t inode = a_.Create("closed", /*open=*/true);
  const std::uint64_t first = a_.Send(Client::CloseOf(inode));
  world_.Run();
  EXPECT_FALSE(a_.Answered(first));
  ASSERT_EQ(b_.Do(Client::LookupOf("closed")), 0);
  EXPECT_FALSE(a_.Answered(first));  // not with another's
  a_.log_.clear();
  const std::uint64_t look = a_.Send(Client::LookupOf("closed"));
  world_.Run();
  EXPECT_EQ(a_.log_, (std::vector<std::string>{absl::StrCat("reply ", first),
                                               absl::StrCat("reply ", look)}));
  const std::uint64_t second = a_.Send(Client::CloseOf(inode));
  world_.Run();
  EXPECT_FALSE(a_.Answered(second));
  world_.Tick();
  EXPECT_TRUE(a_.Answered(second));
  std::uint64_t last = 0;
  for (int i = 0; i < 64; ++i) last = a_.Send(Client::CloseOf(inode));
  world_.Run();
  EXPECT_TRUE(a_.Answered(last));
}

// ---- orphans
// ---------------------------------------------------------------------------------------

TEST_F(CoreTest, AnUnlinkedFileLivesUntilItsLastClose) {
  a_.Register();
  b_.Register();
  const std::uint64_t free_before = world_.FreeBlocks();
  const std::uint64_t inode = a_.Create("file", /*open=*/true);
  ASSERT_EQ(a_.Do(Client::LayoutOf(inode, v1::TOKEN_EXCLUSIVE, true, 0, 1 << 20), true), 0);
  const std::uint64_t unlink = b_.SendIn(1, Client::UnlinkOf("file"));
  world_.Run();
  if (!b_.Answered(unlink)) {  // it may wait for the holder of the token
    ASSERT_EQ(a_.Do(Client::ReturnOf(inode, v1::TOKEN_SHARED), true), 0);
  }
  ASSERT_TRUE(b_.Answered(unlink));
  EXPECT_EQ(b_.Answer(unlink).error(), 0);
  world_.Pass(500, {&a_, &b_});
  EXPECT_EQ(a_.Do(Client::GetAttrOf(inode)), 0);
  EXPECT_LT(world_.FreeBlocks(), free_before);

  a_.recalls_.clear();
  ASSERT_EQ(a_.Do(Client::CloseOf(inode)), 0);
  world_.Pass(200, {&a_, &b_});
  // Its token may have writes under way: the blocks are not free before it is back.
  ASSERT_EQ(a_.recalls_.size(), 1u);
  EXPECT_LT(world_.FreeBlocks(), free_before);
  ASSERT_EQ(a_.Do(Client::ReturnOf(inode), true), 0);
  world_.Pass(200, {&a_, &b_});
  EXPECT_EQ(world_.FreeBlocks(), free_before);
  EXPECT_EQ(a_.Do(Client::GetAttrOf(inode)), ESTALE);
  EXPECT_EQ(world_.Counter("orphans.reaped"), 1u) << "whatever has queued its removal";
}

TEST_F(CoreTest, OrphansOfADeadClientGoWithItsSession) {
  a_.Register();
  b_.Register();
  const std::uint64_t inode = a_.Create("file", /*open=*/true);
  ASSERT_EQ(b_.Do(Client::UnlinkOf("file"), true), 0);
  world_.Restart();
  ASSERT_EQ(b_.Resume(), 0);
  ASSERT_EQ(b_.Reclaim(), 0);
  world_.Pass(11'000, {&b_});
  EXPECT_EQ(b_.Do(Client::GetAttrOf(inode)), ESTALE);
  EXPECT_EQ(world_.Counter("orphans.now"), 0u);
}

TEST_F(CoreTest, AnUnlinkedFileThatNobodyHasOpenCannotBeOpened) {
  a_.Register();
  const std::uint64_t inode = a_.Create("file");
  ASSERT_EQ(a_.Do(Client::OpenOf(inode)), 0);
  ASSERT_EQ(a_.Do(Client::UnlinkOf("file"), true), 0);
  ASSERT_EQ(a_.Do(Client::OpenOf(inode)), 0);  // a second open beside the first
  ASSERT_EQ(a_.Do(Client::CloseOf(inode)), 0);
  ASSERT_EQ(a_.Do(Client::CloseOf(inode)), 0);
  EXPECT_EQ(a_.Do(Client::OpenOf(inode)), ESTALE);
}

TEST_F(CoreTest, AVolumeWithoutSessionsIsClean) {
  a_.Register();
  a_.Create("file");
  v1::Request goodbye;
  goodbye.mutable_goodbye();
  ASSERT_EQ(a_.Do(goodbye), 0);
  EXPECT_EQ(world_.Sessions(), 0u);
  ASSERT_TRUE(world_.core_->PrepareStop().ok());
  world_.Restart();
  b_.Register();  // served at once: nobody to wait for
  EXPECT_EQ(b_.Do(Client::GetAttrOf(1)), 0);
}

}  // namespace
}  // namespace reel::mdc
