// Since when recalls to one session have been out.
//
// It is told of each that goes out, and asks whoever knows whether that is out still. Invariant: in
// order of their times. Threads: the core thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>

#include "absl/functional/function_ref.h"
#include "volume/base/types.h"

namespace reel::mdc {

class RecallClock {
 public:
  enum class Kind : std::uint8_t { kData, kAttributes, kLocks };
  struct Out {
    std::uint64_t since_ms = 0;
    Kind kind = Kind::kData;
    InodeNumber inode;
    std::uint64_t number = 0;  // of the recall: the table's, or the lock token's
  };
  using IsOut = absl::FunctionRef<bool(const Out&)>;

  void Note(const Out& out) { out_.push_back(out); }
  // The one that has been out for longest.
  std::optional<Out> Oldest(IsOut is_out) {
    while (!out_.empty() && !is_out(out_.front())) out_.pop_front();
    // Behind one that nobody answers many others may have been.
    if (out_.size() > most_) {
      std::erase_if(out_, [&](const Out& out) { return !is_out(out); });
      most_ = std::max(kFew, 2 * out_.size());
    }
    if (out_.empty()) return std::nullopt;
    return out_.front();
  }

 private:
  static constexpr std::size_t kFew = 1024;

  std::deque<Out> out_;
  std::size_t most_ = kFew;
};

}  // namespace reel::mdc
