// A 128-bit identifier (RFC 9562, version 4), kept as its 16 bytes.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "volume/base/coding.h"

namespace reel {

struct Uuid {
  std::array<std::uint8_t, 16> bytes{};

  static Uuid Random();
  // The 36-character form; INVALID_ARGUMENT otherwise.
  static absl::StatusOr<Uuid> Parse(std::string_view text);
  // Exactly 16 raw bytes (the wire form); INVALID_ARGUMENT otherwise.
  static absl::StatusOr<Uuid> FromBytes(std::string_view raw);
  std::string ToString() const;
  std::string ToBytes() const { return {reinterpret_cast<const char*>(bytes.data()), 16}; }
  bool is_nil() const { return *this == Uuid{}; }

  friend auto operator<=>(const Uuid&, const Uuid&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const Uuid& u) {
    return H::combine(std::move(h), u.bytes);
  }
};

// Nil where the bytes run out: the reader knows.
inline Uuid GetUuid(ByteReader& reader) {
  return Uuid::FromBytes(reader.Bytes(16)).value_or(Uuid{});
}

}  // namespace reel
