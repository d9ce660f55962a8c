// reel-fsx: random operations on one file, against a model of what it must hold.
//
//   fsx [--seed N] [--seconds S | --ops N] [--size BYTES] FILE [FILE ON ANOTHER MOUNT]
//
// One seed is one sequence of operations. With two paths (the same file through two mounts) the
// operations go to either in turn. A failure prints the seed, the operation, what was wrong, and
// the last operations; exit status 1.
#include <fcntl.h>
#include <linux/falloc.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/fsx/model.h"
#include "tests/fsx/mounted_file.h"

namespace reel::fsx {
namespace {

using Way = MountedFile::Way;

struct Options {
  std::uint64_t seed = 1;
  double seconds = 10;
  std::uint64_t operations = ~std::uint64_t{0};
  std::uint64_t size_bytes = 1 << 20;
  std::vector<std::string> paths;
};

class Run {
 public:
  explicit Run(const Options& options) : options_(options), random_(options.seed) {
    for (const std::string& path : options.paths) {
      mounts_.push_back(
          std::make_unique<MountedFile>(path, [this](const std::string& what) { Fail(what); }));
    }
    mounts_.front()->Truncate(0);
  }

  void Go();

 private:
  using Operation = void (Run::*)();
  struct Choice {
    int weight;
    Operation operation;
  };

  std::uint64_t Below(std::uint64_t limit) { return limit == 0 ? 0 : random_() % limit; }
  bool Toss() { return (random_() & 1) != 0; }
  // Offsets and lengths that like the edges of sectors, pages, blocks and stripes.
  std::uint64_t Edge(std::uint64_t limit) {
    std::uint64_t value = Below(limit + 1);
    if (Below(3) == 0) return value;
    const std::uint64_t unit = std::uint64_t{512} << Below(10);
    value -= value % unit;
    if (Below(3) == 0) value += Below(5) - std::min<std::uint64_t>(value, 2);
    return std::min(value, limit);
  }
  struct Range {
    std::uint64_t offset = 0, length = 0;
    std::uint64_t end() const { return offset + length; }
  };
  // Of at least one byte, below `limit`. REQUIRES: limit > 0.
  Range RangeBelow(std::uint64_t limit) {
    Range range;
    range.offset = std::min(Edge(limit - 1), limit - 1);
    const std::uint64_t most = std::min(limit - range.offset, MostAtOnce());
    range.length = std::clamp<std::uint64_t>(Edge(most), 1, most);
    return range;
  }
  std::uint64_t MostAtOnce() {
    return Below(8) == 0 ? options_.size_bytes
                         : std::min<std::uint64_t>(options_.size_bytes, 96 << 10);
  }
  Way AnyWay() { return static_cast<Way>(Below(2)); }
  static const char* Name(Way way) {
    constexpr const char* kNames[] = {"plain", "direct", "append", "sync"};
    return kNames[static_cast<int>(way)];
  }

  [[noreturn]] void Fail(const std::string& what) const;
  void Log(const char* what, Range range, const char* how = "");
  void CheckBytes(const Range& range, std::span<const char> found);
  void CheckSize();

  void Write();
  void WriteVector();
  void Append();
  void Read();
  void MapRead();
  void MapWrite();
  void Truncate();
  void Allocate();
  void Clear();
  void Copy();
  void Sync();
  void Reopen();
  void Seek();
  void CheckAll();

  const Options options_;
  std::mt19937_64 random_;
  std::vector<std::unique_ptr<MountedFile>> mounts_;
  std::size_t mount_ = 0;
  MountedFile& file() { return *mounts_[mount_]; }
  Model model_;
  std::uint32_t number_ = 0;  // of the operation
  std::deque<std::string> log_;
};

void Run::Log(const char* what, Range range, const char* how) {
  char line[200];
  std::snprintf(line, sizeof(line), "%8u mount %zu %-10s [%#9llx, %#9llx) %#9llx %s (size %#llx)",
                number_, mount_ + 1, what, static_cast<unsigned long long>(range.offset),
                static_cast<unsigned long long>(range.end()),
                static_cast<unsigned long long>(range.length), how,
                static_cast<unsigned long long>(model_.size()));
  log_.emplace_back(line);
  if (log_.size() > 60) log_.pop_front();
}

void Run::Fail(const std::string& what) const {
  std::printf("fsx: seed %llu, operation %u: %s\n", static_cast<unsigned long long>(options_.seed),
              number_, what.c_str());
  for (const std::string& line : log_) std::printf("%s\n", line.c_str());
  std::fflush(stdout);
  _exit(1);
}

void Run::CheckBytes(const Range& range, std::span<const char> found) {
  if (found.size() != range.length) {
    Fail("read " + std::to_string(found.size()) + " bytes instead of " +
         std::to_string(range.length));
  }
  if (const auto wrong = model_.Compare(range.offset, found)) Fail(*wrong);
}

void Run::CheckSize() {
  const std::uint64_t size = file().Size();
  if (size != model_.size()) {
    Fail("the size is " + std::to_string(size) + " instead of " + std::to_string(model_.size()));
  }
}

// ---- operations -------------------------------------------------------------------------------

void Run::Write() {
  const Range range = RangeBelow(options_.size_bytes);
  const Way way = Below(12) == 0 ? Way::kSync : AnyWay();
  Log("write", range, Name(way));
  const std::vector<char> data = Model::Pattern(number_, range.offset, range.length);
  file().Write(way, range.offset, data);
  model_.Write(number_, range.offset, data);
}

void Run::WriteVector() {
  const Range range = RangeBelow(options_.size_bytes);
  Log("writev", range);
  const std::vector<char> data = Model::Pattern(number_, range.offset, range.length);
  file().WriteVector(range.offset, data, 1 + static_cast<int>(Below(5)));
  model_.Write(number_, range.offset, data);
}

void Run::Append() {
  if (model_.size() >= options_.size_bytes) return;
  Range range{model_.size(), 0};
  range.length = 1 + Below(std::min<std::uint64_t>(options_.size_bytes - range.offset, 40'000));
  Log("append", range);
  const std::vector<char> data = Model::Pattern(number_, range.offset, range.length);
  file().Write(Way::kAppend, 0, data);
  model_.Write(number_, range.offset, data);
}

void Run::Read() {
  if (model_.size() == 0) return;
  const Range range = RangeBelow(model_.size());
  const Way way = AnyWay();
  Log("read", range, Name(way));
  CheckBytes(range, file().Read(way, range.offset, range.length));
}

void Run::MapRead() {
  if (model_.size() == 0) return;
  const Range range = RangeBelow(model_.size());
  Log("mapread", range);
  CheckSize();  // tells the kernel of a size that changed elsewhere
  const char* map = file().Map(range.end());
  CheckBytes(range, {map + range.offset, range.length});
}

void Run::MapWrite() {
  if (model_.size() == 0) return;
  const Range range = RangeBelow(model_.size());
  const bool sync = Below(4) == 0;
  Log("mapwrite", range, sync ? "msync" : "");
  CheckSize();
  char* map = file().Map(range.end());
  const std::vector<char> data = Model::Pattern(number_, range.offset, range.length);
  std::memcpy(map + range.offset, data.data(), data.size());
  model_.Write(number_, range.offset, data);
  if (sync) file().SyncMap();
  if (Below(3) == 0) file().Unmap();
}

void Run::Truncate() {
  const std::uint64_t size = Edge(options_.size_bytes);
  Log("truncate", {size, 0});
  file().Truncate(size);
  model_.Resize(number_, size);
  CheckSize();
}

void Run::Allocate() {
  const Range range = RangeBelow(options_.size_bytes);
  const bool keep = Toss();
  Log("fallocate", range, keep ? "keep size" : "");
  file().Allocate(keep ? FALLOC_FL_KEEP_SIZE : 0, range.offset, range.length);
  if (!keep && range.end() > model_.size()) model_.Resize(number_, range.end());
  CheckSize();
}

void Run::Clear() {
  const Range range = RangeBelow(options_.size_bytes);
  const bool punch = Toss();
  const bool keep = punch || Toss();
  Log(punch ? "punch" : "zero", range, keep ? "keep size" : "");
  file().Allocate(
      (punch ? FALLOC_FL_PUNCH_HOLE : FALLOC_FL_ZERO_RANGE) | (keep ? FALLOC_FL_KEEP_SIZE : 0),
      range.offset, range.length);
  model_.Zero(number_, range.offset, range.length);
  if (!keep && range.end() > model_.size()) model_.Resize(number_, range.end());
  CheckSize();
}

void Run::Copy() {
  if (model_.size() < 2) return;
  Range from = RangeBelow(model_.size());
  const std::uint64_t to = Edge(options_.size_bytes - from.length);
  if (to < from.end() && from.offset < to + from.length) return;  // EINVAL, as it should be
  Log("copy", from, ("to " + std::to_string(to)).c_str());
  // The kernel looks at the size that it knows before it asks the file system: tell it.
  CheckSize();
  file().Copy(from.offset, to, from.length);
  const std::vector<char> data(model_.bytes().begin() + static_cast<std::ptrdiff_t>(from.offset),
                               model_.bytes().begin() + static_cast<std::ptrdiff_t>(from.end()));
  model_.Write(number_, to, data);
}

void Run::Sync() {
  const bool data_only = Toss();
  Log(data_only ? "fdatasync" : "fsync", {});
  file().Sync(data_only);
}

void Run::Reopen() {
  Log("reopen", {});
  file().Reopen();
  CheckSize();
}

// What is stored of zeros is the file system's choice; that holes are zeros is not.
void Run::Seek() {
  const std::uint64_t from = Edge(options_.size_bytes);
  const bool data = Toss();
  Log(data ? "seek data" : "seek hole", {from, 0});
  for (const auto& mount : mounts_) mount->SyncMap();  // pages not yet written are holes still
  const off_t found = file().Seek(from, data ? SEEK_DATA : SEEK_HOLE);
  const std::uint64_t size = model_.size();
  if (found < 0) {
    if (from < size && !(data && model_.AllZero(from, size))) Fail("lseek: ENXIO");
    return;
  }
  const auto at = static_cast<std::uint64_t>(found);
  if (from >= size || at < from || at > size || (data && at == size)) {
    Fail("lseek gives " + std::to_string(at));
  }
  if (data && !model_.AllZero(from, at)) Fail("lseek passes data on its way");
  if (!data && !model_.AllZero(at, std::min(at + 1, size))) {
    Fail("lseek finds a hole in data at " + std::to_string(at));
  }
}

void Run::CheckAll() {
  const Way way = AnyWay();
  Log("check all", {0, model_.size()}, Name(way));
  CheckSize();
  CheckBytes({0, model_.size()}, file().Read(way, 0, model_.size() + 1));
}

void Run::Go() {
  const Choice choices[] = {
      {20, &Run::Write},   {3, &Run::WriteVector}, {6, &Run::Append},   {20, &Run::Read},
      {10, &Run::MapRead}, {12, &Run::MapWrite},   {7, &Run::Truncate}, {4, &Run::Allocate},
      {9, &Run::Clear},    {4, &Run::Copy},        {3, &Run::Sync},     {2, &Run::Reopen},
      {4, &Run::Seek},     {2, &Run::CheckAll},
  };
  std::uint64_t total = 0;
  for (const Choice& choice : choices) total += static_cast<std::uint64_t>(choice.weight);
  const auto until =
      std::chrono::steady_clock::now() + std::chrono::duration<double>(options_.seconds);
  while (number_ < options_.operations && std::chrono::steady_clock::now() < until) {
    ++number_;
    if (Below(4) == 0) mount_ = Below(mounts_.size());
    std::uint64_t drawn = Below(total);
    const Choice* choice = choices;
    while (drawn >= static_cast<std::uint64_t>(choice->weight)) {
      drawn -= static_cast<std::uint64_t>(choice->weight);
      ++choice;
    }
    (this->*choice->operation)();
  }
  for (mount_ = 0; mount_ < mounts_.size(); ++mount_) CheckAll();
  std::printf("fsx: seed %llu: %u operations on %zu mounts, all as they should be\n",
              static_cast<unsigned long long>(options_.seed), number_, mounts_.size());
}

int Main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool last = i + 1 == argc;
    if (word == "--seed" && !last) {
      options.seed = std::strtoull(argv[++i], nullptr, 0);
    } else if (word == "--seconds" && !last) {
      options.seconds = std::strtod(argv[++i], nullptr);
    } else if (word == "--ops" && !last) {
      options.operations = std::strtoull(argv[++i], nullptr, 0);
      options.seconds = 1e9;
    } else if (word == "--size" && !last) {
      options.size_bytes = std::max<std::uint64_t>(std::strtoull(argv[++i], nullptr, 0), 4096);
    } else if (!word.empty() && word[0] != '-') {
      options.paths.push_back(word);
    } else {
      std::fprintf(stderr, "fsx: unknown argument %s\n", word.c_str());
      return 2;
    }
  }
  if (options.paths.empty()) {
    std::fprintf(stderr, "use: fsx [--seed N] [--seconds S] [--ops N] [--size N] FILE [FILE]\n");
    return 2;
  }
  std::signal(SIGBUS, [](int) {
    constexpr char kWords[] = "fsx: SIGBUS: a mapping that the file covers could not be read\n";
    (void)!write(STDOUT_FILENO, kWords, sizeof(kWords) - 1);
    _exit(1);
  });
  Run(options).Go();
  return 0;
}

}  // namespace
}  // namespace reel::fsx

int main(int argc, char** argv) {
  return reel::fsx::Main(argc, argv);
}
