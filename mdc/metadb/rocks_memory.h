// A metadata store in memory, for tests: the real one, on RocksDB's own in-memory files.
#pragma once

#include <memory>

#include "mdc/metadb/meta_db.h"

namespace reel::mdc {

class MemoryStore {
 public:
  // Ends the process when the store cannot be made.
  MemoryStore();
  ~MemoryStore();
  MetaDb& db() { return *db_; }

 private:
  std::unique_ptr<rocksdb::Env> env_;
  std::unique_ptr<MetaDb> db_;
};

}  // namespace reel::mdc
