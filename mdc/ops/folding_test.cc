// Directories that fold names: one name has many spellings.
#include <linux/fs.h>

#include "mdc/ops/names.h"
#include "mdc/testing/op_fixture.h"

namespace reel::mdc {
namespace {

constexpr char kComposed[] = "Caf\u00e9.mov", kDecomposed[] = "CAFE\u0301.MOV";

class FoldingTest : public OpFixture {
 protected:
  FoldingTest() {
    folding_ = MakeDir(kRoot, "share");
    EXPECT_EQ(SetFlags(folding_, v1::INODE_FLAG_CASEFOLD), 0);
  }
  std::uint64_t Inode(const std::string& name) {
    return Lookup(folding_, name) == 0 ? reply_.entry().attr().inode() : 0;
  }
  std::vector<std::string> Names(std::uint64_t directory) {
    std::vector<std::string> names;
    for (const v1::ReadDirReply::Entry& entry : List(directory)) {
      if (entry.name() != "." && entry.name() != "..") names.push_back(entry.name());
    }
    return names;
  }
  using Strings = std::vector<std::string>;
  std::uint64_t folding_ = 0;
};

TEST_F(FoldingTest, AnySpellingFindsTheFile) {
  const std::uint64_t file = MakeFile(folding_, "Reel_A.MOV");
  EXPECT_EQ(Inode("reel_a.mov"), file);
  EXPECT_EQ(Inode("REEL_A.mov"), file);
  EXPECT_EQ(Create(folding_, "reel_a.mov", S_IFREG), EEXIST);
  EXPECT_EQ(Link(MakeFile(kRoot, "other"), folding_, "REEL_A.MOV"), EEXIST);
  const std::uint64_t accented = MakeFile(folding_, kComposed);
  EXPECT_EQ(Inode(kDecomposed), accented);
  EXPECT_EQ(Names(folding_), (Strings{"Reel_A.MOV", kComposed})) << "as they were spelled";
  EXPECT_EQ(Lookup(kRoot, "SHARE"), ENOENT) << "the directory above does not fold";
  ExpectSound();
}

TEST_F(FoldingTest, AnySpellingRemovesIt) {
  MakeFile(folding_, kComposed);
  MakeDir(folding_, "Day 1");
  EXPECT_EQ(Unlink(folding_, kDecomposed), 0);
  EXPECT_EQ(Rmdir(folding_, "DAY 1"), 0);
  EXPECT_EQ(Names(folding_), Strings{});
  EXPECT_EQ(Inode(kComposed), 0u);
  ExpectSound();
}

TEST_F(FoldingTest, ARenameGivesTheNewSpelling) {
  const std::uint64_t file = MakeFile(folding_, "Take.mov");
  EXPECT_EQ(Rename(folding_, "TAKE.MOV", kRoot, "out"), 0);
  EXPECT_EQ(Names(folding_), Strings{});
  MakeFile(folding_, "TARGET");
  EXPECT_EQ(Rename(kRoot, "out", folding_, "Target"), 0) << "onto another spelling of a file";
  EXPECT_EQ(Inode("target"), file);
  EXPECT_EQ(Names(folding_), Strings{"Target"});
  EXPECT_EQ(Rename(folding_, "Target", folding_, "TARGET", RENAME_NOREPLACE), EEXIST);
  MakeFile(folding_, "b");
  EXPECT_EQ(Rename(folding_, "TARGET", folding_, "B", RENAME_EXCHANGE), 0);
  EXPECT_EQ(Inode("B"), file);
  ExpectSound();
}

TEST_F(FoldingTest, WhatIsNoTextHasNoNameThere) {
  const std::uint64_t file = MakeFile(kRoot, "\xff");
  EXPECT_EQ(Create(folding_, "\xff", S_IFREG), EILSEQ);
  EXPECT_EQ(Link(file, folding_, "\xff"), EILSEQ);
  EXPECT_EQ(Rename(kRoot, "\xff", folding_, "\xff"), EILSEQ);
  EXPECT_EQ(Lookup(folding_, "\xff"), ENOENT);
  EXPECT_EQ(Rename(kRoot, "\xff", folding_, "text"), 0);
  ExpectSound();
}

TEST_F(FoldingTest, ADirectoryWithNamesStaysAsItIs) {
  const std::uint64_t sub = MakeDir(folding_, "Sub");
  EXPECT_EQ(Attributes(sub).flags(), v1::INODE_FLAG_CASEFOLD) << "passed on to directories";
  EXPECT_EQ(Attributes(MakeFile(sub, "f")).flags(), 0u);
  EXPECT_EQ(SetFlags(sub, 0), ENOTEMPTY);
  EXPECT_EQ(SetFlags(kRoot, v1::INODE_FLAG_CASEFOLD), ENOTEMPTY);
  EXPECT_EQ(Unlink(sub, "F"), 0);
  EXPECT_EQ(SetFlags(sub, 0), 0);
  MakeFile(sub, "f");
  MakeFile(sub, "F");
  EXPECT_EQ(Names(sub), (Strings{"f", "F"}));
  EXPECT_EQ(SetFlags(MakeFile(kRoot, "file"), v1::INODE_FLAG_CASEFOLD), EOPNOTSUPP);
  ExpectSound();
}

}  // namespace
}  // namespace reel::mdc
