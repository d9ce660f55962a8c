// A store's Snapshot (meta_db.h) by RocksDB's own. Threads: as it says there.
#pragma once

#include <memory>

#include "mdc/metadb/meta_db.h"

namespace rocksdb {
class DB;
}

namespace reel::mdc {

// REQUIRES: `db` outlives it.
std::unique_ptr<Snapshot> SnapshotOf(rocksdb::DB& db);

}  // namespace reel::mdc
