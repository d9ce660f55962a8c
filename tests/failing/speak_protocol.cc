// SpokenProtocol for programs under test: REEL_PROTOCOL ("1-1") says what they speak.
//
// Linked into a program's own objects it takes the place of proto/spoken_protocol.cc. One that
// speaks version 1 alone says what programs said before there were others.
#include <cstdlib>

#include "proto/protocol.h"

namespace reel {

ProtocolRange SpokenProtocol() {
  const char* text = std::getenv("REEL_PROTOCOL");
  return text == nullptr ? ProtocolRange{1, 2} : DecodeProtocol(text);
}

}  // namespace reel
