// The keys of the metadata store. Numbers are big-endian, so that byte order is numeric order; the
// first byte names the family. The written description is docs/format.md; records.proto has the
// values.
//
//   V                          volume record
//   I inode                    inode record
//   D dir name                 entry by (folded) name
//   C dir cookie               entry by cookie: the order of readdir
//   E inode file_block         extent
//   X inode name               extended attribute (the value is the raw bytes)
//   F pool block               free run
//   W pool block               freed run that a dump of the metadata still names
//   O inode                    orphan: unlinked, perhaps open
//   S session                  session
//   R session slot             stored reply
//   J job                      work that moves data
//   Q kind id                  usage and limits of a user, group or tree; (0, 0): their state
//   B kind id                  capacity of a LUN set (kind 0), reserved bandwidth (kind 1)
//   K N L G                    reserved: checksums, reference counts, change log, groups of flags
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "mdc/base/quota_id.h"
#include "volume/base/types.h"

namespace reel::mdc::schema {

// The format of the records (VolumeRecord.format): that of a new volume, that of one that has or
// had a directory which folds names, that of one of whose metadata a dump was taken, that of one
// that has or had jobs, that of one that counts or counted usage, that of one of whose LUN sets it
// is or was known what they carry, and that of one that may have small files in its records; each
// may have what those before it have.
inline constexpr std::uint32_t kFormat = 1;
inline constexpr std::uint32_t kFoldingFormat = 2;
inline constexpr std::uint32_t kDumpedFormat = 3;
inline constexpr std::uint32_t kJobsFormat = 4;
inline constexpr std::uint32_t kQuotaFormat = 5;
inline constexpr std::uint32_t kBandwidthFormat = 6;
inline constexpr std::uint32_t kSmallFilesFormat = 7;
inline constexpr std::uint32_t kLastFormat = kSmallFilesFormat;
inline bool IsKnownFormat(std::uint32_t format) {
  return format >= kFormat && format <= kLastFormat;
}

enum class Family : char {
  kVolume = 'V',
  kInode = 'I',
  kDirent = 'D',
  kCookie = 'C',
  kExtent = 'E',
  kXattr = 'X',
  kFree = 'F',
  kWaiting = 'W',
  kOrphan = 'O',
  kSession = 'S',
  kReply = 'R',
  kJob = 'J',
  kQuota = 'Q',
  kBandwidth = 'B',
};

std::string Prefix(Family family);
std::string VolumeKey();
std::string InodeKey(InodeNumber inode);
// `name`: what stands for it there (NameKey, proto/folded_name.h).
std::string DirentKey(InodeNumber directory, std::string_view name);
std::string CookieKey(InodeNumber directory, std::uint64_t cookie);
std::string CookiePrefix(InodeNumber directory);
std::string ExtentKey(InodeNumber inode, FileBlock block);
std::string ExtentPrefix(InodeNumber inode);
std::string XattrKey(InodeNumber inode, std::string_view name);
std::string XattrPrefix(InodeNumber inode);
std::string FreeKey(PoolId pool, PoolBlock block);
std::string FreePrefix(PoolId pool);
std::string WaitingKey(PoolId pool, PoolBlock block);
std::string OrphanKey(InodeNumber inode);
std::string SessionKey(SessionId session);
std::string ReplyKey(SessionId session, std::uint32_t slot);
std::string JobKey(std::uint64_t job);
std::string QuotaKey(const QuotaId& id);
std::string QuotaPrefix(QuotaKind kind);
std::string QuotaStateKey();
// What ParsedKey::first says of a key of that family, and ::second: the set's pool × 2^32 + its
// number; the reservation.
enum class BandwidthKind : std::uint8_t { kCapacity = 0, kReservation = 1 };
std::string CapacityKey(PoolId pool, std::uint32_t stripe_set);
std::string ReservationKey(std::uint64_t reservation);

// A key taken apart. DATA_LOSS for anything that no function above makes: safe on any bytes.
struct ParsedKey {
  Family family = Family::kVolume;
  std::uint64_t first = 0;   // inode, directory, session, pool, kind
  std::uint64_t second = 0;  // cookie, file block, pool block, slot, id
  std::string_view name;     // entry or attribute name; points into the key
};
absl::StatusOr<ParsedKey> Parse(std::string_view key);

}  // namespace reel::mdc::schema
