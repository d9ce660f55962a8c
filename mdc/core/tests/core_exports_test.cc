// Exports and certificates, as the core applies them to sessions and to every operation.
#include <unistd.h>

#include "mdc/testing/core_harness.h"

namespace reel::mdc {
namespace {

class CoreExportsTest : public testing::Test {
 protected:
  // a_ is "reader", b_ "squashed", c_ somebody without an export.
  CoreExportsTest() {
    Export reader, squashed, banned;
    reader.clients = {"reader"};
    reader.access = Export::Access::kReadOnly;
    squashed.clients = {"squashed"};
    squashed.squash = Export::Squash::kRoot;
    banned.clients = {"banned*"};
    banned.access = Export::Access::kNone;
    harness_.options_.exports = {reader, squashed, banned};
    harness_.Restart();
    EXPECT_EQ(HelloAs(a_, "reader"), 0);
    EXPECT_EQ(HelloAs(b_, "squashed"), 0);
    EXPECT_EQ(HelloAs(c_, "other"), 0);
  }

  int HelloAs(Client& client, const std::string& certificate, std::uint64_t resume = 0) {
    client.Connect();
    harness_.core_->OnStreamOpened(client.stream_, certificate);
    return client.Hello(resume);
  }

  CoreHarness harness_;
  Client a_{harness_, 1}, b_{harness_, 2}, c_{harness_, 3};
};

TEST_F(CoreExportsTest, AReadOnlyExportRefusesChanges) {
  const std::uint64_t file = c_.Create("file");
  EXPECT_EQ(a_.Do(Client::GetAttrOf(file)), 0);
  EXPECT_EQ(a_.Do(Client::LayoutOf(file, v1::TOKEN_SHARED)), 0);
  EXPECT_EQ(a_.Do(Client::ReturnOf(file), true), 0);
  EXPECT_EQ(a_.Do(Client::CreateOf("new"), true), EROFS);
  EXPECT_EQ(a_.Do(Client::UnlinkOf("file"), true), EROFS);
  EXPECT_EQ(a_.Do(Client::LayoutOf(file, v1::TOKEN_EXCLUSIVE)), EROFS);
  v1::Request open = Client::OpenOf(file);
  EXPECT_EQ(a_.Do(open), 0);
  open.mutable_open()->set_write(true);
  EXPECT_EQ(a_.Do(open), EROFS);
  EXPECT_EQ(c_.Do(Client::UnlinkOf("file"), true), 0);
}

TEST_F(CoreExportsTest, ARefusedChangeKeepsItsSlot) {
  EXPECT_EQ(a_.Do(Client::CreateOf("one"), true), EROFS);
  EXPECT_EQ(a_.Do(Client::CreateOf("two"), true), EROFS);
  EXPECT_FALSE(a_.ended_);
}

TEST_F(CoreExportsTest, ASquashedRootIsTheAnonymousUser) {
  // The root directory is root's, mode 0755.
  EXPECT_EQ(b_.Do(Client::CreateOf("mine"), true), EACCES);
  v1::Request mkdir = Client::CreateOf("open");
  mkdir.mutable_create()->set_mode(S_IFDIR | 0777);
  ASSERT_EQ(c_.Do(mkdir, true), 0);
  v1::Request create = Client::CreateOf("mine");
  create.mutable_create()->set_parent(c_.last_.entry().attr().inode());
  ASSERT_EQ(b_.Do(create, true), 0);
  EXPECT_EQ(b_.last_.entry().attr().uid(), 65534u);
  EXPECT_EQ(b_.last_.entry().attr().gid(), 65534u);

  const std::uint64_t theirs = c_.Create("theirs");
  v1::Request open = Client::OpenOf(theirs);
  open.mutable_open()->set_access(R_OK | W_OK);
  EXPECT_EQ(b_.Do(open), EACCES);
  open.mutable_open()->set_access(R_OK);
  EXPECT_EQ(b_.Do(open), 0);
  // Another user of that host comes as they are.
  v1::Request as_user = create;
  as_user.mutable_create()->set_name("users");
  as_user.mutable_credentials()->set_uid(7);
  ASSERT_EQ(b_.Do(as_user, true), 0);
  EXPECT_EQ(b_.last_.entry().attr().uid(), 7u);
}

// The root of a squashed host can say that it is any other user.
TEST_F(CoreExportsTest, ASquashedHostsUsersAreHeldToModes) {
  const auto as = [](v1::Request request, std::uint32_t uid, std::uint32_t group = 0) {
    request.mutable_credentials()->set_uid(uid);
    request.mutable_credentials()->set_gid(uid);
    if (group != 0) request.mutable_credentials()->add_groups(group);
    return request;
  };
  const std::uint64_t theirs = c_.Create("theirs");
  EXPECT_EQ(b_.Do(as(Client::CreateOf("mine"), 7), true), EACCES);
  EXPECT_EQ(b_.Do(as(Client::UnlinkOf("theirs"), 7), true), EACCES);
  v1::Request chmod;
  chmod.mutable_set_attr()->set_inode(theirs);
  chmod.mutable_set_attr()->set_fields(v1::SetAttr::MODE);
  chmod.mutable_set_attr()->set_mode(0666);
  EXPECT_EQ(b_.Do(as(chmod, 7), true), EPERM);
  v1::Request chattr;
  chattr.mutable_set_attr()->set_fields(v1::SetAttr::FLAGS);
  chattr.mutable_set_attr()->set_flags(v1::INODE_FLAG_IMMUTABLE);
  v1::Request mkdir = Client::CreateOf("open");
  mkdir.mutable_create()->set_mode(S_IFDIR | 0770);
  ASSERT_EQ(c_.Do(as(mkdir, 0), true), 0);
  const std::uint64_t open = c_.last_.entry().attr().inode();
  v1::Request chown;
  chown.mutable_set_attr()->set_inode(open);
  chown.mutable_set_attr()->set_fields(v1::SetAttr::GID);
  chown.mutable_set_attr()->set_gid(9);
  ASSERT_EQ(c_.Do(chown, true), 0);
  v1::Request create = Client::CreateOf("file");
  create.mutable_create()->set_parent(open);
  EXPECT_EQ(b_.Do(as(create, 7), true), EACCES);
  EXPECT_EQ(b_.Do(as(create, 7, 9), true), 0);
  chattr.mutable_set_attr()->set_inode(b_.last_.entry().attr().inode());
  EXPECT_EQ(b_.Do(as(chattr, 7), true), EPERM) << "also of its owner";
  EXPECT_EQ(b_.Do(as(chattr, 0), true), EPERM);
  v1::Request device = create;
  device.mutable_create()->set_name("device");
  device.mutable_create()->set_mode(S_IFBLK | 0666);
  device.mutable_create()->set_rdev(0x801);
  EXPECT_EQ(b_.Do(as(device, 7, 9), true), EPERM);
  EXPECT_EQ(c_.Do(device, true), 0);  // an export that trusts its kernel
}

TEST_F(CoreExportsTest, AReadOnlySessionLocksOnlyOpenFiles) {
  const std::uint64_t file = c_.Create("file");
  const auto lock_of = [](std::uint64_t inode, v1::LockType type, v1::LockKind kind) {
    v1::Request request;
    v1::FileLock& lock = *request.mutable_set_lock()->mutable_lock();
    lock.set_inode(inode);
    lock.set_owner(1);
    lock.set_kind(kind);
    lock.set_type(type);
    lock.set_last(UINT64_MAX);
    request.mutable_set_lock()->set_take(true);
    return request;
  };
  EXPECT_EQ(a_.Do(lock_of(file, v1::LOCK_SHARED, v1::LOCK_RANGES)), EPERM);
  EXPECT_EQ(b_.Do(lock_of(file, v1::LOCK_SHARED, v1::LOCK_RANGES)), EPERM);  // squashed
  ASSERT_EQ(a_.Do(Client::OpenOf(file)), 0);
  EXPECT_EQ(a_.Do(lock_of(file, v1::LOCK_SHARED, v1::LOCK_RANGES)), 0);
  EXPECT_EQ(a_.last_.lock_token(), 0u);  // else it would say later what it has locked
  EXPECT_EQ(a_.Do(lock_of(file, v1::LOCK_EXCLUSIVE, v1::LOCK_RANGES)), EROFS);
  EXPECT_EQ(a_.Do(lock_of(file, v1::LOCK_EXCLUSIVE, v1::LOCK_WRITER)), EROFS);
  EXPECT_EQ(a_.Do(lock_of(file, v1::LOCK_EXCLUSIVE, v1::LOCK_WHOLE)), 0);
  EXPECT_EQ(a_.Do(lock_of(file, v1::LOCK_NONE, v1::LOCK_RANGES)), 0);
  EXPECT_EQ(c_.Do(lock_of(file, v1::LOCK_SHARED, v1::LOCK_RANGES)), 0);
  EXPECT_EQ(c_.Do(lock_of(file + 1'000, v1::LOCK_SHARED, v1::LOCK_RANGES)), ESTALE);
  // Nor does it claim in a new epoch what it could not have.
  harness_.Restart();
  ASSERT_EQ(HelloAs(a_, "reader", a_.session_), 0);
  v1::Reclaim claims;
  claims.add_opens(file);
  *claims.add_locks() = lock_of(file, v1::LOCK_EXCLUSIVE, v1::LOCK_RANGES).set_lock().lock();
  a_.Reclaim(claims);
  EXPECT_TRUE(a_.evicted_);
}

TEST_F(CoreExportsTest, ChangedExportsHoldFromTheNextConnectionOn) {
  harness_.core_->SetExports({});
  EXPECT_EQ(a_.Do(Client::CreateOf("new"), true), EROFS);
  ASSERT_EQ(HelloAs(a_, "reader", a_.session_), 0);
  EXPECT_EQ(a_.Do(Client::CreateOf("new"), true), 0);
}

TEST_F(CoreExportsTest, AWriterStopsWhenItsExportBecomesReadOnly) {
  const std::uint64_t file = c_.Create("file");
  ASSERT_EQ(c_.Do(Client::LayoutOf(file, v1::TOKEN_EXCLUSIVE, true), true), 0);
  harness_.options_.exports[0].clients = {"reader", "other"};
  harness_.Restart();
  ASSERT_EQ(HelloAs(c_, "other", c_.session_), 0);
  v1::Reclaim claims;
  claims.add_tokens()->set_inode(file);
  claims.mutable_tokens(0)->set_mode(v1::TOKEN_EXCLUSIVE);
  c_.Reclaim(claims);
  EXPECT_TRUE(c_.evicted_);
}

TEST_F(CoreExportsTest, ClientsLearnTheirExport) {
  const auto hello = [&](Client& client) { return client.Answer(client.last_id_).hello(); };
  EXPECT_TRUE(hello(a_).read_only());
  EXPECT_TRUE(hello(a_).check_opens());
  EXPECT_FALSE(hello(c_).check_opens());
  EXPECT_TRUE(hello(b_).check_opens());
  EXPECT_FALSE(hello(c_).read_only());
  EXPECT_TRUE(hello(b_).squashed());
  EXPECT_FALSE(hello(a_).squashed());
  v1::WhoReply who;
  harness_.core_->Describe(who);
  ASSERT_EQ(who.sessions_size(), 3);
  EXPECT_EQ(who.sessions(0).certificate(), "reader");
  EXPECT_EQ(who.sessions(1).exported(), "rw,squash=root");
}

TEST_F(CoreExportsTest, AHostWithoutAnExportGetsNoSession) {
  Client d(harness_, 4);
  EXPECT_EQ(HelloAs(d, "banned7"), EACCES);
  EXPECT_TRUE(d.ended_);
  EXPECT_EQ(harness_.Sessions(), 3u);
}

TEST_F(CoreExportsTest, ASessionBelongsToItsCertificate) {
  EXPECT_EQ(HelloAs(a_, "other", a_.session_), EPERM);
  EXPECT_EQ(HelloAs(a_, "other"), EPERM);  // nor does somebody else drop it
  EXPECT_EQ(HelloAs(a_, "reader", a_.session_), 0);
  harness_.Restart();
  EXPECT_EQ(HelloAs(a_, "other", a_.session_), EPERM);
  EXPECT_EQ(HelloAs(a_, "reader", a_.session_), 0);
}

}  // namespace
}  // namespace reel::mdc
