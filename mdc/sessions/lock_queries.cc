#include "mdc/sessions/lock_queries.h"

#include <utility>

namespace reel::mdc {

std::vector<InodeNumber> LockQueries::Begin(std::optional<InodeNumber> inode, std::uint64_t now_ms,
                                            Then then) {
  std::vector<InodeNumber> awaited;
  if (closed_) {
    then(false);
    return awaited;
  }
  Query query;
  query.until_ms = now_ms + kMostMs;
  query.then = std::move(then);
  for (const LockToken& token : tokens_.All()) {
    if (inode && token.inode != *inode) continue;
    query.tokens.insert(token.number);
    awaited.push_back(token.inode);
  }
  queries_.push_back(std::move(query));
  return awaited;
}

void LockQueries::Advance(std::uint64_t now_ms) {
  if (queries_.empty()) return;
  absl::flat_hash_set<std::uint64_t> out;
  for (const LockToken& token : tokens_.All()) out.insert(token.number);
  // Apart from the rest before any is answered: an answer may come back here.
  std::vector<Query> over;
  std::erase_if(queries_, [&](Query& query) {
    absl::erase_if(query.tokens, [&](std::uint64_t number) { return !out.contains(number); });
    if (!query.tokens.empty() && now_ms < query.until_ms) return false;
    over.push_back(std::move(query));
    return true;
  });
  for (const Query& query : over) query.then(true);
}

void LockQueries::Close() {
  closed_ = true;
  for (const Query& query : std::exchange(queries_, {})) query.then(false);
}

}  // namespace reel::mdc
