#include "mdc/rocks_env.h"

#include <rocksdb/env.h>

#include "mdc/metafs/rocks_fs.h"

namespace reel::mdc {

RocksEnv::RocksEnv(metafs::MetaFs& fs) : env_(metafs::NewRocksEnv(fs)) {}
RocksEnv::~RocksEnv() = default;

}  // namespace reel::mdc
