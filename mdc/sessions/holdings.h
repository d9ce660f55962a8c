// What sessions hold of files: tokens of data and of attributes, opens, advisory locks and lock
// tokens, and the operations that wait for locks.
//
// Each table keeps its own invariants; here stands what goes over all of them. Invariants:
//   1. A session that was dropped to the end holds nothing in any table.
//   2. Dropping gives away no more than the turn has room for (Releases), and tells of each inode
//   of
//      which somebody may get more now: once its caller knows it, or as a wake of lock waits.
// Threads: the core thread.
#pragma once

#include <vector>

#include "mdc/base/recall_clock.h"
#include "mdc/sessions/lock_queries.h"
#include "mdc/sessions/lock_waits.h"
#include "mdc/sessions/releases.h"
#include "mdc/tables/lock_table.h"
#include "mdc/tables/lock_tokens.h"
#include "mdc/tables/token_table.h"
#include "proto/admin.pb.h"
#include "volume/base/types.h"

namespace reel::mdc {

struct Holdings {
  // Inodes of which something was given away.
  struct Dropped {
    std::vector<InodeNumber> data;        // tokens
    std::vector<InodeNumber> attributes;  // tokens
    std::vector<InodeNumber> closed;      // nobody has them open any more
    bool all = false;                     // the session holds nothing more
  };

  Holdings() = default;
  Holdings(const Holdings&) = delete;  // waits and queries look into the tables
  Holdings& operator=(const Holdings&) = delete;

  // Gives away what the session holds, as much as this turn may. The waits for its locks are due.
  Dropped Drop(SessionId session, Releases& turn);
  // Whether the recall has not been answered.
  bool IsOut(SessionId session, const RecallClock::Out& out) const;
  void Describe(SessionId session, v1::WhoReply::Session& reply) const;
  // Whether the session has the inode open, or holds a data token of it.
  bool Holds(SessionId session, InodeNumber inode) const {
    return opens.IsOpenBy(session, inode) || tokens.Most(session, inode) != v1::TOKEN_NONE;
  }
  // What the session has open or holds data tokens of: the lowest ones, about `most`.
  std::vector<InodeNumber> InodesOf(SessionId session, std::size_t most) const;

  TokenTable tokens;       // of data
  TokenTable attr_tokens;  // who caches attributes, and a directory's names
  OpenTable opens;
  LockTable locks;
  LockTokens lock_tokens;
  LockWaits lock_waits{locks};
  LockQueries lock_queries{lock_tokens};
};

}  // namespace reel::mdc
