// What an operation is: a function of a request, the transaction and the controller's tables to a
// reply.
//
// The core runs it; the operation neither waits nor does I/O. It may end in five ways:
//   - OK: the core applies the transaction's batch (with the stored reply, for a mutation), runs
//   the
//     on-commit actions, and sends the reply when all that it saw is durable;
//   - an errno status: nothing is applied, staged changes and allocations are dropped;
//   - missed (txn.missed()): run again when fetched;
//   - waiting for a lock (ctx.waits_for_lock): run again when one of the inode has become weaker;
//   - blocked (ctx.blocked): recalls go out, and it runs again when the inode's tokens have
//   changed. An operation that changes inodes is blocked by the core, too, while another session
//   holds the attribute token of one of them.
// So an operation may run several times: memory tables change only in on-commit actions, and what
// the allocator hands out is given back when the operation does not commit. Threads: the core
// thread.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "mdc/txn.h"
#include "proto/mdc.pb.h"
#include "proto/token_ranges.h"
#include "volume/descriptor.h"
#include "volume/env.h"

namespace reel::mdc {

class Allocator;
class InodeNumbers;
class LockTable;
class OpenTable;
class TokenTable;

struct OpContext {
  Txn& txn;
  SessionId session;
  const v1::Credentials& credentials;
  WallTime now;
  Sequence next_sequence;  // what this operation's commit will be at least
  const VolumeDescriptor& descriptor;
  InodeNumbers& inode_numbers;
  Allocator& allocator;
  TokenTable& tokens;
  TokenTable& attr_tokens;  // shared ones only: who caches attributes, and a directory's names
  OpenTable& opens;
  LockTable& locks;

  // Set when other sessions' tokens stand in the way.
  std::optional<InodeNumber> blocked{};
  v1::TokenMode blocked_at_most = v1::TOKEN_NONE;  // what the others have to come down to …
  TokenSpan blocked_span{};                        // … in these blocks
  bool blocked_by_attr = false;                    // it is attribute tokens that they hold
  // Set when another owner's advisory lock is in the way, and the request is to wait for it.
  bool waits_for_lock = false;
  // Others stand in line for tokens of the inode that the request is about.
  bool others_wait = false;
  // Inodes that the reply tells about, so that the session may cache them; the core decides.
  std::vector<InodeNumber> described{};
  // Inodes whose writer, who has closed them, is to let others look: soon somebody will ask.
  std::vector<InodeNumber> soon_wanted{};
  // What changes is an access time alone: those who cache the inode need not forget it.
  bool lazily_seen = false;
  // Inodes that this operation put on the orphan list: ReapOrphan is due once it has committed.
  std::vector<InodeNumber> orphans{};
  std::vector<std::function<void()>> on_commit{};

  // Returns OK when no session but this one holds more than `allowed` of the inode's blocks in the
  // span; otherwise notes the recall, marks the operation blocked and returns an error to
  // propagate.
  absl::Status RequireOthersAtMost(InodeNumber inode, v1::TokenMode allowed,
                                   const TokenSpan& span = kWholeFile);
  // Blocks the operation until the span's tokens have changed; an error to propagate.
  absl::Status Block(InodeNumber inode, v1::TokenMode others_at_most, const TokenSpan& span);
  // The same for attribute tokens, of which others may hold none.
  absl::Status RequireUncached(InodeNumber inode);
};

// Hands out inode numbers from durable ranges: a crash loses the rest of a range, never a number
// twice.
class InodeNumbers {
 public:
  static constexpr std::uint64_t kRange = 4096;
  explicit InodeNumbers(std::uint64_t next) : next_(next), limit_(next) {}
  // Takes a number and counts it in VolumeRecord.inodes; stages a larger VolumeRecord.next_inode
  // when the range is used up. A number taken by an operation that does not commit is simply
  // skipped.
  absl::StatusOr<InodeNumber> Take(Txn& txn);

 private:
  std::uint64_t next_;
  std::uint64_t limit_;  // the VolumeRecord.next_inode last seen: what a committed range covers
};

// One family of operations: mdc/ops/*.h declare functions of this type.
using Operation = absl::Status (*)(OpContext& ctx, const v1::Request& request, v1::Reply& reply);

struct OperationEntry {
  Operation run = nullptr;
  bool mutation = false;  // carries a slot; its reply is stored
  const char* name = "";  // for counters and logs: "create"
};
// The table of all operations but the session ones; run == nullptr for those.
const OperationEntry& OperationFor(v1::Request::OpCase op);

}  // namespace reel::mdc
