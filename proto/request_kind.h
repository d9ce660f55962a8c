// The one table of requests: what client and controller have to know of each kind besides how it is
// carried out.
//
// A kind is a row of request_kind.cc; a new one does not compile before it has its row. Some
// answers depend on the request: one allocation takes blocks, another gives them back. Threads:
// pure functions.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/container/inlined_vector.h"
#include "proto/mdc.pb.h"
#include "volume/base/types.h"

namespace reel {

enum RequestFlag : std::uint32_t {
  kPlain = 0,
  kMutation = 1 << 0,   // carries a slot; its reply is stored, for repetitions
  kRead = 1 << 1,       // changes nothing, and may pass what its session has sent before
  kOfSession = 1 << 2,  // about what a session holds: void with it
  kOfStream = 1 << 3,   // means nothing on another stream
  kBrief = 1 << 4,  // without a slot; waits for no other host, and may pass what is not yet sent
  // May be told before it is durable: changes of names and attributes that need nothing of other
  // sessions but their caches. (Sizes, and all that is about blocks, are promises of another kind:
  // a client acts on them by itself.) Nor what depends on a directory that it does not change:
  // another's change of that would not wait for it, and may be done again before it.
  kEarly = 1 << 5,
  // Changes the volume, or prepares to: what a read-only export refuses. (A token given back is no
  // change; what is committed along with it is.)
  kChangesVolume = 1 << 6,
  kChangesSpace = 1 << 7,  // what statfs(2) tells
};

// What a request may do to the size of the metadata store.
enum class StoreUse {
  kNone,       // no more than any change
  kStretches,  // makes it larger by what is there already: is executed while there is a reserve
  kGrows,      // makes it larger: waits, or is refused, when the store is nearly full
  kCommits,    // completes what was granted before: never refused, but waits for room to work in
};

struct RequestKind {
  std::uint32_t flags;  // RequestFlag
  StoreUse store;
  // The inode whose tokens the reply is about: it must not change places with its recalls.
  std::optional<InodeNumber> token_inode;
  // The inodes whose entries or attributes it looks at, as far as the request names them.
  absl::InlinedVector<InodeNumber, 2> looks_at;
};

RequestKind KindOf(const v1::Request& request);

inline bool Is(const v1::Request& request, RequestFlag flag) {
  return (KindOf(request).flags & flag) != 0;
}

// For counters and logs: "layout_get"; "" for what is no kind.
const char* NameOf(v1::Request::OpCase op);

// Only says that the inode is open here: who has it open knows all that it needs.
bool OnlyRegisters(const v1::Open& open);

}  // namespace reel
