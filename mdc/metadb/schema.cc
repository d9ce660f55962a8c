#include "mdc/metadb/schema.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace reel::mdc::schema {
namespace {

constexpr std::size_t kMaxNameBytes = 255;

std::string Key(Family family, std::size_t more_bytes) {
  std::string key;
  key.reserve(1 + more_bytes);
  key.push_back(static_cast<char>(family));
  return key;
}

void AppendU64(std::string& key, std::uint64_t number) {
  char bytes[8];
  for (int i = 7; i >= 0; --i) {
    bytes[i] = static_cast<char>(number & 0xff);
    number >>= 8;
  }
  key.append(bytes, sizeof(bytes));
}

void AppendU32(std::string& key, std::uint32_t number) {
  char bytes[4];
  for (int i = 3; i >= 0; --i) {
    bytes[i] = static_cast<char>(number & 0xff);
    number >>= 8;
  }
  key.append(bytes, sizeof(bytes));
}

std::uint64_t ReadNumber(std::string_view bytes) {
  std::uint64_t number = 0;
  for (char c : bytes) number = number << 8 | static_cast<unsigned char>(c);
  return number;
}

std::string OneNumber(Family family, std::uint64_t first) {
  std::string key = Key(family, 8);
  AppendU64(key, first);
  return key;
}

std::string TwoNumbers(Family family, std::uint64_t first, std::uint64_t second) {
  std::string key = Key(family, 16);
  AppendU64(key, first);
  AppendU64(key, second);
  return key;
}

std::string NumberAndName(Family family, std::uint64_t first, std::string_view name) {
  std::string key = Key(family, 8 + name.size());
  AppendU64(key, first);
  key.append(name);
  return key;
}

}  // namespace

std::string Prefix(Family family) {
  return std::string(1, static_cast<char>(family));
}
std::string VolumeKey() {
  return Prefix(Family::kVolume);
}
std::string InodeKey(InodeNumber inode) {
  return OneNumber(Family::kInode, inode.value());
}
std::string DirentKey(InodeNumber directory, std::string_view name) {
  return NumberAndName(Family::kDirent, directory.value(), name);
}
std::string CookieKey(InodeNumber directory, std::uint64_t cookie) {
  return TwoNumbers(Family::kCookie, directory.value(), cookie);
}
std::string CookiePrefix(InodeNumber directory) {
  return OneNumber(Family::kCookie, directory.value());
}
std::string ExtentKey(InodeNumber inode, FileBlock block) {
  return TwoNumbers(Family::kExtent, inode.value(), block.value());
}
std::string ExtentPrefix(InodeNumber inode) {
  return OneNumber(Family::kExtent, inode.value());
}
std::string XattrKey(InodeNumber inode, std::string_view name) {
  return NumberAndName(Family::kXattr, inode.value(), name);
}
std::string XattrPrefix(InodeNumber inode) {
  return OneNumber(Family::kXattr, inode.value());
}
std::string FreeKey(PoolId pool, PoolBlock block) {
  std::string key = FreePrefix(pool);
  AppendU64(key, block.value());
  return key;
}
std::string FreePrefix(PoolId pool) {
  std::string key = Key(Family::kFree, 12);
  AppendU32(key, pool.value());
  return key;
}
std::string WaitingKey(PoolId pool, PoolBlock block) {
  std::string key = Key(Family::kWaiting, 12);
  AppendU32(key, pool.value());
  AppendU64(key, block.value());
  return key;
}
std::string OrphanKey(InodeNumber inode) {
  return OneNumber(Family::kOrphan, inode.value());
}
std::string SessionKey(SessionId session) {
  return OneNumber(Family::kSession, session.value());
}
std::string ReplyKey(SessionId session, std::uint32_t slot) {
  std::string key = Key(Family::kReply, 12);
  AppendU64(key, session.value());
  AppendU32(key, slot);
  return key;
}
std::string JobKey(std::uint64_t job) {
  return OneNumber(Family::kJob, job);
}

std::string QuotaPrefix(QuotaKind kind) {
  return Prefix(Family::kQuota) + static_cast<char>(kind);
}
std::string QuotaKey(const QuotaId& id) {
  std::string key = QuotaPrefix(id.kind);
  AppendU32(key, id.id);
  return key;
}
std::string QuotaStateKey() {
  return QuotaKey({static_cast<QuotaKind>(0), 0});
}

std::string CapacityKey(PoolId pool, std::uint32_t stripe_set) {
  std::string key = Prefix(Family::kBandwidth) + static_cast<char>(BandwidthKind::kCapacity);
  AppendU32(key, pool.value());
  AppendU32(key, stripe_set);
  return key;
}
std::string ReservationKey(std::uint64_t reservation) {
  std::string key = Prefix(Family::kBandwidth) + static_cast<char>(BandwidthKind::kReservation);
  AppendU64(key, reservation);
  return key;
}

absl::StatusOr<ParsedKey> Parse(std::string_view key) {
  const auto bad = [key] {
    return absl::DataLossError(absl::StrCat(
        "metadata key of no known form: ",
        absl::BytesToHexString(absl::string_view(key.data(), key.size()).substr(0, 32)),
        "; run fsck.reelfs"));
  };
  if (key.empty()) return bad();
  ParsedKey parsed;
  parsed.family = static_cast<Family>(key[0]);
  const std::string_view rest = key.substr(1);
  // The widths of the numbers after the family; 0 for absent.
  std::size_t first_bytes = 8, second_bytes = 0;
  bool named = false;
  switch (parsed.family) {
    case Family::kVolume:
      first_bytes = 0;
      break;
    case Family::kInode:
    case Family::kOrphan:
    case Family::kSession:
    case Family::kJob:
      break;
    case Family::kDirent:
    case Family::kXattr:
      named = true;
      break;
    case Family::kCookie:
    case Family::kExtent:
      second_bytes = 8;
      break;
    case Family::kFree:
    case Family::kWaiting:
      first_bytes = 4;
      second_bytes = 8;
      break;
    case Family::kReply:
      second_bytes = 4;
      break;
    case Family::kQuota:
      first_bytes = 1;
      second_bytes = 4;
      break;
    case Family::kBandwidth:
      first_bytes = 1;
      second_bytes = 8;
      break;
    default:
      return bad();
  }
  const std::size_t fixed = first_bytes + second_bytes;
  if (named ? rest.size() <= fixed || rest.size() > fixed + kMaxNameBytes : rest.size() != fixed) {
    return bad();
  }
  parsed.first = ReadNumber(rest.substr(0, first_bytes));
  const auto last_kind = static_cast<std::uint64_t>(QuotaKind::kTree);
  if (parsed.family == Family::kQuota && parsed.first > last_kind) return bad();
  const auto last_bandwidth = static_cast<std::uint64_t>(BandwidthKind::kReservation);
  if (parsed.family == Family::kBandwidth && parsed.first > last_bandwidth) return bad();
  parsed.second = ReadNumber(rest.substr(first_bytes, second_bytes));
  if (named) parsed.name = rest.substr(fixed);
  return parsed;
}

}  // namespace reel::mdc::schema
