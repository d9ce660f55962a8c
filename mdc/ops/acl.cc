#include "mdc/ops/acl.h"

#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "mdc/ops/inode.h"
#include "proto/status.h"
#include "volume/base/coding.h"

namespace reel::mdc {
namespace {

constexpr std::size_t kHeaderBytes = 4;
constexpr std::size_t kAclEntryBytes = 8;
constexpr std::uint32_t kPermissions = ACL_READ | ACL_WRITE | ACL_EXECUTE;

absl::Status Invalid(const char* why) {
  return ErrnoStatus(EINVAL, absl::StrCat("the ACL is not valid: ", why));
}

}  // namespace

absl::StatusOr<Acl> Acl::Parse(std::string_view bytes) {
  if (bytes.size() < kHeaderBytes) return Invalid("it has no header");
  if (const std::uint32_t version = LoadU32(bytes.data()); version != POSIX_ACL_XATTR_VERSION) {
    return ErrnoStatus(EOPNOTSUPP, absl::StrCat("ACL version ", version));
  }
  if ((bytes.size() - kHeaderBytes) % kAclEntryBytes != 0)
    return Invalid("its last entry is cut off");
  Acl acl;
  for (std::size_t at = kHeaderBytes; at < bytes.size(); at += kAclEntryBytes) {
    const char* from = bytes.data() + at;
    acl.entries_.push_back({LoadU16(from), LoadU16(from + 2), LoadU32(from + 4)});
  }
  if (!acl.empty() && !acl.IsValid())
    return Invalid("entries are missing, doubled or out of order");
  return acl;
}

std::string Acl::Serialize() const {
  std::string bytes;
  PutU32(bytes, POSIX_ACL_XATTR_VERSION);
  for (const Entry& entry : entries_) {
    PutU16(bytes, entry.tag);
    PutU16(bytes, entry.permissions);
    PutU32(bytes, entry.id);
  }
  return bytes;
}

// Tags are bits that grow in the order that entries must have; only users and groups may repeat.
bool Acl::IsValid() const {
  std::uint32_t before = 0;
  std::uint32_t seen = 0;
  for (const Entry& entry : entries_) {
    const bool named = entry.tag == ACL_USER || entry.tag == ACL_GROUP;
    switch (entry.tag) {
      case ACL_USER_OBJ:
      case ACL_USER:
      case ACL_GROUP_OBJ:
      case ACL_GROUP:
      case ACL_MASK:
      case ACL_OTHER:
        break;
      default:
        return false;
    }
    if (entry.tag < before || (entry.tag == before && !named)) return false;
    if ((entry.permissions & ~kPermissions) != 0) return false;
    if (named && entry.id == static_cast<std::uint32_t>(ACL_UNDEFINED_ID)) return false;
    before = entry.tag;
    seen |= entry.tag;
  }
  constexpr std::uint32_t kRequired = ACL_USER_OBJ | ACL_GROUP_OBJ | ACL_OTHER;
  const bool needs_mask = (seen & (ACL_USER | ACL_GROUP)) != 0;
  return (seen & kRequired) == kRequired && (!needs_mask || (seen & ACL_MASK) != 0);
}

Acl::Entry* Acl::Find(std::uint16_t tag) {
  for (Entry& entry : entries_) {
    if (entry.tag == tag) return &entry;
  }
  return nullptr;
}

Acl::Entry& Acl::GroupClass() {
  Entry* mask = Find(ACL_MASK);
  return mask != nullptr ? *mask : *Find(ACL_GROUP_OBJ);
}

bool Acl::IsMinimal() const {
  return Find(ACL_MASK) == nullptr;  // which a named user or group needs
}

std::uint32_t Acl::PermissionBits() const {
  const Entry* mask = Find(ACL_MASK);
  const Entry* group = mask != nullptr ? mask : Find(ACL_GROUP_OBJ);
  return static_cast<std::uint32_t>(Find(ACL_USER_OBJ)->permissions) << 6 |
         static_cast<std::uint32_t>(group->permissions) << 3 | Find(ACL_OTHER)->permissions;
}

void Acl::SetPermissionBits(std::uint32_t mode) {
  Find(ACL_USER_OBJ)->permissions = static_cast<std::uint16_t>(mode >> 6 & kPermissions);
  GroupClass().permissions = static_cast<std::uint16_t>(mode >> 3 & kPermissions);
  Find(ACL_OTHER)->permissions = static_cast<std::uint16_t>(mode & kPermissions);
}

std::uint32_t Acl::Inherit(std::uint32_t mode) {
  SetPermissionBits(mode & PermissionBits());
  return PermissionBits();
}

bool Acl::Allows(const v1::Credentials& credentials, const v1::InodeRecord& record,
                 std::uint32_t wanted) const {
  const Entry* mask = Find(ACL_MASK);
  const std::uint32_t most = mask != nullptr ? mask->permissions : kPermissions;
  const auto grants = [&](std::uint32_t permissions) { return (permissions & wanted) == wanted; };
  if (credentials.uid() == record.uid()) return grants(Find(ACL_USER_OBJ)->permissions);
  bool in_group = false;
  for (const Entry& entry : entries_) {
    if (entry.tag == ACL_USER && entry.id == credentials.uid()) {
      return grants(entry.permissions & most);
    }
    const bool matches = (entry.tag == ACL_GROUP_OBJ && InGroup(credentials, record.gid())) ||
                         (entry.tag == ACL_GROUP && InGroup(credentials, entry.id));
    if (matches && grants(entry.permissions & most)) return true;
    in_group = in_group || matches;
  }
  return !in_group && grants(Find(ACL_OTHER)->permissions);
}

}  // namespace reel::mdc
