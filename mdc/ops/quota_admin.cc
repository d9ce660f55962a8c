#include "mdc/ops/quota_admin.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "mdc/metadb/schema.h"
#include "mdc/ops/quota.h"

namespace reel::mdc {
namespace {

constexpr int kMaxQuotas = 1000;  // in one reply
constexpr std::size_t kMaxTreeNameBytes = 255;

absl::StatusOr<QuotaKind> ParseKind(std::string_view text) {
  for (const QuotaKind kind : kQuotaKinds) {
    if (text == QuotaKindText(kind)) return kind;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("\"", absl::CHexEscape(std::string(text)),
                   "\" has no quotas; \"user\", \"group\" and \"tree\" have"));
}

absl::Status ValidateTreeName(std::string_view name) {
  const bool valid = !name.empty() && name.size() <= kMaxTreeNameBytes &&
                     std::all_of(name.begin(), name.end(),
                                 [](unsigned char c) { return c > ' ' && c != 0x7f && c != '"'; });
  return valid ? absl::OkStatus()
               : absl::InvalidArgumentError(
                     "a tree's name has 1 to 255 bytes, without spaces and quotation marks");
}

// Whom a request is about.
absl::StatusOr<QuotaId> ParseId(Txn& txn, std::string_view kind_text, std::uint32_t id,
                                std::string_view tree) {
  const auto kind = ParseKind(kind_text);
  if (!kind.ok()) return kind.status();
  if (*kind != QuotaKind::kTree) return QuotaId{*kind, id};
  const auto found = FindTree(txn, tree);
  if (!found.ok()) return found.status();
  return QuotaId{*kind, *found};
}

std::string_view StandingText(QuotaStanding standing) {
  switch (standing) {
    case QuotaStanding::kBelow:
      return "";
    case QuotaStanding::kInGrace:
      return "grace";
    case QuotaStanding::kGraceOver:
      break;
  }
  return "over";
}

v1::QuotaStateRecord::Grace& MutableGrace(v1::QuotaStateRecord& state, QuotaKind kind) {
  switch (kind) {
    case QuotaKind::kUser:
      return *state.mutable_user();
    case QuotaKind::kGroup:
      return *state.mutable_group();
    case QuotaKind::kTree:
      break;
  }
  return *state.mutable_tree();
}

// A limit in bytes allows the whole blocks in it, but one at least: 0 is no limit.
std::uint64_t LimitBlocks(std::uint64_t bytes, std::uint32_t block_bytes) {
  return bytes == 0 ? 0 : std::max<std::uint64_t>(bytes / block_bytes, 1);
}

void SetLimits(const v1::SetQuotasRequest::Limits& limits, std::uint32_t block_bytes,
               v1::QuotaRecord& record) {
  if (limits.has_soft_bytes())
    record.set_soft_blocks(LimitBlocks(limits.soft_bytes(), block_bytes));
  if (limits.has_hard_bytes())
    record.set_hard_blocks(LimitBlocks(limits.hard_bytes(), block_bytes));
  if (limits.has_soft_files()) record.set_soft_files(limits.soft_files());
  if (limits.has_hard_files()) record.set_hard_files(limits.hard_files());
}

absl::Status ValidateLimits(const v1::QuotaRecord& record) {
  const auto crossed = [](std::uint64_t soft, std::uint64_t hard) {
    return soft != 0 && hard != 0 && soft > hard;
  };
  if (!crossed(record.soft_blocks(), record.hard_blocks()) &&
      !crossed(record.soft_files(), record.hard_files())) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError("a soft limit is above the hard one; set both");
}

absl::Status StageLimits(Txn& txn, const v1::SetQuotasRequest::Limits& limits,
                         const QuotaView& view) {
  const auto id = ParseId(txn, limits.kind(), limits.id(), limits.tree());
  if (!id.ok()) return id.status();
  if (!id->IsLimited()) {
    return absl::InvalidArgumentError(
        absl::StrCat(std::string(QuotaKindText(id->kind)), " 0 is root's, and is never limited"));
  }
  auto found = FindQuota(txn, *id);
  if (!found.ok()) return found.status();
  v1::QuotaRecord record = std::move(*found).value_or(v1::QuotaRecord());
  SetLimits(limits, view.block_bytes, record);
  if (absl::Status valid = ValidateLimits(record); !valid.ok()) return valid;
  AddUsage({}, view.state, view.now_seconds, record);
  txn.Put(schema::QuotaKey(*id), record.SerializeAsString());
  return absl::OkStatus();
}

absl::Status SwitchQuotas(std::string_view wanted, v1::QuotaStateRecord& state) {
  if (wanted == "off") {
    state.set_counted_below(0);
    return absl::OkStatus();
  }
  if (wanted != "on") return absl::InvalidArgumentError("quotas are switched \"on\" or \"off\"");
  if (state.counted_below() != 0) return absl::OkStatus();
  state.set_round(state.round() + 1);
  state.set_counted_below(1);
  return absl::OkStatus();
}

absl::Status ChangeTrees(Txn& txn, const v1::SetQuotasRequest& request, v1::QuotaStateRecord& state,
                         v1::SetQuotasReply& reply) {
  if (request.add_tree().empty()) {
    const auto tree = FindTree(txn, request.remove_tree());
    if (!tree.ok()) return tree.status();
    txn.Delete(schema::QuotaKey({QuotaKind::kTree, *tree}));
    return absl::OkStatus();
  }
  if (absl::Status valid = ValidateTreeName(request.add_tree()); !valid.ok()) return valid;
  const auto known = FindTree(txn, request.add_tree());
  if (known.ok())
    return absl::AlreadyExistsError(absl::StrCat("there is a tree \"", request.add_tree(), "\""));
  if (!absl::IsNotFound(known.status())) return known.status();
  v1::QuotaRecord record;
  record.set_round(state.round());
  record.set_tree(request.add_tree());
  state.set_last_tree(state.last_tree() + 1);
  txn.Put(schema::QuotaKey({QuotaKind::kTree, state.last_tree()}), record.SerializeAsString());
  reply.set_tree(state.last_tree());
  return absl::OkStatus();
}

void DescribeQuota(const QuotaId& id, const v1::QuotaRecord& record, const QuotaView& view,
                   v1::QuotasReply::Quota& out) {
  const v1::QuotaStateRecord& state = view.state;
  const std::uint64_t now = view.now_seconds;
  const QuotaUsage space = SpaceOf(record, state, id.kind);
  const QuotaUsage files = FilesOf(record, state, id.kind);
  const std::uint64_t block_bytes = view.block_bytes;
  out.set_id(id.id);
  out.set_tree(record.tree());
  out.set_bytes(space.used * block_bytes);
  out.set_files(files.used);
  out.mutable_limits()->set_soft_bytes(space.soft * block_bytes);
  out.mutable_limits()->set_hard_bytes(space.hard * block_bytes);
  out.mutable_limits()->set_soft_files(files.soft);
  out.mutable_limits()->set_hard_files(files.hard);
  out.set_space_state(std::string(StandingText(StandingOf(space, now))));
  out.set_files_state(std::string(StandingText(StandingOf(files, now))));
  out.set_space_grace_left_seconds(GraceLeft(space, now));
  out.set_files_grace_left_seconds(GraceLeft(files, now));
}

absl::Status ListQuotas(Txn& txn, const v1::QuotasRequest& request, const QuotaView& view,
                        v1::QuotasReply& reply) {
  const auto kind = ParseKind(request.kind());
  if (!kind.ok()) return kind.status();
  absl::Status damage;
  const absl::Status scanned = txn.Scan(
      schema::QuotaPrefix(*kind), schema::QuotaKey({*kind, request.from_id()}),
      [&](std::string_view key_bytes, std::string_view value) {
        if (reply.quotas_size() == kMaxQuotas) {
          reply.set_more(true);
          return false;
        }
        const auto key = schema::Parse(key_bytes);
        v1::QuotaRecord record;
        if (!key.ok() || !record.ParseFromArray(value.data(), static_cast<int>(value.size()))) {
          damage = absl::DataLossError("a quota record is damaged; run fsck.reelfs");
          return false;
        }
        const QuotaId id{*kind, static_cast<std::uint32_t>(key->second)};
        DescribeQuota(id, record, view, *reply.add_quotas());
        return true;
      });
  return damage.ok() ? scanned : damage;
}

}  // namespace

absl::Status StageQuotas(Txn& txn, const v1::SetQuotasRequest& request, const QuotaView& view,
                         v1::QuotaStateRecord& state, v1::SetQuotasReply& reply) {
  if (request.has_limits()) return StageLimits(txn, request.limits(), view);
  if (request.has_grace()) {
    const auto kind = ParseKind(request.grace().kind());
    if (!kind.ok()) return kind.status();
    v1::QuotaStateRecord::Grace& grace = MutableGrace(state, *kind);
    if (request.grace().has_space_seconds())
      grace.set_space_seconds(request.grace().space_seconds());
    if (request.grace().has_files_seconds())
      grace.set_files_seconds(request.grace().files_seconds());
    return absl::OkStatus();
  }
  if (!request.state().empty()) return SwitchQuotas(request.state(), state);
  if (!request.add_tree().empty() || !request.remove_tree().empty())
    return ChangeTrees(txn, request, state, reply);
  return absl::InvalidArgumentError("nothing to set");
}

absl::Status DescribeQuotas(Txn& txn, const v1::QuotasRequest& request, const QuotaView& view,
                            v1::QuotasReply& reply) {
  const std::uint64_t below = view.state.counted_below();
  const bool counting = below != 0 && below != kNoQuotaLimit;
  reply.set_state(below == 0 ? "off" : counting ? "counting" : "on");
  if (counting) reply.set_inodes_counted_below(below);
  for (const QuotaKind kind : kQuotaKinds) {
    v1::QuotasReply::Grace& grace = *reply.add_grace();
    grace.set_kind(std::string(QuotaKindText(kind)));
    grace.set_space_seconds(SpaceOf({}, view.state, kind).grace_seconds);
    grace.set_files_seconds(FilesOf({}, view.state, kind).grace_seconds);
  }
  if (request.kind().empty()) return absl::OkStatus();
  if (!request.one()) return ListQuotas(txn, request, view, reply);
  const auto id = ParseId(txn, request.kind(), request.id(), request.tree());
  if (!id.ok()) return id.status();
  const auto record = FindQuota(txn, *id);
  if (!record.ok()) return record.status();
  DescribeQuota(*id, record->value_or(v1::QuotaRecord()), view, *reply.add_quotas());
  return absl::OkStatus();
}

}  // namespace reel::mdc
