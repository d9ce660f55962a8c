#include "tests/fsx/mounted_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace reel::fsx {

void MountedFile::Check(bool good, const std::string& what) const {
  if (!good) fail_(what + ": " + std::strerror(errno));
}

void MountedFile::Open() {
  constexpr int kFlags[] = {0, O_DIRECT, O_APPEND, O_SYNC};
  for (int i = 0; i < 4; ++i) {
    fds_[i] = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | kFlags[i], 0644);
    Check(fds_[i] >= 0, "open " + path_);
  }
}

void MountedFile::Close() {
  Unmap();
  for (int& fd : fds_) {
    if (fd >= 0) close(fd);
    fd = -1;
  }
}

void MountedFile::Reopen() {
  Close();
  Open();
}

std::vector<char> MountedFile::Read(Way way, std::uint64_t offset, std::size_t length) {
  std::vector<char> data(length);
  std::size_t done = 0;
  while (done < length) {
    const ssize_t got =
        pread(fd(way), data.data() + done, length - done, static_cast<off_t>(offset + done));
    Check(got >= 0, "pread");
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  data.resize(done);
  return data;
}

void MountedFile::Write(Way way, std::uint64_t offset, std::span<const char> data) {
  while (!data.empty()) {
    const ssize_t put = way == Way::kAppend
                            ? write(fd(way), data.data(), data.size())
                            : pwrite(fd(way), data.data(), data.size(), static_cast<off_t>(offset));
    Check(put > 0, "write");
    data = data.subspan(static_cast<std::size_t>(put));
    offset += static_cast<std::uint64_t>(put);
  }
}

void MountedFile::WriteVector(std::uint64_t offset, std::span<const char> data, int parts) {
  std::vector<iovec> list;
  const std::size_t step = data.size() / static_cast<std::size_t>(parts) + 1;
  for (std::size_t at = 0; at < data.size(); at += step) {
    list.push_back({const_cast<char*>(data.data()) + at, std::min(step, data.size() - at)});
  }
  const ssize_t put = pwritev(fd(Way::kPlain), list.data(), static_cast<int>(list.size()),
                              static_cast<off_t>(offset));
  Check(put >= 0, "pwritev");
  Write(Way::kPlain, offset + static_cast<std::uint64_t>(put),
        data.subspan(static_cast<std::size_t>(put)));
}

void MountedFile::Truncate(std::uint64_t size) {
  Check(ftruncate(fd(Way::kPlain), static_cast<off_t>(size)) == 0, "ftruncate");
}

void MountedFile::Allocate(int mode, std::uint64_t offset, std::uint64_t length) {
  Check(
      fallocate(fd(Way::kPlain), mode, static_cast<off_t>(offset), static_cast<off_t>(length)) == 0,
      "fallocate");
}

void MountedFile::Sync(bool data_only) {
  Check((data_only ? fdatasync(fd(Way::kPlain)) : fsync(fd(Way::kPlain))) == 0, "fsync");
}

void MountedFile::Copy(std::uint64_t from, std::uint64_t to, std::uint64_t length) {
  auto in = static_cast<off_t>(from);
  auto out = static_cast<off_t>(to);
  while (length > 0) {
    const ssize_t copied = copy_file_range(fd(Way::kPlain), &in, fd(Way::kPlain), &out, length, 0);
    Check(copied > 0, "copy_file_range");
    length -= static_cast<std::uint64_t>(copied);
  }
}

off_t MountedFile::Seek(std::uint64_t offset, int whence) {
  const off_t found = lseek(fd(Way::kPlain), static_cast<off_t>(offset), whence);
  Check(found >= 0 || errno == ENXIO, "lseek");
  return found;
}

std::uint64_t MountedFile::Size() {
  struct stat facts {};
  Check(fstat(fd(Way::kPlain), &facts) == 0, "fstat");
  return static_cast<std::uint64_t>(facts.st_size);
}

char* MountedFile::Map(std::uint64_t end) {
  if (map_ == nullptr || map_bytes_ < end) {
    Unmap();
    map_bytes_ = Size();
    void* map = mmap(nullptr, map_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd(Way::kPlain), 0);
    Check(map != MAP_FAILED, "mmap");
    map_ = static_cast<char*>(map);
  }
  return map_;
}

void MountedFile::Unmap() {
  if (map_ != nullptr) munmap(map_, map_bytes_);
  map_ = nullptr;
}

void MountedFile::SyncMap() {
  if (map_ != nullptr) Check(msync(map_, map_bytes_, MS_SYNC) == 0, "msync");
}

}  // namespace reel::fsx
