#include "client/ahead/open_ahead.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <set>

#include "absl/strings/str_cat.h"
#include "client/testing/test_clocks.h"
#include "client/testing/vfs_fixture.h"

namespace reel::client {
namespace {

constexpr std::uint64_t kFolder = 1;
constexpr std::uint64_t kFirstFile = 100;  // of f0

class ListingSession final : public FakeSession {
 public:
  bool lists_layouts() const override { return knows; }
  bool checks_opens() const override { return checks; }
  bool squashed() const override { return squashes; }

  bool knows = true;
  bool checks = false;
  bool squashes = false;
};

// Keeps what is asked of it, until the test answers.
class ListingData final : public FakeFileData {
 public:
  void ListAhead(v1::Request read_dir, std::uint64_t most_bytes, Listed done) override {
    asked.push_back(std::move(read_dir));
    most = most_bytes;
    dones.push_back(std::move(done));
  }
  bool Holds(std::uint64_t inode) const override { return held.contains(inode); }
  std::uint64_t ReadTo(std::uint64_t) const override { return read_to; }
  void Overlay(v1::Attr&) const override {}

  std::set<std::uint64_t> held;
  std::uint64_t read_to = 10;
  std::vector<v1::Request> asked;
  std::uint64_t most = 0;
  std::vector<Listed> dones;
};

class OpenAheadTest : public testing::Test {
 protected:
  OpenAheadTest() { caller_.credentials.set_uid(1000); }

  // A program looks a file up, opens, reads and closes it.
  void Read(std::uint64_t file, int flags = O_RDONLY) {
    clock_.Advance(1);
    v1::Attr attr;
    attr.set_inode(kFirstFile + file);
    attr.set_mode(S_IFREG | 0644);
    attr.set_nlink(1);
    attr.set_size_bytes(size_bytes_);
    v1::Request looked;
    looked.mutable_lookup()->set_parent(kFolder);
    looked.mutable_lookup()->set_name(absl::StrCat("f", file));
    v1::Reply reply;
    reply.add_cacheable(kFolder);
    reply.add_cacheable(attr.inode());
    *reply.mutable_entry()->mutable_attr() = attr;
    names_.OnReply(looked, reply);
    ASSERT_TRUE(vfs_.Lookup({kFolder, absl::StrCat("f", file)}, caller_).ok());
    ASSERT_TRUE(vfs_.Open(attr.inode(), flags, caller_).ok());
    vfs_.Close(attr.inode());
  }
  // f`from` and the next ones come, of which the last is a directory.
  void Answer(std::uint64_t from, std::uint64_t count, bool end = false) {
    absl::StatusOr<v1::Reply> reply = v1::Reply();
    v1::ReadDirReply& listing = *reply->mutable_read_dir();
    std::vector<std::uint64_t> taken;
    for (std::uint64_t file = from; file < from + count; ++file) {
      v1::ReadDirReply::Entry& entry = *listing.add_entries();
      entry.set_name(absl::StrCat("f", file));
      entry.set_inode(kFirstFile + file);
      entry.mutable_layout();
      data_.held.insert(entry.inode());
      taken.push_back(entry.inode());
    }
    listing.add_entries()->set_name("d");
    listing.set_end(end);
    data_.dones.back()(reply, taken);
  }

  ListingSession session_;
  ListingData data_;
  NameCache names_;
  ManualClock clock_;
  Vfs vfs_{session_, data_, names_, VfsOptions{.clock = &clock_}};
  Caller caller_;
  std::uint64_t size_bytes_ = 4'000;
};

TEST_F(OpenAheadTest, AsksForTheFilesBehindTheOnesThatWereOpened) {
  for (const std::uint64_t file : {0, 1, 2}) Read(file);
  ASSERT_EQ(data_.asked.size(), 1u);
  EXPECT_EQ(data_.asked[0].credentials().uid(), 1000u);
  const v1::ReadDir& read = data_.asked[0].read_dir();
  EXPECT_EQ(read.inode(), kFolder);
  EXPECT_EQ(read.behind(), "f2");
  EXPECT_EQ(read.layouts(), DirectoryOpens::kFirstFiles);
  EXPECT_EQ(read.limit_bytes(), OpenAhead::kReplyBytes);
  EXPECT_TRUE(read.attributes());
  EXPECT_EQ(data_.most, OpenAhead::kMaxFileBytes);
  Answer(3, 16);
  for (std::uint64_t file = 3; file < 7; ++file) Read(file);
  ASSERT_EQ(data_.asked.size(), 2u);
  EXPECT_EQ(data_.asked[1].read_dir().behind(), "d");
}

TEST_F(OpenAheadTest, NoBytesAreReadThatNobodyReads) {
  data_.read_to = 0;
  for (const std::uint64_t file : {0, 1, 2}) Read(file);
  ASSERT_EQ(data_.asked.size(), 1u);
  EXPECT_EQ(data_.most, 0u);
}

TEST_F(OpenAheadTest, TheEndOfADirectoryIsTheEnd) {
  for (const std::uint64_t file : {0, 1, 2}) Read(file);
  Answer(3, 4, /*end=*/true);
  for (std::uint64_t file = 3; file < 7; ++file) Read(file);
  EXPECT_EQ(data_.asked.size(), 1u);
}

TEST_F(OpenAheadTest, AFailedRequestEndsNothing) {
  for (const std::uint64_t file : {0, 1, 2}) Read(file);
  data_.dones.back()(ErrnoStatus(EAGAIN), {});
  for (std::uint64_t file = 3; file < 15; ++file) Read(file);
  EXPECT_EQ(data_.asked.size(), 2u);
}

TEST_F(OpenAheadTest, LargeFilesAndOnesThatAreWrittenDoNotCount) {
  size_bytes_ = OpenAhead::kMaxFileBytes + 1;
  for (const std::uint64_t file : {0, 1, 2, 3}) Read(file);
  size_bytes_ = 1;
  for (const std::uint64_t file : {0, 1, 2, 3}) Read(file, O_RDWR);
  EXPECT_TRUE(data_.asked.empty());
}

TEST_F(OpenAheadTest, WhatIsHeldIsNotAskedFor) {
  data_.held = {kFirstFile, kFirstFile + 1, kFirstFile + 2};
  for (const std::uint64_t file : {0, 1, 2}) Read(file);
  EXPECT_TRUE(data_.asked.empty());
}

TEST_F(OpenAheadTest, NothingWhereTheControllerDoesNotKnowItOrChecksOpens) {
  session_.knows = false;
  for (const std::uint64_t file : {0, 1, 2}) Read(file);
  session_.knows = true;
  session_.checks = true;
  for (const std::uint64_t file : {0, 1, 2}) Read(file);
  session_.checks = false;
  session_.squashes = true;
  for (const std::uint64_t file : {0, 1, 2}) Read(file);
  EXPECT_TRUE(data_.asked.empty());
}

}  // namespace
}  // namespace reel::client
