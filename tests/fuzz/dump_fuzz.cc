// The reader of dumps of the metadata: any bytes are a dump or a clear error.
#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>

#include "mdc/backup/dump_reader.h"
#include "volume/base/check.h"
#include "volume/base/coding.h"
#include "volume/format/dump_mark.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace reel;
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  std::istringstream file(bytes);
  mdc::DumpReader reader(file);
  if (reader.ReadHead().ok()) {
    std::uint64_t records = 0;
    const auto end =
        reader.ReadRecords([&](const mdc::schema::ParsedKey&, std::string_view, std::string_view) {
          ++records;
          return absl::OkStatus();
        });
    REEL_CHECK(!end.ok() || end->records == records, "the end counts what was handed out");
  }
  // Blocks by themselves, which no checksum guards once a fuzzer has mended it.
  mdc::DumpBlock block{.kind = mdc::DumpBlock::Kind::kRecords, .payload = bytes};
  (void)mdc::DecodeDumpRecords(block);
  block.kind = mdc::DumpBlock::Kind::kEnd;
  (void)mdc::DecodeDumpEnd(block);
  block.kind = mdc::DumpBlock::Kind::kHead;
  (void)mdc::DecodeDumpHead(block);
  const auto mark = DecodeDumpMark(AsBytes(bytes));
  REEL_CHECK(!mark.ok() || mark->dumps.size() <= kMaxMarkedDumps, "a mark has room for its dumps");
  return 0;
}
