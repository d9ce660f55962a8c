// An image file for one test, sparse and empty, removed at the end.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "volume/check.h"

namespace reel {

class TemporaryImage {
 public:
  explicit TemporaryImage(std::uint64_t size_bytes) {
    const char* directory = std::getenv("TMPDIR");
    path_ = std::string(directory != nullptr ? directory : "/tmp") + "/reel-image-XXXXXX";
    const int fd = mkstemp(path_.data());
    REEL_CHECK(fd >= 0 && ftruncate(fd, static_cast<off_t>(size_bytes)) == 0,
               "the directory for temporary files takes an image");
    close(fd);
  }
  ~TemporaryImage() { unlink(path_.c_str()); }
  TemporaryImage(const TemporaryImage&) = delete;
  TemporaryImage& operator=(const TemporaryImage&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace reel
