// Whose space and files are counted: users, groups and directory trees.
// Threads: values.
#pragma once

#include <array>
#include <compare>
#include <cstdint>

namespace reel::mdc {

enum class QuotaKind : std::uint8_t { kUser = 1, kGroup = 2, kTree = 3 };
inline constexpr QuotaKind kQuotaKinds[] = {QuotaKind::kUser, QuotaKind::kGroup, QuotaKind::kTree};

struct QuotaId {
  QuotaKind kind = QuotaKind::kUser;
  std::uint32_t id = 0;

  // Root, its group, and what is in no tree are counted, but never limited.
  bool IsLimited() const { return id != 0; }
  friend auto operator<=>(const QuotaId&, const QuotaId&) = default;
};

// What an inode's record says of whom it is charged to.
struct QuotaOwner {
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::uint32_t project = 0;

  std::array<QuotaId, 3> ids() const {
    return {QuotaId{QuotaKind::kUser, uid}, QuotaId{QuotaKind::kGroup, gid},
            QuotaId{QuotaKind::kTree, project}};
  }
  friend bool operator==(const QuotaOwner&, const QuotaOwner&) = default;
};

// An amount of both that is counted.
struct QuotaAmount {
  std::int64_t blocks = 0;
  std::int64_t files = 0;

  void Add(const QuotaAmount& more) {
    blocks += more.blocks;
    files += more.files;
  }
  void Subtract(const QuotaAmount& less) {
    blocks -= less.blocks;
    files -= less.files;
  }
  friend bool operator==(const QuotaAmount&, const QuotaAmount&) = default;
};

}  // namespace reel::mdc
