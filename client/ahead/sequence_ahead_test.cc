#include "client/ahead/sequence_ahead.h"

#include <fcntl.h>
#include <gmock/gmock.h>

#include "absl/strings/numbers.h"

#include "absl/strings/str_format.h"
#include "client/testing/test_clocks.h"
#include "client/testing/vfs_fixture.h"

namespace reel::client {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::uint64_t kDirectory = 1;
constexpr std::uint64_t kFirstInode = 100;  // of frame 0

class AheadSession final : public FakeSession {
 public:
  bool looks_ahead() const override { return knows; }
  bool checks_opens() const override { return checks; }

  bool knows = true;
  bool checks = false;
};

// Keeps what is asked of it, until the test answers.
class AheadData final : public FakeFileData {
 public:
  std::uint64_t max_frame_bytes() const override { return memory_bytes; }
  void LookAhead(v1::Request lookup, std::uint64_t bytes,
                 std::function<void(const absl::StatusOr<v1::Attr>&)> done) override {
    EXPECT_TRUE(lookup.lookup().ahead());
    EXPECT_EQ(lookup.lookup().layout_bytes(), bytes);
    EXPECT_EQ(lookup.credentials().uid(), 1000u);
    asked.push_back(lookup.lookup().name());
    dones.push_back(std::move(done));
  }
  bool FetchAhead(std::uint64_t inode, std::uint64_t /*bytes*/) override {
    if (holds) fetched.push_back(inode);
    return holds;
  }
  void DropAhead(std::uint64_t inode) override { dropped.push_back(inode); }
  std::uint64_t ReadTo(std::uint64_t) const override { return 4711; }
  void Overlay(v1::Attr& attr) const override { attr.set_size_bytes(4711); }

  std::uint64_t memory_bytes = 64 * kMiB;
  bool holds = false;
  std::vector<std::string> asked;
  std::vector<std::function<void(const absl::StatusOr<v1::Attr>&)>> dones;
  std::vector<std::uint64_t> fetched, dropped;
};

class SequenceAheadTest : public testing::Test {
 protected:
  SequenceAheadTest() { caller_.credentials.set_uid(1000); }

  static std::string NameOf(std::uint64_t number) { return absl::StrFormat("f.%04d", number); }
  static v1::Attr AttrOf(std::uint64_t number) {
    v1::Attr attr;
    attr.set_inode(kFirstInode + number);
    attr.set_mode(S_IFREG | 0644);
    attr.set_nlink(1);
    return attr;
  }
  // A program looks a frame up, opens and closes it.
  void Play(std::uint64_t number, int flags = O_RDONLY) {
    clock_.Advance(40);
    *session_.replies.emplace_back().mutable_entry()->mutable_attr() = AttrOf(number);
    ASSERT_TRUE(vfs_.Lookup({kDirectory, NameOf(number)}, caller_).ok());
    session_.replies.clear();  // it may have been known
    ASSERT_TRUE(vfs_.Open(kFirstInode + number, flags, caller_).ok());
    vfs_.Close(kFirstInode + number);
  }
  // All that was asked for is answered so.
  void Answer(int error) {
    for (std::size_t i = 0; i < data_.dones.size(); ++i) {
      std::uint64_t number = 0;
      ASSERT_TRUE(absl::SimpleAtoi(data_.asked[i].substr(2), &number));
      data_.dones[i](error == 0 ? absl::StatusOr<v1::Attr>(AttrOf(number)) : ErrnoStatus(error));
    }
    data_.dones.clear();
    data_.asked.clear();
  }
  void Know(std::uint64_t number, bool absent) {
    v1::Request looked;
    looked.mutable_lookup()->set_parent(kDirectory);
    looked.mutable_lookup()->set_name(NameOf(number));
    v1::Reply reply;
    reply.add_cacheable(kDirectory);
    if (absent) {
      reply.set_error(ENOENT);
    } else {
      reply.add_cacheable(kFirstInode + number);
      *reply.mutable_entry()->mutable_attr() = AttrOf(number);
    }
    names_.OnReply(looked, reply);
  }

  AheadSession session_;
  AheadData data_;
  NameCache names_;
  ManualClock clock_;
  Vfs vfs_{session_, data_, names_, VfsOptions{.clock = &clock_}};
  Caller caller_;
};

TEST_F(SequenceAheadTest, TheNextFramesAreAskedForAhead) {
  for (const std::uint64_t number : {10, 11}) Play(number);
  EXPECT_THAT(data_.asked, IsEmpty());
  Play(12);
  EXPECT_THAT(data_.asked, ElementsAre("f.0013", "f.0014"));
  Answer(0);
  Play(13);
  EXPECT_THAT(data_.asked, ElementsAre("f.0015", "f.0016"));
}

TEST_F(SequenceAheadTest, AFrameIsPlayedOnceItsSequenceIs) {
  for (const std::uint64_t number : {10, 11}) Play(number);
  EXPECT_FALSE(vfs_.MayBePlayed(kFirstInode + 11));
  Play(12);
  EXPECT_TRUE(vfs_.MayBePlayed(kFirstInode + 12));
  EXPECT_FALSE(vfs_.MayBePlayed(kFirstInode + 40)) << "nobody has opened it";
  clock_.Advance(60'000);
  Play(11);
  EXPECT_FALSE(vfs_.MayBePlayed(kFirstInode + 11)) << "by itself, and long after";
  data_.memory_bytes = 0;  // nobody looks
  EXPECT_TRUE(vfs_.MayBePlayed(kFirstInode + 11));
}

TEST_F(SequenceAheadTest, FilesThatAreOpenedToWriteAreNoFrames) {
  for (const std::uint64_t number : {10, 11, 12, 13}) Play(number, O_RDWR);
  EXPECT_THAT(data_.asked, IsEmpty());
}

TEST_F(SequenceAheadTest, NothingIsAskedForWhereItCannotOrMustNot) {
  session_.knows = false;  // of an earlier release
  for (const std::uint64_t number : {10, 11, 12, 13}) Play(number);
  session_.knows = true;
  session_.checks = true;  // who may open what
  for (const std::uint64_t number : {14, 15, 16, 17}) Play(number);
  session_.checks = false;
  data_.memory_bytes = 0;  // as its mount wants it
  for (const std::uint64_t number : {18, 19, 20, 21}) Play(number);
  EXPECT_THAT(data_.asked, IsEmpty());
}

TEST_F(SequenceAheadTest, WhatIsKnownIsNotAskedForAgain) {
  data_.holds = true;
  Know(13, /*absent=*/false);
  Know(14, /*absent=*/true);
  for (const std::uint64_t number : {10, 11, 12}) Play(number);
  EXPECT_THAT(data_.fetched, ElementsAre(kFirstInode + 13));
  EXPECT_THAT(data_.asked, IsEmpty());
  data_.holds = false;  // of the next one the token has gone
  Know(14, /*absent=*/false);
  Play(13);
  EXPECT_THAT(data_.asked, ElementsAre("f.0014"));
}

TEST_F(SequenceAheadTest, AFrameThatAnotherHostWritesIsTriedAgainWhenTheReaderIsNear) {
  for (const std::uint64_t number : {10, 11, 12}) Play(number);
  Answer(EAGAIN);
  Play(13);
  EXPECT_THAT(data_.asked, ElementsAre("f.0014", "f.0015"));
  Answer(ENOENT);
  Play(14);
  EXPECT_THAT(data_.asked, ElementsAre("f.0015", "f.0016"));
}

TEST_F(SequenceAheadTest, AStreamThatTurnsDropsWhatItHadAhead) {
  for (const std::uint64_t number : {10, 11, 12}) Play(number);
  Answer(0);
  for (const std::uint64_t number : {11, 10}) Play(number);
  EXPECT_THAT(data_.dropped, ElementsAre(kFirstInode + 13, kFirstInode + 14));
}

TEST_F(SequenceAheadTest, FewRequestsAreOnTheirWay) {
  for (std::uint64_t number = 10; number < 40; ++number) Play(number);
  EXPECT_LE(data_.dones.size(), SequenceAhead::kMaxUnderWay);
  Answer(0);
  Play(40);
  EXPECT_FALSE(data_.asked.empty());
}

}  // namespace
}  // namespace reel::client
