#include "mdc/ops/settings.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <functional>
#include <set>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "mdc/ops/bandwidth_settings.h"
#include "mdc/ops/inode.h"
#include "mdc/ops/orphans.h"
#include "mdc/ops/quota_settings.h"
#include "mdc/space/allocator.h"
#include "mdc/tables/lock_table.h"
#include "mdc/tables/lock_tokens.h"
#include "proto/status.h"

namespace reel::mdc {
namespace {

constexpr std::string_view kPrefix = "reelfs.";
constexpr std::string_view kWriters = "reelfs.writers";
constexpr std::string_view kAffinity = "reelfs.affinity";
// What files that are made there may use of the volume, for statfs(2): bytes in all, and free.
constexpr std::string_view kSpace = "reelfs.space";

// The inode's record, when it has that setting.
absl::StatusOr<v1::InodeRecord*> Find(OpContext& ctx, InodeNumber inode, std::string_view name) {
  if (name != kWriters && name != kAffinity && name != kSpace && name != kRateSetting &&
      !IsQuotaSetting(name)) {
    return ErrnoStatus(EOPNOTSUPP, absl::StrCat("no setting ", std::string(name)));
  }
  const absl::StatusOr<v1::InodeRecord*> record = ctx.txn.Inode(inode);
  if (name == kTreeSetting) return record;  // whatever is counted is charged to one
  if (record.ok() && !S_ISREG((*record)->mode()) && !S_ISDIR((*record)->mode())) {
    return ErrnoStatus(EOPNOTSUPP,
                       absl::StrCat(std::string(name), " is for files and directories"));
  }
  return record;
}

absl::Status SetWriters(v1::InodeRecord& record, std::string_view value) {
  if (!value.empty() && value != "single" && value != "many") {
    return ErrnoStatus(EINVAL, absl::StrCat(std::string(kWriters), " is \"single\" or \"many\""));
  }
  constexpr std::uint32_t kFlag = v1::INODE_FLAG_SINGLE_WRITER;
  record.set_flags(value == "single" ? record.flags() | kFlag : record.flags() & ~kFlag);
  return absl::OkStatus();
}

// Of the pools that files can lie in.
std::set<std::string, std::less<>> AffinitiesOf(const VolumeDescriptor& descriptor) {
  std::set<std::string, std::less<>> affinities;
  for (const Pool& pool : descriptor.pools) {
    if ((pool.flags & Pool::kData) == 0) continue;
    affinities.insert(pool.affinities.begin(), pool.affinities.end());
  }
  return affinities;
}

// What is to lie elsewhere from now on must not be written to blocks that were got before: not to
// those ahead of a file, nor to those reserved for the next files of a directory.
absl::Status SetAffinity(OpContext& ctx, InodeNumber inode, v1::InodeRecord& record,
                         std::string_view value) {
  const auto known = AffinitiesOf(ctx.descriptor);
  if (!value.empty() && !known.contains(value)) {
    return ErrnoStatus(
        EINVAL, absl::StrCat("no pool has the affinity ", absl::CHexEscape(std::string(value)),
                             known.empty() ? "; none has any" : "; there are: ",
                             absl::StrJoin(known, ", ")));
  }
  if (record.affinity() == value) return absl::OkStatus();
  record.set_affinity(value.data(), value.size());
  if (S_ISDIR(record.mode())) {
    ctx.effects.stale_reservations.push_back(inode);
    return absl::OkStatus();
  }
  if (absl::Status recalled = ctx.RequireNoHolder(inode); !recalled.ok()) return recalled;
  // (What fallocate(2) put there was asked for.)
  const bool keeps = (record.flags() & v1::INODE_FLAG_KEEP_PREALLOCATION) != 0;
  if (keeps || ctx.decided.replay != nullptr) return absl::OkStatus();
  return DropTail(ctx, inode, record.size_bytes());
}

}  // namespace

bool IsSetting(std::string_view name) {
  return name.starts_with(kPrefix);
}

absl::Status GetSetting(OpContext& ctx, InodeNumber inode, std::string_view name,
                        std::string& value) {
  const absl::StatusOr<v1::InodeRecord*> record = Find(ctx, inode, name);
  if (!record.ok()) return record.status();
  if (name == kWriters) {
    value = ((*record)->flags() & v1::INODE_FLAG_SINGLE_WRITER) != 0 ? "single" : "many";
    return absl::OkStatus();
  }
  if (name == kSpace) {
    const absl::StatusOr<UsableSpace> space = SpaceFor(ctx, **record);
    if (!space.ok()) return space.status();
    const std::uint64_t block_bytes = ctx.descriptor.block_bytes;
    value = absl::StrCat(space->total_blocks * block_bytes, " ", space->free_blocks * block_bytes);
    return absl::OkStatus();
  }
  if (name == kRateSetting) return GetRate(ctx, inode, value);
  if (IsQuotaSetting(name)) return GetQuotaSetting(ctx, **record, name, value);
  value = (*record)->affinity();
  return value.empty() ? ErrnoStatus(ENODATA) : absl::OkStatus();
}

absl::StatusOr<UsableSpace> SpaceFor(OpContext& ctx, const v1::InodeRecord& record) {
  const std::string& affinity = record.affinity();
  UsableSpace space;
  bool all_pools = true;
  for (std::uint32_t i = 0; i < ctx.descriptor.pools.size(); ++i) {
    const Pool& pool = ctx.descriptor.pools[i];
    const bool has_it =
        !affinity.empty() && std::find(pool.affinities.begin(), pool.affinities.end(), affinity) !=
                                 pool.affinities.end();
    if ((pool.flags & Pool::kData) == 0) continue;
    if (!has_it && (pool.flags & Pool::kExclusive) != 0) {
      all_pools = false;
      continue;
    }
    space.total_blocks += pool.capacity_blocks();
    space.free_blocks += ctx.allocator.free_blocks(PoolId(i));
  }
  // In which pools the removed files lie is not known before their blocks are free.
  if (all_pools) {
    space.free_blocks = std::min(space.free_blocks + ctx.store.removing_blocks, space.total_blocks);
  }
  if (absl::Status s = NarrowToTree(ctx, record, space); !s.ok()) return s;
  return space;
}

absl::Status ChangeSetting(OpContext& ctx, InodeNumber inode, std::string_view name,
                           std::string_view value) {
  const absl::StatusOr<v1::InodeRecord*> found = Find(ctx, inode, name);
  if (!found.ok()) return found.status();
  if (name == kSpace) return ErrnoStatus(EPERM, "how much space there is cannot be set");
  v1::InodeRecord& record = **found;
  if (ctx.caller.credentials.uid() != 0 && ctx.caller.credentials.uid() != record.uid()) {
    return ErrnoStatus(EPERM, absl::StrCat("only its owner changes ", std::string(name)));
  }
  if ((record.flags() & (v1::INODE_FLAG_IMMUTABLE | v1::INODE_FLAG_APPEND)) != 0) {
    return ErrnoStatus(EPERM, "the inode is immutable or append-only");
  }
  if (name == kRateSetting) return ChangeRate(ctx, inode, record, value);
  const absl::Status set = IsQuotaSetting(name)
                               ? ChangeQuotaSetting(ctx, inode, record, name, value)
                           : name == kWriters ? SetWriters(record, value)
                                              : SetAffinity(ctx, inode, record, value);
  if (!set.ok()) return set;
  TouchChange(ctx, inode, record);
  return absl::OkStatus();
}

absl::Status RequireNoOtherWriter(OpContext& ctx, InodeNumber inode,
                                  const v1::InodeRecord& record) {
  if ((record.flags() & v1::INODE_FLAG_SINGLE_WRITER) == 0) return absl::OkStatus();
  const LockToken* const token = ctx.lock_tokens.Find(inode);
  if (token != nullptr && token->session != ctx.caller.session) {
    ctx.waits_for_lock_token = inode;
    return ErrnoStatus(EAGAIN, "a session decides about the inode's locks by itself");
  }
  const FileLock wanted{.inode = inode,
                        .owner = {ctx.caller.session, v1::LOCK_WRITER, 0},
                        .range = {0, UINT64_MAX},
                        .type = v1::LOCK_EXCLUSIVE};
  if (!ctx.locks.Conflict(wanted)) return absl::OkStatus();
  return ErrnoStatus(EBUSY, absl::StrCat("inode ", inode.value(), " is being written by another ",
                                         "host, and is for a single writer"));
}

}  // namespace reel::mdc
