// The file of a dump of the metadata: a head, blocks of records, and an end (docs/format.md).
//
// Each block has a magic, the dump's UUID, its place in the file, and a CRC32C; the end counts
// blocks and records, and has a digest of all checksums before it. So a file that is cut short, or
// pieced together of two, is told from a whole one. Records come family by family, in the order of
// kDumpedFamilies, each in key order. Thread rule: plain values and pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "mdc/metadb/schema.h"
#include "volume/base/env.h"
#include "volume/base/types.h"
#include "volume/base/uuid.h"

namespace reel::mdc {

inline constexpr std::size_t kDumpBlockHeadBytes = 48;
// A writer closes a block at the first size, a reader takes none that is larger than the second.
inline constexpr std::size_t kDumpBlockBytes = 1 << 20;
inline constexpr std::size_t kMaxDumpBlockBytes = 3 << 20;

// What a dump holds. Sessions and their replies are over by the time that it is restored; what is
// free is found out from what is not.
inline constexpr schema::Family kDumpedFamilies[] = {
    schema::Family::kVolume, schema::Family::kInode,  schema::Family::kDirent,
    schema::Family::kCookie, schema::Family::kExtent, schema::Family::kXattr,
    schema::Family::kOrphan, schema::Family::kQuota};

struct DumpHead {
  Uuid dump{};
  Uuid volume{};
  Epoch epoch{};        // in which it was taken
  Sequence sequence{};  // of the volume
  WallTime taken{};
  std::uint32_t lease_ms = 0;  // of the clients
  std::string descriptor{};    // EncodeDescriptor

  friend bool operator==(const DumpHead& a, const DumpHead& b) {
    return EncodedFields(a) == EncodedFields(b);
  }
  static std::string EncodedFields(const DumpHead& head);
};

struct DumpEnd {
  std::uint64_t blocks = 0;  // of records
  std::uint64_t records = 0;
  std::uint32_t digest = 0;  // CRC32C of the checksums of all blocks before it
};

struct DumpBlock {
  enum class Kind : std::uint32_t { kHead = 1, kRecords = 2, kEnd = 3 };
  Kind kind = Kind::kHead;
  Uuid dump{};
  std::uint64_t index = 0;  // in the file; 0 is the head
  std::string payload{};
  std::uint32_t crc = 0;
};

struct DumpRecord {
  std::string_view key;
  std::string_view value;
};

// Of a block whose crc is yet to be filled in; `*crc` gets it.
std::string EncodeDumpBlock(const DumpBlock& block, std::uint32_t* crc);
// How many bytes follow the head of a block. DATA_LOSS: that is none. UNIMPLEMENTED: of a newer
// format. Safe on any bytes, as all below.
absl::StatusOr<std::size_t> DumpPayloadBytes(std::span<const std::byte> head);
// The whole block.
absl::StatusOr<DumpBlock> DecodeDumpBlock(std::span<const std::byte> bytes);

std::string EncodeDumpHead(const DumpHead& head);
absl::StatusOr<DumpHead> DecodeDumpHead(const DumpBlock& block);
std::string EncodeDumpEnd(const DumpEnd& end);
absl::StatusOr<DumpEnd> DecodeDumpEnd(const DumpBlock& block);
void AppendDumpRecord(std::string& payload, std::string_view key, std::string_view value);
// Views into the block's payload.
absl::StatusOr<std::vector<DumpRecord>> DecodeDumpRecords(const DumpBlock& block);
// Where the family stands in a dump; -1: in none.
int DumpOrder(schema::Family family);

}  // namespace reel::mdc
