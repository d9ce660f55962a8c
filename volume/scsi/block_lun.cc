#include "volume/scsi/block_lun.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "spdlog/spdlog.h"
#include "volume/base/aligned_buffer.h"
#include "volume/base/mutex.h"
#include "volume/base/types.h"
#include "volume/scsi/multipath.h"

namespace reel {
namespace {

// Of all claims of this process.
Mutex& ClaimMutex() {
  static Mutex& mutex = *new Mutex;
  return mutex;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Lun>> BlockLun::Open(const std::string& path, LunAccess access) {
  const int mode = access == LunAccess::kReadOnly ? O_RDONLY : O_RDWR;
  UniqueFd fd(open(path.c_str(), mode | O_DIRECT | O_CLOEXEC));
  if (!fd.valid()) return OpenFailed(path, errno);
  struct stat facts {};
  if (fstat(fd.get(), &facts) != 0) return OpenFailed(path, errno);
  if (!S_ISBLK(facts.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": is not a block device any more"));
  }
  std::uint64_t size_bytes = 0;
  int logical_block_bytes = 0;
  unsigned optimal_io_bytes = 0;
  if (ioctl(fd.get(), BLKGETSIZE64, &size_bytes) != 0 ||
      ioctl(fd.get(), BLKSSZGET, &logical_block_bytes) != 0) {
    return OpenFailed(path, errno);
  }
  if (ioctl(fd.get(), BLKIOOPT, &optimal_io_bytes) != 0) optimal_io_bytes = 0;
  if (logical_block_bytes <= 0 || !IsPowerOfTwo(static_cast<std::uint64_t>(logical_block_bytes)) ||
      static_cast<std::size_t>(logical_block_bytes) > kIoAlignment) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": its logical block of ", logical_block_bytes,
                     " bytes is not supported; use a device with blocks of 512 or 4096 bytes"));
  }
  const auto logical = static_cast<std::uint32_t>(logical_block_bytes);
  auto lun = absl::WrapUnique(new BlockLun({.name = path,
                                            .size_bytes = RoundDown(size_bytes, logical),
                                            .logical_block_bytes = logical,
                                            .optimal_io_bytes = optimal_io_bytes,
                                            .read_only = access == LunAccess::kReadOnly,
                                            .device = true},
                                           std::move(fd)));
  BlockLun* const raw = lun.get();
  auto reservations = BlockReservations::Find(
      DevicePath(path, [raw](unsigned long request,
                             void* argument) { return ioctl(raw->fd(), request, argument); }),
      [raw] { return raw->Paths(); }, [raw] { return raw->ClaimForThisProcess(); });
  if (!reservations.ok()) return reservations.status();
  lun->reservations_ = *std::move(reservations);
  lun->beginning_ = BeginningOf(lun->fd());
  return lun;
}

std::vector<DevicePath> BlockLun::Paths() const {
  struct stat facts {};
  if (fstat(fd(), &facts) != 0) return {};
  return MultipathPaths(facts.st_rdev);
}

absl::StatusOr<std::uint64_t> BlockLun::SizeNow() {
  std::uint64_t size_bytes = 0;
  if (ioctl(fd(), BLKGETSIZE64, &size_bytes) != 0) return Failed("size", errno);
  if (size_bytes == 0) {
    return absl::UnavailableError(absl::StrCat(name(), ": the kernel has removed its device"));
  }
  return RoundDown(size_bytes, logical_block_bytes());
}

std::string BlockLun::BeginningOf(int fd) {
  const AlignedBuffer block(kIoAlignment);
  if (pread(fd, block.data(), block.size(), 0) != static_cast<ssize_t>(block.size())) return "";
  return {reinterpret_cast<const char*>(block.data()), block.size()};
}

absl::Status BlockLun::Discard(std::uint64_t offset_bytes, std::uint64_t length_bytes) {
  if (absl::Status status = CheckLunRange(*this, offset_bytes, length_bytes); !status.ok()) {
    return status;
  }
  if (absl::Status status = CheckLunWritable(*this); !status.ok()) return status;
  std::uint64_t range[2] = {offset_bytes, length_bytes};
  if (ioctl(fd(), BLKDISCARD, &range) != 0) return Failed("discard", errno);
  return absl::OkStatus();
}

struct BlockLun::Claim {
  UniqueFd file;
  bool writable = false;
};

// The kernel tells claimants apart by their open file, and this process may have the device open
// more than once: the seat's beats have a LUN of their own.
absl::StatusOr<std::shared_ptr<const BlockLun::Claim>> BlockLun::ClaimOf(dev_t device) const {
  static auto& of_device = *new std::map<dev_t, std::weak_ptr<const Claim>>();
  std::shared_ptr<const Claim> claim = of_device[device].lock();
  if (claim != nullptr && (claim->writable || read_only())) return claim;
  const int mode = (read_only() ? O_RDONLY : O_RDWR) | O_DIRECT | O_CLOEXEC;
  UniqueFd file(open(name().c_str(), mode | O_EXCL));
  if (!file.valid()) {
    if (errno != EBUSY) return OpenFailed(name(), errno);
    return absl::FailedPreconditionError(absl::StrCat(
        name(),
        ": in use on this host (a mount, swap, LVM, MD, multipath, another process, or what one "
        "that has ended left with the kernel and the device has not answered yet); free it "
        "first"));
  }
  struct stat now {};
  if (fstat(file.get(), &now) != 0) return OpenFailed(name(), errno);
  if (now.st_rdev != device) {
    return absl::FailedPreconditionError(
        absl::StrCat(name(), ": another device has that name by now; open it again"));
  }
  claim = std::make_shared<const Claim>(Claim{std::move(file), !read_only()});
  of_device[device] = claim;
  return claim;
}

absl::Status BlockLun::ClaimForThisProcess() {
  MutexLock lock(ClaimMutex());
  if (claim_ != nullptr) return absl::OkStatus();
  struct stat facts {};
  if (fstat(fd(), &facts) != 0) return OpenFailed(name(), errno);
  auto claim = ClaimOf(facts.st_rdev);
  if (!claim.ok()) return claim.status();
  // From here on the I/O of this object goes by the claimed file.
  if (dup3((*claim)->file.get(), fd(), O_CLOEXEC) < 0) return OpenFailed(name(), errno);
  claim_ = *std::move(claim);
  return absl::OkStatus();
}

absl::Status BlockLun::Reopen() {
  const AlignedBuffer block(logical_block_bytes());
  absl::Status status = Read(0, block.span());
  if (status.ok()) return status;
  const int mode = (read_only() ? O_RDONLY : O_RDWR) | O_DIRECT | O_CLOEXEC;
  const UniqueFd device(open(name().c_str(), mode));
  struct stat before {};
  struct stat now {};
  if (!device.valid() || fstat(fd(), &before) != 0 || fstat(device.get(), &now) != 0) return status;
  if (!S_ISBLK(now.st_mode) || now.st_rdev == before.st_rdev) return status;
  return MoveTo(device, now.st_rdev);
}

absl::Status BlockLun::MoveTo(const UniqueFd& device, dev_t number) {
  std::uint64_t size = 0;
  int logical = 0;
  const std::string beginning = BeginningOf(device.get());
  if (beginning.empty() || ioctl(device.get(), BLKGETSIZE64, &size) != 0 ||
      ioctl(device.get(), BLKSSZGET, &logical) != 0) {
    return Failed("the device that has its name now", EIO);
  }
  if (beginning != beginning_ || size < size_bytes() ||
      static_cast<std::uint32_t>(logical) != logical_block_bytes()) {
    return absl::FailedPreconditionError(
        absl::StrCat(name(), ": its device is gone, and another LUN has that name now; name LUNs ",
                     "by /dev/disk/by-id or /dev/mapper, and see that this one is connected"));
  }
  MutexLock lock(ClaimMutex());
  if (claim_ != nullptr) {
    auto claim = ClaimOf(number);
    if (!claim.ok()) return claim.status();
    if (dup3((*claim)->file.get(), fd(), O_CLOEXEC) < 0) return OpenFailed(name(), errno);
    claim_ = *std::move(claim);
  } else if (dup3(device.get(), fd(), O_CLOEXEC) < 0) {
    return OpenFailed(name(), errno);
  }
  spdlog::info("{}: its device was replaced by the kernel; goes on by the new one", name());
  return absl::OkStatus();
}

}  // namespace reel
