// Which kind of LUN a name stands for. Alone in its file, so that a test's program can be linked
// with another one (tests/failing/open_failing_lun.cc).
#include <sys/stat.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "volume/iscsi/iscsi_lun.h"
#include "volume/iscsi/iscsi_url.h"
#include "volume/lun/file_lun.h"
#include "volume/lun/lun.h"
#include "volume/scsi/block_lun.h"

namespace reel {

absl::StatusOr<std::unique_ptr<Lun>> OpenLun(const std::string& name, LunAccess access) {
  if (IsIscsiUrl(name)) return IscsiLun::Open(name, access);
  struct stat facts {};
  if (stat(name.c_str(), &facts) != 0) return OpenFailed(name, errno);
  if (S_ISBLK(facts.st_mode)) return BlockLun::Open(name, access);
  if (S_ISREG(facts.st_mode)) return FileLun::Open(name, access);
  return absl::InvalidArgumentError(
      absl::StrCat(name, ": is neither a regular file nor a block device; name one of these"));
}

}  // namespace reel
