// metafs as RocksDB sees it: a rocksdb::FileSystem over a MetaFs, and an Env with it.
//
// What RocksDB does not need is kNotSupported. Damage is Corruption, a full store NoSpace, all else
// an I/O error: nothing is to be retried behind our back. Threads: as rocksdb::FileSystem says.
#pragma once

#include <memory>

#include "mdc/metafs/metafs.h"

namespace rocksdb {
class Env;
class EventListener;
class FileSystem;
}  // namespace rocksdb

namespace reel::metafs {

// REQUIRES: `fs` outlives the result and every file opened through it.
std::shared_ptr<rocksdb::FileSystem> NewRocksFileSystem(MetaFs& fs);

// Files on `fs`; threads and time from the machine. REQUIRES: as above.
std::unique_ptr<rocksdb::Env> NewRocksEnv(MetaFs& fs);

// For rocksdb::Options::listeners: with it the tables of compactions leave room for those of
// flushes (ChunkUse::kCompaction).
std::shared_ptr<rocksdb::EventListener> NewTableListener();

}  // namespace reel::metafs
