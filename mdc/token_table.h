// Who may cache an inode's data: tokens (one per session and inode, whole file) and opens.
//
// A token is shared or exclusive; two sessions never hold one inode exclusive-with-anything. Pure
// policy: inputs are grants, returns and departures, outputs are the recalls to send. The session
// protocol names them in mdc.proto (TokenMode, RecallToken). A second table holds the attribute
// tokens, all of them shared (RecallAttr). Threads: the core thread.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "proto/mdc.pb.h"
#include "volume/types.h"

namespace reel::mdc {

struct Recall {
  SessionId session;
  InodeNumber inode;
  v1::TokenMode mode;  // lower to at most this
};

class TokenTable {
 public:
  v1::TokenMode Held(SessionId session, InodeNumber inode) const;
  // True when every other session holds at most `allowed`.
  bool OthersAtMost(SessionId session, InodeNumber inode, v1::TokenMode allowed) const;
  // The recalls still to be sent so that others come down to `allowed`; each is returned once until
  // it is answered (a stronger one again).
  std::vector<Recall> RecallOthers(SessionId session, InodeNumber inode, v1::TokenMode allowed);
  // True while a recall is out on the session's token: no regrant to it before it has answered, so
  // that a waiting session is not starved.
  bool RecallPending(SessionId session, InodeNumber inode) const;
  // True while a recall is out on anybody's token of the inode: somebody waits for it.
  bool AnyRecallPending(InodeNumber inode) const;
  // All of the session's recalls that are out: sent again when its stream was replaced.
  std::vector<Recall> PendingRecalls(SessionId session) const;

  // REQUIRES: OthersAtMost(session, inode, mode == EXCLUSIVE ? NONE : SHARED). Never lowers.
  void Grant(SessionId session, InodeNumber inode, v1::TokenMode mode);
  // Lowers to at most `mode`; true when that ended a recall or changed anything others may wait
  // for.
  bool Return(SessionId session, InodeNumber inode, v1::TokenMode mode);
  // The inode is gone: nobody holds anything of it.
  void Forget(InodeNumber inode);
  // Everything of the session is gone; the inodes on which others may wait.
  std::vector<InodeNumber> Drop(SessionId session);

  std::uint64_t CountOf(SessionId session) const;

 private:
  struct Holder {
    SessionId session;
    v1::TokenMode mode = v1::TOKEN_NONE;
    bool recalled = false;
    v1::TokenMode recalled_to = v1::TOKEN_NONE;
  };
  absl::flat_hash_map<InodeNumber, std::vector<Holder>> holders_;
  absl::flat_hash_map<SessionId, std::uint64_t> counts_;
};

// How often each session has each inode open.
class OpenTable {
 public:
  void Open(SessionId session, InodeNumber inode, std::uint32_t count = 1);
  // True when that was the last open of the inode by anyone. Unknown opens are ignored.
  bool Close(SessionId session, InodeNumber inode);
  bool IsOpen(InodeNumber inode) const { return total_.contains(inode); }
  std::uint32_t CountOf(SessionId session, InodeNumber inode) const;
  // The inodes that nobody has open any more after the session is gone.
  std::vector<InodeNumber> Drop(SessionId session);
  std::uint64_t CountOf(SessionId session) const;

 private:
  absl::flat_hash_map<SessionId, absl::flat_hash_map<InodeNumber, std::uint32_t>> by_session_;
  absl::flat_hash_map<InodeNumber, std::uint32_t> total_;
};

}  // namespace reel::mdc
