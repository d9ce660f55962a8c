// Any bytes as a key of the metadata store: what parses is exactly what the schema makes.
#include <cstddef>
#include <cstdint>
#include <string>

#include "mdc/metadb/schema.h"
#include "volume/base/check.h"

namespace {

namespace schema = reel::mdc::schema;

std::string Make(const schema::ParsedKey& key) {
  const reel::InodeNumber inode(key.first);
  switch (key.family) {
    case schema::Family::kVolume:
      return schema::VolumeKey();
    case schema::Family::kInode:
      return schema::InodeKey(inode);
    case schema::Family::kDirent:
      return schema::DirentKey(inode, key.name);
    case schema::Family::kCookie:
      return schema::CookieKey(inode, key.second);
    case schema::Family::kExtent:
      return schema::ExtentKey(inode, reel::FileBlock(key.second));
    case schema::Family::kXattr:
      return schema::XattrKey(inode, key.name);
    case schema::Family::kFree:
      return schema::FreeKey(reel::PoolId(static_cast<std::uint32_t>(key.first)),
                             reel::PoolBlock(key.second));
    case schema::Family::kWaiting:
      return schema::WaitingKey(reel::PoolId(static_cast<std::uint32_t>(key.first)),
                                reel::PoolBlock(key.second));
    case schema::Family::kOrphan:
      return schema::OrphanKey(inode);
    case schema::Family::kSession:
      return schema::SessionKey(reel::SessionId(key.first));
    case schema::Family::kReply:
      return schema::ReplyKey(reel::SessionId(key.first), static_cast<std::uint32_t>(key.second));
    case schema::Family::kQuota:
      return schema::QuotaKey(
          {static_cast<reel::mdc::QuotaKind>(key.first), static_cast<std::uint32_t>(key.second)});
    case schema::Family::kBandwidth:
      if (key.first == static_cast<std::uint64_t>(schema::BandwidthKind::kReservation))
        return schema::ReservationKey(key.second);
      return schema::CapacityKey(reel::PoolId(static_cast<std::uint32_t>(key.second >> 32)),
                                 static_cast<std::uint32_t>(key.second));
    case schema::Family::kJob:
      return schema::JobKey(key.first);
  }
  return {};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const absl::StatusOr<schema::ParsedKey> key = schema::Parse(text);
  if (key.ok()) REEL_CHECK(Make(*key) == text, "what parses is what the schema makes");
  return 0;
}
