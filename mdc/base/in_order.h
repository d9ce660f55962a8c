// Work that several threads share in numbered parts, and whose results are taken one by one, in the
// order of the parts: what comes out does not depend on how many threads there are.
#pragma once

#include <cstddef>
#include <functional>

namespace reel {

struct InOrderWork {
  std::size_t threads = 1;  // the calling one alone does all of it where that is 1
  std::size_t parts = 0;
  // Does a part. `worker`, below `threads`, is the same for no two calls at a time.
  std::function<void(std::size_t worker, std::size_t part)> work;
  // Takes what `work` has made of a part: one part at a time, in order, on any of the threads.
  std::function<void(std::size_t part)> take;
};

// Returns when all parts are taken. No part begins long before those before it are taken, so few
// results wait at a time.
void RunInOrder(const InOrderWork& order);

}  // namespace reel
