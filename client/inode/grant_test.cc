#include "client/inode/grant.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <string>
#include <vector>

#include "proto/status.h"

namespace reel::client {
namespace {

constexpr std::uint32_t kBlock = 4096;
using enum ExtentState;

TokenSpan Span(std::uint64_t first, std::uint64_t end) {
  return {.first = FileBlock(first), .end = FileBlock(end)};
}
Extent MakeExtent(std::uint64_t first, std::uint64_t end, ExtentState state) {
  return {.file_block = FileBlock(first),
          .length_blocks = end - first,
          .state = state,
          .pool = PoolId(1),
          .pool_block = PoolBlock(1000 + first)};
}

class GrantTest : public testing::Test {
 protected:
  void Take(const TokenSpan& token, v1::TokenMode mode, const std::vector<Extent>& extents) {
    Grant::Layout layout{.token = token, .mode = mode, .described = {}, .extents = extents};
    if (!extents.empty()) {
      const FileBlock first = extents.front().file_block;
      layout.described = {first, extents.back().end() - first};
    }
    grant_.TakeExtents(layout, grant_.ReplacesAll(layout));
    grant_.TakeToken(layout, /*session=*/7);
  }
  // 'w', 'u', 'h' of each block of [0, blocks), '?' where nothing is known.
  std::string Known(std::uint64_t blocks) const {
    std::string known;
    for (std::uint64_t block = 0; block < blocks; ++block) {
      const std::optional<Extent> extent = grant_.Find(FileBlock(block));
      known += extent ? "huw"[static_cast<int>(extent->state)] : '?';
    }
    return known;
  }

  Grant grant_{kBlock};
};

TEST_F(GrantTest, ALayoutDescribesWhatItsTokenCovers) {
  v1::LayoutReply reply;
  reply.set_mode(v1::TOKEN_SHARED);
  reply.set_token_first_block(4);
  reply.set_token_length_blocks(4);
  reply.set_file_block(4);
  reply.set_length_blocks(4);
  v1::Extent& extent = *reply.add_extents();
  extent.set_file_block(4);
  extent.set_length_blocks(4);
  extent.set_state(v1::EXTENT_HOLE);
  const absl::StatusOr<Grant::Layout> layout = Grant::Parse(reply);
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_EQ(layout->token, Span(4, 8));
  EXPECT_EQ(layout->extents.size(), 1u);
  reply.set_length_blocks(5);
  EXPECT_EQ(ErrnoOf(Grant::Parse(reply).status()), EIO);
  reply.set_length_blocks(4);
  reply.mutable_extents(0)->set_length_blocks(5);
  EXPECT_EQ(ErrnoOf(Grant::Parse(reply).status()), EIO);
}

TEST_F(GrantTest, WrittenBlocksStayWrittenWhenAReplyCrossesTheirCommit) {
  Take(kWholeFile, v1::TOKEN_EXCLUSIVE, {MakeExtent(0, 8, kUnwritten)});
  grant_.MarkWritten(FileBlock(2), 2);
  Take(kWholeFile, v1::TOKEN_EXCLUSIVE, {MakeExtent(0, 8, kUnwritten)});
  EXPECT_EQ(Known(9), "uuwwuuuu?");
  Extent moved = MakeExtent(2, 3, kUnwritten);
  moved.pool_block = PoolBlock(5);
  Take(kWholeFile, v1::TOKEN_EXCLUSIVE, {moved});
  EXPECT_EQ(Known(4), "uuuw") << "another block is meant";
}

TEST_F(GrantTest, BlocksWithoutTheTokenAreUnknown) {
  Take(kWholeFile, v1::TOKEN_EXCLUSIVE, {MakeExtent(0, 8, kWritten)});
  grant_.Lower(Span(0, 4), v1::TOKEN_SHARED);
  EXPECT_EQ(Known(8), "wwwwwwww");
  EXPECT_TRUE(grant_.holds_to_write());
  EXPECT_EQ(grant_.HeldTo(FileBlock(0), v1::TOKEN_EXCLUSIVE), FileBlock(0));
  EXPECT_EQ(grant_.HeldTo(FileBlock(0), v1::TOKEN_SHARED), kEndOfFileBlocks);
  grant_.Lower(Span(4, 6), v1::TOKEN_NONE);
  EXPECT_EQ(Known(8), "wwww??ww");
  EXPECT_EQ(grant_.HeldTo(FileBlock(0), v1::TOKEN_SHARED), FileBlock(4));
}

TEST_F(GrantTest, ANewTokenReplacesTheKnownExtents) {
  EXPECT_TRUE(grant_.ReplacesAll({}));
  Take(Span(0, 8), v1::TOKEN_SHARED, {MakeExtent(0, 8, kWritten)});
  EXPECT_FALSE(grant_.ReplacesAll({}));
  EXPECT_EQ(grant_.session(), 7u);
  const std::uint64_t lost_sessions = grant_.lost_sessions();
  grant_.NoteTail(true);
  grant_.Void();
  EXPECT_NE(grant_.lost_sessions(), lost_sessions);
  EXPECT_EQ(grant_.session(), 0u);
  EXPECT_TRUE(grant_.empty() && !grant_.tail_allocated());
  EXPECT_EQ(Known(8), "????????");
}

TEST_F(GrantTest, CoversARangeUpToWhatIsUnknown) {
  Take(kWholeFile, v1::TOKEN_SHARED, {MakeExtent(0, 2, kWritten), MakeExtent(2, 4, kHole)});
  ExtentList list;
  EXPECT_FALSE(grant_.Cover(kBlock + 1, 2 * kBlock, list));
  EXPECT_EQ(list.size(), 2u);
  EXPECT_EQ(grant_.Cover(3 * kBlock, kBlock + 1, list), 4 * kBlock);
}

TEST_F(GrantTest, KeepsOnlyTheExtentsInUse) {
  Take(kWholeFile, v1::TOKEN_EXCLUSIVE, {MakeExtent(0, 8, kWritten)});
  const std::vector<BlockSpan> needed{{FileBlock(2), 2}};
  grant_.KeepExtents(needed);
  EXPECT_EQ(Known(8), "??ww????");
}

TEST_F(GrantTest, AFailedFlushMakesBlocksUnwrittenAgain) {
  Take(kWholeFile, v1::TOKEN_EXCLUSIVE, {MakeExtent(0, 4, kWritten), MakeExtent(4, 8, kHole)});
  grant_.MarkUnwritten(FileBlock(2), 4);
  EXPECT_EQ(Known(8), "wwuuhhhh");
}

TEST_F(GrantTest, ReleasedBlocksBehindTheEndAreForgotten) {
  Take(kWholeFile, v1::TOKEN_EXCLUSIVE, {MakeExtent(0, 8, kUnwritten)});
  grant_.NoteTail(true);
  grant_.ReleaseTail(FileBlock(3));
  EXPECT_EQ(Known(5), "uuu??");
  EXPECT_FALSE(grant_.tail_allocated());
}

TEST_F(GrantTest, AFetchContinuesFromTheKnownExtents) {
  const std::uint64_t far = 100 * kMiB;
  EXPECT_EQ(grant_.FetchSpanAround(far, far + 1).offset_bytes, Grant::kFirstFetchBytes);
  const std::uint64_t block = far / kBlock;
  Take(kWholeFile, v1::TOKEN_SHARED, {MakeExtent(block - 1, block, kWritten)});
  const Grant::FetchSpan fetch = grant_.FetchSpanAround(far, far + 1);
  EXPECT_EQ(fetch.offset_bytes, far);
  EXPECT_EQ(fetch.length_bytes, Grant::kFirstFetchBytes);
}

TEST_F(GrantTest, AFetchIsAsLargeAsRepliesAre) {
  const Grant::FetchSpan asked{.offset_bytes = 0, .length_bytes = Grant::kFirstFetchBytes};
  grant_.AdaptFetchBytes(asked, asked.length_bytes, /*extents=*/3);
  EXPECT_EQ(grant_.fetch_bytes(), 2 * Grant::kFirstFetchBytes);
  grant_.AdaptFetchBytes(asked, asked.length_bytes, /*extents=*/100);
  EXPECT_EQ(grant_.fetch_bytes(), 2 * Grant::kFirstFetchBytes);
  grant_.AdaptFetchBytes(asked, 5, /*extents=*/1'000);
  EXPECT_EQ(grant_.fetch_bytes(), Grant::kFirstFetchBytes / 2);
}

}  // namespace
}  // namespace reel::client
