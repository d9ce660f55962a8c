#include "mdc/backup/dump_format.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "volume/base/coding.h"

namespace reel::mdc {
namespace {

// magic 8 | version 4 | crc 4 | dump 16 | index 8 | kind 4 | payload length 4. The checksum leaves
// its own four bytes out.
constexpr std::string_view kMagic = "REELMETA";
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kCrcPlace = 12;

std::uint32_t BlockCrc(std::span<const std::byte> bytes) {
  return ExtendCrc32c(Crc32c(bytes.first(kCrcPlace)), bytes.subspan(kCrcPlace + 4));
}

absl::Status Damaged(std::uint64_t index, std::string_view what) {
  return absl::DataLossError(
      absl::StrCat("the dump is damaged: block ", index, " ", std::string(what)));
}

}  // namespace

std::string DumpHead::EncodedFields(const DumpHead& head) {
  return EncodeDumpHead(head);
}

std::string EncodeDumpBlock(const DumpBlock& block, std::uint32_t* crc) {
  std::string out(kMagic);
  PutU32(out, kVersion);
  PutU32(out, 0);
  out.append(block.dump.ToBytes());
  PutU64(out, block.index);
  PutU32(out, static_cast<std::uint32_t>(block.kind));
  PutU32(out, static_cast<std::uint32_t>(block.payload.size()));
  out.append(block.payload);
  *crc = BlockCrc(AsBytes(out));
  StoreU32(out.data() + kCrcPlace, *crc);
  return out;
}

absl::StatusOr<std::size_t> DumpPayloadBytes(std::span<const std::byte> head) {
  ByteReader reader(head);
  if (reader.Bytes(kMagic.size()) != kMagic || head.size() < kDumpBlockHeadBytes) {
    return absl::DataLossError("this is no dump of metadata, or it is cut short");
  }
  if (const std::uint32_t version = reader.U32(); version != kVersion) {
    return absl::UnimplementedError(absl::StrCat(
        "the dump has format ", version, ", which this program does not know; use a newer one"));
  }
  const std::size_t payload_bytes = LoadU32(head.data() + kDumpBlockHeadBytes - 4);
  if (payload_bytes > kMaxDumpBlockBytes) {
    return absl::DataLossError("the dump is damaged: a block says that it has no end");
  }
  return payload_bytes;
}

absl::StatusOr<DumpBlock> DecodeDumpBlock(std::span<const std::byte> bytes) {
  const auto payload_bytes = DumpPayloadBytes(bytes);
  if (!payload_bytes.ok()) return payload_bytes.status();
  ByteReader reader(bytes.subspan(kCrcPlace));
  DumpBlock block;
  block.crc = reader.U32();
  block.dump = GetUuid(reader);
  block.index = reader.U64();
  const std::uint32_t kind = reader.U32();
  reader.U32();
  block.payload = std::string(reader.Bytes(*payload_bytes));
  if (!reader.ok() || reader.remaining() != 0) return Damaged(block.index, "is cut short");
  if (block.crc != BlockCrc(bytes)) return Damaged(block.index, "has a wrong checksum");
  if (kind < 1 || kind > 3) return Damaged(block.index, "is of no known kind");
  block.kind = static_cast<DumpBlock::Kind>(kind);
  return block;
}

std::string EncodeDumpHead(const DumpHead& head) {
  std::string out = head.volume.ToBytes();
  PutU64(out, head.epoch.value());
  PutU64(out, head.sequence.value());
  PutU64(out, static_cast<std::uint64_t>(head.taken.seconds));
  PutU32(out, head.taken.nanoseconds);
  PutU32(out, head.lease_ms);
  PutU32(out, static_cast<std::uint32_t>(head.descriptor.size()));
  out.append(head.descriptor);
  return out;
}

absl::StatusOr<DumpHead> DecodeDumpHead(const DumpBlock& block) {
  if (block.kind != DumpBlock::Kind::kHead || block.index != 0) {
    return Damaged(block.index, "is no head");
  }
  ByteReader reader(AsBytes(block.payload));
  DumpHead head;
  head.dump = block.dump;
  head.volume = GetUuid(reader);
  head.epoch = Epoch(reader.U64());
  head.sequence = Sequence(reader.U64());
  head.taken.seconds = static_cast<std::int64_t>(reader.U64());
  head.taken.nanoseconds = reader.U32();
  head.lease_ms = reader.U32();
  head.descriptor = std::string(reader.Bytes(reader.U32()));
  if (!reader.ok() || reader.remaining() != 0 || head.taken.nanoseconds >= 1'000'000'000) {
    return Damaged(block.index, "is no head");
  }
  return head;
}

std::string EncodeDumpEnd(const DumpEnd& end) {
  std::string out;
  PutU64(out, end.blocks);
  PutU64(out, end.records);
  PutU32(out, end.digest);
  return out;
}

absl::StatusOr<DumpEnd> DecodeDumpEnd(const DumpBlock& block) {
  ByteReader reader(AsBytes(block.payload));
  DumpEnd end;
  end.blocks = reader.U64();
  end.records = reader.U64();
  end.digest = reader.U32();
  if (block.kind == DumpBlock::Kind::kEnd && reader.ok() && reader.remaining() == 0) return end;
  return Damaged(block.index, "is no end");
}

void AppendDumpRecord(std::string& payload, std::string_view key, std::string_view value) {
  PutString(payload, key);
  PutU32(payload, static_cast<std::uint32_t>(value.size()));
  payload.append(value);
}

absl::StatusOr<std::vector<DumpRecord>> DecodeDumpRecords(const DumpBlock& block) {
  std::vector<DumpRecord> records;
  ByteReader reader(AsBytes(block.payload));
  while (reader.ok() && reader.remaining() > 0) {
    DumpRecord record;
    record.key = reader.String();
    record.value = reader.Bytes(reader.U32());
    if (reader.ok()) records.push_back(record);
  }
  if (reader.ok() && block.kind == DumpBlock::Kind::kRecords && !records.empty()) return records;
  return Damaged(block.index, "holds no records");
}

int DumpOrder(schema::Family family) {
  const auto found = std::ranges::find(kDumpedFamilies, family);
  return found == std::end(kDumpedFamilies)
             ? -1
             : static_cast<int>(std::distance(std::begin(kDumpedFamilies), found));
}

}  // namespace reel::mdc
