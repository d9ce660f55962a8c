#include "mdc/store/rocks_env.h"

#include <rocksdb/env.h>

#include <utility>

#include "mdc/metafs/rocks_fs.h"

namespace reel::mdc {

RocksEnv::RocksEnv(metafs::MetaFs& fs, const Wrap& wrap) : env_(metafs::NewRocksEnv(fs)) {
  if (wrap) env_ = wrap(std::move(env_));
}
RocksEnv::~RocksEnv() = default;

std::shared_ptr<rocksdb::EventListener> RocksEnv::NewListener() {
  return metafs::NewTableListener();
}

}  // namespace reel::mdc
