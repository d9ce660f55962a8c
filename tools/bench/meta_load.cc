#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tools/bench/load.h"
#include "tools/bench/stopwatch.h"

namespace reel::bench {
namespace {

using Step = MetaShape::Step;

int Create(const std::string& path) {
  const int fd = open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY, 0644);
  return fd < 0 ? -1 : close(fd);
}

int Open(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY);
  return fd < 0 ? -1 : close(fd);
}

int Do(Step step, const std::string& path) {
  struct stat found {};
  switch (step) {
    case Step::kCreate:
      return Create(path);
    case Step::kStat:
      return stat(path.c_str(), &found);
    case Step::kOpen:
      return Open(path);
    case Step::kUnlink:
      return unlink(path.c_str());
    case Step::kList:
      break;
  }
  return 0;
}

// As `ls -l`: every name, and what it is.
int List(const std::string& path, std::uint64_t& entries) {
  DIR* directory = opendir(path.c_str());
  if (directory == nullptr) return -1;
  int result = 0;
  while (const dirent* entry = readdir(directory)) {
    struct stat found {};
    if (fstatat(dirfd(directory), entry->d_name, &found, AT_SYMLINK_NOFOLLOW) != 0) result = -1;
    ++entries;
  }
  closedir(directory);
  return result;
}

class MetaLoad final : public Load {
 public:
  MetaLoad(const MetaShape& shape, const MetaOptions& options, std::vector<std::string> clients)
      : shape_(shape), options_(options), clients_(std::move(clients)) {}

  absl::Status Prepare() override {
    for (std::uint32_t i = 0; i < thread_count(); ++i) {
      const std::string path = ThreadDirectory(i);
      if (mkdir(path.c_str(), 0755) != 0 && errno != EEXIST) {
        return absl::ErrnoToStatus(errno, absl::StrCat("cannot make ", path));
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Measure> Run() override {
    operations_ = 0;
    error_ = 0;
    const Stopwatch watch;
    std::vector<std::thread> threads;
    for (std::uint32_t i = 0; i < thread_count(); ++i) threads.emplace_back([&, i] { Work(i); });
    for (std::thread& thread : threads) thread.join();
    if (error_ != 0)
      return absl::ErrnoToStatus(
          error_, absl::StrCat(shape_.name, " in ", absl::StrJoin(clients_, " and ")));
    return watch.Read(static_cast<double>(operations_.load()), 0);
  }

 private:
  std::uint32_t thread_count() const {
    return shape_.threads * static_cast<std::uint32_t>(clients_.size());
  }

  std::string ThreadDirectory(std::uint32_t thread) const {
    const std::string& client = clients_[thread / shape_.threads];
    if (options_.shared) return absl::StrCat(client, "/", shape_.threads);
    return absl::StrCat(client, "/", shape_.threads, ".", thread);
  }

  void Work(std::uint32_t thread) {
    const std::string directory = ThreadDirectory(thread);
    std::uint64_t done = 0;
    if (shape_.step == Step::kList) {
      if (List(directory, done) != 0) error_ = errno;
    } else {
      for (; done < options_.files && error_ == 0; ++done) {
        const std::string path = absl::StrCat(directory, "/file", thread, ".", done);
        if (Do(shape_.step, path) != 0) error_ = errno;
      }
    }
    operations_ += done;
  }

  const MetaShape shape_;
  const MetaOptions options_;
  const std::vector<std::string> clients_;
  std::atomic<std::uint64_t> operations_{0};
  std::atomic<int> error_{0};
};

}  // namespace

std::vector<MetaShape> MetaShapes(std::uint32_t threads) {
  std::vector<MetaShape> shapes;
  for (const std::uint32_t count : {1u, threads}) {
    const std::string suffix = absl::StrCat(", ", count, count == 1 ? " thread" : " threads");
    for (const auto& [name, step] : {std::pair("create", Step::kCreate),
                                     {"stat", Step::kStat},
                                     {"open and close", Step::kOpen},
                                     {"list with attributes", Step::kList},
                                     {"unlink", Step::kUnlink}}) {
      shapes.push_back({name + suffix, step, count});
    }
    if (threads == 1) break;
  }
  return shapes;
}

std::unique_ptr<Load> MakeMetaLoad(const MetaShape& shape, const MetaOptions& options,
                                   const std::vector<std::string>& clients) {
  return std::make_unique<MetaLoad>(shape, options, clients);
}

}  // namespace reel::bench
