#include "mdc/backup/dump_writer.h"

#include <utility>

#include "volume/base/coding.h"

namespace reel::mdc {

DumpWriter::DumpWriter(const MetaDb& db, DumpHead head) : head_(std::move(head)) {
  for (const schema::Family family : kDumpedFamilies) {
    const std::string prefix = schema::Prefix(family);
    cursors_.push_back(db.Scan(prefix, prefix, Tier::kAll));
  }
}

std::string DumpWriter::Block(DumpBlock::Kind kind, std::string payload) {
  std::uint32_t crc = 0;
  std::string bytes = EncodeDumpBlock(
      {.kind = kind, .dump = head_.dump, .index = index_++, .payload = std::move(payload)}, &crc);
  std::string crc_bytes;
  PutU32(crc_bytes, crc);
  end_.digest = ExtendCrc32c(end_.digest, AsBytes(crc_bytes));
  return bytes;
}

absl::StatusOr<std::string> DumpWriter::NextRecords() {
  std::string payload;
  while (family_ < cursors_.size() && payload.size() < kDumpBlockBytes) {
    Cursor& cursor = *cursors_[family_];
    if (cursor.Valid()) {
      AppendDumpRecord(payload, cursor.key(), cursor.value());
      ++end_.records;
      cursor.Next();
      continue;
    }
    if (absl::Status s = cursor.status(); !s.ok()) return s;
    cursors_[family_++].reset();
  }
  return payload;
}

absl::StatusOr<std::string> DumpWriter::Next() {
  if (index_ == 0) return Block(DumpBlock::Kind::kHead, EncodeDumpHead(head_));
  auto records = NextRecords();
  if (!records.ok()) return records.status();
  if (!records->empty()) {
    ++end_.blocks;
    return Block(DumpBlock::Kind::kRecords, *std::move(records));
  }
  done_ = true;
  return Block(DumpBlock::Kind::kEnd, EncodeDumpEnd(end_));
}

}  // namespace reel::mdc
