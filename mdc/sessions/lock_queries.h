// Queries of administration about locks. A session that holds an inode's lock token alone knows
// what it has locked of it, so a query waits until such tokens are back.
//
// Plain state: the core recalls the tokens, and says when to look. Invariants:
//   1. A query waits for the tokens that sessions held when it began, by number, not for one
//      granted later: else it might never end.
//   2. It waits for kMostMs at most, so a host that hangs does not hold it up.
//   3. Each query is answered exactly once. From Close on none waits.
// Threads: the core thread. An answer may begin a query, or make the core look again.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "mdc/tables/lock_tokens.h"

namespace reel::mdc {

class LockQueries {
 public:
  // Whether all is known that can be, or the controller stops.
  using Then = std::function<void(bool answered)>;
  static constexpr std::uint64_t kMostMs = 1'000;

  explicit LockQueries(const LockTokens& tokens) : tokens_(tokens) {}

  // A query about an inode, or about all. Returns the inodes whose tokens it waits for, which are
  // to be recalled. After Close: none, and then(false) has run.
  std::vector<InodeNumber> Begin(std::optional<InodeNumber> inode, std::uint64_t now_ms, Then then);
  // Answers the queries whose tokens are all back, or whose time is over.
  void Advance(std::uint64_t now_ms);
  // The controller stops: then(false) runs for those that wait, and for whatever begins later.
  void Close();

 private:
  struct Query {
    absl::flat_hash_set<std::uint64_t> tokens;  // by number
    std::uint64_t until_ms = 0;
    Then then;
  };

  const LockTokens& tokens_;
  std::vector<Query> queries_;  // in the order in which they came
  bool closed_ = false;
};

}  // namespace reel::mdc
