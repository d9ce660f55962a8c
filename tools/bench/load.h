// What is done to a side: a Load is prepared once, then run for a while, again and again, so that
// the sides can take turns. Thread rule: one thread owns a load; Run starts threads of its own and
// joins them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace reel::bench {

// What one run came to.
struct Measure {
  double seconds = 0;
  double operations = 0;
  double bytes = 0;        // 0 for metadata
  double cpu_seconds = 0;  // of the whole machine, kernel and daemons included
};

class Load {
 public:
  virtual ~Load() = default;
  // Outside of what is measured.
  virtual absl::Status Prepare() { return absl::OkStatus(); }
  virtual absl::StatusOr<Measure> Run() = 0;
};

// Reads or writes one file per side, laid out beforehand.
struct IoShape {
  std::string name;
  bool write = false;
  bool random = false;
  bool direct = true;  // O_DIRECT
  std::uint32_t io_bytes = 1 << 20;
  std::uint32_t depth = 1;  // so many threads, one I/O each
};
struct IoOptions {
  std::uint64_t file_bytes = 1ull << 30;
  double seconds = 3;
};
// The ones that are worth a row: large and small, direct and plain.
std::vector<IoShape> IoShapes();
// Makes the file `directory`/data of that size, full of bytes that do not compress.
absl::Status LayOutFile(const std::string& directory, std::uint64_t size_bytes);
std::unique_ptr<Load> MakeIoLoad(const IoShape& shape, const IoOptions& options,
                                 const std::string& directory);

// Creates, looks at, opens and removes empty files, so many in each thread's own directory, or all
// in one; and lists a tree. Each client has threads of its own.
struct MetaShape {
  enum class Step { kCreate, kStat, kOpen, kList, kUnlink };
  std::string name;
  Step step = Step::kCreate;
  std::uint32_t threads = 1;  // of each client
};
struct MetaOptions {
  std::uint32_t files = 2000;  // in each thread
  bool shared = false;         // all threads of all clients work in one directory
};
// In the order in which they must run: each leaves what the next needs.
std::vector<MetaShape> MetaShapes(std::uint32_t threads);
// `clients`: a directory for each; of one file system, each through another mount of it.
std::unique_ptr<Load> MakeMetaLoad(const MetaShape& shape, const MetaOptions& options,
                                   const std::vector<std::string>& clients);

}  // namespace reel::bench
