#include "proto/protocol.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "proto/session.pb.h"

namespace reel {

std::uint64_t SpokenFeatures(const ProtocolRange& range) {
  constexpr std::uint64_t kAll =
      v1::FEATURE_FAREWELL | v1::FEATURE_EARLY_REPLY | v1::FEATURE_DELAYED_ATTRIBUTES |
      v1::FEATURE_DELEGATION | v1::FEATURE_RECALL_WORK | v1::FEATURE_PING | v1::FEATURE_QUOTA |
      v1::FEATURE_NEW_MAP | v1::FEATURE_BANDWIDTH | v1::FEATURE_LOOK_AHEAD |
      v1::FEATURE_DELEGATED_NAMES | v1::FEATURE_ACCESSED | v1::FEATURE_SMALL_FILES |
      v1::FEATURE_COMMIT_ATTRIBUTES | v1::FEATURE_LISTED_LAYOUTS;
  return range.newest >= 2 ? kAll : 0;
}

ProtocolRange ProtocolOf(std::uint32_t oldest, std::uint32_t newest) {
  if (oldest == 0 || newest < oldest) return {};
  return {oldest, newest};
}

std::string ProtocolText(const ProtocolRange& range) {
  return range.oldest == range.newest ? absl::StrCat(range.oldest)
                                      : absl::StrCat(range.oldest, " to ", range.newest);
}

std::string EncodeProtocol(const ProtocolRange& range) {
  return absl::StrCat(range.oldest, "-", range.newest);
}

ProtocolRange DecodeProtocol(std::string_view text) {
  const std::size_t dash = text.find('-');
  std::uint32_t oldest = 0, newest = 0;
  if (dash == text.npos || !absl::SimpleAtoi(std::string(text.substr(0, dash)), &oldest) ||
      !absl::SimpleAtoi(std::string(text.substr(dash + 1)), &newest)) {
    return {};
  }
  return ProtocolOf(oldest, newest);
}

absl::StatusOr<std::uint32_t> CommonProtocol(const ProtocolSpeaker& a, const ProtocolSpeaker& b) {
  const std::uint32_t newest = std::min(a.range.newest, b.range.newest);
  if (newest >= std::max(a.range.oldest, b.range.oldest)) return newest;
  const ProtocolSpeaker& older = a.range.newest < b.range.newest ? a : b;
  return absl::UnimplementedError(absl::StrCat(
      "no common protocol version: ", a.program, " speaks ", ProtocolText(a.range), ", ", b.program,
      " speaks ", ProtocolText(b.range), "; upgrade ", older.program));
}

}  // namespace reel
