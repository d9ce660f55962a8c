// What an operation is: a function of a request, the transaction and the controller's tables to a
// reply.
//
// The core runs it; the operation neither waits nor does I/O. It may end in seven ways:
//   - OK: the core applies the transaction's batch (with the stored reply, for a mutation), runs
//     the on-commit actions, and sends the reply when all that it saw is durable;
//   - an errno status: nothing is applied, staged changes and allocations are dropped;
//   - missed (txn.missed()): run again when fetched;
//   - waiting for a lock (ctx.waits_for_lock): run again when one of the inode has become weaker;
//   - waiting for a lock token (ctx.waits_for_lock_token): run again when that has come back;
//   - unfinished (ctx.unfinished, with OK): what it staged is committed without the reply, and it
//     runs again soon, for its next step (mdc/base/progress.h);
//   - blocked (ctx.blocked.on): recalls go out, and it runs again when the inode's tokens have
//     changed. An operation that changes inodes is blocked by the core, too, while another session
//     holds the attribute token of one of them.
// So an operation may run several times: memory tables change only in on-commit actions, and what
// the allocator hands out is given back when the operation does not commit. Threads: the core
// thread.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "mdc/base/progress.h"
#include "mdc/base/quota_id.h"
#include "mdc/metadb/txn.h"
#include "mdc/ops/quota_limits.h"
#include "proto/mdc.pb.h"
#include "proto/token_ranges.h"
#include "volume/base/env.h"
#include "volume/format/descriptor.h"

namespace reel::mdc {

class Allocator;
class BandwidthBook;
class InodeNumbers;
class LockTable;
class LockTokens;
class OpenTable;
class ReservedInodeTable;
class TokenTable;
struct ReservedInode;

struct OpContext {
  // Who asks.
  struct Caller {
    SessionId session;
    const v1::Credentials& credentials;
  };
  // What was decided before it runs, where it was done in an earlier epoch, or by its session.
  struct Decided {
    const v1::Replay* replay = nullptr;     // what it came out as in an earlier epoch
    const v1::Replay* delegated = nullptr;  // what its session has said that it comes out as
    // Create, delegated or done again: what the file is made of …
    const ReservedInode* reserved = nullptr;
    bool reserved_given = false;  // … which it got
  };
  // How much room the metadata store has.
  struct Store {
    bool full = false;   // nearly: nothing new may lie in it …
    bool spent = false;  // … and it has no more than it needs to work: nothing may make it larger
    // Of files that are being removed: as good as free.
    std::uint64_t removing_blocks = 0;
  };
  // Whether usage is counted, and held to limits (mdc/ops/quota.h). Null: it never was.
  struct Quota {
    const v1::QuotaStateRecord* state = nullptr;
    const ReservedInodeTable* reserved = nullptr;  // what is charged in memory
    std::int64_t now_seconds = 0;                  // whatever `now` is
    BandwidthBook* bandwidth = nullptr;            // what is reserved; changed in on-commit actions
  };
  // Set when other sessions' tokens stand in the way.
  struct Blocked {
    std::optional<InodeNumber> on{};
    v1::TokenMode at_most = v1::TOKEN_NONE;  // what the others have to come down to …
    TokenSpan span{};                        // … in these blocks
    bool by_attr = false;                    // it is attribute tokens that they hold
    bool by_all = false;                     // this session has to come down to it, too
    bool by_removal = false;                 // no tokens: the rest of a truncation
  };
  struct Others {
    bool wait = false;  // they stand in line for tokens of the inode that the request is about
    // It had to wait for them, as they knew what it changes: they may be about to open what it
    // removes.
    bool cached = false;
  };
  // What it has come to, for the core to act on.
  struct Effects {
    // Inodes that the reply tells about, so that the session may cache them; the core decides.
    std::vector<InodeNumber> described{};
    // Inodes whose writer, who has closed them, is to let others look: soon somebody will ask.
    std::vector<InodeNumber> soon_wanted{};
    // Directories for which what was reserved (ReservedInode) is no longer what their files are to
    // be made of: who has its delegation, this session too, is to share it.
    std::vector<InodeNumber> stale_reservations{};
    // Whoever takes the last name of an inode gives its tokens of that back.
    bool lets_go = false;
    // What changes is an access time alone: those who cache the inode need not forget it.
    bool lazily_seen = false;
    // Inodes that it put on the orphan list: ReapOrphan is due once it has committed.
    std::vector<InodeNumber> orphans{};
    std::vector<InodeNumber> late_opens{};  // those of them that others may still open
    // Limits that it crosses, or that stopped it: a line each for people.
    struct QuotaEvent {
      enum class What { kOverSoft, kBelowSoft, kAtHard, kGraceOver };
      QuotaId id;
      bool of_space = false;
      What what = What::kOverSoft;
      std::string text;
      std::string tree{};  // its name, of a tree
      QuotaUsage usage{};  // when it was so; in blocks, of space
    };
    std::vector<QuotaEvent> quota_events{};
    // Whose limits, of space or of files, stopped it.
    std::vector<QuotaId> lacks_quota{};
    bool lacks_space = false;
    // A file that got blocks which may be ahead of what is written, and whom they are charged to.
    std::optional<std::pair<InodeNumber, QuotaOwner>> ahead{};
    std::vector<std::function<void()>> on_commit{};
  };

  Txn& txn;
  Caller caller;
  WallTime now;
  Sequence next_sequence;  // what this operation's commit will be at least
  const VolumeDescriptor& descriptor;
  InodeNumbers& inode_numbers;
  Allocator& allocator;
  TokenTable& tokens;
  TokenTable& attr_tokens;  // who caches attributes, and a directory's names
  OpenTable& opens;
  LockTable& locks;
  LockTokens& lock_tokens;
  Decided decided{};
  Store store{};
  Quota quota{};

  StepSizes steps{};
  // What earlier steps of it have done; an operation that sets `unfinished` says how far it is now.
  Progress progress{};
  bool unfinished = false;
  // Of a rename; they keep what they know also where it ends in another way. Null: none is kept.
  LoopWalks* walks = nullptr;
  // Directories that have got another parent in this epoch.
  std::uint64_t* directory_moves = nullptr;

  Blocked blocked{};
  // Set when another owner's advisory lock is in the way, and the request is to wait for it.
  bool waits_for_lock = false;
  // Set when a session decides about the inode's advisory locks by itself: its token is to be
  // recalled first.
  std::optional<InodeNumber> waits_for_lock_token{};
  Others others{};
  Effects effects{};

  // Returns OK when no session but this one holds more than `allowed` of the inode's blocks in the
  // span; otherwise notes the recall, marks the operation blocked and returns an error to
  // propagate.
  absl::Status RequireOthersAtMost(InodeNumber inode, v1::TokenMode allowed,
                                   const TokenSpan& span = kWholeFile);
  // The same, of this session too: it forgets where the file's bytes lie, and gives back what it
  // has ahead of them. Not of what is done again, which had it.
  absl::Status RequireNoHolder(InodeNumber inode);
  // Blocks the operation until the removal of what a truncation has left is done, which goes on in
  // steps of its own; an error to propagate.
  absl::Status AwaitRemoval(InodeNumber inode);
  // Blocks the operation until the span's tokens have changed; an error to propagate.
  absl::Status Block(InodeNumber inode, v1::TokenMode others_at_most, const TokenSpan& span);
  // The same for attribute tokens, of which others may hold none.
  absl::Status RequireUncached(InodeNumber inode) {
    return RequireAttrAtMost(inode, v1::TOKEN_NONE);
  }
  // The same where they may hold shared ones: nobody changes it before the controller knows.
  absl::Status RequireUndelegated(InodeNumber inode) {
    return RequireAttrAtMost(inode, v1::TOKEN_SHARED);
  }
  // Whether that holds of the inode, and of the directory that a file was made in: whoever changes
  // that one ahead may have taken its name away.
  bool IsUndelegated(InodeNumber inode, const v1::InodeRecord& record) const;
  absl::Status RequireAttrAtMost(InodeNumber inode, v1::TokenMode allowed);
};

// ENOSPC, in words that tell it from a full pool.
absl::Status StoreIsFull();

// The volume's record, of which operations count in `inodes` only; DATA_LOSS.
absl::StatusOr<v1::VolumeRecord> VolumeCounts(Txn& txn);

// Hands out inode numbers from durable ranges: a crash loses the rest of a range, and no number is
// given twice.
class InodeNumbers {
 public:
  static constexpr std::uint64_t kRange = 4096;
  static constexpr std::uint64_t kRangeRest = 256;  // the next range is taken with so many left
  // An epoch may have told of numbers so far beyond what is durable. So the next one begins that
  // far behind it: a client that missed the end of one never means another's file by such a number.
  static constexpr std::uint64_t kMaxLost = std::uint64_t{1} << 20;
  // `next`: VolumeRecord.next_inode; what earlier epochs told of is below it.
  explicit InodeNumbers(std::uint64_t next) : next_(next), limit_(next), given_limit_(next) {}
  // The next number, counted in VolumeRecord.inodes; stages a larger VolumeRecord.next_inode when
  // the range is used up. Taken() follows when the operation commits; at most one in an operation.
  // `given`: one that was given before, to be taken now.
  absl::StatusOr<InodeNumber> Take(Txn& txn, InodeNumber given = InodeNumber());
  // Whether an earlier epoch may have given the number.
  bool MayBeOld(InodeNumber inode) const {
    return inode > kRootInode && inode.value() < given_limit_;
  }
  // A number for a later operation; nullopt where the durable range has few left.
  std::optional<InodeNumber> Reserve();
  std::uint64_t next() const { return next_; }
  void Taken(InodeNumber inode) { next_ = std::max(next_, inode.value() + 1); }

 private:
  std::uint64_t next_;
  std::uint64_t limit_;  // the VolumeRecord.next_inode last seen: what a committed range covers
  const std::uint64_t given_limit_;
};

// One family of operations: mdc/ops/*.h declare functions of this type.
using Operation = absl::Status (*)(OpContext& ctx, const v1::Request& request, v1::Reply& reply);

// The function for each kind of request; nullptr: it is the session's.
Operation OperationFor(v1::Request::OpCase op);

}  // namespace reel::mdc
