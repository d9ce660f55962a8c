// An image file for one test, sparse and empty, removed at the end. It has a directory of its own:
// what lies beside a LUN counts as its neighbours.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "volume/base/check.h"

namespace reel {

class TemporaryImage {
 public:
  explicit TemporaryImage(std::uint64_t size_bytes) {
    const char* directory = std::getenv("TMPDIR");
    directory_ = std::string(directory != nullptr ? directory : "/tmp") + "/reel-image-XXXXXX";
    REEL_CHECK(mkdtemp(directory_.data()) != nullptr, "there is room for a directory");
    path_ = directory_ + "/lun.img";
    const int fd = open(path_.c_str(), O_CREAT | O_EXCL | O_RDWR, 0600);
    REEL_CHECK(fd >= 0 && ftruncate(fd, static_cast<off_t>(size_bytes)) == 0,
               "the directory for temporary files takes an image");
    close(fd);
  }
  ~TemporaryImage() {
    unlink(path_.c_str());
    rmdir(directory_.c_str());
  }
  TemporaryImage(const TemporaryImage&) = delete;
  TemporaryImage& operator=(const TemporaryImage&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string directory_, path_;
};

}  // namespace reel
