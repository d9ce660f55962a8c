#include "client/names/delegations.h"

#include <sys/stat.h>

#include <initializer_list>

#include "gtest/gtest.h"
#include "proto/protocol.h"

namespace reel::client {
namespace {

constexpr std::uint64_t kDelegated = 7;

class DelegationsTest : public testing::Test {
 protected:
  void Reserve(std::initializer_list<std::uint64_t> inodes, bool anew = false) {
    google::protobuf::RepeatedPtrField<v1::ReservedInode> reserved;
    for (const std::uint64_t inode : inodes) reserved.Add()->set_inode(inode);
    Delegations::Reserve(directory_, anew, reserved);
  }
  std::uint64_t Take() {
    if (!directory_.has_reserved()) return 0;
    const std::uint64_t inode = directory_.next_reserved().inode();
    Delegations::TakeReserved(directory_);
    return inode;
  }
  bool AsksAbout() {
    if (!Delegations::MayAskAbout(directory_, file_)) return false;
    Delegations::NoteAskedAbout(directory_, file_);
    return true;
  }

  Delegations delegations_;
  Delegations::Directory directory_;
  Delegations::File file_;
};

TEST_F(DelegationsTest, AFileIsMadeInOneDelegationOfItsDirectory) {
  delegations_.Begin(directory_);
  Delegations::NoteSole(directory_, file_);
  EXPECT_TRUE(Delegations::IsSole(directory_, file_));
  delegations_.Begin(directory_);  // it is held all the time
  EXPECT_TRUE(Delegations::IsSole(directory_, file_));
  Delegations::End(directory_);
  EXPECT_FALSE(Delegations::IsSole(directory_, file_));
  delegations_.Begin(directory_);
  EXPECT_FALSE(Delegations::IsSole(directory_, file_)) << "others may have seen it meanwhile";
}

TEST_F(DelegationsTest, AFileMadeWithoutADelegationBelongsToNone) {
  Delegations::NoteSole(directory_, file_);
  EXPECT_FALSE(Delegations::IsSole(directory_, file_));
  delegations_.Begin(directory_);
  EXPECT_FALSE(Delegations::IsSole(directory_, file_));
}

TEST_F(DelegationsTest, AFileWithAnotherNameIsNotItsDirectorysAlone) {
  delegations_.Begin(directory_);
  Delegations::NoteSole(directory_, file_);
  file_.NoteOtherName();
  EXPECT_FALSE(Delegations::IsSole(directory_, file_));
}

TEST_F(DelegationsTest, WhereThereIsNothingToAskItIsLookedForMoreRarely) {
  delegations_.Begin(directory_);
  const auto looks = [&](int requests, bool found) {
    int looks = 0;
    for (int i = 0; i < requests; ++i) {
      if (!directory_.MayAsk()) continue;
      ++looks;
      directory_.NoteAsked(found);
    }
    return looks;
  };
  EXPECT_EQ(looks(100, true), 100);
  EXPECT_LT(looks(10'000, false), 20);
  looks(5'000, true);
  EXPECT_EQ(looks(10, true), 10);
}

TEST_F(DelegationsTest, MoreAndMoreFilesAreAskedAboutInADelegatedDirectory) {
  directory_.NoteAsked(true);
  EXPECT_EQ(directory_.MostToAskAbout(), 32) << "it is not delegated";
  delegations_.Begin(directory_);
  EXPECT_EQ(directory_.MostToAskAbout(), 32);
  directory_.NoteAsked(true);
  EXPECT_EQ(directory_.MostToAskAbout(), 64);
  for (int i = 0; i < 10; ++i) directory_.NoteAsked(true);
  EXPECT_EQ(directory_.MostToAskAbout(), kMaxSiblings);
  Delegations::End(directory_);
  delegations_.Begin(directory_);
  EXPECT_EQ(directory_.MostToAskAbout(), 32);
}

TEST_F(DelegationsTest, WhatWasNotToldIsAskedAgain) {
  delegations_.Begin(directory_);
  EXPECT_TRUE(AsksAbout());
  EXPECT_TRUE(AsksAbout());
  EXPECT_FALSE(AsksAbout());
  file_.NoteNotTold();
  EXPECT_TRUE(AsksAbout());
}

TEST_F(DelegationsTest, WhetherAFileIsSoleIsAskedTwiceInEachDelegation) {
  EXPECT_TRUE(AsksAbout());
  EXPECT_TRUE(AsksAbout()) << "no delegation had begun";
  delegations_.Begin(directory_);
  EXPECT_TRUE(AsksAbout());
  EXPECT_TRUE(AsksAbout()) << "who knew it may have forgotten it";
  EXPECT_FALSE(AsksAbout());
  file_.NoteOtherName();
  EXPECT_TRUE(AsksAbout());
  Delegations::End(directory_);
  delegations_.Begin(directory_);
  EXPECT_TRUE(AsksAbout());
  Delegations::NoteSole(directory_, file_);
  EXPECT_FALSE(AsksAbout());
}

TEST_F(DelegationsTest, AReservedInodeIsGivenOnce) {
  Reserve({10});
  EXPECT_EQ(Take(), 0u) << "it is not delegated";
  delegations_.Begin(directory_);
  Reserve({10, 11});
  Reserve({12});
  EXPECT_EQ(Take(), 10u);
  EXPECT_EQ(Take(), 11u);
  EXPECT_EQ(Take(), 12u);
  EXPECT_EQ(Take(), 0u);
}

TEST_F(DelegationsTest, ReservedInodesEndWithTheDelegationAndWhereTheyAreAskedForAnew) {
  delegations_.Begin(directory_);
  Reserve({10});
  Reserve({11}, /*anew=*/true);
  EXPECT_EQ(Take(), 11u);
  Reserve({12});
  Delegations::End(directory_);
  delegations_.Begin(directory_);
  EXPECT_EQ(Take(), 0u);
}

TEST_F(DelegationsTest, AClientAsksForTheMissingReservedInodes) {
  delegations_.Begin(directory_);
  EXPECT_GT(directory_.WantedByWaiting(), 0u);
  while (directory_.WantedByDelegated() > 0) Reserve({10});
  EXPECT_EQ(directory_.WantedByWaiting(), 0u);
  std::size_t reserve = 0;
  while (Take() != 0) ++reserve;
  EXPECT_EQ(reserve, kMaxReservedInodes + 1) << "the one that is being used up is not counted";
}

TEST_F(DelegationsTest, TheLastAnswerIsTheOneThatTellsAll) {
  EXPECT_FALSE(delegations_.HasUnanswered(kDelegated));
  delegations_.NoteSent(kDelegated);
  delegations_.NoteSent(kDelegated);
  delegations_.NoteAnswered(kDelegated);
  EXPECT_TRUE(delegations_.HasUnanswered(kDelegated));
  delegations_.NoteAnswered(kDelegated);
  EXPECT_FALSE(delegations_.HasUnanswered(kDelegated));
  delegations_.NoteAnswered(kDelegated);  // of before the stream was lost
  EXPECT_FALSE(delegations_.HasUnanswered(kDelegated));
}

TEST_F(DelegationsTest, TheFileIsWhatTheControllerWillMake) {
  v1::ReservedInode reserved;
  reserved.set_inode(10);
  reserved.add_extents()->set_length_blocks(3);
  reserved.add_extents()->set_length_blocks(4);
  v1::Create create;
  create.set_mode(S_IFREG | 0666);
  create.set_umask(022);
  Attributes parent;
  parent.project = 5;
  parent.ctime = {.seconds = 100, .nanoseconds = 0};
  v1::Time now;
  now.set_seconds(95);
  const DelegatedFile file = MakeDelegated(reserved, create, {}, parent, now);
  EXPECT_EQ(file.made.attr().mode(), S_IFREG | 0644u);
  EXPECT_EQ(file.made.attr().project(), 5u);
  EXPECT_EQ(file.made.attr().ctime().seconds(), 100) << "clocks that differ a little do not show";
  EXPECT_EQ(file.made.layout().length_blocks(), 7u);
  EXPECT_EQ(file.decided.inode(), 10u);
  EXPECT_EQ(file.decided.extents_size(), 2);
  create.set_mode(S_IFDIR | 0777);
  const DelegatedFile directory = MakeDelegated(reserved, create, {}, parent, now);
  EXPECT_EQ(directory.made.attr().mode(), S_IFDIR | 0755u);
  EXPECT_EQ(directory.made.attr().nlink(), 2u);
  EXPECT_EQ(directory.decided.extents_size(), 0);
  create.set_mode(S_IFLNK | 0777);
  create.set_symlink("target");
  const DelegatedFile link = MakeDelegated(reserved, create, {}, parent, now);
  EXPECT_EQ(link.made.attr().mode(), S_IFLNK | 0777u);
  EXPECT_EQ(link.made.attr().size_bytes(), 6u);
  EXPECT_EQ(link.made.attr().allocated_bytes(), 0u);
  EXPECT_FALSE(link.made.has_layout());
  EXPECT_EQ(link.decided.extents_size(), 0);
  now.set_seconds(50);
  EXPECT_EQ(DelegatedTime(parent.ctime, now).seconds(), 50);
}

}  // namespace
}  // namespace reel::client
