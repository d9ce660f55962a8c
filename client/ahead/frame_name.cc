#include "client/ahead/frame_name.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace reel::client {
namespace {

constexpr std::size_t kMaxDigits = 18;  // of a number that fits

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

bool IsNumber(std::string_view text) {
  return !text.empty() && text.size() <= kMaxDigits &&
         std::all_of(text.begin(), text.end(), IsDigit);
}

bool HasZerosInFront(std::string_view number) {
  return number.size() > 1 && number.front() == '0';
}

}  // namespace

bool HasDigit(std::string_view name) {
  return std::any_of(name.begin(), name.end(), IsDigit);
}

std::string FramePattern::NameOf(std::uint64_t number) const {
  const std::string text = absl::StrCat(number);
  const std::size_t zeros = digits > text.size() ? digits - text.size() : 0;
  return absl::StrCat(before, std::string(zeros, '0'), text, after);
}

std::optional<std::uint64_t> FramePattern::NumberOf(std::string_view name) {
  if (name.size() <= before.size() + after.size() || !name.starts_with(before) ||
      !name.ends_with(after)) {
    return std::nullopt;
  }
  const std::string_view text =
      name.substr(before.size(), name.size() - before.size() - after.size());
  if (!IsNumber(text)) return std::nullopt;
  const bool zeros = HasZerosInFront(text);
  if ((zeros && text.size() != digits) || (padded && text.size() < digits)) return std::nullopt;
  padded = padded || zeros;
  digits = std::min(digits, text.size());
  std::uint64_t number = 0;
  (void)absl::SimpleAtoi(absl::string_view(text.data(), text.size()), &number);
  return number;
}

std::optional<FramePattern> PatternOf(std::string_view a, std::string_view b) {
  const std::size_t shorter = std::min(a.size(), b.size());
  std::size_t front = 0;
  while (front < shorter && a[front] == b[front]) ++front;
  std::size_t back = 0;
  while (back < shorter - front && a[a.size() - 1 - back] == b[b.size() - 1 - back]) ++back;
  // Digits beside what differs belong to the number.
  while (front > 0 && IsDigit(a[front - 1])) --front;
  while (back > 0 && IsDigit(a[a.size() - back])) --back;
  if (front + back > shorter) return std::nullopt;
  const std::string_view one = a.substr(front, a.size() - front - back);
  const std::string_view other = b.substr(front, b.size() - front - back);
  if (!IsNumber(one) || !IsNumber(other)) return std::nullopt;
  const bool padded = HasZerosInFront(one) || HasZerosInFront(other);
  const std::size_t digits = std::min(one.size(), other.size());
  // Only numbers too large for their zeros may be longer.
  const auto fits = [&](std::string_view text) {
    return text.size() == digits || !HasZerosInFront(text);
  };
  if (padded && (!fits(one) || !fits(other))) return std::nullopt;
  return FramePattern{.before = std::string(a.substr(0, front)),
                      .after = std::string(a.substr(a.size() - back)),
                      .digits = digits,
                      .padded = padded};
}

}  // namespace reel::client
