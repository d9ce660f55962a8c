// Reads a dump of the metadata and believes nothing: every block, count and key is checked, and so
// is that nothing is missing. Threads: one.
#pragma once

#include <functional>
#include <istream>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "mdc/backup/dump_format.h"

namespace reel::mdc {

class DumpReader {
 public:
  // REQUIRES: `file` outlives it, and stands at its beginning.
  explicit DumpReader(std::istream& file) : file_(file) {}

  // DATA_LOSS: this is no dump, or a damaged one. UNIMPLEMENTED: of a newer format.
  absl::StatusOr<DumpHead> ReadHead();
  // Hands out every record, in order, and the counts at the end. What was handed out before an
  // error is of a dump that is not whole. DATA_LOSS as above, or the sink's error. REQUIRES: the
  // head was read.
  using Sink = std::function<absl::Status(const schema::ParsedKey& key, std::string_view raw_key,
                                          std::string_view value)>;
  absl::StatusOr<DumpEnd> ReadRecords(const Sink& sink);

 private:
  absl::StatusOr<DumpBlock> ReadBlock();
  absl::Status Take(const DumpRecord& record, const Sink& sink);

  std::istream& file_;
  Uuid dump_;
  std::uint64_t next_index_ = 0;
  DumpEnd seen_;
  std::string last_key_;
};

}  // namespace reel::mdc
