// The file under test as one mount shows it: its descriptors, and a mapping that stays across other
// operations. A call that fails goes to `fail`, which does not come back. Threads: one.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace reel::fsx {

using Fail = std::function<void(const std::string& what)>;  // ends the process

class MountedFile {
 public:
  enum class Way { kPlain, kDirect, kAppend, kSync };

  MountedFile(std::string path, Fail fail) : path_(std::move(path)), fail_(std::move(fail)) {
    Open();
  }
  ~MountedFile() { Close(); }
  MountedFile(const MountedFile&) = delete;
  MountedFile& operator=(const MountedFile&) = delete;

  const std::string& path() const { return path_; }
  void Reopen();

  std::vector<char> Read(Way way, std::uint64_t offset, std::size_t length);
  // With kAppend wherever the end is; `offset` is ignored then.
  void Write(Way way, std::uint64_t offset, std::span<const char> data);
  void WriteVector(std::uint64_t offset, std::span<const char> data, int parts);
  void Truncate(std::uint64_t size);
  void Allocate(int mode, std::uint64_t offset, std::uint64_t length);
  void Sync(bool data_only);
  void Copy(std::uint64_t from, std::uint64_t to, std::uint64_t length);
  // lseek(2); -1 for ENXIO.
  off_t Seek(std::uint64_t offset, int whence);
  std::uint64_t Size();

  // The whole file mapped shared, anew when it does not cover `end`; REQUIRES: end <= size.
  char* Map(std::uint64_t end);
  void Unmap();
  void SyncMap();
  bool mapped() const { return map_ != nullptr; }

 private:
  void Open();
  void Close();
  void Check(bool good, const std::string& what) const;
  int fd(Way way) const { return fds_[static_cast<int>(way)]; }

  const std::string path_;
  const Fail fail_;
  int fds_[4] = {-1, -1, -1, -1};
  char* map_ = nullptr;
  std::uint64_t map_bytes_ = 0;
};

}  // namespace reel::fsx
