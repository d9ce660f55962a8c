// What this release speaks. A file of its own, so that tests can build programs that speak
// something else (tests/failing/speak_protocol.cc).
#include "proto/protocol.h"

namespace reel {

ProtocolRange SpokenProtocol() {
  return {.oldest = 1, .newest = 2};
}

}  // namespace reel
