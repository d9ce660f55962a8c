// ProbeForeignContent of label.h: the one file that speaks to libblkid.
#include <blkid/blkid.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "absl/strings/str_cat.h"
#include "volume/base/aligned_buffer.h"
#include "volume/base/types.h"
#include "volume/format/label.h"
#include "volume/iscsi/iscsi_url.h"
#include "volume/lun/fd_lun.h"

namespace reel {
namespace {

struct FreeProbe {
  void operator()(blkid_probe probe) const { blkid_free_probe(probe); }
};
using Probe = std::unique_ptr<blkid_struct_probe, FreeProbe>;

std::string Value(blkid_probe probe, const char* key) {
  const char* value = nullptr;
  std::size_t size = 0;
  if (blkid_probe_lookup_value(probe, key, &value, &size) != 0 || size == 0) return "";
  return std::string(value, size - 1);  // the size counts the final zero
}

std::string Describe(blkid_probe probe) {
  const std::string type = Value(probe, "TYPE");
  const std::string label = Value(probe, "LABEL");
  const std::string table = Value(probe, "PTTYPE");
  std::string text;
  if (!type.empty()) text = type;
  if (!label.empty()) absl::StrAppend(&text, " named '", label, "'");
  if (!table.empty())
    absl::StrAppend(&text, text.empty() ? "" : " and ", "a ", table, " partition table");
  return text.empty() ? "content of a kind that libblkid does not name" : text;
}

// Nearly all that libblkid knows lies within these of a device's ends.
constexpr std::uint64_t kHeadBytes = 4 * kMiB;
constexpr std::uint64_t kTailBytes = 2 * kMiB;

absl::Status CopyRange(Lun& lun, std::uint64_t from, std::uint64_t to, int fd) {
  const AlignedBuffer buffer(to - from);
  if (absl::Status status = lun.Read(from, buffer.span()); !status.ok()) return status;
  if (pwrite(fd, buffer.data(), buffer.size(), static_cast<off_t>(from)) !=
      static_cast<ssize_t>(buffer.size())) {
    return OpenFailed(lun.name(), errno);
  }
  return absl::OkStatus();
}

// libblkid reads descriptors only: a sparse file in memory, as long as the LUN, with its ends.
absl::StatusOr<UniqueFd> CopyOfEnds(Lun& lun) {
  UniqueFd fd(memfd_create("reelfs-ends", MFD_CLOEXEC));
  const std::uint64_t size = lun.size_bytes();
  if (!fd.valid() || ftruncate(fd.get(), static_cast<off_t>(size)) != 0) {
    return OpenFailed(lun.name(), errno);
  }
  const std::uint64_t head = std::min(size, kHeadBytes);
  if (absl::Status status = CopyRange(lun, 0, head, fd.get()); !status.ok()) return status;
  const std::uint64_t tail = std::max(head, size - std::min(size, kTailBytes));
  if (tail == size) return fd;
  if (absl::Status status = CopyRange(lun, tail, size, fd.get()); !status.ok()) return status;
  return fd;
}

absl::StatusOr<std::string> ProbeDescriptor(const std::string& path, int fd,
                                            unsigned sector_bytes) {
  const Probe probe(blkid_new_probe());
  if (probe == nullptr || blkid_probe_set_device(probe.get(), fd, 0, 0) != 0 ||
      (sector_bytes != 0 && blkid_probe_set_sectorsize(probe.get(), sector_bytes) != 0)) {
    return absl::UnknownError(absl::StrCat(path, ": cannot be probed for file systems"));
  }
  blkid_probe_enable_superblocks(probe.get(), 1);
  blkid_probe_set_superblocks_flags(probe.get(), BLKID_SUBLKS_TYPE | BLKID_SUBLKS_LABEL);
  blkid_probe_enable_partitions(probe.get(), 1);
  errno = 0;
  switch (blkid_do_safeprobe(probe.get())) {
    case 0:
      return Describe(probe.get());
    case 1:
      return std::string();
    case -2:
      return std::string("several file systems or tables at once");
    default:
      return absl::UnknownError(
          absl::StrCat(path, ": reading it for file systems failed; check the device"));
  }
}

}  // namespace

absl::StatusOr<std::string> ProbeForeignContent(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return OpenFailed(path, errno);
  // libblkid reads through the page cache, which knows nothing of what other hosts wrote.
  posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
  return ProbeDescriptor(path, fd.get(), 0);
}

absl::StatusOr<std::string> ProbeForeignContent(Lun& lun) {
  if (!IsIscsiUrl(lun.name())) return ProbeForeignContent(lun.name());
  const absl::StatusOr<UniqueFd> fd = CopyOfEnds(lun);
  if (!fd.ok()) return fd.status();
  return ProbeDescriptor(lun.name(), fd->get(), lun.logical_block_bytes());
}

}  // namespace reel
