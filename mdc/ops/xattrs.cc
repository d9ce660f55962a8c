#include "mdc/ops/xattrs.h"

#include <sys/stat.h>
#include <sys/xattr.h>

#include <cerrno>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "mdc/ops/inode.h"
#include "mdc/schema.h"
#include "proto/status.h"

namespace reel::mdc {
namespace {

constexpr std::size_t kMaxNameBytes = 255;

bool Begins(std::string_view name, std::string_view prefix) {
  return name.substr(0, prefix.size()) == prefix;
}
bool IsAcl(std::string_view name) {
  return name == "system.posix_acl_access" || name == "system.posix_acl_default";
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
  if (Begins(name, "trusted.")) return ctx.credentials.uid() == 0;
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
  if (name == "system.posix_acl_default" && !S_ISDIR(record.mode())) return ErrnoStatus(EACCES);
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

}  // namespace

absl::Status GetXattr(OpContext& ctx, const v1::Request& request, v1::Reply& reply) {
  const InodeNumber inode(request.get_xattr().inode());
  const std::string& name = request.get_xattr().name();
  if (absl::Status valid = ValidateName(name); !valid.ok()) return valid;
  const absl::StatusOr<v1::InodeRecord*> record = ctx.txn.Inode(inode);
  if (!record.ok()) return record.status();
  if (!Visible(ctx, **record, name)) return ErrnoStatus(ENODATA);
  absl::StatusOr<std::optional<std::string>> value = Find(ctx.txn, inode, **record, name);
  if (!value.ok()) return value.status();
  if (!value->has_value()) return ErrnoStatus(ENODATA);
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
  const absl::StatusOr<v1::InodeRecord*> found = InodeToChange(ctx, inode, set.name());
  if (!found.ok()) return found.status();
  v1::InodeRecord& record = **found;
  const absl::StatusOr<std::optional<std::string>> old = Find(ctx.txn, inode, record, set.name());
  if (!old.ok()) return old.status();
  if (old->has_value() && (set.flags() & XATTR_CREATE) != 0) return ErrnoStatus(EEXIST);
  if (!old->has_value() && (set.flags() & XATTR_REPLACE) != 0) return ErrnoStatus(ENODATA);
  if (!old->has_value()) {
    // The bound is listxattr(2)'s: every name can always be listed.
    const std::size_t bytes = record.xattr_name_bytes() + set.name().size() + 1;
    if (bytes > kMaxXattrListBytes) {
      return ErrnoStatus(ENOSPC, absl::StrCat("inode ", set.inode(), " has too many attributes"));
    }
    record.set_xattr_name_bytes(static_cast<std::uint32_t>(bytes));
  }
  ctx.txn.Put(schema::XattrKey(inode, set.name()), set.value());
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
  const absl::StatusOr<v1::InodeRecord*> found = InodeToChange(ctx, inode, name);
  if (!found.ok()) return found.status();
  v1::InodeRecord& record = **found;
  const absl::StatusOr<std::optional<std::string>> old = Find(ctx.txn, inode, record, name);
  if (!old.ok()) return old.status();
  if (!old->has_value()) return ErrnoStatus(ENODATA);
  const std::size_t bytes = name.size() + 1;
  if (record.xattr_name_bytes() < bytes) return DamagedRecord("count of attribute names", inode);
  record.set_xattr_name_bytes(record.xattr_name_bytes() - static_cast<std::uint32_t>(bytes));
  ctx.txn.Delete(schema::XattrKey(inode, name));
  TouchChange(ctx, inode, record);
  return absl::OkStatus();
}

}  // namespace reel::mdc
