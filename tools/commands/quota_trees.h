// How a directory, with all that is in it, comes into a tree: by the attribute reelfs.tree of each
// file, on a mount. Threads: any.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace reel::tools {

// `directory` first, so that what is made there meanwhile belongs to the tree too. May be called
// again after it has failed. What lies in another file system there is left out.
absl::Status PutIntoTree(const std::string& tree, const std::string& directory);

}  // namespace reel::tools
