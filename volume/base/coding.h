// Little-endian coding for everything that lies on a LUN, and its checksum.
//
// Put* append to a string; Load*/Store* work on memory whose bounds the caller knows; ByteReader
// reads bytes that nobody has checked. Thread rule: plain values and pure functions.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace reel {

template <typename T>
inline T LittleEndian(T value) {
  if constexpr (std::endian::native == std::endian::big) {
    T swapped = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      swapped = static_cast<T>(swapped << 8 | ((value >> (8 * i)) & 0xff));
    }
    return swapped;
  } else {
    return value;
  }
}

template <typename T>
inline void StoreLittle(void* to, T value) {
  value = LittleEndian(value);
  std::memcpy(to, &value, sizeof(value));
}
template <typename T>
inline T LoadLittle(const void* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return LittleEndian(value);
}

inline void StoreU16(void* to, std::uint16_t value) {
  StoreLittle(to, value);
}
inline void StoreU32(void* to, std::uint32_t value) {
  StoreLittle(to, value);
}
inline void StoreU64(void* to, std::uint64_t value) {
  StoreLittle(to, value);
}
inline std::uint16_t LoadU16(const void* from) {
  return LoadLittle<std::uint16_t>(from);
}
inline std::uint32_t LoadU32(const void* from) {
  return LoadLittle<std::uint32_t>(from);
}
inline std::uint64_t LoadU64(const void* from) {
  return LoadLittle<std::uint64_t>(from);
}

template <typename T>
inline void PutLittle(std::string& out, T value) {
  value = LittleEndian(value);
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}
inline void PutU8(std::string& out, std::uint8_t value) {
  out.push_back(static_cast<char>(value));
}
inline void PutU16(std::string& out, std::uint16_t value) {
  PutLittle(out, value);
}
inline void PutU32(std::string& out, std::uint32_t value) {
  PutLittle(out, value);
}
inline void PutU64(std::string& out, std::uint64_t value) {
  PutLittle(out, value);
}
// A 16-bit length and the bytes. REQUIRES: shorter than 64 KiB.
void PutString(std::string& out, std::string_view text);

// Reads forward over bytes of unknown worth. The first read past the end makes ok() false for good;
// from then on every read yields zero or nothing. So a decoder may read a whole structure and ask
// once, as long as it bounds every count before it loops.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : rest_(bytes) {}

  std::uint8_t U8() { return Little<std::uint8_t>(); }
  std::uint16_t U16() { return Little<std::uint16_t>(); }
  std::uint32_t U32() { return Little<std::uint32_t>(); }
  std::uint64_t U64() { return Little<std::uint64_t>(); }
  // Views into the bytes that the reader was made of.
  std::string_view Bytes(std::size_t size);
  // What PutString wrote.
  std::string_view String() { return Bytes(U16()); }

  bool ok() const { return ok_; }
  std::size_t remaining() const { return rest_.size(); }

 private:
  template <typename T>
  T Little() {
    const std::string_view raw = Bytes(sizeof(T));
    return raw.size() == sizeof(T) ? LoadLittle<T>(raw.data()) : T{0};
  }
  std::span<const std::byte> rest_;
  bool ok_ = true;
};

inline std::span<const std::byte> AsBytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}
inline std::string_view AsText(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// CRC32C (Castagnoli) as iSCSI has it, by the processor's instruction where there is one.
// ExtendCrc32c(Crc32c(a), b) == Crc32c(a + b).
std::uint32_t ExtendCrc32c(std::uint32_t crc, std::span<const std::byte> bytes);
inline std::uint32_t Crc32c(std::span<const std::byte> bytes) {
  return ExtendCrc32c(0, bytes);
}
// The table version, which the hardware version is tested against.
std::uint32_t ExtendCrc32cPortable(std::uint32_t crc, std::span<const std::byte> bytes);

}  // namespace reel
