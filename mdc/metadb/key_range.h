// Ranges of keys. Threads: pure functions.
#pragma once

#include <string>
#include <string_view>

namespace reel::mdc {

// The first key after all that begin with `prefix`; empty when there is none.
inline std::string EndOfPrefix(std::string_view prefix) {
  std::string end(prefix);
  while (!end.empty() && static_cast<unsigned char>(end.back()) == 0xff) end.pop_back();
  if (!end.empty()) end.back() = static_cast<char>(static_cast<unsigned char>(end.back()) + 1);
  return end;
}

}  // namespace reel::mdc
