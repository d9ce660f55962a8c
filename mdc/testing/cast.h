// The sessions and files that tests of tables speak of.
#pragma once

#include "volume/base/types.h"

namespace reel::mdc {

inline constexpr SessionId kA{1}, kB{2}, kC{3};
inline constexpr InodeNumber kFile{7}, kOtherFile{8};

}  // namespace reel::mdc
