#include "mdc/backup/dump_reader.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "volume/base/coding.h"

namespace reel::mdc {
namespace {

absl::Status Damaged(std::string_view what) {
  return absl::DataLossError(absl::StrCat("the dump is damaged: ", std::string(what)));
}

}  // namespace

absl::StatusOr<DumpBlock> DumpReader::ReadBlock() {
  std::string bytes(kDumpBlockHeadBytes, '\0');
  file_.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (file_.gcount() != static_cast<std::streamsize>(bytes.size())) {
    return Damaged("it is cut short");
  }
  const auto payload_bytes = DumpPayloadBytes(AsBytes(bytes));
  if (!payload_bytes.ok()) return payload_bytes.status();
  bytes.resize(kDumpBlockHeadBytes + *payload_bytes);
  file_.read(bytes.data() + kDumpBlockHeadBytes, static_cast<std::streamsize>(*payload_bytes));
  if (file_.gcount() != static_cast<std::streamsize>(*payload_bytes)) {
    return Damaged("it is cut short");
  }
  auto block = DecodeDumpBlock(AsBytes(bytes));
  if (!block.ok()) return block.status();
  if (block->index != next_index_++ || (block->index != 0 && block->dump != dump_)) {
    return Damaged("its blocks are not those of one dump, in order");
  }
  return block;
}

absl::StatusOr<DumpHead> DumpReader::ReadHead() {
  const auto block = ReadBlock();
  if (!block.ok()) return block.status();
  auto head = DecodeDumpHead(*block);
  if (!head.ok()) return head.status();
  dump_ = head->dump;
  std::string crc;
  PutU32(crc, block->crc);
  seen_.digest = ExtendCrc32c(0, AsBytes(crc));
  return head;
}

absl::Status DumpReader::Take(const DumpRecord& record, const Sink& sink) {
  const auto key = schema::Parse(record.key);
  if (!key.ok()) return Damaged("a key in it is of no known form");
  const int order = DumpOrder(key->family);
  if (order < 0) return Damaged("it holds a record of a kind that no dump has");
  if (last_key_.empty()) {
    if (key->family != schema::Family::kVolume) return Damaged("it has no volume record");
  } else {
    const int last_order = DumpOrder(static_cast<schema::Family>(last_key_[0]));
    if (order < last_order || (order == last_order && record.key <= last_key_)) {
      return Damaged("its records are out of order");
    }
  }
  last_key_ = std::string(record.key);
  ++seen_.records;
  return sink(*key, record.key, record.value);
}

absl::StatusOr<DumpEnd> DumpReader::ReadRecords(const Sink& sink) {
  for (;;) {
    const auto block = ReadBlock();
    if (!block.ok()) return block.status();
    if (block->kind == DumpBlock::Kind::kEnd) {
      const auto end = DecodeDumpEnd(*block);
      if (!end.ok()) return end.status();
      if (end->blocks != seen_.blocks || end->records != seen_.records ||
          end->digest != seen_.digest || seen_.records == 0) {
        return Damaged("something of it is missing");
      }
      if (file_.peek() != std::istream::traits_type::eof()) {
        return Damaged("something follows its end");
      }
      return end;
    }
    const auto records = DecodeDumpRecords(*block);
    if (!records.ok()) return records.status();
    ++seen_.blocks;
    std::string crc;
    PutU32(crc, block->crc);
    seen_.digest = ExtendCrc32c(seen_.digest, AsBytes(crc));
    for (const DumpRecord& record : *records) {
      if (absl::Status s = Take(record, sink); !s.ok()) return s;
    }
  }
}

}  // namespace reel::mdc
