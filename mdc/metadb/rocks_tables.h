// The tables of a RocksDB store, as files. Threads: any.
#pragma once

#include <cstddef>

#include "rocksdb/status.h"

namespace rocksdb {
class DB;
}

namespace reel::mdc {

// Reads all of each table, by so many threads, and compares the checksums of its blocks. The first
// table's status that is not OK.
rocksdb::Status VerifyTables(rocksdb::DB& db, std::size_t threads);

}  // namespace reel::mdc
