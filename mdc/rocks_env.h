// RocksDB's environment on a MetaFs, as an object that can be owned without knowing RocksDB.
#pragma once

#include <memory>

#include "mdc/metafs/metafs.h"

namespace rocksdb {
class Env;
}  // namespace rocksdb

namespace reel::mdc {

class RocksEnv {
 public:
  // REQUIRES: `fs` outlives this, and this every file that is open through it.
  explicit RocksEnv(metafs::MetaFs& fs);
  ~RocksEnv();
  rocksdb::Env* get() const { return env_.get(); }

 private:
  std::unique_ptr<rocksdb::Env> env_;
};

}  // namespace reel::mdc
