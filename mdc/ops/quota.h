// Quotas: what users, groups and trees have is counted in the commits that change it, and held to
// limits.
//
// One hook, ChargeQuotas, runs for every operation and every step of one, after it has staged its
// changes. It stages the difference that they make to the records of family 'Q' in the same
// transaction. Invariants:
//   1. What a record of this round counts is the sum over the inodes below
//      QuotaStateRecord.counted_below, of each the blocks of its extents and one file.
//   2. No operation takes usage past a hard limit, nor higher once a grace time has run out. What
//      was granted before is no operation's to refuse: what is done again in a new epoch, and what
//      a session has made of reserved inodes, which were charged when they were reserved.
// Operations that give blocks ask for the room first (RoomFor), and give less where that is short.
// Threads: the core thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mdc/base/quota_id.h"
#include "mdc/ops/operation.h"
#include "mdc/ops/quota_limits.h"

namespace reel::mdc {

// How much more an owner may be charged; kNoQuotaLimit: any.
struct QuotaRoom {
  std::uint64_t blocks = kNoQuotaLimit;
  std::uint64_t blocks_ahead = kNoQuotaLimit;  // that nobody has asked for; at most as many
  std::uint64_t files = kNoQuotaLimit;
  std::uint64_t files_ahead = kNoQuotaLimit;
};
absl::StatusOr<QuotaRoom> RoomFor(OpContext& ctx, const QuotaOwner& owner);
QuotaOwner OwnerOf(const v1::InodeRecord& record);
// EDQUOT, of an owner who may not have so many blocks more.
absl::Status NoQuotaRoom(OpContext& ctx, const QuotaOwner& owner, std::uint64_t blocks);

// Charges what the transaction changes. `forced`: whatever the limits are. EDQUOT.
absl::Status ChargeQuotas(OpContext& ctx, bool forced);
// Stages `amount` more in the record of `id`; of a tree that there is no more, nothing.
absl::Status AddToQuota(Txn& txn, const v1::QuotaStateRecord& state, const QuotaId& id,
                        const QuotaAmount& amount, std::uint64_t now_seconds);

// nullopt: there is none, and of a tree: there is no such tree (any more).
absl::StatusOr<std::optional<v1::QuotaRecord>> FindQuota(Txn& txn, const QuotaId& id);
// The id of the tree with that name; NOT_FOUND.
absl::StatusOr<std::uint32_t> FindTree(Txn& txn, std::string_view name);
// EXDEV where an inode that belongs to `project` would get a name in a directory that belongs to
// another tree: as between file systems, mv(1) copies then.
absl::Status RequireSameTree(OpContext& ctx, std::uint32_t project, std::uint32_t directory);

}  // namespace reel::mdc
