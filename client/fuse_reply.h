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
#include "proto/mdc.pb.h"

namespace reel::client {

// How long the kernel may go on without asking: not at all, since names and attributes have no
// tokens.
inline constexpr double kCacheSeconds = 0.0;

// What stat(2) shows as st_blksize: cp, cat and their like read and write in pieces of that size.
inline constexpr std::uint32_t kPreferredIoBytes = 1 << 20;

struct stat ToStat(const v1::Attr& attr);
fuse_entry_param ToEntry(const v1::Attr& attr);

void ReplyStatus(fuse_req_t request, const absl::Status& status);
void ReplyAttr(fuse_req_t request, const absl::StatusOr<v1::Attr>& attr);
// The reply of STATX, with the birth time.
void ReplyStatx(fuse_req_t request, const absl::StatusOr<v1::Attr>& attr);
void ReplyEntry(fuse_req_t request, const absl::StatusOr<v1::Attr>& attr);

// FOPEN_DIRECT_IO with parallel writes, or the page cache. libfuse 3.14 cannot say the former.
std::uint32_t OpenFlags(bool direct);
bool ReplyOpen(fuse_req_t request, std::uint32_t open_flags);
bool ReplyCreate(fuse_req_t request, const v1::Attr& attr, std::uint32_t open_flags);

}  // namespace reel::client
