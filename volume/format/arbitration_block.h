// The arbitration block: who holds the seat of a volume's active controller, in 512 bytes at
// kArbitrationOffset of the seat LUN.
//
// It is written by the holder alone, or by who takes the seat from it; what may be concluded from
// it, and when, is the controller's to know (docs/failover.md). Its 512 bytes lie in one sector, so
// no write of it is seen in part. Byte layout: docs/format.md. Thread rule: plain values; the
// functions wait for the LUN.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "volume/base/types.h"
#include "volume/base/uuid.h"
#include "volume/lun/lun.h"

namespace reel {

inline constexpr std::size_t kArbitrationBytes = 512;
inline constexpr std::size_t kMaxSeatHostBytes = 64;
inline constexpr std::size_t kMaxSeatAddressBytes = 255;
inline constexpr std::size_t kMaxSeatProgramBytes = 32;

struct ArbitrationBlock {
  enum class State : std::uint8_t {
    kFree = 0,     // given up in order: nothing of the holder is under way
    kHeld = 1,     // held for seat_ms from each beat on
    kOffered = 2,  // as free, but the last holder would like another one to take it
  };
  State state = State::kFree;
  Uuid volume;
  Epoch epoch;
  std::uint64_t beat = 0;  // grows with every write of one holder
  Uuid holder;             // of the process, new at its start
  Uuid machine;            // whose processes see each other's claims (Lun::ClaimForThisProcess)
  bool claimed = false;    // the holder has that claim: who gets it knows that the holder is dead
  std::uint32_t seat_ms = 0;
  std::string host;     // its name, for people
  std::string address;  // HOST:PORT for clients
  // The protocol versions that the holder speaks (proto/protocol.h), and its release. 0: it did not
  // say, as holders did before version 2.
  std::uint16_t protocol_oldest = 0;
  std::uint16_t protocol_newest = 0;
  std::string program{};
  // What administrators want of the volume, whoever has the seat. A block that says either is of
  // format 2: programs that know nothing of it leave the seat alone.
  bool stopped = false;      // nobody serves it before it is started again
  bool maintenance = false;  // no standby takes it over by itself
  Uuid successor{};          // kOffered: the holder that it is offered to; nil: any

  friend bool operator==(const ArbitrationBlock&, const ArbitrationBlock&) = default;
};

// Exactly kArbitrationBytes. Longer names than fit are cut off.
std::string EncodeArbitration(const ArbitrationBlock& block);
// NOT_FOUND: none was ever written there. DATA_LOSS: damaged. UNIMPLEMENTED: of a newer format.
absl::StatusOr<ArbitrationBlock> DecodeArbitration(std::span<const std::byte> bytes);

// The bytes as they are, or the LUN's own error.
absl::StatusOr<std::string> ReadArbitration(Lun& lun);
// One request to the LUN; whether it was carried out, when it fails, FaultOf may tell.
absl::Status WriteArbitration(Lun& lun, const ArbitrationBlock& block);

// Which processes share claims with this one: the boot of the kernel and the network namespace.
Uuid ThisMachine();

}  // namespace reel
