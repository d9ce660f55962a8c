// What image files and block devices have in common: a descriptor opened with O_DIRECT, whose
// requests travel over the calling thread's io_uring.
//
// A request is started by the thread that runs its batch: that thread's ring carries it.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "volume/lun/lun.h"

namespace reel {

// Owns a file descriptor.
class UniqueFd {
 public:
  explicit UniqueFd(int fd = -1) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~UniqueFd();
  int get() const { return fd_; }
  int Release() { return std::exchange(fd_, -1); }
  bool valid() const { return fd_ >= 0; }

 private:
  int fd_;
};

class FdLun : public Lun {
 public:
  struct Facts {
    std::string name;
    std::uint64_t size_bytes = 0;
    std::uint32_t logical_block_bytes = 4096;
    std::uint32_t optimal_io_bytes = 0;
    bool read_only = false;
    bool device = false;  // a block device
  };

  const std::string& name() const override { return facts_.name; }
  std::uint64_t size_bytes() const override { return size_bytes_; }
  absl::Status Grow() override;
  std::uint32_t logical_block_bytes() const override { return facts_.logical_block_bytes; }
  std::uint32_t optimal_io_bytes() const override { return facts_.optimal_io_bytes; }
  bool read_only() const override { return facts_.read_only; }

  void Start(LunRequest& request) override;
  absl::Status Flush() override;

 protected:
  FdLun(Facts facts, UniqueFd fd)
      : facts_(std::move(facts)), size_bytes_(facts_.size_bytes), fd_(std::move(fd)) {}

  int fd() const { return fd_.get(); }
  // UNKNOWN, or UNIMPLEMENTED where errno says that the device cannot; with the LUN's name, and
  // with what a block device's errno says more.
  absl::Status Failed(const char* what, int error) const;

 private:
  const Facts facts_;
  std::atomic<std::uint64_t> size_bytes_;
  UniqueFd fd_;
};

// The error of opening `name`, with what to do about it.
absl::Status OpenFailed(const std::string& name, int error);

}  // namespace reel
