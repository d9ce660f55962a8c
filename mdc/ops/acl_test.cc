#include "mdc/ops/acl.h"

#include <gtest/gtest.h>
#include <linux/posix_acl.h>

#include <cerrno>
#include <initializer_list>
#include <string>

#include "proto/status.h"

namespace reel::mdc {
namespace {

struct E {
  int tag;
  int permissions;
  std::uint32_t id = 0xffffffff;
};

std::string Bytes(std::initializer_list<E> entries, char version = 2) {
  std::string bytes{version, 0, 0, 0};
  for (const E& entry : entries) {
    bytes += {static_cast<char>(entry.tag), 0, static_cast<char>(entry.permissions), 0};
    for (int i = 0; i < 4; ++i) bytes.push_back(static_cast<char>(entry.id >> (8 * i)));
  }
  return bytes;
}

const std::string kFull = Bytes({{ACL_USER_OBJ, 7},
                                 {ACL_USER, 6, 1000},
                                 {ACL_USER, 4, 70'000},
                                 {ACL_GROUP_OBJ, 5},
                                 {ACL_GROUP, 7, 100},
                                 {ACL_MASK, 6},
                                 {ACL_OTHER, 1}});

int ErrorOf(const std::string& bytes) {
  return ErrnoOf(Acl::Parse(bytes).status());
}

TEST(AclTest, RoundTrip) {
  const absl::StatusOr<Acl> acl = Acl::Parse(kFull);
  ASSERT_TRUE(acl.ok()) << acl.status();
  EXPECT_EQ(acl->Serialize(), kFull);
  EXPECT_FALSE(acl->IsMinimal());
  EXPECT_EQ(acl->PermissionBits(), 0761u);  // the mask stands in the group's place
}

TEST(AclTest, AnAclAllowsByItsEntries) {
  const Acl acl = *Acl::Parse(kFull);
  v1::InodeRecord record;
  record.set_uid(5);
  record.set_gid(50);
  const auto allows = [&](std::uint32_t uid, std::uint32_t gid, std::uint32_t wanted) {
    v1::Credentials credentials;
    credentials.set_uid(uid);
    credentials.set_gid(gid);
    return acl.Allows(credentials, record, wanted);
  };
  EXPECT_TRUE(allows(5, 1, 7));     // the owner, whatever the mask
  EXPECT_TRUE(allows(1000, 1, 6));  // named
  EXPECT_FALSE(allows(1000, 1, 1));
  EXPECT_FALSE(allows(70'000, 100, 2));  // named users before groups
  EXPECT_TRUE(allows(9, 50, 4));         // 5 under the mask 6
  EXPECT_FALSE(allows(9, 50, 5));
  EXPECT_TRUE(allows(9, 100, 6));
  EXPECT_FALSE(allows(9, 100, 1));  // a group that matches is not "others"
  EXPECT_TRUE(allows(9, 9, 1));
  EXPECT_FALSE(allows(9, 9, 4));
}

TEST(AclTest, MalformedAclsAreRefused) {
  EXPECT_EQ(ErrorOf(""), EINVAL);
  EXPECT_EQ(ErrorOf(Bytes({{ACL_USER_OBJ, 7}}, 1)), EOPNOTSUPP);
  EXPECT_EQ(ErrorOf(kFull.substr(0, kFull.size() - 1)), EINVAL);
  EXPECT_EQ(ErrorOf(Bytes({})), 0);
  EXPECT_TRUE(Acl::Parse(Bytes({}))->empty());
  EXPECT_EQ(ErrorOf(Bytes({{ACL_USER_OBJ, 7}, {ACL_GROUP_OBJ, 5}})), EINVAL);
  EXPECT_EQ(ErrorOf(Bytes({{ACL_USER_OBJ, 7}, {ACL_OTHER, 5}, {ACL_GROUP_OBJ, 5}})), EINVAL);
  EXPECT_EQ(
      ErrorOf(Bytes({{ACL_USER_OBJ, 7}, {ACL_USER_OBJ, 7}, {ACL_GROUP_OBJ, 5}, {ACL_OTHER, 5}})),
      EINVAL);
  EXPECT_EQ(ErrorOf(Bytes({{ACL_USER_OBJ, 8}, {ACL_GROUP_OBJ, 5}, {ACL_OTHER, 5}})), EINVAL);
  // A name without a mask, and a name that is none.
  EXPECT_EQ(
      ErrorOf(Bytes({{ACL_USER_OBJ, 7}, {ACL_USER, 7, 1}, {ACL_GROUP_OBJ, 5}, {ACL_OTHER, 5}})),
      EINVAL);
  EXPECT_EQ(
      ErrorOf(Bytes(
          {{ACL_USER_OBJ, 7}, {ACL_USER, 7}, {ACL_GROUP_OBJ, 5}, {ACL_MASK, 7}, {ACL_OTHER, 5}})),
      EINVAL);
  EXPECT_EQ(ErrorOf(Bytes({{ACL_USER_OBJ, 7}, {ACL_GROUP_OBJ, 5}, {3, 5}, {ACL_OTHER, 5}})),
            EINVAL);
}

TEST(AclTest, ModesAndMinimalAcls) {
  Acl acl = *Acl::Parse(Bytes({{ACL_USER_OBJ, 6}, {ACL_GROUP_OBJ, 4}, {ACL_OTHER, 0}}));
  EXPECT_TRUE(acl.IsMinimal());
  EXPECT_EQ(acl.PermissionBits(), 0640u);
  acl.SetPermissionBits(0755);
  EXPECT_EQ(acl.PermissionBits(), 0755u);
  EXPECT_EQ(acl.Inherit(04700), 0700u);
}

TEST(AclTest, ChmodChangesTheMaskNotTheGroup) {
  Acl acl = *Acl::Parse(kFull);
  acl.SetPermissionBits(0704);
  EXPECT_EQ(acl.Serialize(), Bytes({{ACL_USER_OBJ, 7},
                                    {ACL_USER, 6, 1000},
                                    {ACL_USER, 4, 70'000},
                                    {ACL_GROUP_OBJ, 5},
                                    {ACL_GROUP, 7, 100},
                                    {ACL_MASK, 0},
                                    {ACL_OTHER, 4}}));
}

TEST(AclTest, AnInheritedAclGrantsNoMoreThanTheMode) {
  Acl acl = *Acl::Parse(kFull);
  EXPECT_EQ(acl.Inherit(0666), 0660u);
  EXPECT_EQ(acl.PermissionBits(), 0660u);
}

}  // namespace
}  // namespace reel::mdc
