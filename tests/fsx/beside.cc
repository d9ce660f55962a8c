// reel-beside: processes that write(2), read(2), map-read and map-write one file at the same time.
//
//   beside [--seed N] [--seconds S] [--bytes B] [--processes P] [--resize] FILE [FILE BY ANOTHER
//   WAY]
//
// The file consists of cells of 16 bytes. Each cell belongs to one process, which alone writes it,
// by either way, and always knows what it must hold; neighbours in a page belong to others, so a
// page that goes back whole with old bytes in it shows. With --resize the second half of the file
// is also cut off and grown again, and cells are punched out. At the end the file is synced and
// read once more through the second path. A failure says the seed, the cell and what it held; exit
// status 1.
#include <fcntl.h>
#include <linux/falloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace reel::fsx {
namespace {

constexpr std::uint64_t kCell = 16;

struct Options {
  std::uint64_t seed = 1;
  double seconds = 5;
  std::uint64_t bytes = 250 * 1024;
  unsigned processes = 2;
  bool resize = false;
  std::vector<std::string> paths;
};

// Of all processes: what each cell must hold, and how long the file is.
struct Shared {
  pthread_rwlock_t shape;   // written for by whoever cuts, read for by users of the second half
  pthread_mutex_t growing;  // one at a time
  std::atomic<std::uint64_t> size_bytes;
  std::atomic<bool> failed;
  std::array<std::atomic<unsigned char>, (16U << 20) / kCell> cells;
};

[[noreturn]] void Die(const std::string& what) {
  std::fprintf(stderr, "beside: %s: %s\n", what.c_str(), std::strerror(errno));
  std::_Exit(2);
}

class Player {
 public:
  Player(const Options& options, Shared& shared, unsigned number)
      : options_(options), shared_(shared), number_(number), random_(options.seed * 64 + number) {
    Open();
  }

  void Go() {
    const auto end =
        std::chrono::steady_clock::now() + std::chrono::duration<double>(options_.seconds);
    while (!shared_.failed && std::chrono::steady_clock::now() < end) Step();
    pthread_rwlock_rdlock(&shared_.shape);  // another one may still be at its last step
    for (std::uint64_t at = 0; at < shared_.size_bytes; at += kCell) CheckMapped(at / kCell);
    pthread_rwlock_unlock(&shared_.shape);
    if (fsync(fd_) != 0) Die("fsync");
  }

 private:
  std::uint64_t Below(std::uint64_t limit) { return random_() % limit; }
  std::uint64_t floor_bytes() const { return options_.bytes / 2 / kCell * kCell; }
  bool Owns(std::uint64_t cell) const { return cell % options_.processes == number_; }

  void Open() {
    fd_ = open(options_.paths.front().c_str(), O_RDWR | O_CLOEXEC);
    if (fd_ < 0) Die("open");
    void* map = mmap(nullptr, options_.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
    if (map == MAP_FAILED) Die("mmap");
    map_ = static_cast<unsigned char*>(map);
  }

  void Reopen() {
    if (munmap(map_, options_.bytes) != 0 || close(fd_) != 0) Die("close");
    Open();
  }

  void Fail(std::uint64_t cell, const char* way, const unsigned char* got) {
    shared_.failed = true;
    std::fprintf(stdout, "seed %llu: process %u: byte %llu by %s: 0x%02x, not 0x%02x\n",
                 static_cast<unsigned long long>(options_.seed), number_,
                 static_cast<unsigned long long>(cell * kCell), way, got[0],
                 shared_.cells[cell].load());
    std::fflush(stdout);
    std::_Exit(1);
  }
  void Check(std::uint64_t cell, const char* way, const unsigned char* got) {
    if (!Owns(cell)) return;
    for (std::uint64_t i = 0; i < kCell; ++i) {
      if (got[i] != shared_.cells[cell]) Fail(cell, way, got + i);
    }
  }
  void CheckMapped(std::uint64_t cell) { Check(cell, "map", map_ + cell * kCell); }

  unsigned char NewValue() { return static_cast<unsigned char>(1 + Below(255)); }

  void WriteCell(std::uint64_t cell) {
    std::array<unsigned char, kCell> bytes{};
    bytes.fill(NewValue());
    if (pwrite(fd_, bytes.data(), kCell, static_cast<off_t>(cell * kCell)) != kCell) Die("pwrite");
    shared_.cells[cell] = bytes[0];
  }
  void StoreCell(std::uint64_t cell) {
    const unsigned char value = NewValue();
    std::memset(map_ + cell * kCell, value, kCell);
    shared_.cells[cell] = value;
  }
  void PunchCell(std::uint64_t cell) {
    if (fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(cell * kCell),
                  kCell) != 0) {
      Die("fallocate");
    }
    shared_.cells[cell] = 0;
  }
  void ReadCells(std::uint64_t first, std::uint64_t end) {
    std::vector<unsigned char> bytes((end - first) * kCell);
    if (pread(fd_, bytes.data(), bytes.size(), static_cast<off_t>(first * kCell)) !=
        static_cast<ssize_t>(bytes.size())) {
      Die("pread came short");
    }
    for (std::uint64_t cell = first; cell < end; ++cell) {
      Check(cell, "read", bytes.data() + (cell - first) * kCell);
    }
  }

  // Some cells, all below the file's end.
  void Touch(std::uint64_t first, std::uint64_t end) {
    const std::uint64_t what = Below(options_.resize ? 5 : 4);
    if (what == 0) return ReadCells(first, end);
    for (std::uint64_t cell = first; cell < end; ++cell) {
      if (what == 1) CheckMapped(cell);
      if (what == 2 && Owns(cell)) StoreCell(cell);
      if (what == 3 && Owns(cell)) WriteCell(cell);
    }
    if (what == 4) {
      while (first < end && !Owns(first)) ++first;
      if (first < end) PunchCell(first);
    }
  }

  // Where others change the file below meanwhile; what lies between reads as zeros.
  void Grow() {
    pthread_mutex_lock(&shared_.growing);
    const std::uint64_t size = shared_.size_bytes;
    const std::uint64_t room = (options_.bytes - size) / kCell;
    if (room > options_.processes) {
      std::uint64_t cell =
          size / kCell + Below(std::min<std::uint64_t>(room - options_.processes, 600));
      while (!Owns(cell)) ++cell;
      WriteCell(cell);
      shared_.size_bytes = (cell + 1) * kCell;
    }
    pthread_mutex_unlock(&shared_.growing);
  }

  // While others go on in the first half.
  void Cut() {
    const std::uint64_t to = floor_bytes() + Below(options_.bytes / 2) / kCell * kCell;
    if (to >= shared_.size_bytes) return;
    if (ftruncate(fd_, static_cast<off_t>(to)) != 0) Die("ftruncate");
    for (std::uint64_t cell = to / kCell; cell < options_.bytes / kCell; ++cell) {
      shared_.cells[cell] = 0;
    }
    shared_.size_bytes = to;
  }

  void Step() {
    const std::uint64_t kind = Below(400);
    if (kind == 0) return Reopen();
    if (kind == 1 && msync(map_, options_.bytes, MS_SYNC) != 0) Die("msync");
    if (kind == 2 && fdatasync(fd_) != 0) Die("fdatasync");
    if (options_.resize && kind < 8) {
      pthread_rwlock_wrlock(&shared_.shape);
      Cut();
      pthread_rwlock_unlock(&shared_.shape);
    } else if (options_.resize && kind < 40) {
      pthread_rwlock_rdlock(&shared_.shape);
      Grow();
      pthread_rwlock_unlock(&shared_.shape);
    } else {
      const bool low = Below(2) == 0;
      if (!low) pthread_rwlock_rdlock(&shared_.shape);
      const std::uint64_t end = (low ? floor_bytes() : shared_.size_bytes.load()) / kCell;
      const std::uint64_t first = Below(end);
      Touch(first, std::min(end, first + 1 + Below(Below(4) == 0 ? 600 : 8)));
      if (!low) pthread_rwlock_unlock(&shared_.shape);
    }
  }

  const Options& options_;
  Shared& shared_;
  const unsigned number_;
  std::mt19937_64 random_;
  int fd_ = -1;
  unsigned char* map_ = nullptr;
};

Options Parse(int count, char** words) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    const bool valued = i + 1 < count;
    if (word == "--resize") {
      options.resize = true;
    } else if (word == "--seed" && valued) {
      options.seed = std::strtoull(words[++i], nullptr, 10);
    } else if (word == "--seconds" && valued) {
      options.seconds = std::strtod(words[++i], nullptr);
    } else if (word == "--bytes" && valued) {
      options.bytes = std::strtoull(words[++i], nullptr, 10) / kCell * kCell;
    } else if (word == "--processes" && valued) {
      options.processes = static_cast<unsigned>(std::strtoul(words[++i], nullptr, 10));
    } else {
      options.paths.push_back(word);
    }
  }
  if (options.paths.empty() || options.processes == 0 || options.bytes < 64 * kCell ||
      options.bytes / kCell > std::tuple_size_v<decltype(Shared::cells)>) {
    std::fprintf(
        stderr,
        "use: beside [--seed N] [--seconds S] [--bytes B] [--processes P] [--resize] FILE…\n");
    std::exit(2);
  }
  return options;
}

Shared& MakeShared(const Options& options) {
  void* memory =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) Die("mmap");
  auto& shared = *static_cast<Shared*>(memory);  // zeros: all cells, and nobody has failed
  pthread_rwlockattr_t of_all;
  pthread_rwlockattr_init(&of_all);
  pthread_rwlockattr_setpshared(&of_all, PTHREAD_PROCESS_SHARED);
  pthread_rwlockattr_setkind_np(&of_all, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
  pthread_rwlock_init(&shared.shape, &of_all);
  pthread_mutexattr_t mutex_of_all;
  pthread_mutexattr_init(&mutex_of_all);
  pthread_mutexattr_setpshared(&mutex_of_all, PTHREAD_PROCESS_SHARED);
  pthread_mutex_init(&shared.growing, &mutex_of_all);
  shared.size_bytes = options.bytes;
  return shared;
}

// By another way to the file: what is on the LUNs.
int Compare(const Options& options, const Shared& shared) {
  const std::string& path = options.paths.back();
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) Die(path);
  std::vector<unsigned char> bytes(options.bytes);
  const ssize_t length = pread(fd, bytes.data(), bytes.size(), 0);
  if (length != static_cast<ssize_t>(shared.size_bytes.load())) Die("the file has another length");
  for (std::uint64_t at = 0; at < shared.size_bytes; ++at) {
    if (bytes[at] == shared.cells[at / kCell]) continue;
    std::printf("seed %llu: at the end byte %llu is 0x%02x, not 0x%02x\n",
                static_cast<unsigned long long>(options.seed), static_cast<unsigned long long>(at),
                bytes[at], shared.cells[at / kCell].load());
    return 1;
  }
  return 0;
}

int Main(int count, char** words) {
  const Options options = Parse(count, words);
  Shared& shared = MakeShared(options);
  const int fd = open(options.paths.front().c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(options.bytes)) != 0) Die(options.paths.front());
  close(fd);
  std::vector<pid_t> children;
  for (unsigned number = 0; number < options.processes; ++number) {
    const pid_t child = fork();
    if (child == 0) {
      Player(options, shared, number).Go();
      std::_Exit(0);
    }
    children.push_back(child);
  }
  int worst = 0;
  for (std::size_t left = children.size(); left > 0; --left) {
    int status = 0;
    if (wait(&status) < 0) Die("wait");
    if (status == 0 || worst != 0) continue;
    worst = WIFEXITED(status) ? WEXITSTATUS(status) : 3;
    for (const pid_t child : children) kill(child, SIGKILL);  // they may wait for a lock of its own
  }
  return worst != 0 ? worst : Compare(options, shared);
}

}  // namespace
}  // namespace reel::fsx

int main(int argc, char** argv) {
  return reel::fsx::Main(argc, argv);
}
