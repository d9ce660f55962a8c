#include "volume/format/reservation_key.h"

#include "absl/strings/str_cat.h"
#include "volume/base/check.h"

namespace reel {
namespace {

constexpr int kTagShift = 48;
constexpr std::uint64_t kControllerBit = std::uint64_t{1} << 47;
constexpr int kControllerEpochShift = 16;
constexpr std::uint64_t kControllerEpochMask = (std::uint64_t{1} << 31) - 1;
constexpr int kSessionEpochShift = 24;
constexpr std::uint64_t kSessionEpochMask = (std::uint64_t{1} << 23) - 1;

std::uint64_t Tag(const Uuid& volume) {
  std::uint64_t tag = 0;
  for (std::size_t i = 0; i < volume.bytes.size(); i += 2) {
    tag = (tag * 31 + (std::uint64_t{volume.bytes[i]} << 8 | volume.bytes[i + 1])) & 0xffff;
  }
  return tag == 0 ? 1 : tag;
}

}  // namespace

std::uint64_t MakeControllerKey(const Uuid& volume, Epoch epoch, std::uint16_t random) {
  return Tag(volume) << kTagShift | kControllerBit |
         (epoch.value() & kControllerEpochMask) << kControllerEpochShift | random;
}

std::uint64_t MakeSessionKey(const Uuid& volume, Epoch epoch, std::uint64_t number) {
  REEL_CHECK(number > 0 && number <= kMaxSessionKeys, "the epoch has keys left");
  return Tag(volume) << kTagShift | (epoch.value() & kSessionEpochMask) << kSessionEpochShift |
         number;
}

std::optional<KeyParts> PartsOfKey(const Uuid& volume, std::uint64_t key) {
  if (key >> kTagShift != Tag(volume)) return std::nullopt;
  const bool controller = (key & kControllerBit) != 0;
  const std::uint64_t epoch = controller ? key >> kControllerEpochShift & kControllerEpochMask
                                         : key >> kSessionEpochShift & kSessionEpochMask;
  return KeyParts{.controller = controller, .epoch = Epoch(epoch)};
}

std::string KeyText(std::uint64_t key) {
  return absl::StrCat("0x", absl::Hex(key, absl::kZeroPad16));
}

}  // namespace reel
