// The usage that the inodes themselves say, for who holds the records of quotas against it.
// Threads: a value.
#pragma once

#include <cstdint>
#include <map>

#include "mdc/base/quota_id.h"
#include "proto/records.pb.h"

namespace reel::mdc {

class UsageCount {
 public:
  // Counts inodes with numbers below.
  explicit UsageCount(std::uint64_t below) : below_(below) {}

  void Add(std::uint64_t inode, const v1::InodeRecord& record) {
    if (inode >= below_) return;
    const QuotaAmount amount{.blocks = static_cast<std::int64_t>(record.allocated_blocks()),
                             .files = 1};
    const QuotaOwner owner{record.uid(), record.gid(), record.project()};
    for (const QuotaId& id : owner.ids()) amounts_[id].Add(amount);
  }
  void Add(const UsageCount& more) {
    for (const auto& [id, amount] : more.amounts_) amounts_[id].Add(amount);
  }
  // Takes it out: afterwards only those are left that nobody has asked for.
  QuotaAmount Take(const QuotaId& id) {
    const auto found = amounts_.find(id);
    if (found == amounts_.end()) return {};
    const QuotaAmount amount = found->second;
    amounts_.erase(found);
    return amount;
  }
  const std::map<QuotaId, QuotaAmount>& left() const { return amounts_; }

 private:
  std::uint64_t below_;
  std::map<QuotaId, QuotaAmount> amounts_;
};

// What the record has counted in this round.
inline QuotaAmount ChargedIn(const v1::QuotaRecord& record, std::uint64_t round) {
  if (record.round() != round) return {};
  return {.blocks = static_cast<std::int64_t>(record.blocks()),
          .files = static_cast<std::int64_t>(record.files())};
}

}  // namespace reel::mdc
