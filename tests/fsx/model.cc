#include "tests/fsx/model.h"

#include <algorithm>
#include <cstdio>

namespace reel::fsx {
namespace {

char PatternByte(std::uint32_t number, std::uint64_t offset) {
  const std::uint64_t mixed = (offset * 0x9e3779b97f4a7c15u + number) * 0xd6e8feb86659fd93u;
  return static_cast<char>(1 + (mixed >> 32) % 255);
}

}  // namespace

std::vector<char> Model::Pattern(std::uint32_t number, std::uint64_t offset, std::size_t length) {
  std::vector<char> data(length);
  for (std::size_t i = 0; i < length; ++i) data[i] = PatternByte(number, offset + i);
  return data;
}

void Model::Write(std::uint32_t number, std::uint64_t offset, std::span<const char> data) {
  if (offset + data.size() > size()) Resize(number, offset + data.size());
  std::copy(data.begin(), data.end(), bytes_.begin() + static_cast<std::ptrdiff_t>(offset));
  std::fill_n(writers_.begin() + static_cast<std::ptrdiff_t>(offset), data.size(), number);
}

void Model::Zero(std::uint32_t number, std::uint64_t offset, std::uint64_t length) {
  const std::uint64_t end = std::min(offset + length, size());
  for (std::uint64_t at = offset; at < end; ++at) {
    bytes_[at] = 0;
    writers_[at] = number;
  }
}

void Model::Resize(std::uint32_t number, std::uint64_t size) {
  bytes_.resize(size, 0);
  writers_.resize(size, number);
}

std::optional<std::string> Model::Compare(std::uint64_t offset, std::span<const char> found) const {
  std::uint64_t wrong = 0, first = 0, last = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i] == bytes_[offset + i]) continue;
    last = offset + i;
    if (wrong++ == 0) first = last;
  }
  if (wrong == 0) return std::nullopt;
  const auto byte_at = [&](std::uint64_t at) {
    return static_cast<unsigned>(static_cast<unsigned char>(found[at - offset]));
  };
  std::string words(300, '\0');
  words.resize(static_cast<std::size_t>(std::snprintf(
      words.data(), words.size(),
      "%llu wrong bytes in [%#llx, %#llx]: first 0x%02x instead of 0x%02x of operation %u",
      static_cast<unsigned long long>(wrong), static_cast<unsigned long long>(first),
      static_cast<unsigned long long>(last), byte_at(first),
      static_cast<unsigned>(static_cast<unsigned char>(bytes_[first])), writers_[first])));
  // Whose byte is it instead?
  for (std::uint32_t number = writers_[first] + 1000; byte_at(first) != 0 && number-- > 1;) {
    std::uint64_t run = 0;
    while (run < 8 && first + run <= last &&
           PatternByte(number, first + run) == found[first + run - offset])
      ++run;
    if (run < std::min<std::uint64_t>(8, last - first + 1)) continue;
    words += " (it is operation " + std::to_string(number) + "'s)";
    break;
  }
  return words;
}

bool Model::AllZero(std::uint64_t from, std::uint64_t to) const {
  const std::uint64_t end = std::min(to, size());
  for (std::uint64_t at = from; at < end; ++at) {
    if (bytes_[at] != 0) return false;
  }
  return true;
}

}  // namespace reel::fsx
