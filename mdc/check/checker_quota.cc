// Usage against what the inodes say.
#include <utility>

#include "mdc/check/checker_facts.h"
#include "mdc/ops/quota_limits.h"

namespace reel::mdc::checker {
namespace {

constexpr std::uint64_t kStateKind = 0;

std::string AmountText(const QuotaAmount& amount) {
  return absl::StrCat(amount.blocks, " blocks and ", amount.files, " files");
}

void Compare(State& state, const QuotaId& id, const v1::QuotaRecord& record,
             const QuotaAmount& charged, const QuotaAmount& counted) {
  if (charged == counted) return;
  state.report.Add(
      "quota-usage", absl::StrCat("quota of ", QuotaText(id, record)),
      absl::StrCat("it is charged with ", AmountText(charged), ", but has ", AmountText(counted)));
}

}  // namespace

void LoadQuotaState(State& state) {
  FamilyCursor cursor(state.input.view, schema::Family::kQuota, state.report);
  if (!cursor.valid()) return;
  v1::QuotaStateRecord record;
  if (cursor.key().first != kStateKind) {
    state.report.Add("quota-state", "state of quotas", "it is missing");
  } else if (cursor.Decode(record, [] { return "state of quotas"; })) {
    state.usage.emplace(record.counted_below());
    state.quota = std::move(record);
  }
}

void CheckQuotas(State& state) {
  if (!state.quota) return;
  for (FamilyCursor cursor(state.input.view, schema::Family::kQuota, state.report); cursor.valid();
       cursor.Next()) {
    if (cursor.key().first == kStateKind) continue;
    const QuotaId id{static_cast<QuotaKind>(cursor.key().first),
                     static_cast<std::uint32_t>(cursor.key().second)};
    v1::QuotaRecord record;
    const bool decoded = cursor.Decode(record, [&] {
      return absl::StrCat("quota of ", std::string(QuotaKindText(id.kind)), " ", id.id);
    });
    const QuotaAmount counted = state.usage->Take(id);
    if (!decoded) continue;
    if (id.kind == QuotaKind::kTree && (record.tree().empty() || id.id > state.quota->last_tree()))
      state.report.Add("quota-tree", absl::StrCat("tree ", id.id),
                       "it has no valid name or number");
    if (state.quota->counted_below() != 0)
      Compare(state, id, record, ChargedIn(record, state.quota->round()), counted);
  }
  for (const auto& [id, counted] : state.usage->left()) {
    if (id.kind == QuotaKind::kTree) continue;  // of a tree that was removed
    Compare(state, id, v1::QuotaRecord(), QuotaAmount(), counted);
  }
}

}  // namespace reel::mdc::checker
