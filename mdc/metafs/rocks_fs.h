// metafs as RocksDB sees it: a rocksdb::FileSystem over a MetaFs, and an Env with it.
//
// What RocksDB does not need is kNotSupported. Damage is Corruption, all else (a full store too) an
// I/O error: nothing is to be retried behind our back. Threads: as rocksdb::FileSystem says.
#pragma once

#include <memory>

#include "mdc/metafs/metafs.h"

namespace rocksdb {
class Env;
class FileSystem;
}  // namespace rocksdb

namespace reel::metafs {

// REQUIRES: `fs` outlives the result and every file opened through it.
std::shared_ptr<rocksdb::FileSystem> NewRocksFileSystem(MetaFs& fs);

// Files on `fs`; threads and time from the machine. REQUIRES: as above.
std::unique_ptr<rocksdb::Env> NewRocksEnv(MetaFs& fs);

}  // namespace reel::metafs
