// Delegated directories: which sessions wait for the holder, and what it may change.
#include "gmock/gmock.h"
#include "mdc/core/tests/delegated_root.h"

namespace reel::mdc {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

using DelegationsTest = DelegatedRoot;

TEST_F(DelegationsTest, AChangeOfAnUnsharedDirectoryDelegatesIt) {
  a_.Create("unknown to it");
  EXPECT_THAT(Exclusive(a_), IsEmpty());  // it does not cache the directory
  HoldRoot(a_);
  EXPECT_EQ(b_.Do(Client::LookupOf("x")), -1);
  EXPECT_THAT(a_.attr_recalls_, ElementsAre(kRoot));
}

TEST_F(DelegationsTest, DelegationsNeedTheConfiguration) {
  harness_.options_.names = NameReplies::kDurable;
  harness_.Restart();
  for (Client* client : {&a_, &b_}) client->Register();
  EXPECT_EQ(a_.Do(Client::LookupOf("nothing")), ENOENT);
  EXPECT_EQ(a_.Do(OpenOf("first", 3), true), 0);
  EXPECT_THAT(Exclusive(a_), IsEmpty());
  EXPECT_THAT(a_.last_.reserved_inodes(), IsEmpty());
}

TEST_F(DelegationsTest, OthersWaitForTheRecallOfADelegation) {
  HoldRoot(a_);
  const std::uint64_t first = a_.last_.entry().attr().inode();
  v1::Request list;
  list.mutable_read_dir()->set_inode(kRoot);
  v1::Request link;
  link.mutable_link()->set_inode(first);
  link.mutable_link()->set_parent(kRoot);
  link.mutable_link()->set_name("other");
  EXPECT_FALSE(Answered(b_, Client::LookupOf("first")));
  EXPECT_FALSE(Answered(b_, Client::LookupOf("absent")));
  EXPECT_FALSE(Answered(b_, list));
  EXPECT_FALSE(Answered(b_, Client::GetAttrOf(kRoot)));
  EXPECT_FALSE(Answered(b_, Client::GetAttrOf(first)));  // its links may be fewer by now
  v1::Request open = Client::OpenOf(first);
  open.mutable_open()->set_token(v1::TOKEN_SHARED);
  EXPECT_FALSE(Answered(b_, open));
  const std::uint64_t absent = b_.SendIn(2, Client::UnlinkOf("absent"));
  const std::uint64_t present = b_.SendIn(3, Client::CreateOf("first"));
  const std::uint64_t linked = b_.SendIn(4, link);
  harness_.Run();
  for (const std::uint64_t id : {absent, present, linked}) EXPECT_FALSE(b_.Answered(id));
  EXPECT_THAT(a_.attr_recalls_, ElementsAre(kRoot));
  EXPECT_EQ(a_.Do(Client::AttrReturnOf({kRoot})), 0);
  EXPECT_EQ(a_.Do(Client::ReturnOf(first), true), 0);
  EXPECT_TRUE(b_.Answered(absent));
  EXPECT_TRUE(b_.Answered(present));
  EXPECT_EQ(b_.Answer(present).error(), EEXIST);
}

// Else the return of the token, which comes next, would let the inode go before it is known open.
TEST_F(DelegationsTest, ARegisteredOpenWaitsForNoDelegation) {
  HoldRoot(a_);
  const std::uint64_t first = a_.last_.entry().attr().inode();
  EXPECT_TRUE(Answered(b_, Client::OpenOf(first)));
  EXPECT_THAT(a_.attr_recalls_, IsEmpty());
  EXPECT_EQ(a_.Do(Client::ReturnOf(first), true), 0);
  EXPECT_EQ(a_.Do(Client::CloseOf(first)), 0);
  EXPECT_EQ(a_.Do(Client::UnlinkOf("first"), true), 0);
  harness_.Pass(1'000, {&a_, &b_});
  EXPECT_EQ(b_.Do(Client::LayoutOf(first, v1::TOKEN_SHARED)), 0);
}

TEST_F(DelegationsTest, ADelegatedDirectoryIsRecalledBeforeItIsFoundEmpty) {
  EXPECT_EQ(a_.Do(Client::LookupOf("nothing")), ENOENT);
  v1::Request make = Client::CreateOf("sub");
  make.mutable_create()->set_mode(S_IFDIR | 0755);
  EXPECT_EQ(a_.Do(make, true), 0);
  const std::uint64_t sub = a_.last_.entry().attr().inode();
  EXPECT_THAT(Exclusive(a_), Contains(sub));
  EXPECT_EQ(a_.Do(Client::AttrReturnOf({kRoot})), 0);
  v1::Request remove = Client::UnlinkOf("sub");
  remove.mutable_unlink()->set_directory(true);
  const std::uint64_t removal = b_.SendIn(1, remove);
  harness_.Run();
  EXPECT_FALSE(b_.Answered(removal));
  EXPECT_THAT(a_.attr_recalls_, Contains(sub));
}

TEST_F(DelegationsTest, HostsThatTakeTurnsGetNoDelegation) {
  HoldRoot(a_);
  EXPECT_EQ(b_.Do(Client::LookupOf("x")), -1);
  EXPECT_EQ(a_.Do(Client::AttrReturnOf({kRoot})), 0);
  EXPECT_EQ(b_.Do(Client::AttrReturnOf({kRoot})), 0);
  EXPECT_EQ(a_.Do(Client::LookupOf("nothing")), ENOENT);
  EXPECT_EQ(a_.Do(OpenOf("second", 3), true), 0);
  EXPECT_THAT(Exclusive(a_), IsEmpty());
  harness_.Pass(2'100, {&a_, &b_});
  EXPECT_EQ(a_.Do(OpenOf("third", 3), true), 0);
  EXPECT_THAT(Exclusive(a_), ElementsAre(kRoot));
}

TEST_F(DelegationsTest, ADelegatedCreateHasTheClientsOutcome) {
  const std::vector<v1::ReservedInode> reserved = HoldRoot(a_);
  ASSERT_THAT(reserved, SizeIs(3));
  ASSERT_EQ(reserved[1].extents_size(), 1);
  EXPECT_EQ(a_.Do(Delegated(OpenOf("second", 1), reserved[1]), true), 0);
  const v1::Attr& attr = a_.last_.entry().attr();
  EXPECT_EQ(attr.inode(), reserved[1].inode());
  EXPECT_EQ(attr.generation(), reserved[1].generation());
  EXPECT_EQ(attr.mtime().seconds(), 777);
  EXPECT_EQ(attr.change(), 1u);
  EXPECT_EQ(attr.allocated_bytes(), 12'288u);
  ASSERT_EQ(a_.last_.entry().layout().extents_size(), 1);
  EXPECT_EQ(a_.last_.entry().layout().extents(0).pool_block(), reserved[1].extents(0).pool_block());
  EXPECT_THAT(a_.last_.reserved_inodes(), SizeIs(1));
  // Its number, and its blocks, are nobody else's.
  EXPECT_EQ(a_.Do(Delegated(OpenOf("third"), reserved[1]), true), EPROTO);
  const std::uint64_t other = a_.Create("fourth");
  for (const v1::ReservedInode& each : reserved) EXPECT_NE(other, each.inode());
}

TEST_F(DelegationsTest, ADelegatedChangeNeedsTheToken) {
  const std::vector<v1::ReservedInode> reserved = HoldRoot(a_);
  v1::ReservedInode guessed = reserved[0];
  guessed.set_inode(guessed.inode() + 1'000);
  EXPECT_EQ(a_.Do(Delegated(OpenOf("x"), guessed), true), EPROTO);
  EXPECT_EQ(b_.Do(Delegated(OpenOf("x"), reserved[0]), true), EPROTO);
  EXPECT_EQ(b_.Do(Delegated(Client::UnlinkOf("first")), true), EPROTO);
  EXPECT_EQ(a_.Do(Client::AttrReturnOf({kRoot})), 0);
  EXPECT_EQ(a_.Do(Delegated(OpenOf("x"), reserved[0]), true), EPROTO);
}

TEST_F(DelegationsTest, AReturnFollowsEarlierDelegatedChanges) {
  const std::vector<v1::ReservedInode> reserved = HoldRoot(a_);
  const std::uint64_t found = b_.Send(Client::LookupOf("second"));
  const std::uint64_t made = a_.SendIn(1, Delegated(OpenOf("second"), reserved[0]));
  const std::uint64_t removed = a_.SendIn(2, Delegated(Client::UnlinkOf("first")));
  a_.Send(Client::AttrReturnOf({kRoot}));
  a_.SendIn(3, Client::ReturnOf(reserved[0].inode()));
  harness_.Run();
  EXPECT_EQ(a_.Answer(made).error(), 0);
  EXPECT_EQ(a_.Answer(removed).error(), 0);
  ASSERT_TRUE(b_.Answered(found));
  EXPECT_EQ(b_.Answer(found).error(), 0);
  EXPECT_EQ(b_.Do(Client::LookupOf("first")), ENOENT);
}

TEST_F(DelegationsTest, AReturnDoesNotPassHeldBackRequests) {
  const std::vector<v1::ReservedInode> reserved = HoldRoot(a_);
  const std::uint64_t found = b_.Send(Client::LookupOf("second"));
  harness_.Run();
  harness_.core_->OnStoreSpace(Core::StoreSpace::kGrowing, false);
  const std::uint64_t made = a_.SendIn(1, Delegated(OpenOf("second"), reserved[0]));
  const std::uint64_t seen = a_.Send(Client::LookupOf("second"));
  a_.Send(Client::AttrReturnOf({kRoot}));
  harness_.Run();
  for (const std::uint64_t id : {made, seen}) EXPECT_FALSE(a_.Answered(id));
  EXPECT_FALSE(b_.Answered(found));
  harness_.core_->OnStoreSpace(Core::StoreSpace::kAmple, false);
  harness_.Run();
  EXPECT_EQ(a_.Answer(made).error(), 0);
  EXPECT_EQ(a_.Answer(seen).error(), 0);
  EXPECT_EQ(a_.Do(Client::ReturnOf(reserved[0].inode()), true), 0);
  ASSERT_TRUE(b_.Answered(found));
  EXPECT_EQ(b_.Answer(found).error(), 0);
}

TEST_F(DelegationsTest, ADelegatedChangeAsksForNoSync) {
  std::vector<v1::ReservedInode> reserved = HoldRoot(a_);
  std::uint32_t made = 0;
  const auto make = [&] {
    const v1::ReservedInode with = reserved.front();
    reserved.erase(reserved.begin());
    ++made;
    a_.SendIn(made, Delegated(OpenOf("file" + std::to_string(made)), with));
    return harness_.core_->TakeOutputs().wants_sync;
  };
  EXPECT_FALSE(make());
  harness_.core_->OnTick();
  EXPECT_TRUE(harness_.core_->TakeOutputs().wants_sync);
  harness_.Run();
  // Until somebody waits, …
  EXPECT_FALSE(make());
  v1::Request sync;
  sync.mutable_sync();
  a_.Send(sync);
  EXPECT_TRUE(harness_.core_->TakeOutputs().wants_sync);
  harness_.Run();
}

TEST_F(DelegationsTest, ManyDelegatedChangesWithoutEarlyRepliesAskForASync) {
  a_.features_ &= ~std::uint64_t{v1::FEATURE_EARLY_REPLY};
  a_.Register();
  HoldRoot(a_);
  EXPECT_EQ(a_.Do(OpenOf("more", 16), true), 0);
  const std::vector<v1::ReservedInode> reserved = {a_.last_.reserved_inodes().begin(),
                                                   a_.last_.reserved_inodes().end()};
  int patient = 0;
  for (std::uint32_t made = 0; made < reserved.size(); ++made) {
    a_.SendIn(made + 2, Delegated(OpenOf("file" + std::to_string(made)), reserved[made]));
    if (harness_.core_->TakeOutputs().wants_sync) break;
    ++patient;
  }
  EXPECT_EQ(patient, 7);
}

// So the next reserved inodes are there in time, and nobody's create waits for a sync.
TEST_F(DelegationsTest, NamesInADelegatedDirectoryAreAnsweredBeforeTheyAreDurable) {
  const std::vector<v1::ReservedInode> reserved = HoldRoot(a_);
  harness_.hold_syncs_ = true;
  const auto early = [&](std::uint32_t slot, v1::Request request) {
    const std::uint64_t id = a_.SendIn(slot, std::move(request));
    harness_.Run();
    return a_.Answered(id) && a_.replies_[id].has_early();
  };
  EXPECT_TRUE(early(1, Delegated(OpenOf("by itself", 1), reserved[0])));
  EXPECT_TRUE(early(2, OpenOf("without a reserved inode", 3)));
  EXPECT_TRUE(early(3, Client::UnlinkOf("without a reserved inode")));
  v1::Request attributes;
  attributes.mutable_set_attr()->set_inode(kRoot);
  attributes.mutable_set_attr()->set_fields(v1::SetAttr::MODE);
  attributes.mutable_set_attr()->set_mode(0700);
  EXPECT_FALSE(early(4, attributes));
  EXPECT_FALSE(early(5, Client::CreateOf("behind that"))) << "it would be taken for the newer";
}

TEST_F(DelegationsTest, NamesElsewhereAreAnsweredWhenTheyAreDurable) {
  harness_.hold_syncs_ = true;
  const std::uint64_t made = a_.SendIn(1, Client::CreateOf("file"));
  harness_.Run();
  EXPECT_FALSE(a_.Answered(made));
}

TEST_F(DelegationsTest, ASessionWithoutReservedInodesGetsMore) {
  const std::vector<v1::ReservedInode> reserved = HoldRoot(a_);
  EXPECT_EQ(a_.Do(OpenOf("second", 2), true), 0);
  ASSERT_THAT(a_.last_.reserved_inodes(), SizeIs(2));
  for (const v1::ReservedInode& each : reserved) {
    EXPECT_THAT(a_.last_.reserved_inodes(0).inode(), Not(each.inode()));
  }
  EXPECT_EQ(a_.Do(Delegated(OpenOf("x"), reserved[0]), true), EPROTO);
  EXPECT_EQ(a_.Do(OpenOf("third", 1'000'000), true), 0);
  EXPECT_THAT(a_.last_.reserved_inodes(), SizeIs(16)) << "with room for each";
  v1::Request small = OpenOf("fourth", 1'000'000);
  small.mutable_create()->clear_reserved_bytes();
  EXPECT_EQ(a_.Do(small, true), 0);
  EXPECT_THAT(a_.last_.reserved_inodes(), SizeIs(kMaxReservedInodes));
}

TEST_F(DelegationsTest, ARecalledSessionKeepsASharedToken) {
  HoldRoot(a_);
  const std::uint64_t found = b_.Send(Client::LookupOf("absent"));
  harness_.Run();
  v1::Request share = Client::AttrReturnOf({kRoot});
  share.mutable_attr_return()->set_to_shared(true);
  EXPECT_EQ(a_.Do(share), 0);
  EXPECT_TRUE(b_.Answered(found));
  a_.attr_recalls_.clear();
  const std::uint64_t change = b_.SendIn(1, Client::CreateOf("other"));
  harness_.Run();
  EXPECT_FALSE(b_.Answered(change));
  EXPECT_THAT(a_.attr_recalls_, ElementsAre(kRoot));
}

// The blocks reserved are where the directory's files were to lie before.
TEST_F(DelegationsTest, AnotherAffinityDropsTheReservedBlocks) {
  harness_.volume_.pools[0].affinities = {"fast"};
  harness_.Restart();
  for (Client* client : {&a_, &b_}) client->Register();
  const std::vector<v1::ReservedInode> reserved = HoldRoot(a_);
  v1::Request set;
  set.mutable_set_xattr()->set_inode(kRoot);
  set.mutable_set_xattr()->set_name("reelfs.affinity");
  set.mutable_set_xattr()->set_value("fast");
  a_.log_.clear();
  EXPECT_EQ(a_.Do(set, true), 0);
  ASSERT_THAT(a_.log_, SizeIs(2));
  EXPECT_EQ(a_.log_[0], "attr recall 1");  // its caller goes on behind that
  EXPECT_THAT(Exclusive(a_), IsEmpty());
  v1::Request share = Client::AttrReturnOf({kRoot});
  share.mutable_attr_return()->set_to_shared(true);
  EXPECT_EQ(a_.Do(share), 0);
  EXPECT_EQ(a_.Do(Delegated(OpenOf("old"), reserved[0]), true), EPROTO);
  EXPECT_EQ(a_.Do(OpenOf("new", 1), true), 0);
  EXPECT_THAT(Exclusive(a_), ElementsAre(kRoot));
}

TEST_F(DelegationsTest, AnIdleDelegationIsRecalled) {
  HoldRoot(a_);
  harness_.Pass(4'000, {&a_, &b_});
  EXPECT_THAT(a_.attr_recalls_, IsEmpty());
  harness_.Pass(2'000, {&a_, &b_});
  EXPECT_THAT(a_.attr_recalls_, ElementsAre(kRoot));
}

TEST_F(DelegationsTest, ReservedInodesOfARemovedDirectoryAreReleased) {
  const std::uint64_t free = harness_.FreeBlocks();
  a_.Create("zeroth");
  EXPECT_EQ(a_.Do(Client::LookupOf("nothing")), ENOENT);
  v1::Request make = Client::CreateOf("sub");
  make.mutable_create()->set_mode(S_IFDIR | 0755);
  EXPECT_EQ(a_.Do(make, true), 0);
  const std::uint64_t sub = a_.last_.entry().attr().inode();
  v1::Request within = OpenOf("file", 4);
  within.mutable_create()->set_parent(sub);
  EXPECT_EQ(a_.Do(within, true), 0);
  const std::uint64_t file = a_.last_.entry().attr().inode();
  const v1::ReservedInode reserved = a_.last_.reserved_inodes(0);
  EXPECT_EQ(a_.Do(Client::CloseOf(file)), 0);
  v1::Request unlink = Client::UnlinkOf("file");
  unlink.mutable_unlink()->set_parent(sub);
  unlink.mutable_unlink()->set_lets_go(true);
  EXPECT_EQ(a_.Do(unlink, true), 0);
  v1::Request remove = Client::UnlinkOf("sub");
  remove.mutable_unlink()->set_directory(true);
  EXPECT_EQ(a_.Do(remove, true), 0);
  // All of the pool in one file: so nothing of it is kept for anybody.
  const std::uint64_t all = a_.Create("all", /*open=*/true);
  EXPECT_EQ(a_.Do(Client::LayoutOf(all, v1::TOKEN_EXCLUSIVE, true, 0, free * 4096), true), 0);
  v1::Request late = Delegated(OpenOf("late"), reserved);
  late.mutable_create()->set_parent(sub);
  EXPECT_NE(a_.Do(late, true), 0);
}

TEST_F(DelegationsTest, AnUnlinkThatReturnsTokensIsNotRecalled) {
  HoldRoot(a_);
  const std::uint64_t first = a_.last_.entry().attr().inode();
  EXPECT_EQ(a_.Do(Client::CloseOf(first)), 0);
  v1::Request unlink = Delegated(Client::UnlinkOf("first"));
  unlink.mutable_unlink()->set_lets_go(true);
  EXPECT_EQ(a_.Do(unlink, true), 0);
  harness_.Pass(200, {&a_, &b_});
  EXPECT_THAT(a_.recalls_, IsEmpty());
  EXPECT_EQ(a_.Do(Client::GetAttrOf(first)), ESTALE);
}

TEST_F(DelegationsTest, ADelegatedChangeIsReplayedInANewEpoch) {
  const std::vector<v1::ReservedInode> reserved = HoldRoot(a_);
  harness_.Restart();
  ASSERT_EQ(a_.Resume(), 0);
  ASSERT_EQ(b_.Resume(), 0);
  EXPECT_EQ(a_.Do(ReplayOf("second", reserved[2]), true), 0);
  EXPECT_EQ(a_.last_.entry().attr().inode(), reserved[2].inode());
  EXPECT_TRUE(a_.last_.replayed());
  ASSERT_EQ(a_.Reclaim(), 0);
  ASSERT_EQ(b_.Reclaim(), 0);
  // The others are nobody's, for ever.
  EXPECT_EQ(a_.Do(Client::LookupOf("nothing")), ENOENT);
  EXPECT_EQ(a_.Do(OpenOf("third", 1), true), 0);
  EXPECT_EQ(a_.Do(Delegated(OpenOf("x"), reserved[0]), true), EPROTO);
}

// Its session may have written them before the epoch ended.
TEST_F(DelegationsTest, AReplayedFileHasItsOldBlocks) {
  const std::vector<v1::ReservedInode> reserved = HoldRoot(a_);
  harness_.Restart();
  ASSERT_EQ(a_.Resume(), 0);
  ASSERT_EQ(b_.Resume(), 0);
  // Without any it gets none: those that are free may be what the next one had.
  v1::ReservedInode empty = reserved[0];
  empty.clear_extents();
  EXPECT_EQ(a_.Do(ReplayOf("second", empty), true), 0);
  EXPECT_EQ(a_.last_.entry().attr().allocated_bytes(), 0u);
  for (const int i : {2, 1}) {
    EXPECT_EQ(a_.Do(ReplayOf("again" + std::to_string(i), reserved[i]), true), 0);
    ASSERT_THAT(a_.last_.entry().layout().extents(), SizeIs(1));
    EXPECT_EQ(a_.last_.entry().layout().extents(0).SerializeAsString(),
              reserved[i].extents(0).SerializeAsString());
  }
}

TEST_F(DelegationsTest, AReplayIsGrantedNothingNew) {
  const std::vector<v1::ReservedInode> reserved = HoldRoot(a_);
  harness_.Restart();
  ASSERT_EQ(a_.Resume(), 0);
  ASSERT_EQ(b_.Resume(), 0);
  v1::Request make = Client::CreateOf("dir");
  make.mutable_create()->set_mode(S_IFDIR | 0755);
  *make.mutable_replay() = Delegated(OpenOf("dir"), reserved[0]).delegated();
  ASSERT_EQ(a_.Do(make, true), 0);
  EXPECT_THAT(Exclusive(a_), IsEmpty());
  v1::Request within = ReplayOf("file", reserved[1]);
  within.mutable_create()->set_parent(reserved[0].inode());
  within.mutable_create()->set_reserved_inodes(4);
  ASSERT_EQ(a_.Do(within, true), 0);
  EXPECT_THAT(Exclusive(a_), IsEmpty());
  EXPECT_THAT(a_.last_.reserved_inodes(), IsEmpty());
}

TEST_F(DelegationsTest, TheStoreTakesNoBlocksBeforeReplaysEnd) {
  const std::vector<v1::ReservedInode> reserved = HoldRoot(a_);
  harness_.Restart();
  ASSERT_EQ(a_.Resume(), 0);
  ASSERT_EQ(b_.Resume(), 0);
  ASSERT_EQ(b_.Reclaim(), 0);
  EXPECT_FALSE(harness_.core_->TakeRegion(PoolId(0), 1, 16).ok());
  harness_.core_->OnStoreSpace(Core::StoreSpace::kFull, false);
  EXPECT_EQ(a_.Do(ReplayOf("second", reserved[0]), true), 0);  // the reserve is for that, too
  ASSERT_EQ(a_.Reclaim(), 0);
  EXPECT_TRUE(harness_.core_->TakeRegion(PoolId(0), 1, 16).ok());
}

TEST_F(DelegationsTest, AReplayGetsOnlyBlocksThatItsReplyNamed) {
  std::vector<v1::ReservedInode> reserved = HoldRoot(a_);
  const std::uint64_t first = a_.last_.entry().attr().inode();
  ASSERT_EQ(a_.Do(Client::LayoutOf(first, v1::TOKEN_EXCLUSIVE, true, 0, 4096), true), 0);
  const v1::Extent used = a_.last_.layout().extents(0);
  harness_.Restart();
  ASSERT_EQ(a_.Resume(), 0);
  ASSERT_EQ(b_.Resume(), 0);
  const std::uint64_t free = harness_.FreeBlocks();
  std::vector<v1::ReservedInode> wrong(6, reserved[0]);
  wrong[0].mutable_extents(0)->set_pool_block(used.pool_block());
  wrong[1].mutable_extents(0)->set_pool_block(~std::uint64_t{0} - 1);
  wrong[2].mutable_extents(0)->set_pool(99);
  wrong[3].mutable_extents(0)->set_file_block(5);
  wrong[4].mutable_extents(0)->set_length_blocks(free + 1);
  *wrong[5].add_extents() = wrong[5].extents(0);  // the same ones once more
  wrong[5].mutable_extents(1)->set_file_block(wrong[5].extents(0).length_blocks());
  for (const v1::ReservedInode& each : wrong) EXPECT_EQ(a_.Do(ReplayOf("x", each), true), EPROTO);
  ASSERT_EQ(a_.Reclaim(), 0);
  ASSERT_EQ(b_.Reclaim(), 0);
  EXPECT_EQ(TakeAllBut(b_, 0), 0);  // none of them is kept
}

// Bytes may be on their way to them until the session has ended.
TEST_F(DelegationsTest, BlocksOfAFailedReplayStayReserved) {
  const std::vector<v1::ReservedInode> reserved = HoldRoot(a_);
  const std::uint64_t blocks = reserved[0].extents(0).length_blocks();
  harness_.Restart();
  ASSERT_EQ(a_.Resume(), 0);
  ASSERT_EQ(b_.Resume(), 0);
  EXPECT_EQ(a_.Do(ReplayOf("first", reserved[0]), true), EEXIST);
  ASSERT_EQ(a_.Reclaim(), 0);
  ASSERT_EQ(b_.Reclaim(), 0);
  EXPECT_EQ(TakeAllBut(b_, blocks - 1), ENOSPC);
  v1::Request goodbye;
  goodbye.mutable_goodbye();
  a_.Send(goodbye);
  harness_.Run();
  EXPECT_EQ(b_.Do(Client::UnlinkOf("all"), true), 0);
  EXPECT_EQ(TakeAllBut(b_, 0), 0);
}

TEST_F(DelegationsTest, BlocksOfARefusedCreateStayReserved) {
  const std::vector<v1::ReservedInode> reserved = HoldRoot(a_);
  EXPECT_EQ(a_.Do(Delegated(OpenOf("first"), reserved[0]), true), EEXIST);
  EXPECT_EQ(a_.Do(Client::AttrReturnOf({kRoot})), 0);  // the others go back with it
  EXPECT_EQ(TakeAllBut(b_, reserved[0].extents(0).length_blocks()), 0);
  EXPECT_EQ(b_.Do(Client::UnlinkOf("all"), true), 0);
  EXPECT_EQ(TakeAllBut(b_, reserved[0].extents(0).length_blocks() - 1), ENOSPC);
}

TEST_F(DelegationsTest, AListingAheadEndsNoDelegation) {
  HoldRoot(a_);
  EXPECT_EQ(b_.Do(Client::ListAheadOf()), EAGAIN);
  EXPECT_THAT(b_.last_.cacheable(), IsEmpty());
  harness_.Pass(200, {&a_, &b_});
  EXPECT_THAT(a_.attr_recalls_, IsEmpty());
}

TEST_F(DelegationsTest, ALookupAheadEndsNoDelegation) {
  HoldRoot(a_);
  EXPECT_EQ(b_.Do(Client::LookAheadOf("first")), EAGAIN);
  EXPECT_THAT(b_.last_.cacheable(), IsEmpty()) << "a token beside the delegation";
  harness_.Pass(200, {&a_, &b_});
  EXPECT_THAT(a_.attr_recalls_, IsEmpty());
  EXPECT_THAT(a_.recalls_, IsEmpty());
}

}  // namespace
}  // namespace reel::mdc
