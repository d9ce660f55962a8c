// What a program reserves for a file that it has open, by an extended attribute of the volume's own
// (mdc/ops/settings.h).
//
//   reelfs.rate   "400M" (MiB a second) or "24x12M" (frames a second, and how large one is): this
//                 host's reads and writes of the file get that much of the LUNs' bandwidth,
//                 whatever others do (docs/internals/bandwidth.md). Empty: no more. It ends when
//                 this host has the file open no more, and with its session.
// Threads: the core thread.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "mdc/ops/operation.h"

namespace reel::mdc {

inline constexpr std::string_view kRateSetting = "reelfs.rate";

// ENODATA: this session has reserved nothing for it.
absl::Status GetRate(const OpContext& ctx, InodeNumber inode, std::string& value);
// EOPNOTSUPP: no file. EINVAL: no rate. EBUSY: it cannot be kept. ENODATA: there is none to end.
absl::Status ChangeRate(OpContext& ctx, InodeNumber inode, const v1::InodeRecord& record,
                        std::string_view value);

}  // namespace reel::mdc
