#include "mdc/ops/read_dir.h"

#include "mdc/testing/op_fixture.h"

namespace reel::mdc {
namespace {

using ReadDirTest = OpFixture;

std::vector<std::string> Names(const std::vector<v1::ReadDirReply::Entry>& entries) {
  std::vector<std::string> names;
  for (const auto& entry : entries) names.push_back(entry.name());
  return names;
}

TEST_F(ReadDirTest, DotsFirstThenInOrderOfCreation) {
  const std::uint64_t dir = MakeDir(kRoot, "d");
  MakeFile(dir, "b");
  MakeDir(dir, "a");
  const auto entries = List(dir);
  EXPECT_EQ(Names(entries), (std::vector<std::string>{".", "..", "b", "a"}));
  EXPECT_EQ(entries[0].inode(), dir);
  EXPECT_EQ(entries[0].cookie(), 1u);
  EXPECT_EQ(entries[1].inode(), kRoot);
  EXPECT_EQ(entries[1].cookie(), 2u);
  EXPECT_EQ(entries[2].cookie(), 3u);
  EXPECT_EQ(entries[2].type(), S_IFREG);
  EXPECT_EQ(entries[3].type(), S_IFDIR);
}

TEST_F(ReadDirTest, PagesAreBoundedAndComplete) {
  for (int i = 0; i < 100; ++i) MakeFile(kRoot, absl::StrCat("file", 1000 + i));
  v1::Request request;
  request.mutable_read_dir()->set_inode(kRoot);
  request.mutable_read_dir()->set_limit_bytes(400);
  EXPECT_EQ(Do(ReadDir, request), 0);
  EXPECT_EQ(reply_.read_dir().entries_size(), 10);  // 33 + 34 + 8 × 40
  EXPECT_FALSE(reply_.read_dir().end());
  EXPECT_EQ(List(kRoot, 400).size(), 102u);
  EXPECT_EQ(List(kRoot, 0).size(), 102u);  // one at a time, never none
  EXPECT_EQ(List(kRoot, 1 << 30).size(), 102u);
}

// An entry that stays is seen once, whatever happens beside it between two pages.
TEST_F(ReadDirTest, CookiesAreStableAndNeverReused) {
  for (char c = 'a'; c <= 'e'; ++c) MakeFile(kRoot, std::string(1, c));
  const std::uint64_t last = List(kRoot).back().cookie();
  EXPECT_EQ(reply_.read_dir().next_cookie(), last + 1);
  EXPECT_EQ(Unlink(kRoot, "b"), 0);
  EXPECT_EQ(Unlink(kRoot, "e"), 0);
  MakeFile(kRoot, "e");
  const auto entries = List(kRoot);
  EXPECT_EQ(Names(entries), (std::vector<std::string>{".", "..", "a", "c", "d", "e"}));
  EXPECT_GT(entries.back().cookie(), last);
  EXPECT_EQ(Rename(kRoot, "e", kRoot, "a"), 0);  // the name keeps its place
  EXPECT_EQ(Names(List(kRoot)), (std::vector<std::string>{".", "..", "a", "c", "d"}));
}

TEST_F(ReadDirTest, AListingHasNoAttributesOfFilesBeingWritten) {
  const std::uint64_t quiet = MakeFile(kRoot, "a");
  const std::uint64_t busy = MakeFile(kRoot, "b");
  tokens_.Grant(kOther, InodeNumber(busy), v1::TOKEN_EXCLUSIVE);
  tokens_.Grant(kMe, InodeNumber(quiet), v1::TOKEN_EXCLUSIVE);
  const auto entries = List(kRoot, 4096, true);
  EXPECT_FALSE(entries[0].has_attr());
  EXPECT_EQ(entries[2].attr().inode(), quiet);
  EXPECT_FALSE(entries[3].has_attr());
  EXPECT_EQ(soon_wanted_, std::vector<InodeNumber>{InodeNumber(busy)});
  opens_.Open(kOther, InodeNumber(busy));  // it goes on writing: nobody asks it to stop yet
  List(kRoot, 4096, true);
  EXPECT_TRUE(soon_wanted_.empty());
}

class ListedLayoutsTest : public ReadDirTest {
 protected:
  // What comes behind that name.
  std::vector<v1::ReadDirReply::Entry> Behind(const std::string& name, std::uint32_t layouts,
                                              std::uint32_t limit_bytes = 4096) {
    v1::Request request;
    v1::ReadDir& read = *request.mutable_read_dir();
    read.set_inode(kRoot);
    read.set_behind(name);
    read.set_limit_bytes(limit_bytes);
    read.set_attributes(true);
    read.set_layouts(layouts);
    EXPECT_EQ(Do(ReadDir, request), 0);
    return {reply_.read_dir().entries().begin(), reply_.read_dir().entries().end()};
  }
  v1::TokenMode Held(std::uint64_t inode) {
    return tokens_.Held(kMe, InodeNumber(inode), kWholeFile);
  }
};

TEST_F(ListedLayoutsTest, FilesBehindANameComeWithTheirTokens) {
  MakeFile(kRoot, "a");
  const std::uint64_t b = MakeFile(kRoot, "b");
  MakeDir(kRoot, "sub");
  const std::uint64_t c = MakeFile(kRoot, "c"), d = MakeFile(kRoot, "d");
  const auto entries = Behind("a", 3);
  EXPECT_EQ(Names(entries), (std::vector<std::string>{"b", "sub", "c"}));
  EXPECT_FALSE(reply_.read_dir().end());
  EXPECT_EQ(entries[0].layout().mode(), v1::TOKEN_SHARED);
  EXPECT_EQ(entries[0].attr().inode(), b);
  EXPECT_FALSE(entries[1].has_layout());
  EXPECT_TRUE(entries[2].has_layout());
  EXPECT_EQ(Held(b), v1::TOKEN_SHARED);
  EXPECT_EQ(Held(c), v1::TOKEN_SHARED);
  EXPECT_EQ(Held(d), v1::TOKEN_NONE);
  EXPECT_EQ(Names(Behind("c", 2)), (std::vector<std::string>{"d"}));
  EXPECT_TRUE(reply_.read_dir().end());
  EXPECT_TRUE(Behind("d", 2).empty());
  EXPECT_TRUE(reply_.read_dir().end());
}

TEST_F(ListedLayoutsTest, ContentsComeAlongAsFarAsTheyFit) {
  std::vector<std::uint64_t> files;
  for (const char* name : {"a", "b", "c", "d"}) {
    files.push_back(MakeFile(kRoot, name));
    ASSERT_TRUE(InContext(kMe, [&](OpContext& ctx) -> absl::Status {
                  const auto record = ctx.txn.Inode(InodeNumber(files.back()));
                  (*record)->set_inline_data(std::string(1'000, *name));
                  (*record)->set_size_bytes(1'000);
                  (*record)->set_flags((*record)->flags() | v1::INODE_FLAG_INLINE);
                  ctx.txn.Changed(InodeNumber(files.back()));
                  return absl::OkStatus();
                }).ok());
  }
  const auto entries = Behind("a", 16, 1'500);
  ASSERT_EQ(Names(entries), (std::vector<std::string>{"b", "c"})) << "more than a limit by one";
  EXPECT_EQ(entries[1].layout().content(), std::string(1'000, 'c'));
  EXPECT_FALSE(reply_.read_dir().end());
  EXPECT_EQ(Held(files[3]), v1::TOKEN_NONE);
}

TEST_F(ListedLayoutsTest, LargeFilesComeWithoutTheirLayouts) {
  MakeFile(kRoot, "a");
  const std::uint64_t small = MakeFile(kRoot, "b"), large = MakeFile(kRoot, "c");
  ASSERT_EQ(Truncate(small, 1 << 20), 0);
  ASSERT_EQ(Truncate(large, (1 << 20) + 1), 0);
  const auto entries = Behind("a", 16);
  EXPECT_TRUE(entries[0].has_layout());
  EXPECT_TRUE(entries[1].has_attr());
  EXPECT_FALSE(entries[1].has_layout());
}

TEST_F(ListedLayoutsTest, NoMoreEntriesComeThanAreAskedFor) {
  for (int i = 0; i < 300; ++i) MakeFile(kRoot, absl::StrCat("f", i));
  EXPECT_EQ(Behind("f0", 3, 1 << 20).size(), 3u);
  EXPECT_EQ(Behind("f0", UINT32_MAX, 1 << 20).size(), 256u);
  EXPECT_FALSE(reply_.read_dir().end());
}

TEST_F(ListedLayoutsTest, WhatAnotherHoldsStaysItsOwn) {
  MakeFile(kRoot, "a");
  const std::uint64_t written = MakeFile(kRoot, "b"), recalled = MakeFile(kRoot, "c");
  tokens_.Grant(kOther, InodeNumber(written), v1::TOKEN_EXCLUSIVE);
  tokens_.Grant(kOther, InodeNumber(recalled), v1::TOKEN_SHARED);
  tokens_.RecallOthers(kMe, InodeNumber(recalled), v1::TOKEN_NONE);
  const auto entries = Behind("a", 16);
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_FALSE(entries[0].has_layout() || entries[0].has_attr());
  EXPECT_FALSE(entries[1].has_layout());
  EXPECT_TRUE(entries[1].has_attr());
  EXPECT_EQ(Held(written), v1::TOKEN_NONE);
}

TEST_F(ListedLayoutsTest, NobodyIsBehindANameThatIsGone) {
  v1::Request request;
  request.mutable_read_dir()->set_inode(kRoot);
  request.mutable_read_dir()->set_behind("gone");
  EXPECT_EQ(Do(ReadDir, request), ENOENT);
  request.mutable_read_dir()->set_behind("a/b");
  EXPECT_EQ(Do(ReadDir, request), EINVAL);
}

TEST_F(ReadDirTest, Refusals) {
  v1::Request request;
  request.mutable_read_dir()->set_inode(MakeFile(kRoot, "f"));
  EXPECT_EQ(Do(ReadDir, request), ENOTDIR);
  request.mutable_read_dir()->set_inode(999);
  EXPECT_EQ(Do(ReadDir, request), ESTALE);
}

}  // namespace
}  // namespace reel::mdc
