// The 64-bit keys by which a volume's hosts are registered on its LUNs: who a key belongs to can be
// read from it.
//
//   bits 63–48  tag of the volume: of its UUID, never 0
//   bit  47     1: a controller's, 0: a session's
//   controller  bits 46–16 the epoch, bits 15–0 random: one that dies between registering and
//               making its epoch durable leaves a key that its successor does not take
//   session     bits 46–24 the epoch, bits 23–0 a number that counts up within it
// Invariant: within a volume no key is handed out twice, since epochs never repeat. Thread rule:
// plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "volume/base/types.h"
#include "volume/base/uuid.h"

namespace reel {

// So many keys an epoch has for its sessions.
inline constexpr std::uint64_t kMaxSessionKeys = (1 << 24) - 1;

std::uint64_t MakeControllerKey(const Uuid& volume, Epoch epoch, std::uint16_t random);
// REQUIRES: 0 < number <= kMaxSessionKeys.
std::uint64_t MakeSessionKey(const Uuid& volume, Epoch epoch, std::uint64_t number);

struct KeyParts {
  bool controller = false;
  Epoch epoch;  // its low 31 bits (a session's: 23)
};
// nullopt: not a key of this volume.
std::optional<KeyParts> PartsOfKey(const Uuid& volume, std::uint64_t key);

// "0x7f3a800000021c04"
std::string KeyText(std::uint64_t key);

}  // namespace reel
