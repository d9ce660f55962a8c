// What a file must hold after the operations done so far, and who put each byte there.
//
// Every operation writes bytes made from its number and their offset, never zero, so that a wrong
// byte tells where it comes from. Threads: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace reel::fsx {

class Model {
 public:
  std::uint64_t size() const { return bytes_.size(); }
  std::span<const char> bytes() const { return bytes_; }

  // The bytes that operation `number` writes to [offset, offset + length).
  static std::vector<char> Pattern(std::uint32_t number, std::uint64_t offset, std::size_t length);

  void Write(std::uint32_t number, std::uint64_t offset, std::span<const char> data);
  void Zero(std::uint32_t number, std::uint64_t offset, std::uint64_t length);  // within the size
  void Resize(std::uint32_t number, std::uint64_t size);

  // Where `found`, read at `offset`, differs, in words; nullopt when it is right.
  std::optional<std::string> Compare(std::uint64_t offset, std::span<const char> found) const;
  bool AllZero(std::uint64_t from, std::uint64_t to) const;

 private:
  std::vector<char> bytes_;
  std::vector<std::uint32_t> writers_;  // of each byte
};

}  // namespace reel::fsx
