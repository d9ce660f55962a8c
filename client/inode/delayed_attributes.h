// Attributes of a file that are set here and told to the controller later, with its next commit:
// owner, permissions and times, while the whole file's exclusive token is held.
//
// Whoever looks at the inode on another host waits for the token's recall, and so for that commit:
// what size and time of modification always had holds for these, too. Left out is what would have
// to change something else along: ACLs, capabilities, set-id bits, flags.
// Threads: pure functions.
#pragma once

#include "proto/attributes.pb.h"
#include "volume/base/env.h"

namespace reel::client {

// Whether `set` may be told later, of a file with these attributes.
bool MayBeDelayed(const v1::SetAttr& set, const v1::Attr& attr);

// As it is told: times that are "now" are `now`, and so is ctime, if that moves it on.
v1::SetAttr DelayedPart(const v1::SetAttr& set, const v1::Attr& attr, WallTime now);

// `delayed` becomes what both come to, one after the other.
void MergeDelayed(const v1::SetAttr& later, v1::SetAttr& delayed);

// What stat(2) shows of it.
void ShowDelayed(const v1::SetAttr& delayed, v1::Attr& attr);

}  // namespace reel::client
