#include "volume/base/coding.h"

#include <array>

#include "volume/base/check.h"

namespace reel {
namespace {

constexpr std::uint32_t kPolynomial = 0x82f63b78;  // Castagnoli, bit-reversed

// Four tables: "slicing by four".
constexpr std::array<std::array<std::uint32_t, 256>, 4> MakeTables() {
  std::array<std::array<std::uint32_t, 256>, 4> tables{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    tables[0][i] = crc;
  }
  for (std::uint32_t i = 0; i < 256; ++i) {
    for (std::size_t t = 1; t < 4; ++t) {
      tables[t][i] = (tables[t - 1][i] >> 8) ^ tables[0][tables[t - 1][i] & 0xff];
    }
  }
  return tables;
}
constexpr auto kTables = MakeTables();

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) std::uint32_t ExtendBySse42(std::uint32_t crc,
                                                              std::span<const std::byte> bytes) {
  std::uint64_t state = ~crc;
  const std::byte* p = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= 8; left -= 8, p += 8) {
    state = __builtin_ia32_crc32di(state, LoadU64(p));
  }
  auto state32 = static_cast<std::uint32_t>(state);
  for (; left > 0; --left, ++p) {
    state32 = __builtin_ia32_crc32qi(state32, static_cast<std::uint8_t>(*p));
  }
  return ~state32;
}
#endif

}  // namespace

void PutString(std::string& out, std::string_view text) {
  REEL_CHECK(text.size() <= 0xffff, "a coded string is shorter than 64 KiB");
  PutU16(out, static_cast<std::uint16_t>(text.size()));
  out.append(text);
}

std::string_view ByteReader::Bytes(std::size_t size) {
  if (!ok_ || size > rest_.size()) {
    ok_ = false;
    return {};
  }
  const std::string_view taken = AsText(rest_.first(size));
  rest_ = rest_.subspan(size);
  return taken;
}

std::uint32_t ExtendCrc32cPortable(std::uint32_t crc, std::span<const std::byte> bytes) {
  std::uint32_t state = ~crc;
  const std::byte* p = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= 4; left -= 4, p += 4) {
    state ^= LoadU32(p);
    state = kTables[3][state & 0xff] ^ kTables[2][(state >> 8) & 0xff] ^
            kTables[1][(state >> 16) & 0xff] ^ kTables[0][state >> 24];
  }
  for (; left > 0; --left, ++p) {
    state = (state >> 8) ^ kTables[0][(state ^ static_cast<std::uint8_t>(*p)) & 0xff];
  }
  return ~state;
}

std::uint32_t ExtendCrc32c(std::uint32_t crc, std::span<const std::byte> bytes) {
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2");
  if (has_instruction) return ExtendBySse42(crc, bytes);
#endif
  return ExtendCrc32cPortable(crc, bytes);
}

}  // namespace reel
