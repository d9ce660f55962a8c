#include "client/vfs/vfs.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/fs.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <deque>

#include "proto/status.h"

namespace reel::client {
namespace {

// Answers each call with the next reply that the test has laid out.
class FakeSession : public Session {
 public:
  absl::StatusOr<v1::Reply> Call(v1::Request request, const CallOptions& options) override {
    const absl::StatusOr<v1::Reply> outcome = Answer(std::move(request), options);
    if (options.on_done) options.on_done(outcome);
    return outcome;
  }
  absl::StatusOr<v1::Reply> Answer(v1::Request request, const CallOptions& options) {
    uid = options.credentials == nullptr ? 0 : options.credentials->uid();
    groups = options.credentials == nullptr ? 0 : options.credentials->groups_size();
    requests.push_back(std::move(request));
    if (away && options.interrupt != nullptr && options.interrupt->interrupted()) {
      return ErrnoStatus(EINTR, "nobody there");
    }
    if (away) return ErrnoStatus(ETIMEDOUT);  // of a soft mount
    if (replies.empty()) return v1::Reply();
    v1::Reply reply = std::move(replies.front());
    replies.pop_front();
    if (reply.error() != 0) return ErrnoStatus(reply.error(), reply.message());
    if (options.on_reply) options.on_reply(reply);
    if (interrupted) return ErrnoStatus(EINTR);
    return reply;
  }
  void Post(v1::Request) override {}
  bool LeaseHolds() const override { return true; }
  std::uint64_t LeaseLeftMs() const override { return 10'000; }
  std::uint64_t session_id() const override { return 1; }
  const VolumeDescriptor& descriptor() const override { return descriptor_; }
  bool Away() const override { return away; }
  void Shutdown() override {}

  bool away = false;
  bool interrupted = false;  // the caller has gone when the reply comes
  std::vector<v1::Request> requests;
  std::deque<v1::Reply> replies;
  std::uint32_t uid = 0;
  int groups = 0;

 private:
  VolumeDescriptor descriptor_;
};

// Owns the size of every inode: 4711.
class FakeFileData : public FileData {
 public:
  absl::Status Start(Session&, OpenVolume&) override { return absl::OkStatus(); }
  absl::StatusOr<std::size_t> Read(std::uint64_t, std::uint64_t, std::span<std::byte> buffer,
                                   const IoContext& io) override {
    last = io;
    return buffer.size();
  }
  absl::StatusOr<std::uint64_t> Write(std::uint64_t, std::uint64_t offset,
                                      std::span<const std::byte>, const IoContext& io) override {
    last = io;
    return offset;
  }
  absl::Status Fsync(std::uint64_t, const IoContext&) override { return absl::OkStatus(); }
  absl::Status Flush(std::uint64_t, const IoContext&) override { return absl::OkStatus(); }
  absl::Status SyncWritten(const IoContext&) override { return absl::OkStatus(); }
  absl::StatusOr<v1::Attr> SetAttr(v1::SetAttr set, const IoContext&) override {
    set_fields = set.fields();
    return v1::Attr();
  }
  absl::Status Allocate(std::uint64_t, std::uint32_t, std::uint64_t, std::uint64_t,
                        const IoContext&) override {
    return absl::OkStatus();
  }
  absl::StatusOr<std::uint64_t> Seek(std::uint64_t, std::uint64_t, bool data,
                                     const IoContext&) override {
    return data ? 1 : 2;
  }
  void Overlay(v1::Attr& attr) const override { attr.set_size_bytes(4711); }
  absl::StatusOr<v1::Attr> Open(std::uint64_t inode, bool write, const IoContext&) override {
    opened_for_write = write;
    v1::Attr attr;
    attr.set_inode(inode);
    return attr;
  }
  bool WroteUntold(std::uint64_t) const override { return wrote; }
  void NoteAccess(const v1::Attr& attr, AtimePolicy) override { accessed.push_back(attr.inode()); }
  bool IsOpen(std::uint64_t inode) const override { return inode == open; }
  void OpenDirectory(std::uint64_t) override {}
  void RegisterOpens(std::uint64_t inode, std::function<void()> done) override {
    registered.push_back(inode);
    done();
  }
  std::uint64_t ExpectedBytes() const override { return 5'000; }
  void Created(const v1::EntryReply& entry, std::uint64_t, std::uint64_t) override {
    opened = entry.attr().inode();
  }
  void Close(std::uint64_t inode) override { closed = inode; }
  absl::Status Stop() override { return absl::OkStatus(); }
  void OnRecall(std::uint64_t, v1::TokenMode, const TokenSpan&) override {}
  void OnEvicted() override {}
  std::vector<v1::Reclaim> CollectReclaims() override { return {}; }

  IoContext last;
  std::vector<std::uint64_t> accessed;
  std::vector<std::uint64_t> registered;
  std::uint32_t set_fields = 0;
  std::uint64_t opened = 0;
  std::uint64_t open = 0;
  std::uint64_t closed = 0;
  bool opened_for_write = false;
  bool wrote = false;
};

constexpr char kAclName[] = "system.posix_acl_access";

class TwoGroups : public CallerGroups {
 public:
  std::vector<std::uint32_t> Get() const override { return {10, 20}; }
};

class VfsTest : public ::testing::Test {
 protected:
  VfsTest() { caller_.credentials.set_uid(1000); }

  void ReplyError(int error) { session_.replies.emplace_back().set_error(error); }
  void ReplyAttr(std::uint64_t inode) {
    session_.replies.emplace_back().mutable_attr()->mutable_attr()->set_inode(inode);
  }
  void ReplyEntry(std::uint64_t inode) {
    session_.replies.emplace_back().mutable_entry()->mutable_attr()->set_inode(inode);
  }
  void ReplyListing(std::initializer_list<std::uint64_t> cookies, bool end) {
    v1::Reply reply;
    for (const std::uint64_t cookie : cookies) {
      v1::ReadDirReply::Entry& entry = *reply.mutable_read_dir()->add_entries();
      entry.set_cookie(cookie);
      entry.set_name("n" + std::to_string(cookie));
    }
    reply.mutable_read_dir()->set_end(end);
    session_.replies.push_back(reply);
  }
  // Reads from a cookie to the end, or to an error, which it returns.
  int ReadAll(DirHandle& handle, std::uint64_t cookie, std::vector<std::uint64_t>* cookies) {
    while (true) {
      const auto entry = vfs_.NextEntry(handle, cookie, caller_);
      if (!entry.ok()) return ErrnoOf(entry.status());
      if (*entry == nullptr) return 0;
      cookie = (*entry)->cookie();
      cookies->push_back(cookie);
    }
  }
  // What the name in the root leads to is cached, and the root.
  void Know(std::uint64_t inode, const char* name, std::uint32_t mode) {
    v1::Request looked;
    looked.mutable_lookup()->set_parent(1);
    looked.mutable_lookup()->set_name(name);
    v1::Reply reply;
    reply.add_cacheable(1);
    reply.add_cacheable(inode);
    v1::Attr& attr = *reply.mutable_entry()->mutable_attr();
    attr.set_inode(inode);
    attr.set_mode(mode);
    attr.set_nlink(1);
    names_.OnReply(looked, reply);
  }
  const v1::Request& LastRequest() const { return session_.requests.back(); }

  FakeSession session_;
  FakeFileData data_;
  NameCache names_;
  KernelNames kernel_names_{names_, SystemClock(), /*left_ms=*/0};
  Vfs vfs_{session_, data_, names_, VfsOptions{.kernel_names = &kernel_names_}};
  Caller caller_;
  TwoGroups groups_;
};

TEST_F(VfsTest, AttributesComeOverlaidAndCredentialsGoAlong) {
  ReplyEntry(7);
  const auto attr = vfs_.Lookup({1, "a"}, caller_);
  ASSERT_TRUE(attr.ok());
  EXPECT_EQ(attr->inode(), 7u);
  EXPECT_EQ(attr->size_bytes(), 4711u);
  EXPECT_EQ(LastRequest().lookup().name(), "a");
  EXPECT_EQ(session_.uid, 1000u);
}

// EINTR would be a lie: nobody interrupted anything. (A shell opens again at once, for ever.)
TEST_F(VfsTest, WhoeverAsksFirstForTheRootWaitsForAController) {
  session_.away = true;
  EXPECT_EQ(ErrnoOf(vfs_.GetAttr(1, caller_).status()), ETIMEDOUT);
  EXPECT_EQ(ErrnoOf(vfs_.StatFs(1, caller_).status()), ETIMEDOUT);
  EXPECT_TRUE(absl::IsUnavailable(vfs_.LookAtRoot())) << "nothing is mounted then";
}

TEST_F(VfsTest, TheRootIsStillThereWhenNoControllerIs) {
  ReplyAttr(1);
  session_.replies.emplace_back().mutable_stat_fs()->set_block_bytes(4096);
  ASSERT_TRUE(vfs_.LookAtRoot().ok());
  session_.away = true;
  EXPECT_EQ(vfs_.GetAttr(1, caller_)->inode(), 1u);
  EXPECT_EQ(vfs_.StatFs(1, caller_)->block_bytes(), 4096u);
}

// Another host may see the change before this one hears that it is made.
TEST_F(VfsTest, TheKernelForgetsNamesBeforeAChangeIsSent) {
  std::vector<std::size_t> forgotten;  // how many requests had been sent
  ASSERT_TRUE(kernel_names_.Start({.forget =
                                       [&] {
                                         forgotten.push_back(session_.requests.size());
                                         return true;
                                       },
                                   .is_mounted_upon = [] { return false; }}));
  forgotten.clear();
  v1::Request lookup;
  lookup.mutable_lookup()->set_parent(1);
  lookup.mutable_lookup()->set_name("name");
  v1::Reply absent;
  absent.add_cacheable(1);
  absent.set_error(ENOENT);
  names_.OnReply(lookup, absent);
  EXPECT_EQ(vfs_.ShowName({1, "name"}, 0), KernelNames::kKeptMs * 1'000'000);
  EXPECT_EQ(vfs_.ShowName({1, "name"}, 7), 0) << "not there, as far as is known";
  ReplyEntry(7);
  EXPECT_TRUE(vfs_.Make({1, "name"}, S_IFDIR | 0755, 0, caller_).ok());
  EXPECT_EQ(forgotten, std::vector<std::size_t>{0});
  ReplyEntry(8);
  EXPECT_TRUE(vfs_.Make({1, "other"}, S_IFDIR | 0755, 0, caller_).ok());
  EXPECT_EQ(forgotten.size(), 1) << "it keeps nothing";
}

TEST_F(VfsTest, ErrnosPassThrough) {
  for (const int error : {ENOENT, ENOTEMPTY, ELOOP, EDQUOT, ENAMETOOLONG, ESTALE}) {
    ReplyError(error);
    EXPECT_EQ(ErrnoOf(vfs_.Lookup({1, "a"}, caller_).status()), error);
    ReplyError(error);
    EXPECT_EQ(ErrnoOf(vfs_.Unlink({1, "a"}, true, caller_)), error);
    ReplyError(error);
    EXPECT_EQ(ErrnoOf(vfs_.GetXattr(1, "user.a", caller_).status()), error);
  }
}

TEST_F(VfsTest, AReplyOfAnotherKindIsAnIoError) {
  EXPECT_EQ(ErrnoOf(vfs_.Lookup({1, "a"}, caller_).status()), EIO);
  EXPECT_EQ(ErrnoOf(vfs_.GetAttr(1, caller_).status()), EIO);
  EXPECT_EQ(ErrnoOf(vfs_.ReadLink(1, caller_).status()), EIO);
  EXPECT_EQ(ErrnoOf(vfs_.StatFs(1, caller_).status()), EIO);
}

TEST_F(VfsTest, ARemovedFileThatIsOpenIsGoneWithItsSession) {
  Know(7, "f", S_IFREG | 0644);
  ASSERT_TRUE(vfs_.Unlink({1, "f"}, false, caller_).ok());
  names_.OnRecall(7);

  ReplyError(ESTALE);
  EXPECT_EQ(vfs_.GetAttr(7, caller_)->nlink(), 0u);
  data_.open = 7;  // the controller would have kept it
  ReplyError(ESTALE);
  EXPECT_EQ(ErrnoOf(vfs_.GetAttr(7, caller_).status()), ESTALE);
}

TEST_F(VfsTest, ARemovedDirectoryHasAttributesUntilTheKernelForgetsIt) {
  Know(7, "d", S_IFDIR | 0755);
  ASSERT_TRUE(vfs_.Unlink({1, "d"}, true, caller_).ok());
  names_.OnRecall(7);

  ReplyError(ESTALE);
  EXPECT_EQ(vfs_.GetAttr(7, caller_)->nlink(), 0u);
  v1::SetAttr set;
  set.set_inode(7);
  set.set_fields(v1::SetAttr::MODE);
  set.set_mode(0700);
  ReplyError(ESTALE);
  EXPECT_EQ(vfs_.SetAttr(set, caller_)->mode(), S_IFDIR | 0700u);
  ReplyError(ESTALE);
  EXPECT_EQ(ErrnoOf(vfs_.GetXattr(7, kAclName, caller_).status()), ENODATA);
  ReplyError(ESTALE);
  EXPECT_EQ(*vfs_.ListXattr(7, caller_), "");
  ReplyError(ESTALE);
  EXPECT_EQ(ErrnoOf(vfs_.CreateUnnamed(7, 0600, O_RDWR, caller_).status()), EPERM);
  vfs_.Forget(7);
  ReplyError(ESTALE);
  EXPECT_EQ(ErrnoOf(vfs_.GetAttr(7, caller_).status()), ESTALE);
}

TEST_F(VfsTest, CapabilitiesGoWithWhatIsWritten) {
  constexpr char kName[] = "security.capability";
  const auto reply_with = [&](std::string data) {
    session_.replies.emplace_back().mutable_data()->set_data(std::move(data));
  };
  reply_with("x");
  EXPECT_EQ(*vfs_.GetXattr(7, kName, caller_), "x");
  data_.wrote = true;
  reply_with("x");
  EXPECT_EQ(ErrnoOf(vfs_.GetXattr(7, kName, caller_).status()), ENODATA);
  reply_with(std::string("user.a\0security.capability\0user.b\0", 34));
  EXPECT_EQ(*vfs_.ListXattr(7, caller_), std::string("user.a\0user.b\0", 14));
}

TEST_F(VfsTest, CreateOpensForTheSession) {
  ReplyEntry(9);
  ASSERT_TRUE(vfs_.Create({1, "f"}, S_IFREG | 0644, O_WRONLY | O_CREAT, caller_).ok());
  EXPECT_TRUE(LastRequest().create().open());
  EXPECT_EQ(LastRequest().create().mode(), static_cast<std::uint32_t>(S_IFREG | 0644));
  EXPECT_EQ(LastRequest().create().token(), v1::TOKEN_EXCLUSIVE);
  EXPECT_EQ(LastRequest().create().allocate_bytes(), 5'000u);
  EXPECT_EQ(data_.opened, 9u);
  EXPECT_EQ(data_.closed, 0u);
}

TEST_F(VfsTest, AFileWhoseCreatorWasInterruptedIsClosedAgain) {
  ReplyEntry(9);
  session_.interrupted = true;
  EXPECT_EQ(ErrnoOf(vfs_.Create({1, "f"}, 0644, O_WRONLY | O_CREAT, caller_).status()), EINTR);
  EXPECT_EQ(data_.opened, 9u);
  EXPECT_EQ(data_.closed, 9u);
}

TEST_F(VfsTest, ANameThatAnotherHostMadeIsLookedUpAgain) {
  ReplyError(EEXIST);
  EXPECT_EQ(ErrnoOf(vfs_.Create({1, "f"}, 0644, O_CREAT, caller_).status()), ESTALE);
  ReplyError(EEXIST);
  EXPECT_EQ(ErrnoOf(vfs_.Create({1, "f"}, 0644, O_CREAT | O_EXCL, caller_).status()), EEXIST);
  EXPECT_EQ(data_.opened, 0u);
}

TEST_F(VfsTest, AListingBringsAttributesWhileSomebodyLooksAtThem) {
  v1::Request made;
  made.mutable_read_dir()->set_inode(1);
  v1::Reply held;
  held.add_cacheable(1);
  names_.OnReply(made, held);
  DirHandle handle(1);
  ReplyListing({3, 4}, false);
  ReplyListing({5, 6}, false);
  ASSERT_EQ(ErrnoOf(vfs_.NextEntry(handle, 0, caller_).status()), 0);
  EXPECT_TRUE(LastRequest().read_dir().attributes());
  ASSERT_EQ(ErrnoOf(vfs_.NextEntry(handle, 4, caller_).status()), 0);
  EXPECT_FALSE(LastRequest().read_dir().attributes());
  ReplyEntry(9);
  ASSERT_TRUE(vfs_.Lookup({1, "n6"}, caller_).ok());
  ReplyListing({7}, true);
  ASSERT_EQ(ErrnoOf(vfs_.NextEntry(handle, 6, caller_).status()), 0);
  EXPECT_TRUE(LastRequest().read_dir().attributes());
}

TEST_F(VfsTest, OpenTellsWhetherItWrites) {
  ASSERT_TRUE(vfs_.Open(5, O_RDWR, caller_).ok());
  EXPECT_TRUE(data_.opened_for_write);
  ASSERT_TRUE(vfs_.Open(5, O_RDONLY, caller_).ok());
  EXPECT_FALSE(data_.opened_for_write);
}

TEST_F(VfsTest, SizeAndTimesAreFileDatas) {
  v1::SetAttr set;
  set.set_fields(v1::SetAttr::SIZE | v1::SetAttr::MODE);
  ASSERT_TRUE(vfs_.SetAttr(set, caller_).ok());
  EXPECT_EQ(data_.set_fields, set.fields());
  EXPECT_TRUE(session_.requests.empty());

  set.set_fields(v1::SetAttr::MODE | v1::SetAttr::UID);
  ReplyAttr(3);
  caller_.groups = &groups_;
  ASSERT_TRUE(vfs_.SetAttr(set, caller_).ok());
  EXPECT_EQ(LastRequest().set_attr().fields(), set.fields());
  EXPECT_EQ(session_.groups, 2) << "whether set-group-id may stay is asked with chown(2)";
}

TEST_F(VfsTest, RenameFlags) {
  EXPECT_TRUE(vfs_.Rename({1, "a"}, {2, "b"}, RENAME_EXCHANGE, caller_).ok());
  EXPECT_EQ(LastRequest().rename().flags(), static_cast<std::uint32_t>(RENAME_EXCHANGE));
  EXPECT_TRUE(vfs_.Rename({1, "a"}, {2, "b"}, RENAME_WHITEOUT, caller_).ok());
  EXPECT_EQ(LastRequest().rename().flags(), static_cast<std::uint32_t>(RENAME_WHITEOUT));
  EXPECT_EQ(ErrnoOf(vfs_.Rename({1, "a"}, {2, "b"}, 8, caller_)), EINVAL);
  EXPECT_EQ(session_.requests.size(), 2u);
}

TEST_F(VfsTest, WhatIsKnownToHaveNoAclIsNotAskedForOne) {
  v1::Request request;
  request.mutable_get_attr()->set_inode(5);
  v1::Reply reply;
  reply.add_cacheable(5);
  reply.mutable_attr()->mutable_attr()->set_inode(5);
  reply.mutable_attr()->mutable_attr()->set_mode(S_IFDIR | 0755);
  names_.OnReply(request, reply);
  EXPECT_EQ(ErrnoOf(vfs_.GetXattr(5, kAclName, caller_).status()), ENODATA);
  EXPECT_TRUE(session_.requests.empty());
  EXPECT_EQ(ErrnoOf(vfs_.GetXattr(6, kAclName, caller_).status()), EIO) << "it was asked for";
  reply.mutable_attr()->mutable_attr()->set_xattrs(true);
  names_.OnReply(request, reply);
  EXPECT_EQ(ErrnoOf(vfs_.GetXattr(5, kAclName, caller_).status()), EIO);
  EXPECT_EQ(session_.requests.size(), 2u);
}

TEST_F(VfsTest, AclsAreSetWithTheGroups) {
  v1::SetXattr set;
  set.set_name(kAclName);
  caller_.groups = &groups_;
  ASSERT_TRUE(vfs_.SetXattr(set, caller_).ok());
  EXPECT_EQ(session_.groups, 2) << "whether set-group-id may stay depends on them";
}

TEST_F(VfsTest, GroupsGoAlongWhereTheyMatter) {
  caller_.groups = &groups_;
  caller_.umask = 027;
  ReplyEntry(9);
  ASSERT_TRUE(vfs_.Create({1, "f"}, 0666, O_CREAT, caller_).ok());
  EXPECT_EQ(session_.groups, 0);
  EXPECT_EQ(LastRequest().create().umask(), 027u);
  ReplyEntry(9);
  ASSERT_TRUE(vfs_.Make({1, "f"}, S_IFREG | 02755, 0, caller_).ok());
  EXPECT_EQ(session_.groups, 2);
}

TEST_F(VfsTest, ReadsThatAreDueAreNoted) {
  v1::Reply reply;
  reply.mutable_data()->set_data("target");
  session_.replies.push_back(reply);
  ASSERT_TRUE(vfs_.ReadLink(5, caller_).ok());
  EXPECT_TRUE(data_.accessed.empty());
  reply.mutable_data()->set_atime_due(true);
  session_.replies.push_back(reply);
  ASSERT_TRUE(vfs_.ReadLink(5, caller_).ok());
  EXPECT_EQ(data_.accessed, (std::vector<std::uint64_t>{5}));
  reply.mutable_read_dir()->set_end(true);
  reply.mutable_read_dir()->set_atime_due(true);
  session_.replies = {reply, reply};
  std::vector<std::uint64_t> cookies;
  DirHandle quiet(6, /*no_atime=*/true), handle(6);
  EXPECT_EQ(ReadAll(quiet, 0, &cookies), 0);
  EXPECT_EQ(data_.accessed.size(), 1u);
  EXPECT_EQ(ReadAll(handle, 0, &cookies), 0);
  EXPECT_EQ(data_.accessed, (std::vector<std::uint64_t>{5, 6}));
}

TEST_F(VfsTest, OpenFlagsReachTheWrite) {
  const std::byte data[1] = {};
  ASSERT_TRUE(
      vfs_.Write(1, 0, data, O_WRONLY | O_APPEND | O_DSYNC, PageCacheWrite::kNone, caller_).ok());
  EXPECT_TRUE(data_.last.append && data_.last.sync && !data_.last.page_cache);
  ASSERT_TRUE(vfs_.Write(1, 0, data, 0, PageCacheWrite::kThrough, caller_).ok());
  EXPECT_TRUE(!data_.last.append && !data_.last.sync && data_.last.page_cache);
  EXPECT_FALSE(data_.last.write_back);
  ASSERT_TRUE(vfs_.Write(1, 0, data, 0, PageCacheWrite::kBack, caller_).ok());
  EXPECT_TRUE(data_.last.page_cache && data_.last.write_back);
  EXPECT_FALSE(data_.last.direct);
  caller_.handle = 7;
  ASSERT_TRUE(vfs_.Write(1, 0, data, O_RDWR | O_DIRECT, PageCacheWrite::kNone, caller_).ok());
  EXPECT_TRUE(data_.last.direct);
  EXPECT_EQ(data_.last.handle, 7u);
}

TEST_F(VfsTest, SeekIsForDataAndHoles) {
  EXPECT_EQ(*vfs_.Seek(1, 0, SEEK_DATA, caller_), 1u);
  EXPECT_EQ(*vfs_.Seek(1, 0, SEEK_HOLE, caller_), 2u);
  EXPECT_EQ(ErrnoOf(vfs_.Seek(1, 0, SEEK_END, caller_).status()), EINVAL);
}

TEST_F(VfsTest, DirectoriesAreReadInPiecesAndFromAnywhere) {
  DirHandle handle(1);
  std::vector<std::uint64_t> cookies;
  ReplyListing({1, 2, 3}, false);
  ReplyListing({7, 8}, true);
  EXPECT_EQ(ReadAll(handle, 0, &cookies), 0);
  EXPECT_EQ(cookies, (std::vector<std::uint64_t>{1, 2, 3, 7, 8}));
  EXPECT_EQ(session_.requests.size(), 2u);
  EXPECT_EQ(LastRequest().read_dir().cookie(), 3u);

  cookies.clear();  // seekdir to what the handle no longer holds
  ReplyListing({2, 3, 7, 8}, true);
  EXPECT_EQ(ReadAll(handle, 1, &cookies), 0);
  EXPECT_EQ(cookies, (std::vector<std::uint64_t>{2, 3, 7, 8}));
  EXPECT_EQ(LastRequest().read_dir().cookie(), 1u);

  cookies.clear();  // rewinddir sees what is new
  ReplyListing({1, 9}, true);
  EXPECT_EQ(ReadAll(handle, 0, &cookies), 0);
  EXPECT_EQ(cookies, (std::vector<std::uint64_t>{1, 9}));
}

TEST_F(VfsTest, AnOpenDirectoryIsRegisteredUnlessATokenKeepsIt) {
  vfs_.OpenDirectory(7);
  EXPECT_EQ(data_.registered, (std::vector<std::uint64_t>{7}));
  v1::Request request;
  request.mutable_get_attr()->set_inode(7);
  v1::Reply reply;
  reply.add_cacheable(7);
  reply.mutable_attr()->mutable_attr()->set_inode(7);
  reply.mutable_attr()->mutable_attr()->set_mode(S_IFDIR);
  names_.OnReply(request, reply);
  vfs_.OpenDirectory(7);
  EXPECT_EQ(data_.registered.size(), 1u);
}

TEST_F(VfsTest, AListingThatGoesInCirclesEnds) {
  DirHandle handle(1);
  std::vector<std::uint64_t> cookies;
  ReplyListing({1, 2}, false);
  ReplyListing({1, 2}, false);
  EXPECT_EQ(ReadAll(handle, 0, &cookies), EIO);
  ReplyListing({}, true);
  EXPECT_EQ(ReadAll(handle, 0, &cookies), 0);
}

}  // namespace
}  // namespace reel::client
