#include "client/ahead/listing_prefetch.h"

#include <sys/stat.h>

#include <cerrno>
#include <functional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/testing/test_interrupt.h"
#include "gtest/gtest.h"
#include "proto/status.h"
#include "volume/base/thread.h"

namespace reel::client {
namespace {

using Inodes = std::vector<std::uint64_t>;

// Keeps requests until the test answers them.
class SilentSession : public Session {
 public:
  absl::StatusOr<v1::Reply> Call(v1::Request, const CallOptions&) override { return v1::Reply(); }
  void Post(v1::Request) override {}
  void Start(v1::Request request, std::function<void(const absl::StatusOr<v1::Reply>&)> on_done,
             std::uint64_t, bool) override {
    asked.push_back(request.read_dir().inode());
    cookies.push_back(request.read_dir().cookie());
    dones.push_back(std::move(on_done));
  }
  bool LeaseHolds() const override { return true; }
  std::uint64_t session_id() const override { return 1; }
  const VolumeDescriptor& descriptor() const override { return descriptor_; }
  void Shutdown() override {}

  Inodes asked, cookies;
  std::vector<std::function<void(const absl::StatusOr<v1::Reply>&)>> dones;

 private:
  VolumeDescriptor descriptor_;
};

class ListingPrefetchTest : public testing::Test {
 protected:
  static constexpr std::uint64_t kParent = 2;

  // The listing of `directory`, in `parent`: subdirectories with these numbers, and a file.
  v1::ReadDirReply Listing(std::uint64_t directory, std::uint64_t parent, const Inodes& within) {
    v1::ReadDirReply reply;
    const auto add = [&](std::string name, std::uint64_t inode, std::uint32_t type) {
      v1::ReadDirReply::Entry& entry = *reply.add_entries();
      entry.set_name(std::move(name));
      entry.set_inode(inode);
      entry.set_type(type);
      entry.set_cookie(static_cast<std::uint64_t>(reply.entries_size()));
    };
    add(".", directory, S_IFDIR);
    add("..", parent, S_IFDIR);
    add("file", 1000 + directory, S_IFREG);
    for (const std::uint64_t inode : within) add(absl::StrCat("d", inode), inode, S_IFDIR);
    reply.set_end(true);
    return reply;
  }
  // The name cache hears of it.
  void Bring(std::uint64_t directory, std::uint64_t parent, const Inodes& within) {
    v1::Request looked;
    looked.mutable_get_attr()->set_inode(directory);
    v1::Reply found;
    found.add_cacheable(directory);
    found.mutable_attr()->mutable_attr()->set_inode(directory);
    found.mutable_attr()->mutable_attr()->set_mode(S_IFDIR);
    names_.OnReply(looked, found);
    v1::Request request;
    request.mutable_read_dir()->set_inode(directory);
    v1::Reply reply;
    *reply.mutable_read_dir() = Listing(directory, parent, within);
    names_.OnReply(request, reply);
  }
  // What is asked for when somebody begins to read the directory.
  Inodes Read(std::uint64_t directory, std::uint64_t parent = kParent) {
    session_.asked.clear();
    prefetch_.Follow(directory, Listing(directory, parent, {}), v1::Credentials());
    return session_.asked;
  }
  void AnswerAll() {
    for (const auto& done : std::exchange(session_.dones, {})) done(v1::Reply());
  }

  SilentSession session_;
  NameCache names_;
  ListingPrefetch prefetch_{session_, names_};
};

TEST_F(ListingPrefetchTest, AWalkPrefetchesTheNextDirectories) {
  Bring(kParent, 1, {10, 11, 12, 13, 14});
  EXPECT_EQ(Read(10), (Inodes{11, 12}));
  EXPECT_EQ(Read(11), (Inodes{13})) << "12 is under way";
  AnswerAll();
  Bring(12, kParent, {});
  Bring(13, kParent, {});
  EXPECT_EQ(Read(12), (Inodes{14})) << "13 is known";
  EXPECT_EQ(Read(13), Inodes{});
  EXPECT_EQ(Read(14), Inodes{});
}

TEST_F(ListingPrefetchTest, AWalkGoesDownFirst) {
  Bring(kParent, 1, {10, 11, 12, 13});
  Bring(10, kParent, {20, 21});
  EXPECT_EQ(Read(10), (Inodes{20, 11, 12}));
  EXPECT_EQ(Read(20, 10), (Inodes{21}));
}

TEST_F(ListingPrefetchTest, RandomListingsPrefetchNothing) {
  Bring(kParent, 1, {10, 11, 12, 13, 14, 15});
  EXPECT_EQ(Read(14), Inodes{});
  EXPECT_EQ(Read(12), Inodes{});
  EXPECT_EQ(Read(13), (Inodes{14, 15})) << "the second one running";
  EXPECT_EQ(Read(99), Inodes{}) << "is not there";
}

TEST_F(ListingPrefetchTest, AChangedDirectorysListingIsForgotten) {
  Bring(kParent, 1, {10, 11, 12});
  names_.OnRecall(kParent);
  EXPECT_EQ(Read(10), Inodes{});
}

// The kernel lists the rest of a large directory without attributes.
TEST_F(ListingPrefetchTest, WhoLooksUpNameAfterNameHasTheNextPartDescribed) {
  v1::Request beginning;
  beginning.mutable_read_dir()->set_inode(kParent);
  beginning.mutable_read_dir()->set_attributes(true);
  v1::Reply part;
  *part.mutable_read_dir() = Listing(kParent, 1, {10, 11, 12});
  part.mutable_read_dir()->set_end(false);
  Bring(kParent, 1, {});
  names_.OnReply(beginning, part);
  const auto ask = [&](int times, const char* name = "d10") {
    session_.asked.clear();
    for (int i = 0; i < times; ++i) prefetch_.NoteMissed(kParent, name, v1::Credentials());
    return session_.asked;
  };
  EXPECT_EQ(ask(100, "absent"), Inodes{});
  EXPECT_EQ(ask(7), Inodes{});
  session_.cookies.clear();
  EXPECT_EQ(ask(1), (Inodes{kParent}));
  EXPECT_EQ(session_.cookies, (Inodes{6}));
  EXPECT_EQ(ask(100), Inodes{}) << "it is under way";
  AnswerAll();
  beginning.mutable_read_dir()->set_cookie(6);
  part.mutable_read_dir()->set_end(true);
  names_.OnReply(beginning, part);
  EXPECT_EQ(ask(100), Inodes{}) << "that was the end";
}

TEST_F(ListingPrefetchTest, WaitsForAPrefetchUnderWay) {
  Bring(kParent, 1, {10, 11});
  ASSERT_EQ(Read(10), (Inodes{11}));
  const TestInterrupt given(/*raised=*/true);
  EXPECT_TRUE(prefetch_.Await(10, nullptr).ok()) << "was not asked for";
  EXPECT_EQ(ErrnoOf(prefetch_.Await(11, &given)), EINTR);
  Thread answerer([this] { AnswerAll(); });
  EXPECT_TRUE(prefetch_.Await(11, nullptr).ok());
  answerer.Join();
}

}  // namespace
}  // namespace reel::client
