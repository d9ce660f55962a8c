#include "mdc/ops/quota_settings.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "mdc/ops/quota.h"
#include "proto/status.h"

namespace reel::mdc {
namespace {

std::string LineOf(const OpContext& ctx, const QuotaId& id, const v1::QuotaRecord& record) {
  const QuotaUsage space = SpaceOf(record, *ctx.quota.state, id.kind);
  const QuotaUsage files = FilesOf(record, *ctx.quota.state, id.kind);
  const std::uint64_t block_bytes = ctx.descriptor.block_bytes;
  return absl::StrCat(QuotaText(id, record), " bytes=", space.used * block_bytes,
                      " soft=", space.soft * block_bytes, " hard=", space.hard * block_bytes,
                      " files=", files.used, " files-soft=", files.soft, " files-hard=", files.hard,
                      "\n");
}

absl::Status DescribeUsage(OpContext& ctx, const v1::InodeRecord& record, std::string& value) {
  if (ctx.quota.state == nullptr || ctx.quota.state->counted_below() == 0) {
    return ErrnoStatus(ENODATA);
  }
  const QuotaOwner caller{.uid = ctx.caller.credentials.uid(),
                          .gid = ctx.caller.credentials.gid(),
                          .project = record.project()};
  for (const QuotaId& id : caller.ids()) {
    const auto found = FindQuota(ctx.txn, id);
    if (!found.ok()) return found.status();
    if (!found->has_value() && id.kind == QuotaKind::kTree) continue;
    absl::StrAppend(&value, LineOf(ctx, id, found->value_or(v1::QuotaRecord())));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status GetQuotaSetting(OpContext& ctx, const v1::InodeRecord& record, std::string_view name,
                             std::string& value) {
  if (name == kQuotaSetting) return DescribeUsage(ctx, record, value);
  if (record.project() == 0) return ErrnoStatus(ENODATA);
  const auto found = FindQuota(ctx.txn, {QuotaKind::kTree, record.project()});
  if (!found.ok()) return found.status();
  if (!found->has_value()) return ErrnoStatus(ENODATA);
  value = (*found)->tree();
  return absl::OkStatus();
}

absl::Status ChangeQuotaSetting(OpContext& ctx, InodeNumber inode, v1::InodeRecord& record,
                                std::string_view name, std::string_view value) {
  if (name == kQuotaSetting) return ErrnoStatus(EPERM, "limits are set by \"reeladm quota\"");
  if (ctx.caller.credentials.uid() != 0) {
    return ErrnoStatus(EPERM, "only root changes the tree of a file or directory");
  }
  std::uint32_t project = 0;
  if (!value.empty()) {
    const auto tree = FindTree(ctx.txn, value);
    if (absl::IsNotFound(tree.status())) {
      return ErrnoStatus(EINVAL,
                         absl::StrCat("there is no tree ", absl::CHexEscape(std::string(value)),
                                      "; \"reeladm quota tree add\" makes one"));
    }
    if (!tree.ok()) return tree.status();
    project = *tree;
  }
  if (record.project() == project) return absl::OkStatus();
  record.set_project(project);
  // Nothing is made there any more that would belong to the tree from before.
  if (S_ISDIR(record.mode())) ctx.effects.stale_reservations.push_back(inode);
  return absl::OkStatus();
}

absl::Status NarrowToTree(OpContext& ctx, const v1::InodeRecord& record, UsableSpace& space) {
  const bool on = ctx.quota.state != nullptr && ctx.quota.state->counted_below() == kNoQuotaLimit;
  if (!on || record.project() == 0) return absl::OkStatus();
  const auto found = FindQuota(ctx.txn, {QuotaKind::kTree, record.project()});
  if (!found.ok()) return found.status();
  if (!found->has_value()) return absl::OkStatus();
  const QuotaUsage usage = SpaceOf(**found, *ctx.quota.state, QuotaKind::kTree);
  const std::uint64_t limit = usage.soft != 0 ? usage.soft : usage.hard;
  if (limit == 0 || limit >= space.total_blocks) return absl::OkStatus();
  space.total_blocks = limit;
  space.free_blocks = std::min(space.free_blocks, limit - std::min(limit, usage.used));
  return absl::OkStatus();
}

}  // namespace reel::mdc
