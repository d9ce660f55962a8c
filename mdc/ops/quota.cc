#include "mdc/ops/quota.h"

#include <algorithm>
#include <cerrno>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "mdc/metadb/schema.h"
#include "mdc/tables/reserved_inode_table.h"
#include "proto/status.h"

namespace reel::mdc {
namespace {

using Event = OpContext::Effects::QuotaEvent;

std::uint64_t NowSeconds(const OpContext& ctx) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(ctx.quota.now_seconds, 1));
}

bool Holds(const OpContext& ctx) {
  return ctx.quota.state != nullptr && ctx.quota.state->counted_below() == kNoQuotaLimit;
}

// With what is charged in memory.
struct Usages {
  QuotaUsage space;
  QuotaUsage files;
};
Usages UsagesOf(const OpContext& ctx, const QuotaId& id, const v1::QuotaRecord& record) {
  Usages usages{.space = SpaceOf(record, *ctx.quota.state, id.kind),
                .files = FilesOf(record, *ctx.quota.state, id.kind)};
  if (ctx.quota.reserved == nullptr) return usages;
  const QuotaAmount reserved = ctx.quota.reserved->ChargedTo(id);
  usages.space.used += static_cast<std::uint64_t>(reserved.blocks);
  usages.files.used += static_cast<std::uint64_t>(reserved.files);
  return usages;
}

bool Exceeds(std::int64_t more, const QuotaUsage& usage, std::uint64_t now_seconds) {
  return more > 0 && static_cast<std::uint64_t>(more) > RoomIn(usage, now_seconds);
}

absl::Status Refuse(OpContext& ctx, const QuotaId& id, const v1::QuotaRecord& record,
                    const QuotaUsage& usage, bool of_space) {
  const bool grace_over = StandingOf(usage, NowSeconds(ctx)) == QuotaStanding::kGraceOver;
  ctx.effects.lacks_quota.push_back(id);
  ctx.effects.lacks_space = of_space;
  const std::string who = QuotaText(id, record);
  const char* const what = of_space ? "blocks" : "files";
  if (grace_over) {
    ctx.effects.quota_events.push_back(
        {id, of_space, Event::What::kGraceOver,
         absl::StrCat(who, " has been above its soft limit of ", usage.soft, " ", what,
                      " for longer than its grace time, and gets no more"),
         record.tree(), usage});
  }
  return ErrnoStatus(
      EDQUOT,
      absl::StrCat(who, " has ", usage.used, " ", what, ", and may have ",
                   grace_over ? "no more: its grace time has run out" : absl::StrCat(usage.hard),
                   "; remove some, or raise the limit by \"reeladm quota set\""));
}

// What people are told of a change that was made, one line a limit crossed.
void NoteCrossing(OpContext& ctx, const QuotaId& id, const v1::QuotaRecord& record, bool of_space,
                  const QuotaUsage& before, const QuotaUsage& after) {
  const auto note = [&](Event::What what, std::string text) {
    ctx.effects.quota_events.push_back({id, of_space, what,
                                        absl::StrCat(QuotaText(id, record), std::move(text)),
                                        record.tree(), after});
  };
  const char* const what = of_space ? " blocks" : " files";
  if (before.over_since == 0 && after.over_since != 0) {
    note(Event::What::kOverSoft, absl::StrCat(" is above its soft limit of ", after.soft, what,
                                              ", for ", after.grace_seconds, " s at most"));
  } else if (before.over_since != 0 && after.over_since == 0) {
    note(Event::What::kBelowSoft,
         absl::StrCat(" is no longer above its soft limit of ", after.soft, what));
  }
  if (after.hard != 0 && before.used < after.hard && after.used >= after.hard) {
    note(Event::What::kAtHard, absl::StrCat(" is at its hard limit of ", after.hard, what));
  }
}

// One record's part of what the operation changes.
absl::Status Charge(OpContext& ctx, const QuotaId& id, const QuotaAmount& amount, bool forced) {
  absl::StatusOr<std::optional<v1::QuotaRecord>> found = FindQuota(ctx.txn, id);
  if (!found.ok()) return found.status();
  if (!found->has_value() && id.kind == QuotaKind::kTree) return absl::OkStatus();
  v1::QuotaRecord record = std::move(*found).value_or(v1::QuotaRecord());
  const std::uint64_t now = NowSeconds(ctx);
  const bool limited = Holds(ctx) && id.IsLimited();
  if (limited && !forced) {
    const Usages usages = UsagesOf(ctx, id, record);
    if (Exceeds(amount.blocks, usages.space, now))
      return Refuse(ctx, id, record, usages.space, true);
    if (Exceeds(amount.files, usages.files, now))
      return Refuse(ctx, id, record, usages.files, false);
  }
  const v1::QuotaStateRecord& state = *ctx.quota.state;
  const v1::QuotaRecord before = record;
  AddUsage(amount, state, now, record);
  if (limited) {
    NoteCrossing(ctx, id, record, true, SpaceOf(before, state, id.kind),
                 SpaceOf(record, state, id.kind));
    NoteCrossing(ctx, id, record, false, FilesOf(before, state, id.kind),
                 FilesOf(record, state, id.kind));
  }
  ctx.txn.Put(schema::QuotaKey(id), record.SerializeAsString());
  return absl::OkStatus();
}

// The tree that a project stands for; 0: none, (any more).
absl::StatusOr<std::uint32_t> LiveTree(Txn& txn, std::uint32_t project) {
  if (project == 0) return project;
  const auto found = FindQuota(txn, {QuotaKind::kTree, project});
  if (!found.ok()) return found.status();
  return found->has_value() ? project : 0;
}

}  // namespace

QuotaOwner OwnerOf(const v1::InodeRecord& record) {
  return {record.uid(), record.gid(), record.project()};
}

absl::StatusOr<std::optional<v1::QuotaRecord>> FindQuota(Txn& txn, const QuotaId& id) {
  const auto stored = txn.GetCounts(schema::QuotaKey(id));
  if (!stored.ok()) return stored.status();
  if (!stored->has_value()) return std::optional<v1::QuotaRecord>();
  v1::QuotaRecord record;
  if (!record.ParseFromString(**stored)) {
    return absl::DataLossError(absl::StrCat("the quota record of ", QuotaText(id, record),
                                            " is damaged; run fsck.reelfs"));
  }
  return std::optional<v1::QuotaRecord>(std::move(record));
}

absl::StatusOr<QuotaRoom> RoomFor(OpContext& ctx, const QuotaOwner& owner) {
  QuotaRoom room;
  if (!Holds(ctx)) return room;
  const std::uint64_t now = NowSeconds(ctx);
  for (const QuotaId& id : owner.ids()) {
    if (!id.IsLimited()) continue;
    const auto record = FindQuota(ctx.txn, id);
    if (!record.ok()) return record.status();
    if (!record->has_value()) continue;
    const Usages usages = UsagesOf(ctx, id, **record);
    room.blocks = std::min(room.blocks, RoomIn(usages.space, now));
    room.blocks_ahead = std::min(room.blocks_ahead, RoomAheadIn(usages.space));
    room.files = std::min(room.files, RoomIn(usages.files, now));
    room.files_ahead = std::min(room.files_ahead, RoomAheadIn(usages.files));
  }
  return room;
}

absl::Status NoQuotaRoom(OpContext& ctx, const QuotaOwner& owner, std::uint64_t blocks) {
  for (const QuotaId& id : owner.ids()) {
    if (!id.IsLimited()) continue;
    const auto record = FindQuota(ctx.txn, id);
    if (!record.ok()) return record.status();
    const bool lacks =
        record->has_value() && RoomIn(UsagesOf(ctx, id, **record).space, NowSeconds(ctx)) < blocks;
    if (lacks) ctx.effects.lacks_quota.push_back(id);
  }
  ctx.effects.lacks_space = true;
  return ErrnoStatus(
      EDQUOT, absl::StrCat("no more blocks for a file of user ", owner.uid, ", group ", owner.gid,
                           " and project ", owner.project,
                           ": a quota ends here; remove files, or raise it by \"reeladm quota "
                           "set\""));
}

absl::Status ChargeQuotas(OpContext& ctx, bool forced) {
  if (ctx.quota.state == nullptr || ctx.quota.state->counted_below() == 0) return absl::OkStatus();
  std::map<QuotaId, QuotaAmount> amounts;
  const auto blocks = [](const Txn::InodeUse& use) {
    return QuotaAmount{.blocks = static_cast<std::int64_t>(use.blocks), .files = 1};
  };
  for (const Txn::UseChange& change : ctx.txn.UseChanges()) {
    // Those above are counted when the count comes there.
    if (change.inode.value() >= ctx.quota.state->counted_below()) continue;
    if (change.before) {
      for (const QuotaId& id : change.before->owner.ids())
        amounts[id].Subtract(blocks(*change.before));
    }
    if (change.after) {
      for (const QuotaId& id : change.after->owner.ids()) amounts[id].Add(blocks(*change.after));
    }
  }
  for (const auto& [id, amount] : amounts) {
    if (amount == QuotaAmount()) continue;
    if (absl::Status charged = Charge(ctx, id, amount, forced); !charged.ok()) return charged;
  }
  return absl::OkStatus();
}

absl::Status AddToQuota(Txn& txn, const v1::QuotaStateRecord& state, const QuotaId& id,
                        const QuotaAmount& amount, std::uint64_t now_seconds) {
  absl::StatusOr<std::optional<v1::QuotaRecord>> found = FindQuota(txn, id);
  if (!found.ok()) return found.status();
  if (!found->has_value() && id.kind == QuotaKind::kTree) return absl::OkStatus();
  v1::QuotaRecord record = std::move(*found).value_or(v1::QuotaRecord());
  AddUsage(amount, state, now_seconds, record);
  txn.Put(schema::QuotaKey(id), record.SerializeAsString());
  return absl::OkStatus();
}

absl::StatusOr<std::uint32_t> FindTree(Txn& txn, std::string_view name) {
  std::optional<std::uint32_t> tree;
  const std::string prefix = schema::QuotaPrefix(QuotaKind::kTree);
  const absl::Status scanned =
      txn.Scan(prefix, prefix, [&](std::string_view key, std::string_view value) {
        const auto parsed = schema::Parse(key);
        v1::QuotaRecord record;
        if (parsed.ok() && record.ParseFromArray(value.data(), static_cast<int>(value.size())) &&
            record.tree() == name) {
          tree = static_cast<std::uint32_t>(parsed->second);
        }
        return !tree.has_value();
      });
  if (!scanned.ok()) return scanned;
  if (tree) return *tree;
  return absl::NotFoundError(absl::StrCat("there is no tree \"", std::string(name), "\""));
}

absl::Status RequireSameTree(OpContext& ctx, std::uint32_t project, std::uint32_t directory) {
  if (project == directory) return absl::OkStatus();
  const auto of_inode = LiveTree(ctx.txn, project);
  if (!of_inode.ok()) return of_inode.status();
  const auto of_directory = LiveTree(ctx.txn, directory);
  if (!of_directory.ok()) return of_directory.status();
  if (*of_inode == *of_directory) return absl::OkStatus();
  return ErrnoStatus(EXDEV, "the directory belongs to another tree: copy instead");
}

}  // namespace reel::mdc
