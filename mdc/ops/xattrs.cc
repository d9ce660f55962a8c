#include "mdc/ops/xattrs.h"

#include <sys/stat.h>
#include <sys/xattr.h>

#include <cerrno>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "mdc/metadb/schema.h"
#include "mdc/ops/acl.h"
#include "mdc/ops/inode.h"
#include "mdc/ops/settings.h"
#include "proto/status.h"

namespace reel::mdc {
namespace {

constexpr std::size_t kMaxNameBytes = 255;

bool Begins(std::string_view name, std::string_view prefix) {
  return name.substr(0, prefix.size()) == prefix;
}
constexpr std::string_view kCapability = "security.capability";

bool IsAcl(std::string_view name) {
  return name == kAccessAcl || name == kDefaultAcl;
}

absl::Status ValidateName(std::string_view name) {
  if (name.size() > kMaxNameBytes) return ErrnoStatus(ERANGE, "the attribute's name is too long");
  if (name.find('\0') != name.npos) return ErrnoStatus(EINVAL, "the attribute's name holds NUL");
  if (IsAcl(name)) return absl::OkStatus();
  for (const std::string_view prefix : {"user.", "trusted.", "security."}) {
    if (Begins(name, prefix)) {
      return name.size() > prefix.size() ? absl::OkStatus()
                                         : ErrnoStatus(EINVAL, "the attribute's name is empty");
    }
  }
  return ErrnoStatus(EOPNOTSUPP, "attributes of this namespace are not kept");
}

// Whether the inode's type and the caller let the attribute be seen at all.
bool Visible(const OpContext& ctx, const v1::InodeRecord& record, std::string_view name) {
  if (Begins(name, "trusted.")) return ctx.caller.credentials.uid() == 0;
  if (Begins(name, "user.")) return S_ISREG(record.mode()) || S_ISDIR(record.mode());
  return true;
}

absl::Status CheckChangeable(const OpContext& ctx, const v1::InodeRecord& record,
                             std::string_view name) {
  if ((record.flags() & (v1::INODE_FLAG_IMMUTABLE | v1::INODE_FLAG_APPEND)) != 0 ||
      !Visible(ctx, record, name)) {
    return ErrnoStatus(EPERM);
  }
  if (IsAcl(name) && S_ISLNK(record.mode())) return ErrnoStatus(EOPNOTSUPP);
  if (name == kDefaultAcl && !S_ISDIR(record.mode())) return ErrnoStatus(EACCES);
  return absl::OkStatus();
}

// The inode's record, when the attribute may be changed.
absl::StatusOr<v1::InodeRecord*> InodeToChange(OpContext& ctx, InodeNumber inode,
                                               std::string_view name) {
  if (absl::Status valid = ValidateName(name); !valid.ok()) return valid;
  absl::StatusOr<v1::InodeRecord*> record = ctx.txn.Inode(inode);
  if (!record.ok()) return record;
  if (absl::Status allowed = CheckChangeable(ctx, **record, name); !allowed.ok()) return allowed;
  return record;
}

// The stored value; an inode without attributes is not searched.
absl::StatusOr<std::optional<std::string>> Find(Txn& txn, InodeNumber inode,
                                                const v1::InodeRecord& record,
                                                std::string_view name) {
  if (record.xattr_name_bytes() == 0) return std::optional<std::string>();
  return txn.Get(schema::XattrKey(inode, name));
}

absl::Status Put(OpContext& ctx, InodeNumber inode, v1::InodeRecord& record, std::string_view name,
                 bool is_new, std::string value) {
  if (is_new) {
    // The bound is listxattr(2)'s: every name can always be listed.
    const std::size_t bytes = record.xattr_name_bytes() + name.size() + 1;
    if (bytes > kMaxXattrListBytes) {
      return ErrnoStatus(ENOSPC, absl::StrCat("inode ", inode.value(), " has too many attributes"));
    }
    record.set_xattr_name_bytes(static_cast<std::uint32_t>(bytes));
  }
  ctx.txn.Put(schema::XattrKey(inode, name), std::move(value));
  return absl::OkStatus();
}

absl::Status Drop(OpContext& ctx, InodeNumber inode, v1::InodeRecord& record,
                  std::string_view name) {
  const std::size_t bytes = name.size() + 1;
  if (record.xattr_name_bytes() < bytes) return DamagedRecord("count of attribute names", inode);
  record.set_xattr_name_bytes(record.xattr_name_bytes() - static_cast<std::uint32_t>(bytes));
  ctx.txn.Delete(schema::XattrKey(inode, name));
  return absl::OkStatus();
}

void SetPermissionBits(v1::InodeRecord& record, std::uint32_t bits) {
  record.set_mode((record.mode() & ~std::uint32_t{0777}) | (bits & 0777));
}

// The stored ACL; empty where there is none.
absl::StatusOr<Acl> FindAcl(OpContext& ctx, InodeNumber inode, const v1::InodeRecord& record,
                            std::string_view name) {
  const absl::StatusOr<std::optional<std::string>> stored = Find(ctx.txn, inode, record, name);
  if (!stored.ok()) return stored.status();
  if (!stored->has_value()) return Acl();
  absl::StatusOr<Acl> acl = Acl::Parse(**stored);
  return acl.ok() ? acl : DamagedRecord("an ACL", inode);
}

// An access ACL that the mode can say all of is not stored; an empty one is a removal.
absl::Status SetAcl(OpContext& ctx, InodeNumber inode, v1::InodeRecord& record,
                    const v1::SetXattr& set, bool is_new) {
  const absl::StatusOr<Acl> acl = Acl::Parse(set.value());
  if (!acl.ok()) return acl.status();
  bool keep = !acl->empty();
  if (keep && set.name() == kAccessAcl) {
    SetPermissionBits(record, acl->PermissionBits());
    if (ctx.caller.credentials.uid() != 0 && !InGroup(ctx.caller.credentials, record.gid())) {
      record.set_mode(record.mode() & ~std::uint32_t{S_ISGID});
    }
    keep = !acl->IsMinimal();
  }
  if (keep) return Put(ctx, inode, record, set.name(), is_new, acl->Serialize());
  return is_new ? absl::OkStatus() : Drop(ctx, inode, record, set.name());
}

// What a host has written and not told of takes capabilities away, those of before only; and an ACL
// follows the permissions that a host has set and not told of.
absl::Status RecallWriters(OpContext& ctx, InodeNumber inode, std::string_view name) {
  const bool depends = name == kCapability || name == kAccessAcl;
  return depends ? ctx.RequireOthersAtMost(inode, v1::TOKEN_SHARED) : absl::OkStatus();
}

}  // namespace

absl::Status GetXattr(OpContext& ctx, const v1::Request& request, v1::Reply& reply) {
  const InodeNumber inode(request.get_xattr().inode());
  const std::string& name = request.get_xattr().name();
  if (IsSetting(name)) return GetSetting(ctx, inode, name, *reply.mutable_data()->mutable_data());
  if (absl::Status valid = ValidateName(name); !valid.ok()) return valid;
  const absl::StatusOr<v1::InodeRecord*> record = ctx.txn.Inode(inode);
  if (!record.ok()) return record.status();
  if (!Visible(ctx, **record, name)) return ErrnoStatus(ENODATA);
  absl::StatusOr<std::optional<std::string>> value = Find(ctx.txn, inode, **record, name);
  if (!value.ok()) return value.status();
  if (!value->has_value()) return ErrnoStatus(ENODATA);
  if (absl::Status recalled = RecallWriters(ctx, inode, name); !recalled.ok()) return recalled;
  reply.mutable_data()->set_data(std::move(**value));
  return absl::OkStatus();
}

absl::Status SetXattr(OpContext& ctx, const v1::Request& request, v1::Reply&) {
  const v1::SetXattr& set = request.set_xattr();
  const InodeNumber inode(set.inode());
  if ((set.flags() & ~std::uint32_t{XATTR_CREATE | XATTR_REPLACE}) != 0) {
    return ErrnoStatus(EINVAL, absl::StrCat("unknown flags ", set.flags()));
  }
  if (set.value().size() > kMaxXattrValueBytes) {
    return ErrnoStatus(E2BIG, absl::StrCat("the attribute's value has ", set.value().size(),
                                           " bytes, over ", kMaxXattrValueBytes));
  }
  if (IsSetting(set.name())) return ChangeSetting(ctx, inode, set.name(), set.value());
  const absl::StatusOr<v1::InodeRecord*> found = InodeToChange(ctx, inode, set.name());
  if (!found.ok()) return found.status();
  if (absl::Status recalled = RecallWriters(ctx, inode, set.name()); !recalled.ok())
    return recalled;
  v1::InodeRecord& record = **found;
  const absl::StatusOr<std::optional<std::string>> old = Find(ctx.txn, inode, record, set.name());
  if (!old.ok()) return old.status();
  if (old->has_value() && (set.flags() & XATTR_CREATE) != 0) return ErrnoStatus(EEXIST);
  if (!old->has_value() && (set.flags() & XATTR_REPLACE) != 0) return ErrnoStatus(ENODATA);
  const bool is_new = !old->has_value();
  const absl::Status stored = IsAcl(set.name())
                                  ? SetAcl(ctx, inode, record, set, is_new)
                                  : Put(ctx, inode, record, set.name(), is_new, set.value());
  if (!stored.ok()) return stored;
  TouchChange(ctx, inode, record);
  return absl::OkStatus();
}

absl::Status ListXattr(OpContext& ctx, const v1::Request& request, v1::Reply& reply) {
  const InodeNumber inode(request.list_xattr().inode());
  const absl::StatusOr<v1::InodeRecord*> record = ctx.txn.Inode(inode);
  if (!record.ok()) return record.status();
  std::string& names = *reply.mutable_data()->mutable_data();
  if ((*record)->xattr_name_bytes() == 0) return absl::OkStatus();
  const std::string prefix = schema::XattrPrefix(inode);
  return ctx.txn.Scan(prefix, prefix, [&](std::string_view key, std::string_view) {
    const std::string_view name = key.substr(prefix.size());
    if (Visible(ctx, **record, name)) names.append(name).push_back('\0');
    return true;
  });
}

absl::Status RemoveXattr(OpContext& ctx, const v1::Request& request, v1::Reply&) {
  const InodeNumber inode(request.remove_xattr().inode());
  const std::string& name = request.remove_xattr().name();
  if (IsSetting(name)) return ChangeSetting(ctx, inode, name, "");
  const absl::StatusOr<v1::InodeRecord*> found = InodeToChange(ctx, inode, name);
  if (!found.ok()) return found.status();
  v1::InodeRecord& record = **found;
  const absl::StatusOr<std::optional<std::string>> old = Find(ctx.txn, inode, record, name);
  if (!old.ok()) return old.status();
  // Without an ACL the mode is all there is, which is what was asked for.
  if (!old->has_value()) return IsAcl(name) ? absl::OkStatus() : ErrnoStatus(ENODATA);
  if (absl::Status dropped = Drop(ctx, inode, record, name); !dropped.ok()) return dropped;
  TouchChange(ctx, inode, record);
  return absl::OkStatus();
}

absl::Status InheritAcl(OpContext& ctx, InodeNumber parent, const v1::InodeRecord& parent_record,
                        std::uint32_t umask, InodeNumber inode, v1::InodeRecord& record) {
  if (S_ISLNK(record.mode())) return absl::OkStatus();
  absl::StatusOr<Acl> acl = FindAcl(ctx, parent, parent_record, kDefaultAcl);
  if (!acl.ok()) return acl.status();
  if (acl->empty()) {
    SetPermissionBits(record, record.mode() & ~umask);
    return absl::OkStatus();
  }
  if (S_ISDIR(record.mode())) {
    absl::Status passed_on = Put(ctx, inode, record, kDefaultAcl, true, acl->Serialize());
    if (!passed_on.ok()) return passed_on;
  }
  SetPermissionBits(record, acl->Inherit(record.mode()));
  if (acl->IsMinimal()) return absl::OkStatus();
  return Put(ctx, inode, record, kAccessAcl, true, acl->Serialize());
}

absl::StatusOr<Acl> FindAccessAcl(OpContext& ctx, InodeNumber inode,
                                  const v1::InodeRecord& record) {
  return FindAcl(ctx, inode, record, kAccessAcl);
}

absl::Status FollowMode(OpContext& ctx, InodeNumber inode, v1::InodeRecord& record) {
  absl::StatusOr<Acl> acl = FindAcl(ctx, inode, record, kAccessAcl);
  if (!acl.ok() || acl->empty()) return acl.status();
  acl->SetPermissionBits(record.mode());
  return Put(ctx, inode, record, kAccessAcl, false, acl->Serialize());
}

}  // namespace reel::mdc
