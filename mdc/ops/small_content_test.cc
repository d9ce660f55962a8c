#include "mdc/ops/small_content.h"

#include <linux/falloc.h>

#include "gtest/gtest.h"
#include "mdc/testing/one_file_fixture.h"
#include "proto/protocol.h"

namespace reel::mdc {
namespace {

// One client with the exclusive token of one small file.
class SmallContentTest : public OneFileFixture {
 protected:
  SmallContentTest() {
    harness_.options_.small_file_bytes = 4 * kBlock;
    harness_.Restart();
    a_.features_ = v1::FEATURE_SMALL_FILES;
    Begin();
    EXPECT_EQ(a_.told_.small_file_bytes(), 4 * kBlock);
    EXPECT_EQ(Get(0, 2, true), 0);
  }

  v1::Request CommitOf(const std::string& content) {
    v1::Request request;
    v1::LayoutCommit& commit = *request.mutable_layout_commit();
    commit.set_inode(file_);
    commit.set_content(content);
    commit.set_size_bytes(content.size());
    return request;
  }
  int Commit(const std::string& content, bool release_tail = false) {
    v1::Request request = CommitOf(content);
    request.mutable_layout_commit()->set_release_tail(release_tail);
    return a_.Do(request, true);
  }
  int CommitBlocks(std::uint64_t block, std::uint64_t blocks, std::uint64_t size) {
    v1::Request request;
    v1::LayoutCommit& commit = *request.mutable_layout_commit();
    commit.set_inode(file_);
    v1::BlockRange& range = *commit.add_written();
    range.set_file_block(block);
    range.set_length_blocks(blocks);
    commit.set_size_bytes(size);
    return a_.Do(request, true);
  }
  std::string Content() {
    EXPECT_EQ(Get(0, 1), 0);
    EXPECT_EQ(a_.last_.layout().token_length_blocks(), 0u);
    return a_.last_.layout().has_content() ? a_.last_.layout().content() : "none";
  }
};

TEST_F(SmallContentTest, ComesWithTheGrantAndTakesNoBlocks) {
  ASSERT_EQ(Commit("hello", /*release_tail=*/true), 0);
  EXPECT_EQ(Content(), "hello");
  EXPECT_EQ(Attributes().size_bytes(), 5u);
  EXPECT_EQ(Attributes().allocated_bytes(), 512u);
  EXPECT_NE(Attributes().flags() & v1::INODE_FLAG_INLINE, 0u);
}

TEST_F(SmallContentTest, KeepsBlocksForWhoWritesOn) {
  ASSERT_EQ(Commit("hello"), 0);
  EXPECT_EQ(Attributes().allocated_bytes(), 2 * kBlock);
}

TEST_F(SmallContentTest, IsThereAfterARestart) {
  ASSERT_EQ(Commit("hello", true), 0);
  harness_.Restart();
  Client b{harness_, 2};
  b.features_ = v1::FEATURE_SMALL_FILES;
  b.Register();
  EXPECT_EQ(b.told_.small_file_bytes(), 4 * kBlock);
}

TEST_F(SmallContentTest, AShortStoreAsksForBlocks) {
  const auto told = [](Client& client) {
    v1::Request renew;
    renew.mutable_renew();
    EXPECT_EQ(client.Do(renew), 0);
    return client.last_.small_file_bytes();
  };
  EXPECT_EQ(told(a_), 4 * kBlock);
  harness_.core_->OnStoreSpace(Core::StoreSpace::kTight, false);
  EXPECT_EQ(told(a_), 0u);
  EXPECT_EQ(Commit("hello"), 0) << "it was offered before";
  harness_.core_->OnStoreSpace(Core::StoreSpace::kAmple, false);
  EXPECT_EQ(told(a_), 4 * kBlock);
}

// (This one was made before there were any, and has some by now.)
TEST_F(SmallContentTest, AVolumeThatHasThemHasADefault) {
  ASSERT_EQ(Commit("hello", true), 0);
  harness_.options_.small_file_bytes.reset();
  harness_.Restart();
  Client b{harness_, 2};
  b.features_ = v1::FEATURE_SMALL_FILES;
  b.Register();
  EXPECT_EQ(b.told_.small_file_bytes(), kDefaultSmallFileBytes);
  harness_.options_.small_file_bytes = 0;
  harness_.Restart();
  Client c{harness_, 3};
  c.features_ = v1::FEATURE_SMALL_FILES;
  c.Register();
  EXPECT_EQ(c.told_.small_file_bytes(), 0u);
}

TEST_F(SmallContentTest, WrittenBlocksTakeItsPlace) {
  ASSERT_EQ(Commit(std::string(kBlock + 1, 'x')), 0);
  EXPECT_EQ(CommitBlocks(0, 1, kBlock + 1), EINVAL);  // a part of them
  EXPECT_EQ(CommitBlocks(1, 1, kBlock + 1), EINVAL);
  EXPECT_EQ(Content(), std::string(kBlock + 1, 'x'));
  ASSERT_EQ(CommitBlocks(0, 2, 2 * kBlock), 0);
  EXPECT_EQ(Content(), "none");
  EXPECT_EQ(Attributes().flags() & v1::INODE_FLAG_INLINE, 0u);
}

TEST_F(SmallContentTest, TakesThePlaceOfWrittenBlocks) {
  ASSERT_EQ(CommitBlocks(0, 2, kBlock + 1), 0);
  ASSERT_EQ(Commit(std::string(kBlock + 1, 'y'), true), 0);
  EXPECT_EQ(Content(), std::string(kBlock + 1, 'y'));
  EXPECT_EQ(Attributes().allocated_bytes(), 4608u);
}

TEST_F(SmallContentTest, TruncationsAndHolesChangeIt) {
  ASSERT_EQ(Commit("hello world"), 0);
  v1::Request punch;
  v1::Allocate& allocate = *punch.mutable_allocate();
  allocate.set_inode(file_);
  allocate.set_mode(FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE);
  allocate.set_offset_bytes(1);
  allocate.set_length_bytes(2);
  ASSERT_EQ(a_.Do(punch, true), 0);
  EXPECT_EQ(Content(), std::string("h\0\0lo world", 11));
  for (const std::uint64_t size : {4, 100, 0, 50}) {
    v1::Request truncate;
    truncate.mutable_set_attr()->set_inode(file_);
    truncate.mutable_set_attr()->set_fields(v1::SetAttr::SIZE);
    truncate.mutable_set_attr()->set_size_bytes(size);
    ASSERT_EQ(a_.Do(truncate, true), 0);
    EXPECT_EQ(Content(), size == 4 || size == 100 ? std::string("h\0\0l", 4) : "none");
  }
}

TEST_F(SmallContentTest, WhatCannotBeIsRefused) {
  EXPECT_EQ(Commit(""), EINVAL);
  EXPECT_EQ(Commit(std::string(kMaxSmallFileBytes + 1, 'x')), EINVAL);
  v1::Request request = CommitOf("hello");
  request.mutable_layout_commit()->set_size_bytes(6);
  EXPECT_EQ(a_.Do(request, true), EINVAL);
  ASSERT_EQ(a_.Do(Client::ReturnOf(file_), true), 0);
  EXPECT_EQ(Commit("hello"), EPERM);
  EXPECT_EQ(Content(), "none");
}

TEST_F(SmallContentTest, ClientsThatDoNotKnowItAreRefused) {
  Client b{harness_, 2};
  b.features_ = 0;
  b.Connect();
  EXPECT_EQ(b.Hello(), EPROTONOSUPPORT);
}

}  // namespace
}  // namespace reel::mdc
