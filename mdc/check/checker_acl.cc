// What a stored ACL has to be: decodable, on an inode that can have it, and of one mind with the
// mode.
#include <sys/stat.h>

#include "absl/strings/str_format.h"
#include "mdc/check/checker_facts.h"
#include "mdc/ops/acl.h"

namespace reel::mdc::checker {

std::string AclFault(std::string_view name, std::string_view value, std::uint32_t mode) {
  if (name != kAccessAcl && name != kDefaultAcl) return "";
  const char* const kind = name == kAccessAcl ? "access" : "default";
  const absl::StatusOr<Acl> acl = Acl::Parse(value);
  if (!acl.ok() || acl->empty()) return absl::StrCat("its ", kind, " ACL does not decode");
  if (S_ISLNK(mode)) return absl::StrCat("it is a symbolic link with an ", kind, " ACL");
  if (name == kDefaultAcl) {
    return S_ISDIR(mode) ? "" : "it has a default ACL, but is no directory";
  }
  if (acl->PermissionBits() != (mode & 0777)) {
    return absl::StrFormat("its access ACL says %03o, its mode %03o", acl->PermissionBits(),
                           mode & 0777);
  }
  return acl->IsMinimal() ? "its access ACL says no more than its mode, which is not stored" : "";
}

}  // namespace reel::mdc::checker
