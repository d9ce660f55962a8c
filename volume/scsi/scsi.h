// The few SCSI commands that ReelFS sends, and what their answers hold (SPC-4, SBC-3). Pure: bytes
// in and out, and every answer is taken for what a stranger sent.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace reel::scsi {

struct Cdb {
  std::array<std::uint8_t, 16> bytes{};
  std::uint8_t size = 0;  // 6, 10 or 16
};

Cdb TestUnitReady();
Cdb Inquiry(std::uint16_t length_bytes);
Cdb InquiryPage(std::uint8_t page, std::uint16_t length_bytes);
Cdb ReadCapacity16(std::uint32_t length_bytes);
Cdb Read16(std::uint64_t block, std::uint32_t blocks);
Cdb Write16(std::uint64_t block, std::uint32_t blocks);
Cdb SynchronizeCache16();  // all of it
Cdb SynchronizeCache10();

// Write Exclusive, Registrants Only: the one type that ReelFS uses.
inline constexpr std::uint8_t kWriteExclusiveRegistrantsOnly = 5;
enum class ReserveIn : std::uint8_t { kReadKeys = 0, kReadReservation = 1 };
enum class ReserveOut : std::uint8_t { kRegister = 0, kReserve = 1, kClear = 3, kPreempt = 4 };
inline constexpr std::uint32_t kReserveOutBytes = 24;
// An answer of keys; what a target with thousands of paths says.
inline constexpr std::size_t kMaxKeysBytes = 65528;
Cdb PersistentReserveIn(ReserveIn action, std::uint16_t length_bytes);
Cdb PersistentReserveOut(ReserveOut action);
std::array<std::byte, kReserveOutBytes> ReserveOutKeys(std::uint64_t key, std::uint64_t action_key);

inline constexpr std::uint8_t kIllegalRequest = 5;        // a sense key
inline constexpr std::uint16_t kInvalidCommand = 0x2000;  // ASC and ASCQ
inline constexpr std::uint16_t kInvalidField = 0x2400;    // in the CDB; a service action, too

inline constexpr std::uint8_t kGood = 0x00;  // statuses
inline constexpr std::uint8_t kCheckCondition = 0x02;
inline constexpr std::uint8_t kReservationConflict = 0x18;
inline constexpr std::uint8_t kTaskAborted = 0x40;

struct Sense {
  std::uint8_t key = 0;
  std::uint16_t code = 0;  // ASC and ASCQ
  bool deferred = false;
};
// Of fixed or descriptor format; NO SENSE, which says nothing, from bytes that are neither.
Sense DecodeSense(std::span<const std::byte> sense);
// "NOT READY, 04/01 (becoming ready)": for messages. The words where they are known.
std::string SenseText(std::uint8_t key, std::uint16_t code);

// What the sense data of a CHECK CONDITION say of the command that got it.
enum class Verdict {
  kDone,     // whole, whatever it took
  kNotYet,   // not executed; the next try may be: something was to be told first
  kNotNow,   // not executed, and will not be for a while
  kAborted,  // over, perhaps done in part
  kRefused,  // final: trying again changes nothing
};
// `deferred`: they tell of an earlier command, which was answered already; this one was not
// executed. In doubt a command counts as one that time mends: callers bound that.
Verdict VerdictOf(std::uint8_t key, std::uint16_t code, bool deferred);

struct Capacity {
  std::uint64_t blocks = 0;
  std::uint32_t block_bytes = 0;
};
// DATA_LOSS from all of these: the answer is too short, or contradicts itself.
absl::StatusOr<Capacity> DecodeCapacity(std::span<const std::byte> answer);

// True for a disk (device type 0) that is there.
absl::StatusOr<bool> DecodeIsDisk(std::span<const std::byte> answer);

struct BlockLimits {  // VPD page 0xB0; 0: the device does not say
  std::uint32_t max_transfer_blocks = 0;
  std::uint32_t optimal_transfer_blocks = 0;
};
absl::StatusOr<BlockLimits> DecodeBlockLimits(std::span<const std::byte> answer);

// The pages of VPD page 0x00.
absl::StatusOr<std::vector<std::uint8_t>> DecodePages(std::span<const std::byte> answer);

// The name of the LUN that is the same on all its paths, from VPD page 0x83: type and value of its
// best designator, as hexadecimal digits. Empty when there is none.
absl::StatusOr<std::string> DecodeDesignator(std::span<const std::byte> answer);
// The serial number of VPD page 0x80, without blanks around it.
absl::StatusOr<std::string> DecodeSerial(std::span<const std::byte> answer);

struct Keys {
  std::uint32_t generation = 0;     // counts the target's changes of registrations
  std::uint64_t length_bytes = 0;   // what a whole answer takes
  std::vector<std::uint64_t> keys;  // one a path: a key stands here as often as it is registered
};
absl::StatusOr<Keys> DecodeKeys(std::span<const std::byte> answer);

struct Holder {
  std::uint64_t key = 0;
  std::uint8_t type = 0;
};
// nullopt: nobody holds a reservation.
absl::StatusOr<std::optional<Holder>> DecodeHolder(std::span<const std::byte> answer);

}  // namespace reel::scsi
