// Writes a dump of a metadata store, block by block, as the store was when the writer was made:
// what is changed since is not in it. It keeps tables of that time from being removed, so it should
// not live longer than it must. Threads: made where no change is applied meanwhile (on the core's
// seat); Next from one thread at a time, beside all else.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "mdc/backup/dump_format.h"
#include "mdc/metadb/meta_db.h"

namespace reel::mdc {

class DumpWriter {
 public:
  // REQUIRES: `db` outlives it.
  DumpWriter(const MetaDb& db, DumpHead head);

  const Uuid& dump() const { return head_.dump; }
  // The next block of the file. REQUIRES: not done.
  absl::StatusOr<std::string> Next();
  // The end was written.
  bool done() const { return done_; }

 private:
  // Records up to a block's size; empty: there are no more.
  absl::StatusOr<std::string> NextRecords();
  std::string Block(DumpBlock::Kind kind, std::string payload);

  const DumpHead head_;
  std::vector<std::unique_ptr<Cursor>> cursors_;  // by kDumpedFamilies; those read are gone
  std::size_t family_ = 0;
  std::uint64_t index_ = 0;
  DumpEnd end_;
  bool done_ = false;
};

}  // namespace reel::mdc
