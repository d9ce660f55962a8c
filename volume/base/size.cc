#include "volume/base/size.h"

#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace reel {
namespace {

constexpr std::string_view kUnits = "KMGTPE";

}  // namespace

absl::StatusOr<std::uint64_t> ParseSize(std::string_view text) {
  const auto bad = [text](std::string_view why) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", absl::CHexEscape(std::string(text.substr(0, 40))), "\" is not a size (",
                     std::string(why), "); write it like 4096, 256KiB or 1GiB"));
  };
  std::string_view rest = text;
  std::uint64_t number = 0;
  if (rest.empty() || !absl::ascii_isdigit(rest[0])) return bad("it does not begin with a number");
  while (!rest.empty() && absl::ascii_isdigit(rest[0])) {
    const std::uint64_t digit = rest[0] - '0';
    if (number > (std::numeric_limits<std::uint64_t>::max() - digit) / 10) return bad("too large");
    number = number * 10 + digit;
    rest.remove_prefix(1);
  }
  if (rest.starts_with(' ')) rest.remove_prefix(1);
  if (rest.empty() || rest == "B") return number;

  const std::size_t unit = kUnits.find(absl::ascii_toupper(rest[0]));
  if (unit == std::string_view::npos) return bad("unknown unit");
  const std::string suffix =
      absl::AsciiStrToLower(absl::string_view(rest.data() + 1, rest.size() - 1));
  if (suffix == "b") return bad("decimal units are not accepted");
  if (!suffix.empty() && suffix != "ib" && suffix != "i") return bad("unknown unit");
  const unsigned shift = 10 * (static_cast<unsigned>(unit) + 1);
  if (number > std::numeric_limits<std::uint64_t>::max() >> shift) return bad("too large");
  return number << shift;
}

std::string FormatSize(std::uint64_t size_bytes) {
  if (size_bytes < 1024) return absl::StrCat(size_bytes, " B");
  unsigned shift = 10;
  std::size_t unit = 0;
  while (unit + 1 < kUnits.size() && size_bytes >> shift >= 1024) {
    shift += 10;
    ++unit;
  }
  const std::uint64_t whole = size_bytes >> shift;
  const std::uint64_t tenth = ((size_bytes >> (shift - 10)) & 1023) * 10 / 1024;
  if (tenth == 0) return absl::StrFormat("%d %ciB", whole, kUnits[unit]);
  return absl::StrFormat("%d.%d %ciB", whole, tenth, kUnits[unit]);
}

}  // namespace reel
