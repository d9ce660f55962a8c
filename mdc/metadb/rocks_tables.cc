#include "mdc/metadb/rocks_tables.h"

#include <vector>

#include "mdc/base/in_order.h"
#include "rocksdb/convenience.h"
#include "rocksdb/db.h"
#include "volume/base/types.h"

namespace reel::mdc {
namespace {

constexpr std::size_t kReadAheadBytes = 1 * kMiB;

}  // namespace

rocksdb::Status VerifyTables(rocksdb::DB& db, std::size_t threads) {
  std::vector<rocksdb::LiveFileMetaData> tables;
  db.GetLiveFilesMetaData(&tables);
  const rocksdb::Options options = db.GetOptions();
  std::vector<rocksdb::Status> found(tables.size());
  rocksdb::Status first;
  const auto verify = [&](std::size_t, std::size_t i) {
    rocksdb::ReadOptions read;
    read.fill_cache = false;
    read.readahead_size = kReadAheadBytes;
    found[i] =
        rocksdb::VerifySstFileChecksum(options, rocksdb::EnvOptions(options), read,
                                       tables[i].db_path + tables[i].name, tables[i].largest_seqno);
  };
  RunInOrder(
      {.threads = threads, .parts = tables.size(), .work = verify, .take = [&](std::size_t i) {
         if (first.ok()) first = found[i];
       }});
  return first;
}

}  // namespace reel::mdc
