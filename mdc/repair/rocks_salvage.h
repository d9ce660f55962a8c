// Reads what can be read of a RocksDB store whose tables or manifest are damaged. Private to
// store_repair.cc. Threads: one.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace rocksdb {
class Env;
}  // namespace rocksdb

namespace reel::mdc {

struct SalvageOptions {
  std::set<std::uint64_t> damaged_tables;  // file numbers
};

struct Salvage {
  // Where records could not be read: from the first key (inclusive) to the second (exclusive; empty
  // for the end). What other tables hold there was read, and may be older than what is lost.
  std::vector<std::pair<std::string, std::string>> gaps;
  std::uint64_t last_sequence = 0;
};

using RecordSink = std::function<absl::Status(std::string_view key, std::string_view value)>;

// Hands every record that can be read to `sink`, in key order within what lies between two gaps; a
// key may come twice, then its last value counts. DATA_LOSS: the store cannot be opened at all, or
// a table of its top level cannot: RebuildManifest leaves that one out, and other damaged ones.
absl::StatusOr<Salvage> SalvageRecords(rocksdb::Env* env, const std::string& path,
                                       const SalvageOptions& options, const RecordSink& sink);

// Makes a manifest from the tables and logs that are there, so that the store can be opened again;
// tables that cannot be read to their end are left out of it. What it makes is to be read with
// SalvageRecords, not served from: its tables have lost their order.
absl::Status RebuildManifest(rocksdb::Env* env, const std::string& path);

}  // namespace reel::mdc
