// A POSIX ACL, in the form in which setxattr(2) carries it: what it means for a mode and what a
// mode means for it, as acl(5) and Linux's own file systems have it.
//
// Invariant: an Acl that Parse returned is valid: sorted by tag, with one entry each for owner,
// group and others, and a mask where a user or a group is named. Threads: a value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/records.pb.h"

namespace reel::mdc {

inline constexpr std::string_view kAccessAcl = "system.posix_acl_access";
inline constexpr std::string_view kDefaultAcl = "system.posix_acl_default";

class Acl {
 public:
  // EINVAL: no valid ACL; EOPNOTSUPP: of another version. No entries at all (which setxattr(2)
  // takes for a removal) is an empty Acl.
  static absl::StatusOr<Acl> Parse(std::string_view bytes);
  std::string Serialize() const;

  bool empty() const { return entries_.empty(); }
  // Whether it says no more than the nine permission bits can.
  bool IsMinimal() const;
  // The permission bits that show it: the mask, where there is one, in the group's place.
  std::uint32_t PermissionBits() const;
  // As chmod(2): owner, others, and the mask (else the group) become those of `mode`.
  void SetPermissionBits(std::uint32_t mode);
  // The default ACL of a directory becomes the access ACL of a new inode that was asked for with
  // `mode`: neither grants what the other does not. Returns the inode's permission bits.
  std::uint32_t Inherit(std::uint32_t mode);
  // Whether an access ACL lets the caller do all of `wanted` (R_OK, W_OK, X_OK) with its inode, by
  // acl(5)'s algorithm; root is no exception here. REQUIRES: not empty.
  bool Allows(const v1::Credentials& credentials, const v1::InodeRecord& record,
              std::uint32_t wanted) const;

 private:
  struct Entry {
    std::uint16_t tag = 0;
    std::uint16_t permissions = 0;
    std::uint32_t id = 0;
  };
  bool IsValid() const;
  // nullptr when there is none.
  Entry* Find(std::uint16_t tag);
  const Entry* Find(std::uint16_t tag) const { return const_cast<Acl*>(this)->Find(tag); }
  Entry& GroupClass();

  std::vector<Entry> entries_;
};

}  // namespace reel::mdc
