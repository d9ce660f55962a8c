// Usage is what the inodes say; limits stay. What cannot be read of them is dropped.
#include <algorithm>

#include "mdc/check/usage_count.h"
#include "mdc/ops/quota_limits.h"
#include "mdc/repair/repairer_facts.h"

namespace reel::mdc::repairer {
namespace {

constexpr std::uint64_t kStateKind = 0;

// The records of quotas that can be read; the others are dropped.
struct Quotas {
  v1::QuotaStateRecord state;
  bool has_state = false;
  std::map<QuotaId, v1::QuotaRecord> records;
};

Quotas ReadQuotas(State& state) {
  Quotas quotas;
  for (FamilyScan scan(state, schema::Family::kQuota); scan.valid(); scan.Next()) {
    if (scan.key().first == kStateKind) {
      quotas.has_state = scan.Decode(quotas.state);
      continue;
    }
    const QuotaId id{static_cast<QuotaKind>(scan.key().first),
                     static_cast<std::uint32_t>(scan.key().second)};
    v1::QuotaRecord record;
    const bool is_tree = id.kind == QuotaKind::kTree;
    if (scan.Decode(record) && is_tree == !record.tree().empty()) {
      quotas.records.emplace(id, std::move(record));
      continue;
    }
    state.Did("quota-record",
              absl::StrCat("quota of ", std::string(QuotaKindText(id.kind)), " ", id.id),
              "dropped with its limits: it could not be read");
    state.changes.Delete(scan.raw_key());
  }
  return quotas;
}

// Without its state nobody knows what the records count: they are counted anew from the first inode
// on, once quotas are switched on again.
void MendState(State& state, Quotas& quotas) {
  const v1::QuotaStateRecord before = quotas.state;
  std::uint64_t round = 0;
  std::uint32_t last_tree = before.last_tree();
  for (const auto& [id, record] : quotas.records) {
    round = std::max(round, record.round());
    if (id.kind == QuotaKind::kTree) last_tree = std::max(last_tree, id.id);
  }
  if (!quotas.has_state) {
    quotas.state.Clear();
    quotas.state.set_round(round + 1);
    state.Did("quota-state", "state of quotas", "made anew, switched off");
  } else if (last_tree != before.last_tree()) {
    state.Did("quota-tree", "state of quotas", "its last tree is right now");
  } else {
    return;
  }
  quotas.state.set_last_tree(last_tree);
  state.changes.Put(schema::QuotaStateKey(), quotas.state.SerializeAsString());
}

void Recount(State& state, const v1::QuotaStateRecord& quota, const QuotaId& id,
             v1::QuotaRecord record, const QuotaAmount& counted) {
  QuotaAmount missing = counted;
  missing.Subtract(ChargedIn(record, quota.round()));
  if (missing == QuotaAmount()) return;
  AddUsage(missing, quota, static_cast<std::uint64_t>(state.input.now.seconds), record);
  state.Did(
      "quota-usage", absl::StrCat("quota of ", QuotaText(id, record)),
      absl::StrCat("charged with ", counted.blocks, " blocks and ", counted.files, " files now"));
  state.changes.Put(schema::QuotaKey(id), record.SerializeAsString());
}

}  // namespace

absl::Status MendQuotas(State& state) {
  Quotas quotas = ReadQuotas(state);
  if (!quotas.has_state && quotas.records.empty()) return state.changes.Finish();
  MendState(state, quotas);
  if (quotas.state.counted_below() == 0) return state.changes.Finish();
  UsageCount usage(quotas.state.counted_below());
  for (FamilyScan scan(state, schema::Family::kInode); scan.valid(); scan.Next()) {
    v1::InodeRecord record;
    if (scan.Decode(record)) usage.Add(scan.key().first, record);
  }
  for (const auto& [id, record] : quotas.records)
    Recount(state, quotas.state, id, record, usage.Take(id));
  for (const auto& [id, counted] : usage.left()) {
    if (id.kind == QuotaKind::kTree) continue;  // of a tree that was removed
    Recount(state, quotas.state, id, v1::QuotaRecord(), counted);
  }
  return state.changes.Finish();
}

}  // namespace reel::mdc::repairer
