#include "mdc/ops/layout.h"

#include <linux/falloc.h>

#include "gmock/gmock.h"
#include "mdc/testing/one_file_fixture.h"

namespace reel::mdc {
namespace {

using testing::ElementsAre;

// One client with the exclusive token of one file, and what it asks for.
class LayoutTest : public OneFileFixture {
 protected:
  LayoutTest() {
    Begin();
    EXPECT_EQ(Get(0, 1), 0);
  }

  int Commit(std::vector<std::pair<std::uint64_t, std::uint64_t>> written,
             std::optional<std::uint64_t> size = std::nullopt, bool release_tail = false) {
    v1::Request request;
    v1::LayoutCommit& commit = *request.mutable_layout_commit();
    commit.set_inode(file_);
    for (const auto& [block, blocks] : written) {
      v1::BlockRange& range = *commit.add_written();
      range.set_file_block(block);
      range.set_length_blocks(blocks);
    }
    if (size) commit.set_size_bytes(*size);
    commit.set_release_tail(release_tail);
    return a_.Do(request, true);
  }
  int Fallocate(std::uint32_t mode, std::uint64_t offset, std::uint64_t length) {
    v1::Request request;
    v1::Allocate& allocate = *request.mutable_allocate();
    allocate.set_inode(file_);
    allocate.set_mode(mode);
    allocate.set_offset_bytes(offset);
    allocate.set_length_bytes(length);
    return a_.Do(request, true);
  }
  std::uint64_t Blocks() { return Attributes().allocated_bytes() / kBlock; }
  // The first `blocks` blocks, one letter each: . hole, u unwritten, w written.
  std::string Shape(std::uint64_t blocks) {
    EXPECT_EQ(Get(0, blocks), 0);
    std::string shape;
    for (const v1::Extent& extent : a_.last_.layout().extents()) {
      EXPECT_EQ(extent.file_block(), shape.size());
      const std::uint64_t rest = blocks - std::min<std::uint64_t>(blocks, shape.size());
      shape.append(std::min(extent.length_blocks(), rest), ".uw"[extent.state()]);
      if (shape.size() == blocks) break;
    }
    return shape;
  }
};

TEST_F(LayoutTest, AllocatedBlocksAreUnwrittenUntilCommitted) {
  ASSERT_EQ(Get(1, 3, true), 0);
  EXPECT_EQ(Shape(5), ".uuu.");
  ASSERT_EQ(Commit({{1, 2}}, 3 * kBlock), 0);
  EXPECT_EQ(Shape(5), ".wwu.");
  EXPECT_EQ(Attributes().size_bytes(), 3 * kBlock);
  EXPECT_EQ(Blocks(), 3u);
}

TEST_F(LayoutTest, ANewFileComesWithItsTokenAndRoom) {
  v1::Request create = Client::CreateOf("new", /*open=*/true);
  create.mutable_create()->set_token(v1::TOKEN_EXCLUSIVE);
  create.mutable_create()->set_allocate_bytes(2 * kBlock + 1);
  ASSERT_EQ(a_.Do(create, true), 0);
  const v1::LayoutReply layout = a_.last_.entry().layout();
  file_ = a_.last_.entry().attr().inode();
  EXPECT_EQ(layout.mode(), v1::TOKEN_EXCLUSIVE);
  ASSERT_GE(layout.extents_size(), 1);
  EXPECT_EQ(layout.extents(0).length_blocks(), 3u);
  ASSERT_EQ(Commit({{0, 2}}, 2 * kBlock), 0);  // under the token, without another question
  EXPECT_EQ(Shape(4), "wwu.");

  Client b(harness_, 2);
  b.Register();
  const std::uint64_t asked =
      b.SendIn(0, Client::LayoutOf(file_, v1::TOKEN_SHARED, false, 0, kBlock));
  harness_.Run();
  EXPECT_FALSE(b.Answered(asked));
  ASSERT_EQ(a_.recalls_.size(), 1u);
  EXPECT_EQ(a_.recalls_[0].inode(), file_);
  v1::Request close;
  close.mutable_close()->set_inode(file_);
  close.mutable_close()->set_lowers_token(true);
  ASSERT_EQ(a_.Do(close), 0);
  EXPECT_TRUE(b.Answered(asked));
}

TEST_F(LayoutTest, ANewFileIsMadeWithoutFreeBlocks) {
  ASSERT_EQ(Get(0, harness_.FreeBlocks(), true), 0);
  v1::Request create = Client::CreateOf("new", /*open=*/true);
  create.mutable_create()->set_token(v1::TOKEN_EXCLUSIVE);
  create.mutable_create()->set_allocate_bytes(1);
  ASSERT_EQ(a_.Do(create, true), 0);
  file_ = a_.last_.entry().attr().inode();
  EXPECT_EQ(a_.last_.entry().layout().extents(0).state(), v1::EXTENT_HOLE);
  EXPECT_EQ(Get(0, 1, true), ENOSPC);
}

TEST_F(LayoutTest, AListingRecallsClosedFilesFromTheirWriters) {
  v1::Request close;
  close.mutable_close()->set_inode(file_);
  ASSERT_EQ(a_.Do(close), 0);
  Client b(harness_, 2);
  b.Register();
  v1::Request list;
  list.mutable_read_dir()->set_inode(1);
  list.mutable_read_dir()->set_limit_bytes(4096);
  list.mutable_read_dir()->set_attributes(true);
  ASSERT_EQ(b.Do(list), 0);
  ASSERT_EQ(a_.recalls_.size(), 1u);
  EXPECT_EQ(a_.recalls_[0].mode(), v1::TOKEN_SHARED);
  ASSERT_EQ(b.Do(list), 0);
  EXPECT_EQ(a_.recalls_.size(), 1u);  // asked once
}

TEST_F(LayoutTest, TheSameRangeIsAllocatedOnce) {
  ASSERT_EQ(Get(0, 4, true), 0);
  const v1::LayoutReply first = a_.last_.layout();
  ASSERT_EQ(Get(0, 4, true), 0);
  EXPECT_EQ(a_.last_.layout().extents(0).pool_block(), first.extents(0).pool_block());
  EXPECT_EQ(Blocks(), 4u);
}

TEST_F(LayoutTest, AGrowingFileGetsPreallocatedBlocksAndReturnsThem) {
  ASSERT_EQ(Get(0, 2, true), 0);
  EXPECT_EQ(Blocks(), 2u);  // a small new file: just what it asked for
  ASSERT_EQ(Get(2, 2, true), 0);
  EXPECT_EQ(Blocks(), 4u + 256);  // it grows: a MiB ahead
  ASSERT_EQ(Commit({{0, 4}}, 4 * kBlock, /*release_tail=*/true), 0);
  EXPECT_EQ(Blocks(), 4u);
  EXPECT_EQ(Shape(6), "wwww..");
}

TEST_F(LayoutTest, NothingIsPreallocatedInTheMiddle) {
  ASSERT_EQ(Commit({}, 1000 * kBlock), 0);
  ASSERT_EQ(Get(500, 4, true), 0);
  EXPECT_EQ(Blocks(), 4u);
}

TEST_F(LayoutTest, AStreamIsContiguous) {
  for (std::uint64_t block = 0; block < 4096; block += 64) ASSERT_EQ(Get(block, 64, true), 0);
  ASSERT_EQ(Get(0, 4096), 0);
  EXPECT_GE(a_.last_.layout().extents(0).length_blocks(), 4096u);
}

TEST_F(LayoutTest, CommitsThatCannotBeAreRefusedWhole) {
  ASSERT_EQ(Get(0, 2, true), 0);
  EXPECT_EQ(Commit({{0, 1}, {7, 1}}, 8 * kBlock), ESTALE);
  EXPECT_EQ(Commit({{0, 0}}), EINVAL);
  EXPECT_EQ(Commit({{~std::uint64_t{0}, 2}}), EINVAL);
  EXPECT_EQ(Commit({{1, ~std::uint64_t{0}}}), EINVAL);
  EXPECT_EQ(Commit({}, (std::uint64_t{1} << 62) + 1), EFBIG);
  EXPECT_EQ(Shape(2), "uu");
  EXPECT_EQ(Attributes().size_bytes(), 0u);
  ASSERT_EQ(Commit({}, 10), 0);
  EXPECT_EQ(Commit({}, 5), EINVAL);  // SetAttr shrinks
  ASSERT_EQ(a_.Do(Client::ReturnOf(file_, v1::TOKEN_SHARED), true), 0);
  EXPECT_EQ(Commit({{0, 1}}), EPERM);
}

TEST_F(LayoutTest, RangesFromTheWireAreNotTrusted) {
  EXPECT_EQ(a_.Do(Client::LayoutOf(file_, v1::TOKEN_SHARED, true)), EINVAL);
  EXPECT_EQ(a_.Do(Client::LayoutOf(file_, v1::TOKEN_NONE)), EINVAL);
  EXPECT_EQ(a_.Do(Client::LayoutOf(file_, v1::TOKEN_SHARED, false, 0, 0)), EINVAL);
  EXPECT_NE(a_.Do(Client::LayoutOf(file_, v1::TOKEN_SHARED, false, ~std::uint64_t{0}, 2)), 0);
  EXPECT_EQ(a_.Do(Client::LayoutOf(file_, v1::TOKEN_SHARED, false, std::uint64_t{1} << 62, 1)),
            EFBIG);
  EXPECT_EQ(a_.Do(Client::LayoutOf(1, v1::TOKEN_SHARED)), EISDIR);
  EXPECT_EQ(a_.Do(Client::LayoutOf(999, v1::TOKEN_SHARED)), ESTALE);
  EXPECT_EQ(a_.Do(Client::LayoutOf(file_, v1::TOKEN_EXCLUSIVE, true,
                                   (std::uint64_t{1} << 62) - kBlock, kBlock),
                  true),
            0);
}

TEST_F(LayoutTest, AFullVolumeRefusesAndTakesNothing) {
  const std::uint64_t free = harness_.FreeBlocks();
  ASSERT_EQ(Fallocate(0, 0, (free - 10) * kBlock), 0);
  EXPECT_EQ(Fallocate(0, free * kBlock, 100 * kBlock), ENOSPC);
  EXPECT_EQ(Get(free, 11, true), ENOSPC);
  EXPECT_EQ(harness_.FreeBlocks(), 10u);
  EXPECT_EQ(Get(free, 10, true), 0);
}

TEST_F(LayoutTest, ManyExtentsComeInSeveralReplies) {
  for (std::uint64_t i = 0; i < 700; ++i) ASSERT_EQ(Get(2 * i, 1, true), 0);
  ASSERT_EQ(Get(0, 1400), 0);
  const v1::LayoutReply first = a_.last_.layout();
  EXPECT_LE(first.extents_size(), 1001);
  ASSERT_LT(first.length_blocks(), 1400u);
  ASSERT_EQ(Get(first.length_blocks(), 1400 - first.length_blocks()), 0);
  EXPECT_EQ(a_.last_.layout().file_block(), first.length_blocks());
  EXPECT_GE(first.length_blocks() + a_.last_.layout().length_blocks(), 1400u);
}

TEST_F(LayoutTest, PunchedHolesAreFree) {
  ASSERT_EQ(Get(0, 10, true), 0);
  ASSERT_EQ(Commit({{0, 10}}, 10 * kBlock), 0);
  const std::uint64_t free = harness_.FreeBlocks();
  constexpr std::uint32_t kPunch = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  ASSERT_EQ(Fallocate(kPunch, kBlock + 1, 4 * kBlock), 0);  // blocks 2 to 4 wholly
  EXPECT_EQ(Shape(10), "ww...wwwww");
  EXPECT_EQ(harness_.FreeBlocks(), free + 3);
  ASSERT_EQ(Fallocate(kPunch, kBlock + 1, 100), 0);  // within one block: the client zeroes it
  EXPECT_EQ(Shape(10), "ww...wwwww");
  EXPECT_EQ(Attributes().size_bytes(), 10 * kBlock);
}

TEST_F(LayoutTest, ZeroedRangesReadAsZeros) {
  ASSERT_EQ(Get(0, 4, true), 0);
  ASSERT_EQ(Commit({{0, 4}}, 4 * kBlock), 0);
  ASSERT_EQ(Fallocate(FALLOC_FL_ZERO_RANGE, 2 * kBlock, 4 * kBlock), 0);
  EXPECT_EQ(Shape(7), "wwuuuu.");
  EXPECT_EQ(Attributes().size_bytes(), 6 * kBlock);
}

TEST_F(LayoutTest, PreallocationBeyondTheEndStaysOnRequest) {
  ASSERT_EQ(Fallocate(FALLOC_FL_KEEP_SIZE, 0, 8 * kBlock), 0);
  EXPECT_EQ(Attributes().size_bytes(), 0u);
  ASSERT_EQ(Commit({{0, 1}}, kBlock, /*release_tail=*/true), 0);
  EXPECT_EQ(Shape(9), "wuuuuuuu.");
}

TEST_F(LayoutTest, OtherModesAndMissingTokensAreRefused) {
  EXPECT_EQ(Fallocate(FALLOC_FL_PUNCH_HOLE, 0, kBlock), EOPNOTSUPP);
  EXPECT_EQ(Fallocate(FALLOC_FL_COLLAPSE_RANGE, 0, kBlock), EOPNOTSUPP);
  EXPECT_EQ(Fallocate(0, 0, 0), EINVAL);
  EXPECT_EQ(Fallocate(0, 0, std::uint64_t{1} << 61), EFBIG);
  ASSERT_EQ(a_.Do(Client::ReturnOf(file_), true), 0);
  EXPECT_EQ(Fallocate(0, 0, kBlock), EPERM);
}

TEST_F(LayoutTest, AnAppendOnlyFileOnlyGrows) {
  ASSERT_EQ(Get(0, 2, true), 0);
  ASSERT_EQ(Commit({{0, 2}}, 2 * kBlock), 0);
  v1::Request chattr;
  chattr.mutable_set_attr()->set_inode(file_);
  chattr.mutable_set_attr()->set_fields(v1::SetAttr::FLAGS);
  chattr.mutable_set_attr()->set_flags(v1::INODE_FLAG_APPEND);
  ASSERT_EQ(a_.Do(chattr, true), 0);
  EXPECT_EQ(Fallocate(FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kBlock), EPERM);
  EXPECT_EQ(Fallocate(FALLOC_FL_ZERO_RANGE, 0, kBlock), EPERM);
  EXPECT_EQ(Fallocate(0, 0, 4 * kBlock), 0);
  EXPECT_EQ(Attributes().size_bytes(), 4 * kBlock);
}

TEST_F(LayoutTest, TimesAndSetIdBitsFollowTheCommit) {
  v1::Request chmod;
  chmod.mutable_set_attr()->set_inode(file_);
  chmod.mutable_set_attr()->set_fields(v1::SetAttr::MODE);
  chmod.mutable_set_attr()->set_mode(06755);
  ASSERT_EQ(a_.Do(chmod, true), 0);
  const std::uint64_t change = Attributes().change();
  v1::Request request;
  v1::LayoutCommit& commit = *request.mutable_layout_commit();
  commit.set_inode(file_);
  commit.mutable_mtime()->set_seconds(77);
  commit.set_kill_suid_sgid(true);
  ASSERT_EQ(a_.Do(request, true), 0);
  EXPECT_EQ(Attributes().mtime().seconds(), 77);
  EXPECT_EQ(Attributes().mode() & 07777, 0755u);
  EXPECT_GT(Attributes().change(), change);
  commit.mutable_mtime()->set_nanoseconds(1'000'000'000);
  EXPECT_EQ(a_.Do(request, true), EINVAL);
}

TEST_F(LayoutTest, ACommitBringsAttributesAlong) {
  v1::Request request;
  v1::LayoutCommit& commit = *request.mutable_layout_commit();
  commit.set_inode(file_);
  commit.set_size_bytes(100);
  commit.mutable_mtime()->set_seconds(77);
  v1::SetAttr& set = *commit.mutable_attributes();
  set.set_inode(file_);
  set.set_fields(v1::SetAttr::MODE | v1::SetAttr::UID | v1::SetAttr::MTIME);
  set.set_mode(0640);
  set.set_uid(7);
  set.mutable_mtime()->set_seconds(5);
  ASSERT_EQ(a_.Do(request, true), 0);
  EXPECT_EQ(a_.last_.attr().refused(), 0);
  EXPECT_EQ(Attributes().mode() & 07777, 0640u);
  EXPECT_EQ(Attributes().uid(), 7u);
  EXPECT_EQ(Attributes().mtime().seconds(), 5) << "after the write's";
  EXPECT_EQ(Attributes().size_bytes(), 100u);
}

TEST_F(LayoutTest, RefusedAttributesLeaveTheCommit) {
  v1::Request chattr;
  chattr.mutable_set_attr()->set_inode(file_);
  chattr.mutable_set_attr()->set_fields(v1::SetAttr::FLAGS);
  chattr.mutable_set_attr()->set_flags(v1::INODE_FLAG_APPEND);
  ASSERT_EQ(a_.Do(chattr, true), 0);
  v1::Request request;
  v1::LayoutCommit& commit = *request.mutable_layout_commit();
  commit.set_inode(file_);
  commit.set_size_bytes(100);
  commit.mutable_attributes()->set_inode(file_);
  commit.mutable_attributes()->set_fields(v1::SetAttr::MODE);
  ASSERT_EQ(a_.Do(request, true), 0);
  EXPECT_EQ(a_.last_.attr().refused(), EPERM);
  EXPECT_EQ(Attributes().size_bytes(), 100u);
  EXPECT_NE(Attributes().mode() & 07777, 0u);
  for (const std::uint32_t fields : {v1::SetAttr::SIZE, v1::SetAttr::FLAGS}) {
    commit.mutable_attributes()->set_fields(fields);
    ASSERT_EQ(a_.Do(request, true), 0);
    EXPECT_EQ(a_.last_.attr().refused(), EINVAL);
  }
}

TEST_F(LayoutTest, AWriteTakesCapabilities) {
  v1::Request set;
  set.mutable_set_xattr()->set_inode(file_);
  set.mutable_set_xattr()->set_name("security.capability");
  set.mutable_set_xattr()->set_value("x");
  v1::Request get;
  get.mutable_get_xattr()->set_inode(file_);
  get.mutable_get_xattr()->set_name("security.capability");
  v1::Request request;
  v1::LayoutCommit& commit = *request.mutable_layout_commit();
  commit.set_inode(file_);
  for (const bool wrote : {false, true}) {
    ASSERT_EQ(a_.Do(set, true), 0);
    if (wrote) commit.mutable_mtime()->set_seconds(77);
    ASSERT_EQ(a_.Do(request, true), 0);
    EXPECT_EQ(a_.Do(get), wrote ? ENODATA : 0);
  }
}

TEST_F(LayoutTest, AnOpenIsGrantedAFreeToken) {
  Client b{harness_, 2};
  b.Register();
  const std::uint64_t other = a_.Create("other");
  v1::Request open = Client::OpenOf(other);
  open.mutable_open()->set_token(v1::TOKEN_SHARED);
  ASSERT_EQ(b.Do(open), 0);
  EXPECT_EQ(b.last_.layout().mode(), v1::TOKEN_SHARED);
  open.mutable_open()->set_inode(file_);  // A writes it
  ASSERT_EQ(b.Do(open), 0);
  EXPECT_TRUE(b.last_.has_attr());
  EXPECT_TRUE(a_.recalls_.empty());
}

TEST_F(LayoutTest, FramesOfOneDirectoryAreContiguous) {
  std::vector<std::uint64_t> starts;
  for (int frame = 0; frame < 4; ++frame) {
    file_ = a_.Create(absl::StrCat("frame", frame), /*open=*/true);
    ASSERT_EQ(Get(0, 500, true), 0);
    ASSERT_EQ(Commit({{0, 500}}, 500 * kBlock, /*release_tail=*/true), 0);
    starts.push_back(a_.Do(Client::LayoutOf(file_, v1::TOKEN_SHARED)) == 0
                         ? a_.last_.layout().extents(0).pool_block()
                         : 0);
  }
  EXPECT_THAT(starts, ElementsAre(starts[0], starts[0] + 500, starts[0] + 1000, starts[0] + 1500));
}

}  // namespace
}  // namespace reel::mdc
