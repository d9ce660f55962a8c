// Who may cache an inode's data: tokens (per session and inode, ranges of blocks) and opens.
//
// A token is shared or exclusive; of no block do two sessions hold exclusive-with-anything. Pure
// policy: inputs are grants, returns and departures, outputs are the recalls to send. The session
// protocol names them in layout.proto (TokenMode, RecallToken). A second table holds the attribute
// tokens, of the whole inode; exclusive are those of directories at most (RecallAttr). Threads: the
// core thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "mdc/tables/session_inodes.h"
#include "proto/token_ranges.h"
#include "proto/types.pb.h"
#include "volume/base/types.h"

namespace reel::mdc {

struct Recall {
  SessionId session;
  InodeNumber inode;
  v1::TokenMode mode;  // lower to at most this
  TokenSpan span;
  std::uint64_t number = 0;  // no two recalls of a table have the same
};

// What a session may hold, some 100 bytes each. Clients keep far below by themselves.
inline constexpr std::uint64_t kMaxTokenRanges = 1 << 20;
inline constexpr std::uint64_t kMaxOpens = 1 << 20;

class TokenTable {
 public:
  // The weakest mode that the session holds in the span; the strongest.
  v1::TokenMode Held(SessionId session, InodeNumber inode,
                     const TokenSpan& span = kWholeFile) const;
  v1::TokenMode Most(SessionId session, InodeNumber inode) const;
  // True when every other session holds at most `allowed` in the span.
  bool OthersAtMost(SessionId session, InodeNumber inode, v1::TokenMode allowed,
                    const TokenSpan& span = kWholeFile) const;
  // The widest span around `span` of which that is true. REQUIRES: OthersAtMost of `span`.
  TokenSpan WidestAround(SessionId session, InodeNumber inode, v1::TokenMode allowed,
                         const TokenSpan& span) const;
  // The recalls still to be sent so that others come down to `allowed` in the span; each is
  // returned once until it is answered (a stronger or wider one again).
  std::vector<Recall> RecallOthers(SessionId session, InodeNumber inode, v1::TokenMode allowed,
                                   const TokenSpan& span = kWholeFile);
  // True while a recall is out on the session's token of blocks in the span: no regrant of them to
  // it before it has answered, so that a waiting session is not starved.
  bool RecallPending(SessionId session, InodeNumber inode,
                     const TokenSpan& span = kWholeFile) const;
  // True while a recall is out on anybody's token of the inode: somebody waits for it.
  bool AnyRecallPending(InodeNumber inode) const;
  // Whether the recall of that number has no answer yet.
  bool IsOut(SessionId session, InodeNumber inode, std::uint64_t number) const;
  // The session's recalls that are out, by inode: sent again when its stream was replaced. Those of
  // `from` and later inodes; those of the inode by which there are `most` end the list.
  std::vector<Recall> PendingRecalls(SessionId session, InodeNumber from = InodeNumber(0),
                                     std::size_t most = SIZE_MAX) const;

  // REQUIRES: OthersAtMost(session, inode, mode == EXCLUSIVE ? NONE : SHARED, span). Never lowers.
  void Grant(SessionId session, InodeNumber inode, v1::TokenMode mode,
             const TokenSpan& span = kWholeFile);
  // Lowers to at most `mode` in the span; true when that ended a recall or changed anything others
  // may wait for.
  bool Return(SessionId session, InodeNumber inode, v1::TokenMode mode,
              const TokenSpan& span = kWholeFile);
  // The inode is gone: nobody holds anything of it.
  void Forget(InodeNumber inode);
  // What the session has of `most` inodes, the lowest ones, is gone; these, on which others may
  // wait.
  std::vector<InodeNumber> Drop(SessionId session, std::size_t most = SIZE_MAX);

  // Whether anything was ever granted exclusively: until then nobody has to ask who holds it so.
  bool AnyExclusive() const { return any_exclusive_; }
  // The lowest inodes of which the session holds something.
  std::vector<InodeNumber> Lowest(SessionId session, std::size_t most) const {
    return inodes_.Lowest(session, most);
  }
  // How many pieces the session holds, of all inodes.
  std::uint64_t CountOf(SessionId session) const;
  // False: it is granted nothing more.
  bool HasRoom(SessionId session) const { return CountOf(session) < kMaxTokenRanges; }
  // Inodes that were looked at for a session as a whole: tests count them.
  std::uint64_t looked_at() const { return looked_at_; }

 private:
  struct Pending {
    TokenSpan span;
    v1::TokenMode mode = v1::TOKEN_NONE;
    std::uint64_t number = 0;
  };
  struct Holder {
    SessionId session;
    TokenRanges held;
    std::vector<Pending> recalled;  // and not yet answered
  };
  const Holder* Find(SessionId session, InodeNumber inode) const;
  void Count(SessionId session, std::size_t before, std::size_t after);

  absl::flat_hash_map<InodeNumber, std::vector<Holder>> holders_;
  absl::flat_hash_map<SessionId, std::uint64_t> counts_;
  SessionInodes inodes_;  // wanted back: something of them
  mutable std::uint64_t looked_at_ = 0;
  bool any_exclusive_ = false;
  std::uint64_t last_recall_ = 0;
};

// Which sessions have which inodes open.
class OpenTable {
 public:
  void Open(SessionId session, InodeNumber inode);
  // True when nobody has it open any more, and this session had. Unknown opens are ignored.
  bool Close(SessionId session, InodeNumber inode);
  bool IsOpen(InodeNumber inode) const { return total_.contains(inode); }
  bool IsOpenBy(SessionId session, InodeNumber inode) const;
  // That session has it open, and no other.
  bool IsOpenByAlone(SessionId session, InodeNumber inode) const {
    const auto sessions = total_.find(inode);
    return sessions != total_.end() && sessions->second == 1 && IsOpenBy(session, inode);
  }
  // The session's opens of `most` inodes, the lowest ones, are gone; those of them that nobody has
  // open any more.
  std::vector<InodeNumber> Drop(SessionId session, std::size_t most = SIZE_MAX);
  // The lowest inodes that the session has open.
  std::vector<InodeNumber> Lowest(SessionId session, std::size_t most) const;
  std::uint64_t CountOf(SessionId session) const;

 private:
  absl::flat_hash_map<SessionId, absl::btree_set<InodeNumber>> by_session_;
  absl::flat_hash_map<InodeNumber, std::uint32_t> total_;  // sessions
};

}  // namespace reel::mdc
