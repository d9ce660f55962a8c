// Rules about the times of an inode that controller and client share. Pure functions.
#pragma once

#include "proto/types.pb.h"

namespace reel {

bool Later(const v1::Time& a, const v1::Time& b);

// `time`, or if that is not later than `than`, the next moment after it.
v1::Time LaterThan(const v1::Time& than, const v1::Time& time);

// The rule of relatime: whether a read at `now` has to be noted, since the file was changed after
// (or when) it was last known to be read, or since that is a day ago.
bool AtimeDue(const v1::Time& atime, const v1::Time& mtime, const v1::Time& ctime,
              const v1::Time& now);

}  // namespace reel
