// RocksDB's environment on a MetaFs, as an object that can be owned without knowing RocksDB.
#pragma once

#include <functional>
#include <memory>

#include "mdc/metafs/metafs.h"

namespace rocksdb {
class Env;
class EventListener;
}  // namespace rocksdb

namespace reel::mdc {

class RocksEnv {
 public:
  // Puts something of a test's between RocksDB and the environment.
  using Wrap = std::function<std::unique_ptr<rocksdb::Env>(std::unique_ptr<rocksdb::Env>)>;
  // REQUIRES: `fs` outlives this, and this every file that is open through it.
  explicit RocksEnv(metafs::MetaFs& fs, const Wrap& wrap = {});
  ~RocksEnv();
  rocksdb::Env* get() const { return env_.get(); }
  // For MetaDb::Options.
  static std::shared_ptr<rocksdb::EventListener> NewListener();

 private:
  std::unique_ptr<rocksdb::Env> env_;
};

}  // namespace reel::mdc
