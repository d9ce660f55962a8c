#include "volume/lun/lun_fault.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/cord.h"

namespace reel {
namespace {

constexpr absl::string_view kPayload = "reelfs/lun-fault";

struct Word {
  LunFault fault;
  absl::string_view text;
  absl::StatusCode code;
};
constexpr std::array kWords = {
    Word{LunFault::kUnknown, "unknown", absl::StatusCode::kUnavailable},
    Word{LunFault::kFenced, "fenced", absl::StatusCode::kPermissionDenied},
    Word{LunFault::kAborted, "aborted", absl::StatusCode::kAborted},
    Word{LunFault::kClosed, "closed", absl::StatusCode::kUnavailable},
    Word{LunFault::kBusy, "busy", absl::StatusCode::kUnavailable},
    Word{LunFault::kInDoubt, "in doubt", absl::StatusCode::kUnavailable},
};

// The later, the more it matters. (OK is before all of them.)
constexpr std::array kByWeight = {LunFault::kBusy,   LunFault::kAborted, LunFault::kNone,
                                  LunFault::kClosed, LunFault::kFenced,  LunFault::kInDoubt,
                                  LunFault::kUnknown};

}  // namespace

absl::Status LunFaultStatus(LunFault fault, const std::string& text) {
  for (const Word& word : kWords) {
    if (word.fault != fault) continue;
    absl::Status status(word.code, text);
    status.SetPayload(kPayload, absl::Cord(word.text));
    return status;
  }
  return absl::UnknownError(text);
}

LunFault FaultOf(const absl::Status& status) {
  if (status.ok()) return LunFault::kNone;
  const auto payload = status.GetPayload(kPayload);
  if (!payload.has_value()) return LunFault::kNone;
  for (const Word& word : kWords) {
    if (*payload == word.text) return word.fault;
  }
  return LunFault::kNone;
}

bool IsOutcomeUnknown(const absl::Status& status) {
  const LunFault fault = FaultOf(status);
  return fault == LunFault::kUnknown || fault == LunFault::kInDoubt || fault == LunFault::kAborted;
}

bool IsNotDone(const absl::Status& status) {
  const LunFault fault = FaultOf(status);
  return fault == LunFault::kFenced || fault == LunFault::kClosed || fault == LunFault::kBusy;
}

bool IsWorse(const absl::Status& one, const absl::Status& other) {
  if (one.ok() || other.ok()) return !one.ok();
  const auto weight = [](const absl::Status& status) {
    return std::find(kByWeight.begin(), kByWeight.end(), FaultOf(status));
  };
  return weight(one) > weight(other);
}

absl::Status WithText(const absl::Status& status, const std::string& text) {
  absl::Status changed(status.code(), text);
  status.ForEachPayload([&](absl::string_view type, const absl::Cord& payload) {
    changed.SetPayload(type, payload);
  });
  return changed;
}

}  // namespace reel
