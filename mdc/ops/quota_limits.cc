#include "mdc/ops/quota_limits.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace reel::mdc {
namespace {

std::uint64_t SecondsOr(std::uint64_t seconds) {
  return seconds == 0 ? kDefaultGraceSeconds : seconds;
}

std::uint64_t Left(std::uint64_t limit, std::uint64_t used) {
  return limit == 0 ? kNoQuotaLimit : limit - std::min(limit, used);
}

std::uint64_t Sum(std::uint64_t counted, std::int64_t more) {
  if (more >= 0) return counted + static_cast<std::uint64_t>(more);
  const std::uint64_t less = std::uint64_t{0} - static_cast<std::uint64_t>(more);
  return counted - std::min(counted, less);
}

}  // namespace

QuotaStanding StandingOf(const QuotaUsage& usage, std::uint64_t now_seconds) {
  if (usage.soft == 0 || usage.over_since == 0) return QuotaStanding::kBelow;
  return GraceLeft(usage, now_seconds) > 0 ? QuotaStanding::kInGrace : QuotaStanding::kGraceOver;
}

std::uint64_t GraceLeft(const QuotaUsage& usage, std::uint64_t now_seconds) {
  if (usage.soft == 0 || usage.over_since == 0) return 0;
  const std::uint64_t end = usage.over_since + usage.grace_seconds;
  return end - std::min(end, now_seconds);
}

std::uint64_t RoomIn(const QuotaUsage& usage, std::uint64_t now_seconds) {
  if (StandingOf(usage, now_seconds) == QuotaStanding::kGraceOver) return 0;
  return Left(usage.hard, usage.used);
}

std::uint64_t RoomAheadIn(const QuotaUsage& usage) {
  return std::min(Left(usage.hard, usage.used), Left(usage.soft, usage.used));
}

std::uint64_t OverSince(const QuotaUsage& usage, std::uint64_t now_seconds) {
  if (usage.soft == 0 || usage.used <= usage.soft) return 0;
  return usage.over_since != 0 ? usage.over_since : std::max<std::uint64_t>(now_seconds, 1);
}

const v1::QuotaStateRecord::Grace& GraceOf(const v1::QuotaStateRecord& state, QuotaKind kind) {
  switch (kind) {
    case QuotaKind::kUser:
      return state.user();
    case QuotaKind::kGroup:
      return state.group();
    case QuotaKind::kTree:
      break;
  }
  return state.tree();
}

QuotaUsage SpaceOf(const v1::QuotaRecord& record, const v1::QuotaStateRecord& state,
                   QuotaKind kind) {
  const bool counted = record.round() == state.round();
  return {.used = counted ? record.blocks() : 0,
          .soft = record.soft_blocks(),
          .hard = record.hard_blocks(),
          .over_since = counted ? record.blocks_over_since() : 0,
          .grace_seconds = SecondsOr(GraceOf(state, kind).space_seconds())};
}

QuotaUsage FilesOf(const v1::QuotaRecord& record, const v1::QuotaStateRecord& state,
                   QuotaKind kind) {
  const bool counted = record.round() == state.round();
  return {.used = counted ? record.files() : 0,
          .soft = record.soft_files(),
          .hard = record.hard_files(),
          .over_since = counted ? record.files_over_since() : 0,
          .grace_seconds = SecondsOr(GraceOf(state, kind).files_seconds())};
}

void NoteLimits(std::uint64_t now_seconds, v1::QuotaRecord& record) {
  const auto since = [&](std::uint64_t used, std::uint64_t soft, std::uint64_t over_since) {
    return OverSince({.used = used, .soft = soft, .over_since = over_since}, now_seconds);
  };
  record.set_blocks_over_since(
      since(record.blocks(), record.soft_blocks(), record.blocks_over_since()));
  record.set_files_over_since(
      since(record.files(), record.soft_files(), record.files_over_since()));
}

void AddUsage(const QuotaAmount& amount, const v1::QuotaStateRecord& state,
              std::uint64_t now_seconds, v1::QuotaRecord& record) {
  if (record.round() != state.round()) {
    record.set_round(state.round());
    record.clear_blocks();
    record.clear_files();
    record.clear_blocks_over_since();
    record.clear_files_over_since();
  }
  record.set_blocks(Sum(record.blocks(), amount.blocks));
  record.set_files(Sum(record.files(), amount.files));
  NoteLimits(now_seconds, record);
}

std::string_view QuotaKindText(QuotaKind kind) {
  switch (kind) {
    case QuotaKind::kUser:
      return "user";
    case QuotaKind::kGroup:
      return "group";
    case QuotaKind::kTree:
      break;
  }
  return "tree";
}

std::string QuotaText(const QuotaId& id, const v1::QuotaRecord& record) {
  if (id.kind == QuotaKind::kTree) return absl::StrCat("tree \"", record.tree(), "\"");
  return absl::StrCat(std::string(QuotaKindText(id.kind)), " ", id.id);
}

}  // namespace reel::mdc
