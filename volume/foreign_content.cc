// ProbeForeignContent of label.h: the one file that speaks to libblkid.
#include <blkid/blkid.h>
#include <fcntl.h>

#include <cerrno>
#include <memory>

#include "absl/strings/str_cat.h"
#include "volume/fd_lun.h"
#include "volume/label.h"

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

}  // namespace

absl::StatusOr<std::string> ProbeForeignContent(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return OpenFailed(path, errno);
  // libblkid reads through the page cache, which knows nothing of what other hosts wrote.
  posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
  const Probe probe(blkid_new_probe());
  if (probe == nullptr || blkid_probe_set_device(probe.get(), fd.get(), 0, 0) != 0) {
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

}  // namespace reel
