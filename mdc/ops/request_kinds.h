// What the core has to know of a request besides how it is carried out.
// Threads: pure functions.
#pragma once

#include <optional>

#include "absl/container/inlined_vector.h"
#include "proto/mdc.pb.h"
#include "volume/base/types.h"

namespace reel::mdc {

// Changes nothing, and may pass what its session has sent before.
bool IsRead(v1::Request::OpCase op);

// Only says that the inode is open here: who has it open knows all that it needs.
bool OnlyRegisters(const v1::Open& open);

// Makes the metadata store larger, and has to wait or is refused when that is nearly full.
bool GrowsStore(const v1::Request& request);

// May make it larger by what is there already: is executed while there is a reserve, and may use
// no more than that (OpContext::store_spent).
bool StretchesStore(const v1::Request& request);

// Completes what was granted before, and may make the store larger: it is never refused for that,
// but waits while the store has no more than it needs to work.
bool CommitsBlocks(const v1::Request& request);

// Whether the request would change the volume, or prepares to: what a read-only export refuses. (A
// token given back is no change; what is committed along with it is.)
bool ChangesVolume(const v1::Request& request);

// The inode whose tokens the reply is about: it must not change places with its recalls.
std::optional<InodeNumber> TokenInode(const v1::Request& request);

// What may be told before it is durable: changes of names and attributes that need nothing of other
// sessions but their caches. (Sizes, and all that is about blocks, are promises of another kind: a
// client acts on them by itself.) Nor what depends on a directory that it does not change:
// another's change of that would not wait for it, and may be done again before it.
bool TellableAtOnce(const v1::Request& request);

// The inodes whose entries or attributes the operation looks at, as far as the request names them.
absl::InlinedVector<InodeNumber, 2> NamedInodes(const v1::Request& request);

}  // namespace reel::mdc
