// Quotas, as the core has them in memory: whether usage is counted and how far, and what people
// were told already.
//
// What is stored of it is the record that it was loaded from. Threads: the core thread.
#pragma once

#include <cstdint>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "mdc/base/ids.h"
#include "mdc/base/log_limit.h"
#include "mdc/base/quota_id.h"
#include "mdc/base/quota_notice.h"
#include "mdc/tables/ahead_table.h"
#include "proto/records.pb.h"
#include "volume/base/types.h"

namespace reel::mdc {

class QuotaDesk {
 public:
  static constexpr std::uint64_t kAll = std::numeric_limits<std::uint64_t>::max();

  void Load(v1::QuotaStateRecord state) { state_ = std::move(state); }
  const v1::QuotaStateRecord& state() const { return state_; }
  bool counts() const { return state_.counted_below() != 0; }
  bool counting() const { return counts() && state_.counted_below() != kAll; }

  // After so many looks that missed, the count reads for itself.
  static constexpr std::uint32_t kMaxMisses = 8;
  void Missed() { ++misses_; }
  void Stepped() { misses_ = 0; }
  bool reads_for_itself() const { return misses_ >= kMaxMisses; }

  // Whether people are to be told that a grace time is over: once, until usage has been below.
  bool TellGraceOver(const QuotaId& id, bool of_space) {
    return told_.insert({id, of_space}).second;
  }
  // For whoever looks after quotas; at most so many wait to be taken, what comes then is dropped.
  static constexpr std::size_t kMaxNotices = 64;
  void Notify(QuotaNotice notice) {
    if (notices_.size() < kMaxNotices) notices_.push_back(std::move(notice));
  }
  std::vector<QuotaNotice> TakeNotices() { return std::exchange(notices_, {}); }
  LogLimit& lines() { return lines_; }
  void ForgetGraceOver(const QuotaId& id, bool of_space) { told_.erase({id, of_space}); }

  AheadTable& ahead() { return ahead_; }
  // Of what had blocks ahead: these are asked for, and have not come back.
  std::set<InodeNumber>& recalled() { return recalled_; }
  // The controller itself frees what these have ahead, where no session holds a token any more.
  std::set<InodeNumber>& freeing() { return freeing_; }
  bool ahead_comes() const { return !recalled_.empty() || !freeing_.empty(); }

 private:
  v1::QuotaStateRecord state_;
  std::uint32_t misses_ = 0;
  std::set<std::pair<QuotaId, bool>> told_;
  std::vector<QuotaNotice> notices_;
  LogLimit lines_;
  AheadTable ahead_;
  std::set<InodeNumber> recalled_;
  std::set<InodeNumber> freeing_;
};

}  // namespace reel::mdc
