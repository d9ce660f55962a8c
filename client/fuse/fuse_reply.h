// Our types as libfuse's: attributes, names, errors and the replies made of them.
//
// A reply that the kernel refuses (the caller was killed meanwhile) is not an error of ours, but
// what it carried must be taken back: those functions return false then. Threads: pure functions of
// the request.
#pragma once

#include <fuse_lowlevel.h>
#include <sys/stat.h>

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/base/attributes.h"
#include "proto/types.pb.h"

namespace reel::client {

// For how long the kernel may take what a reply says for valid, in nanoseconds: it rounds them up
// to its clock's next tick. 0: not at all.
struct Validity {
  std::uint64_t attr_ns = 0;
  std::uint64_t name_ns = 0;  // that the name leads there, or nowhere
};

// What stat(2) shows as st_blksize: cp, cat and their like read and write in pieces of that size.
inline constexpr std::uint32_t kPreferredIoBytes = 1 << 20;

struct stat ToStat(const Attributes& attr);
fuse_entry_param ToEntry(const Attributes& attr, const Validity& validity);

// The flags of chattr(1) (FS_*_FL), as far as they are kept, and InodeFlag bits.
std::uint32_t ToFileFlags(std::uint32_t inode_flags);
std::uint32_t FromFileFlags(std::uint32_t file_flags);

// The reply of FS_IOC_GETFLAGS, or of FS_IOC_FSGETXATTR.
void ReplyFileFlags(fuse_req_t request, const absl::StatusOr<Attributes>& attr, bool extended);

void ReplyStatus(fuse_req_t request, const absl::Status& status);
void ReplyAttr(fuse_req_t request, const absl::StatusOr<Attributes>& attr,
               const Validity& validity = {});
// The reply of STATX, with the birth time.
void ReplyStatx(fuse_req_t request, const absl::StatusOr<Attributes>& attr,
                const Validity& validity = {});
// The kernel keeps ENOENT, too, where the name is valid.
void ReplyEntry(fuse_req_t request, const absl::StatusOr<Attributes>& attr,
                const Validity& validity = {});

// How the kernel is to take an open file.
struct OpenMode {
  bool direct = false;       // past the page cache, with parallel writes
  bool keeps_pages = false;  // what it has of the file is good
};
// As FOPEN flags. libfuse 3.14 does not know all of them.
std::uint32_t OpenFlags(const OpenMode& mode);
// `handle`: by which later requests name the open file.
bool ReplyOpen(fuse_req_t request, std::uint64_t handle, std::uint32_t open_flags);
bool ReplyCreate(fuse_req_t request, const Attributes& attr, const Validity& validity,
                 std::uint64_t handle, std::uint32_t open_flags);

}  // namespace reel::client
