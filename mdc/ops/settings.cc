#include "mdc/ops/settings.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdint>
#include <optional>

#include "absl/strings/str_cat.h"
#include "mdc/lock_table.h"
#include "mdc/lock_tokens.h"
#include "mdc/ops/inode.h"
#include "proto/status.h"

namespace reel::mdc {
namespace {

constexpr std::string_view kPrefix = "reelfs.";
constexpr std::string_view kWriters = "reelfs.writers";

// The inode's record, when it has that setting.
absl::StatusOr<v1::InodeRecord*> Find(OpContext& ctx, InodeNumber inode, std::string_view name) {
  if (name != kWriters) {
    return ErrnoStatus(EOPNOTSUPP, absl::StrCat("no setting ", std::string(name)));
  }
  const absl::StatusOr<v1::InodeRecord*> record = ctx.txn.Inode(inode);
  if (record.ok() && !S_ISREG((*record)->mode()) && !S_ISDIR((*record)->mode())) {
    return ErrnoStatus(EOPNOTSUPP,
                       absl::StrCat(std::string(name), " is for files and directories"));
  }
  return record;
}

}  // namespace

bool IsSetting(std::string_view name) {
  return name.starts_with(kPrefix);
}

absl::Status GetSetting(OpContext& ctx, InodeNumber inode, std::string_view name,
                        std::string& value) {
  const absl::StatusOr<v1::InodeRecord*> record = Find(ctx, inode, name);
  if (!record.ok()) return record.status();
  value = ((*record)->flags() & v1::INODE_FLAG_SINGLE_WRITER) != 0 ? "single" : "many";
  return absl::OkStatus();
}

absl::Status ChangeSetting(OpContext& ctx, InodeNumber inode, std::string_view name,
                           std::string_view value) {
  const absl::StatusOr<v1::InodeRecord*> found = Find(ctx, inode, name);
  if (!found.ok()) return found.status();
  v1::InodeRecord& record = **found;
  if (ctx.credentials.uid() != 0 && ctx.credentials.uid() != record.uid()) {
    return ErrnoStatus(EPERM, absl::StrCat("only its owner changes ", std::string(name)));
  }
  if ((record.flags() & (v1::INODE_FLAG_IMMUTABLE | v1::INODE_FLAG_APPEND)) != 0) {
    return ErrnoStatus(EPERM, "the inode is immutable or append-only");
  }
  if (!value.empty() && value != "single" && value != "many") {
    return ErrnoStatus(EINVAL, absl::StrCat(std::string(name), " is \"single\" or \"many\""));
  }
  constexpr std::uint32_t kFlag = v1::INODE_FLAG_SINGLE_WRITER;
  record.set_flags(value == "single" ? record.flags() | kFlag : record.flags() & ~kFlag);
  TouchChange(ctx, inode, record);
  return absl::OkStatus();
}

absl::Status RequireNoOtherWriter(OpContext& ctx, InodeNumber inode,
                                  const v1::InodeRecord& record) {
  if ((record.flags() & v1::INODE_FLAG_SINGLE_WRITER) == 0) return absl::OkStatus();
  const LockToken* const token = ctx.lock_tokens.Find(inode);
  if (token != nullptr && token->session != ctx.session) {
    ctx.waits_for_lock_token = inode;
    return ErrnoStatus(EAGAIN, "a session decides about the inode's locks by itself");
  }
  const FileLock wanted{.inode = inode,
                        .owner = {ctx.session, v1::LOCK_WRITER, 0},
                        .range = {0, UINT64_MAX},
                        .type = v1::LOCK_EXCLUSIVE};
  if (!ctx.locks.Conflict(wanted)) return absl::OkStatus();
  return ErrnoStatus(EBUSY, absl::StrCat("inode ", inode.value(), " is being written by another ",
                                         "host, and is for a single writer"));
}

}  // namespace reel::mdc
