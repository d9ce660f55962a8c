// What a limit allows, as XFS and the Linux quota tools have it: nothing passes the hard limit;
// what is above the soft one may stay there, and grow, until its grace time has run out, and from
// then on may only shrink.
//
// Pure functions of a record, what is charged in memory beside it, and the time. Threads: any.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "mdc/base/quota_id.h"
#include "proto/records.pb.h"

namespace reel::mdc {

inline constexpr std::uint64_t kDefaultGraceSeconds = 7 * 24 * 3600;
inline constexpr std::uint64_t kNoQuotaLimit = std::numeric_limits<std::uint64_t>::max();

// Of space, in blocks, or of files.
struct QuotaUsage {
  std::uint64_t used = 0;
  std::uint64_t soft = 0;        // 0: no limit
  std::uint64_t hard = 0;        // 0: no limit
  std::uint64_t over_since = 0;  // in seconds of 1970; 0: it is not above the soft limit
  std::uint64_t grace_seconds = 0;
};

enum class QuotaStanding { kBelow, kInGrace, kGraceOver };
QuotaStanding StandingOf(const QuotaUsage& usage, std::uint64_t now_seconds);
// Until its grace time has run out; 0: it has, or it is not above its soft limit.
std::uint64_t GraceLeft(const QuotaUsage& usage, std::uint64_t now_seconds);
// How much more may be charged.
std::uint64_t RoomIn(const QuotaUsage& usage, std::uint64_t now_seconds);
// The same of what nobody has asked for yet: that puts nobody above a soft limit.
std::uint64_t RoomAheadIn(const QuotaUsage& usage);
// Since when it is above the soft limit, now that `usage.used` has changed.
std::uint64_t OverSince(const QuotaUsage& usage, std::uint64_t now_seconds);

// What was counted in another round of counting is nothing.
QuotaUsage SpaceOf(const v1::QuotaRecord& record, const v1::QuotaStateRecord& state,
                   QuotaKind kind);
QuotaUsage FilesOf(const v1::QuotaRecord& record, const v1::QuotaStateRecord& state,
                   QuotaKind kind);
// Adds `amount`, which may be negative, to what the record counts in this round, and notes since
// when that is above the soft limits. Below nothing, which only damage asks for, is nothing.
void AddUsage(const QuotaAmount& amount, const v1::QuotaStateRecord& state,
              std::uint64_t now_seconds, v1::QuotaRecord& record);
// The limits have changed.
void NoteLimits(std::uint64_t now_seconds, v1::QuotaRecord& record);

const v1::QuotaStateRecord::Grace& GraceOf(const v1::QuotaStateRecord& state, QuotaKind kind);

// "user", "group", "tree".
std::string_view QuotaKindText(QuotaKind kind);
// "user 1000", "tree \"scans\"".
std::string QuotaText(const QuotaId& id, const v1::QuotaRecord& record);

}  // namespace reel::mdc
