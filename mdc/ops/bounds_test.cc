// What one session may hold at most.
#include "mdc/ops/layout.h"
#include "mdc/ops/names.h"
#include "mdc/ops/open.h"
#include "mdc/testing/op_fixture.h"

namespace reel::mdc {
namespace {

constexpr std::uint64_t kNotMade = 1'000'000;  // inodes from here on are nobody's

class BoundsTest : public OpFixture {
 protected:
  int Layout(std::uint64_t inode, v1::TokenMode mode, SessionId session = kMe) {
    v1::Request request;
    request.mutable_layout_get()->set_inode(inode);
    request.mutable_layout_get()->set_mode(mode);
    request.mutable_layout_get()->set_length_bytes(1);
    return Do(LayoutGet, request, session);
  }
  int OpenFile(std::uint64_t inode, SessionId session = kMe) {
    v1::Request request;
    request.mutable_open()->set_inode(inode);
    request.mutable_open()->set_token(v1::TOKEN_SHARED);
    return Do(Open, request, session);
  }
};

TEST_F(BoundsTest, ASessionsTokensAreBounded) {
  const std::uint64_t old = MakeFile(kRoot, "old"), next = MakeFile(kRoot, "next");
  ASSERT_EQ(Layout(old, v1::TOKEN_SHARED), 0);
  for (std::uint64_t i = 1; i < kMaxTokenRanges; ++i) {
    tokens_.Grant(kMe, InodeNumber(kNotMade + i), v1::TOKEN_SHARED);
  }
  EXPECT_EQ(Layout(next, v1::TOKEN_SHARED), ENFILE);
  EXPECT_EQ(Layout(old, v1::TOKEN_SHARED), 0);
  EXPECT_EQ(OpenFile(next), 0);
  EXPECT_EQ(tokens_.Held(kMe, InodeNumber(next)), v1::TOKEN_NONE);
  EXPECT_EQ(Layout(next, v1::TOKEN_SHARED, kOther), 0);
  tokens_.Return(kMe, InodeNumber(kNotMade + 1), v1::TOKEN_NONE);
  EXPECT_EQ(Layout(next, v1::TOKEN_SHARED), 0);
}

TEST_F(BoundsTest, ASessionsOpensAreBounded) {
  const std::uint64_t old = MakeFile(kRoot, "old"), next = MakeFile(kRoot, "next");
  ASSERT_EQ(OpenFile(old), 0);
  for (std::uint64_t i = 1; i < kMaxOpens; ++i) opens_.Open(kMe, InodeNumber(kNotMade + i));
  EXPECT_EQ(OpenFile(next), ENFILE);
  EXPECT_EQ(OpenFile(old), 0);
  EXPECT_EQ(OpenFile(next, kOther), 0);
}

TEST_F(BoundsTest, AReplayIsRefusedByNoBound) {
  for (std::uint64_t i = 0; i < kMaxOpens; ++i) opens_.Open(kMe, InodeNumber(kNotMade + i));
  v1::Request create;
  create.mutable_create()->set_parent(kRoot);
  create.mutable_create()->set_name("told");
  create.mutable_create()->set_mode(S_IFREG | 0644);
  create.mutable_create()->set_open(true);
  EXPECT_EQ(Do(mdc::Create, create), ENFILE);
  v1::Replay decided;
  decided.set_inode(kRoot + 1);
  decided.set_generation(77);
  numbers_ = std::make_unique<InodeNumbers>(kRoot + 2);
  const absl::Status done = InContext(kMe, [&](OpContext& ctx) {
    ctx.decided.replay = &decided;
    return mdc::Create(ctx, create, reply_);
  });
  EXPECT_TRUE(done.ok()) << done;
  EXPECT_TRUE(opens_.IsOpenBy(kMe, InodeNumber(kRoot + 1)));
}

}  // namespace
}  // namespace reel::mdc
