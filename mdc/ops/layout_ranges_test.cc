// Tokens of ranges, as the controller grants them: two hosts that write one file.
#include <gtest/gtest.h>

#include <cerrno>

#include "mdc/testing/core_harness.h"

namespace reel::mdc {
namespace {

// A has written ten blocks of a file of ten. B wants to write at block 70, for which it needs all
// from the end of the file on. A keeps what lies before block 10.
class RangesTest : public testing::Test {
 protected:
  RangesTest() {
    a_.Register();
    b_.Register();
    file_ = a_.Create("file", /*open=*/true);
    EXPECT_EQ(a_.Do(Get(0, 0, 60), true), 0);
    EXPECT_EQ(Commit(a_, 0, 10, 10 * kBlock), 0);
    asked_ = b_.SendIn(1, Get(10, 70, 1));
    harness_.Run();
    EXPECT_FALSE(b_.Answered(asked_));
  }
  // The exclusive token from `token` on, and blocks for [block, + blocks).
  v1::Request Get(std::uint64_t token, std::uint64_t block, std::uint64_t blocks) const {
    v1::Request request =
        Client::LayoutOf(file_, v1::TOKEN_EXCLUSIVE, true, block * kBlock, blocks * kBlock);
    request.mutable_layout_get()->set_token_first_block(token);
    return request;
  }
  int Return(Client& client, std::uint64_t first, std::uint64_t blocks = 0) {
    v1::Request request = Client::ReturnOf(file_);
    request.mutable_layout_return()->set_first_block(first);
    request.mutable_layout_return()->set_length_blocks(blocks);
    return client.Do(request, true);
  }
  int Commit(Client& client, std::uint64_t block, std::uint64_t blocks, std::uint64_t size = 0) {
    v1::Request request;
    v1::LayoutCommit& commit = *request.mutable_layout_commit();
    commit.set_inode(file_);
    if (blocks > 0) {
      commit.add_written()->set_file_block(block);
      commit.mutable_written(0)->set_length_blocks(blocks);
    }
    if (size > 0) commit.set_size_bytes(size);
    commit.mutable_mtime()->set_seconds(5);
    return client.Do(request, true);
  }

  CoreHarness harness_;
  Client a_{harness_, 1}, b_{harness_, 2};
  std::uint64_t file_ = 0;
  std::uint64_t asked_ = 0;
};

TEST_F(RangesTest, OnlyTheWantedRangeIsRecalled) {
  ASSERT_EQ(a_.recalls_.size(), 1u);
  EXPECT_EQ(a_.recalls_[0].first_block(), 10u);
  EXPECT_EQ(a_.recalls_[0].length_blocks(), 0u);
  ASSERT_EQ(Return(a_, 10), 0);
  ASSERT_TRUE(b_.Answered(asked_));
  const v1::LayoutReply& layout = b_.replies_[asked_].layout();
  EXPECT_EQ(layout.token_first_block(), 10u);
  EXPECT_EQ(layout.token_length_blocks(), 0u);
}

TEST_F(RangesTest, TheWidestRangeWithoutConflictIsGranted) {
  ASSERT_EQ(Return(a_, 5), 0);  // more than was wanted
  EXPECT_EQ(b_.replies_[asked_].layout().token_first_block(), 5u);
  // A again: up to where B begins, of what it asks for the token of one block.
  v1::Request get = Client::LayoutOf(file_, v1::TOKEN_SHARED, false, 0, 100 * kBlock);
  get.mutable_layout_get()->set_token_length_blocks(1);
  ASSERT_EQ(a_.Do(get), 0);
  EXPECT_EQ(a_.last_.layout().token_first_block(), 0u);
  EXPECT_EQ(a_.last_.layout().token_length_blocks(), 5u);
  EXPECT_EQ(a_.last_.layout().length_blocks(), 5u);  // and describes no more
}

TEST_F(RangesTest, ASessionCommitsOnlyItsRange) {
  ASSERT_EQ(Return(a_, 10), 0);
  EXPECT_EQ(Commit(a_, 3, 2), 0);
  EXPECT_EQ(Commit(a_, 9, 2), EPERM);               // reaches into B's
  EXPECT_EQ(Commit(a_, 0, 0, 20 * kBlock), EPERM);  // the end of the file is B's
  EXPECT_EQ(Commit(a_, 0, 0), 0);                   // times
  EXPECT_EQ(Commit(b_, 70, 1, 71 * kBlock), 0);
  EXPECT_EQ(Commit(b_, 9, 1), EPERM);
  ASSERT_EQ(Return(b_, 0), 0);
  EXPECT_EQ(Commit(b_, 0, 0), EPERM);  // nothing at all
}

TEST_F(RangesTest, NothingIsAllocatedInAnothersRange) {
  ASSERT_EQ(Return(a_, 10), 0);
  v1::Request get = Client::LayoutOf(file_, v1::TOKEN_EXCLUSIVE, true, 8 * kBlock, 4 * kBlock);
  get.mutable_layout_get()->set_token_length_blocks(10);
  EXPECT_EQ(a_.Do(get, true), EINVAL);
  get.mutable_layout_get()->set_length_bytes(2 * kBlock);
  ASSERT_EQ(a_.Do(get, true), 0);
  EXPECT_EQ(a_.last_.layout().length_blocks(), 2u);
}

TEST_F(RangesTest, ClaimsOfDisjointRangesCoexist) {
  ASSERT_EQ(Return(a_, 10), 0);
  harness_.Restart();
  const auto claim = [&](Client& client, std::uint64_t first, std::uint64_t blocks) {
    client.Resume();
    v1::Request request;
    v1::HeldToken& token = *request.mutable_reclaim()->add_tokens();
    token.set_inode(file_);
    token.set_mode(v1::TOKEN_EXCLUSIVE);
    token.set_first_block(first);
    token.set_length_blocks(blocks);
    request.mutable_reclaim()->set_done(true);
    return client.Do(request);
  };
  EXPECT_EQ(claim(a_, 0, 10), 0);
  EXPECT_EQ(claim(b_, 10, 0), 0);
  EXPECT_FALSE(a_.evicted_ || b_.evicted_);
  EXPECT_EQ(Commit(a_, 3, 2), 0);
  EXPECT_EQ(Commit(a_, 10, 1), EPERM);
}

TEST_F(RangesTest, AMalformedSpanIsRefused) {
  EXPECT_EQ(Return(a_, ~std::uint64_t{0}), EINVAL);
  EXPECT_EQ(Return(a_, 1, ~std::uint64_t{0}), EINVAL);
  v1::Request get = Client::LayoutOf(file_, v1::TOKEN_SHARED);
  get.mutable_layout_get()->set_token_first_block(std::uint64_t{1} << 60);
  EXPECT_EQ(a_.Do(get), EINVAL);
}

}  // namespace
}  // namespace reel::mdc
