#include "mdc/metadb/rocks_memory.h"

#include <rocksdb/env.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

namespace reel::mdc {
namespace {

// RocksDB's files in memory do not say that they may be synced while they are appended to. They
// may: their sync does nothing.
class SyncableFile : public rocksdb::WritableFileWrapper {
 public:
  explicit SyncableFile(std::unique_ptr<rocksdb::WritableFile> file)
      : rocksdb::WritableFileWrapper(file.get()), file_(std::move(file)) {}
  bool IsSyncThreadSafe() const override { return true; }

 private:
  const std::unique_ptr<rocksdb::WritableFile> file_;
};

class MemoryEnv : public rocksdb::EnvWrapper {
 public:
  MemoryEnv() : MemoryEnv(rocksdb::NewMemEnv(rocksdb::Env::Default())) {}
  const char* Name() const override { return "MemoryEnv"; }
  rocksdb::Status NewWritableFile(const std::string& name,
                                  std::unique_ptr<rocksdb::WritableFile>* file,
                                  const rocksdb::EnvOptions& options) override {
    std::unique_ptr<rocksdb::WritableFile> made;
    rocksdb::Status status = target()->NewWritableFile(name, &made, options);
    if (status.ok()) *file = std::make_unique<SyncableFile>(std::move(made));
    return status;
  }

 private:
  explicit MemoryEnv(rocksdb::Env* env) : rocksdb::EnvWrapper(env), env_(env) {}
  const std::unique_ptr<rocksdb::Env> env_;
};

}  // namespace

MemoryStore::MemoryStore() : env_(std::make_unique<MemoryEnv>()) {
  auto db = MetaDb::Open(
      env_.get(),
      {.cache_bytes = 8 << 20, .write_buffer_bytes = 8 << 20, .read_only = false, .create = true});
  if (!db.ok()) {
    std::fprintf(stderr, "no store in memory: %s\n", db.status().ToString().c_str());
    std::abort();
  }
  db_ = *std::move(db);
}

MemoryStore::~MemoryStore() = default;

}  // namespace reel::mdc
