#include "volume/scsi/scsi.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"

namespace reel::scsi {
namespace {

// SCSI is big endian throughout.
template <typename T>
void Store(std::uint8_t* to, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    to[i] = static_cast<std::uint8_t>(value >> (8 * (sizeof(T) - 1 - i)));
  }
}

template <typename T>
T Load(std::span<const std::byte> bytes, std::size_t at) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    value = static_cast<T>(value << 8 | std::to_integer<T>(bytes[at + i]));
  }
  return value;
}

absl::Status Short(const std::string& what, std::span<const std::byte> answer) {
  return absl::DataLossError(
      absl::StrCat("the target's ", what, " cannot be understood (", answer.size(), " bytes)"));
}

// What follows a VPD page's header of four bytes, cut at the page's own length.
absl::StatusOr<std::span<const std::byte>> PageBody(std::span<const std::byte> answer,
                                                    std::uint8_t page) {
  if (answer.size() < 4 || std::to_integer<std::uint8_t>(answer[1]) != page) {
    return Short(absl::StrFormat("VPD page 0x%02x", page), answer);
  }
  return answer.subspan(4,
                        std::min<std::size_t>(answer.size() - 4, Load<std::uint16_t>(answer, 2)));
}

Cdb Transfer(std::uint8_t operation, std::uint64_t block, std::uint32_t blocks) {
  Cdb cdb{.size = 16};
  cdb.bytes[0] = operation;
  Store(&cdb.bytes[2], block);
  Store(&cdb.bytes[10], blocks);
  return cdb;
}

const char* KeyName(std::uint8_t key) {
  constexpr const char* kNames[] = {"NO SENSE",        "RECOVERED ERROR", "NOT READY",
                                    "MEDIUM ERROR",    "HARDWARE ERROR",  "ILLEGAL REQUEST",
                                    "UNIT ATTENTION",  "DATA PROTECT",    "BLANK CHECK",
                                    "VENDOR SPECIFIC", "COPY ABORTED",    "ABORTED COMMAND"};
  return key < std::size(kNames) ? kNames[key] : "SENSE KEY OF ANOTHER KIND";
}

// What LUNs and targets have had to say to ReelFS's commands, or may have.
const char* CodeName(std::uint16_t code) {
  struct Name {
    std::uint16_t code;
    const char* name;
  };
  constexpr Name kNames[] = {
      {0x0401, "becoming ready"},
      {0x040a, "asymmetric access state transition"},
      {0x040b, "port in standby state"},
      {0x040c, "port in unavailable state"},
      {0x0800, "logical unit communication failure"},
      {0x0c00, "write error"},
      {0x1100, "unrecovered read error"},
      {0x2000, "invalid command operation code"},
      {0x2400, "invalid field in CDB"},
      {0x2500, "logical unit not supported"},
      {0x2600, "invalid field in parameter list"},
      {0x2604, "invalid release of persistent reservation"},
      {0x2700, "write protected"},
      {0x2707, "space allocation failed write protect"},
      {0x2900, "power on or reset"},
      {0x2903, "bus device reset function occurred"},
      {0x2a03, "reservations preempted"},
      {0x2a04, "reservations released"},
      {0x2a05, "registrations preempted"},
      {0x3a00, "medium not present"},
      {0x4400, "internal target failure"},
      {0x5502, "insufficient reservation resources"},
      {0x5504, "insufficient registration resources"},
  };
  const auto* known = std::find_if(std::begin(kNames), std::end(kNames),
                                   [&](const Name& name) { return name.code == code; });
  return known == std::end(kNames) ? nullptr : known->name;
}

// Sense keys.
constexpr std::uint8_t kNoSense = 0, kRecovered = 1, kNotReady = 2, kUnitAttention = 6,
                       kAbortedCommand = 11;
constexpr int kAny = -1;

// The first that fits rules; what none fits is refused: MEDIUM ERROR, HARDWARE ERROR, ILLEGAL
// REQUEST, DATA PROTECT (also of a thin LUN without space, 27/07) and whatever else there may be.
struct SenseRule {
  std::uint8_t key;
  int asc, ascq;
  Verdict verdict;
};
constexpr SenseRule kSenseRules[] = {
    {kNoSense, kAny, kAny, Verdict::kAborted},  // it says neither
    {kRecovered, kAny, kAny, Verdict::kDone},
    // NOT READY passes by itself: 04/01 becoming ready, 04/04 to 04/09 at work on itself, 04/0A
    // another controller takes it over (ALUA), 04/0B and 04/0C this port does not serve it just
    // now, 08/xx its array cannot reach it, … But not these:
    {kNotReady, 0x04, 0x02, Verdict::kRefused},  // waits for a START UNIT
    {kNotReady, 0x04, 0x03, Verdict::kRefused},  // waits for somebody's hands
    {kNotReady, 0x04, 0x12, Verdict::kRefused},  // taken offline
    {kNotReady, 0x04, 0x1b, Verdict::kRefused},  // is being sanitized
    {kNotReady, 0x30, kAny, Verdict::kRefused},  // a medium of another kind
    {kNotReady, 0x31, kAny, Verdict::kRefused},  // a medium without a format
    {kNotReady, 0x3a, kAny, Verdict::kRefused},  // no medium
    {kNotReady, kAny, kAny, Verdict::kNotNow},
    // Of a reset, of changed reservations, of changed access states (2A/06), …
    {kUnitAttention, kAny, kAny, Verdict::kNotYet},
    {kAbortedCommand, 0x10, kAny, Verdict::kRefused},  // protection information that does not fit
    {kAbortedCommand, kAny, kAny, Verdict::kAborted},
};

// The better, the higher: what names the LUN itself, whoever looks.
int Rank(std::uint8_t type) {
  switch (type) {
    case 3:  // NAA
      return 4;
    case 2:  // EUI-64
      return 3;
    case 8:  // SCSI name
      return 2;
    case 1:  // T10 vendor
      return 1;
    default:
      return 0;
  }
}

}  // namespace

Cdb TestUnitReady() {
  return {.size = 6};
}

Cdb Inquiry(std::uint16_t length_bytes) {
  Cdb cdb{.size = 6};
  cdb.bytes[0] = 0x12;
  Store(&cdb.bytes[3], length_bytes);
  return cdb;
}

Cdb InquiryPage(std::uint8_t page, std::uint16_t length_bytes) {
  Cdb cdb = Inquiry(length_bytes);
  cdb.bytes[1] = 1;
  cdb.bytes[2] = page;
  return cdb;
}

Cdb ReadCapacity16(std::uint32_t length_bytes) {
  Cdb cdb{.size = 16};
  cdb.bytes[0] = 0x9e;
  cdb.bytes[1] = 0x10;
  Store(&cdb.bytes[10], length_bytes);
  return cdb;
}

Cdb Read16(std::uint64_t block, std::uint32_t blocks) {
  return Transfer(0x88, block, blocks);
}

Cdb Write16(std::uint64_t block, std::uint32_t blocks) {
  return Transfer(0x8a, block, blocks);
}

Cdb SynchronizeCache16() {
  return Transfer(0x91, 0, 0);
}

Cdb SynchronizeCache10() {
  Cdb cdb{.size = 10};
  cdb.bytes[0] = 0x35;
  return cdb;
}

Cdb PersistentReserveIn(ReserveIn action, std::uint16_t length_bytes) {
  Cdb cdb{.size = 10};
  cdb.bytes[0] = 0x5e;
  cdb.bytes[1] = static_cast<std::uint8_t>(action);
  Store(&cdb.bytes[7], length_bytes);
  return cdb;
}

Cdb PersistentReserveOut(ReserveOut action) {
  Cdb cdb{.size = 10};
  cdb.bytes[0] = 0x5f;
  cdb.bytes[1] = static_cast<std::uint8_t>(action);
  cdb.bytes[2] = kWriteExclusiveRegistrantsOnly;  // scope 0: the logical unit
  Store(&cdb.bytes[5], kReserveOutBytes);
  return cdb;
}

std::array<std::byte, kReserveOutBytes> ReserveOutKeys(std::uint64_t key,
                                                       std::uint64_t action_key) {
  std::array<std::byte, kReserveOutBytes> parameters{};
  Store(reinterpret_cast<std::uint8_t*>(parameters.data()), key);
  Store(reinterpret_cast<std::uint8_t*>(parameters.data()) + 8, action_key);
  return parameters;
}

Sense DecodeSense(std::span<const std::byte> sense) {
  const auto at = [&](std::size_t i) {
    return i < sense.size() ? std::to_integer<std::uint8_t>(sense[i]) : std::uint8_t{0};
  };
  const std::uint8_t format = at(0) & 0x7f;
  const bool fixed = format == 0x70 || format == 0x71;
  if (!fixed && format != 0x72 && format != 0x73) return {};
  const std::size_t key = fixed ? 2 : 1;
  const std::size_t code = fixed ? 12 : 2;
  return {.key = static_cast<std::uint8_t>(at(key) & 0x0f),
          .code = static_cast<std::uint16_t>(at(code) << 8 | at(code + 1)),
          .deferred = (format & 1) != 0};
}

std::string SenseText(std::uint8_t key, std::uint16_t code) {
  const char* name = CodeName(code);
  return absl::StrFormat("%s, %02x/%02x%s", KeyName(key), code >> 8, code & 0xff,
                         name == nullptr ? "" : absl::StrCat(" (", name, ")"));
}

Verdict VerdictOf(std::uint8_t key, std::uint16_t code, bool deferred) {
  Verdict verdict = Verdict::kRefused;
  for (const SenseRule& rule : kSenseRules) {
    if (rule.key != key || (rule.asc != kAny && rule.asc != code >> 8) ||
        (rule.ascq != kAny && rule.ascq != (code & 0xff))) {
      continue;
    }
    verdict = rule.verdict;
    break;
  }
  if (!deferred) return verdict;
  // What was acknowledged before and has come to nothing must be told, and not be tried away.
  return verdict == Verdict::kDone ? Verdict::kNotYet : Verdict::kRefused;
}

absl::StatusOr<Capacity> DecodeCapacity(std::span<const std::byte> answer) {
  if (answer.size() < 12) return Short("capacity", answer);
  const auto last = Load<std::uint64_t>(answer, 0);
  const auto block_bytes = Load<std::uint32_t>(answer, 8);
  if (last == ~std::uint64_t{0} || block_bytes == 0) return Short("capacity", answer);
  return Capacity{.blocks = last + 1, .block_bytes = block_bytes};
}

absl::StatusOr<bool> DecodeIsDisk(std::span<const std::byte> answer) {
  if (answer.size() < 5) return Short("INQUIRY data", answer);
  return answer[0] == std::byte{0};  // qualifier 0 (connected), type 0 (block device)
}

absl::StatusOr<BlockLimits> DecodeBlockLimits(std::span<const std::byte> answer) {
  const auto body = PageBody(answer, 0xb0);
  if (!body.ok()) return body.status();
  if (body->size() < 12) return Short("block limits", answer);
  return BlockLimits{.max_transfer_blocks = Load<std::uint32_t>(*body, 4),
                     .optimal_transfer_blocks = Load<std::uint32_t>(*body, 8)};
}

absl::StatusOr<std::vector<std::uint8_t>> DecodePages(std::span<const std::byte> answer) {
  const auto body = PageBody(answer, 0x00);
  if (!body.ok()) return body.status();
  std::vector<std::uint8_t> pages;
  for (const std::byte page : *body) pages.push_back(std::to_integer<std::uint8_t>(page));
  return pages;
}

absl::StatusOr<std::string> DecodeDesignator(std::span<const std::byte> answer) {
  const auto body = PageBody(answer, 0x83);
  if (!body.ok()) return body.status();
  std::string best;
  int best_rank = 0;
  for (std::span<const std::byte> rest = *body; rest.size() >= 4;) {
    const std::size_t length = std::to_integer<std::size_t>(rest[3]);
    if (rest.size() < 4 + length) return Short("designators", answer);
    const auto association = std::to_integer<std::uint8_t>(rest[1] >> 4 & std::byte{3});
    const auto type = std::to_integer<std::uint8_t>(rest[1] & std::byte{0xf});
    if (association == 0 && length > 0 && Rank(type) > best_rank) {
      best_rank = Rank(type);
      const auto value = rest.subspan(4, length);
      best = absl::StrCat(type, ".",
                          absl::BytesToHexString(absl::string_view(
                              reinterpret_cast<const char*>(value.data()), value.size())));
    }
    rest = rest.subspan(4 + length);
  }
  return best;
}

absl::StatusOr<std::string> DecodeSerial(std::span<const std::byte> answer) {
  const auto body = PageBody(answer, 0x80);
  if (!body.ok()) return body.status();
  std::string serial(reinterpret_cast<const char*>(body->data()), body->size());
  std::erase_if(serial, [](unsigned char c) { return !absl::ascii_isprint(c); });
  absl::StripAsciiWhitespace(&serial);
  return serial;
}

absl::StatusOr<Keys> DecodeKeys(std::span<const std::byte> answer) {
  if (answer.size() < 8) return Short("registrations", answer);
  Keys keys{.generation = Load<std::uint32_t>(answer, 0), .length_bytes = 0, .keys = {}};
  const auto listed = Load<std::uint32_t>(answer, 4);
  keys.length_bytes = std::uint64_t{8} + listed;
  const std::size_t end = std::min<std::uint64_t>(answer.size(), keys.length_bytes);
  for (std::size_t at = 8; at + 8 <= end; at += 8) {
    keys.keys.push_back(Load<std::uint64_t>(answer, at));
  }
  return keys;
}

absl::StatusOr<std::optional<Holder>> DecodeHolder(std::span<const std::byte> answer) {
  if (answer.size() < 8) return Short("reservation", answer);
  if (Load<std::uint32_t>(answer, 4) == 0) return std::nullopt;
  if (answer.size() < 24) return Short("reservation", answer);
  return Holder{.key = Load<std::uint64_t>(answer, 8),
                .type = std::to_integer<std::uint8_t>(answer[21] & std::byte{0xf})};
}

}  // namespace reel::scsi
