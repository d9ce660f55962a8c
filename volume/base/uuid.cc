#include "volume/base/uuid.h"

#include <algorithm>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "volume/base/env.h"

namespace reel {
namespace {

bool IsHyphenPlace(std::size_t i) {
  return i == 8 || i == 13 || i == 18 || i == 23;
}

}  // namespace

Uuid Uuid::Random() {
  Uuid uuid;
  const std::uint64_t halves[2] = {RandomU64(), RandomU64()};
  std::memcpy(uuid.bytes.data(), halves, sizeof(halves));
  uuid.bytes[6] = static_cast<std::uint8_t>((uuid.bytes[6] & 0x0f) | 0x40);  // version 4
  uuid.bytes[8] = static_cast<std::uint8_t>((uuid.bytes[8] & 0x3f) | 0x80);  // RFC 9562 variant
  return uuid;
}

absl::StatusOr<Uuid> Uuid::Parse(std::string_view text) {
  const auto malformed = [&] {
    return absl::InvalidArgumentError(
        absl::StrCat("'", absl::CHexEscape(std::string(text.substr(0, 64))),
                     "' is not a UUID: write it as xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"));
  };
  if (text.size() != 36) return malformed();
  std::string digits;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (IsHyphenPlace(i)) {
      if (text[i] != '-') return malformed();
    } else {
      if (!absl::ascii_isxdigit(static_cast<unsigned char>(text[i]))) return malformed();
      digits.push_back(text[i]);
    }
  }
  return FromBytes(absl::HexStringToBytes(digits));
}

absl::StatusOr<Uuid> Uuid::FromBytes(std::string_view raw) {
  if (raw.size() != 16) {
    return absl::InvalidArgumentError(
        absl::StrCat("a UUID has 16 bytes, but ", raw.size(), " were given"));
  }
  Uuid uuid;
  std::ranges::copy(raw, uuid.bytes.begin());
  return uuid;
}

std::string Uuid::ToString() const {
  std::string text = absl::BytesToHexString(ToBytes());
  for (const std::size_t place : {8, 13, 18, 23}) text.insert(place, 1, '-');
  return text;
}

}  // namespace reel
