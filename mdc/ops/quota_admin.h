// What administration changes of quotas, and what it sees. Threads: the core thread.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "mdc/metadb/txn.h"
#include "proto/admin.pb.h"
#include "proto/records.pb.h"

namespace reel::mdc {

// What is needed to say it in bytes and times.
struct QuotaView {
  const v1::QuotaStateRecord& state;
  std::uint32_t block_bytes;
  std::uint64_t now_seconds;
};

// Stages one change of limits or trees, or makes it in `state`, which the caller stores.
// INVALID_ARGUMENT; NOT_FOUND, ALREADY_EXISTS: a tree.
absl::Status StageQuotas(Txn& txn, const v1::SetQuotasRequest& request, const QuotaView& view,
                         v1::QuotaStateRecord& state, v1::SetQuotasReply& reply);
// All but how many inodes there are to be counted. INVALID_ARGUMENT; NOT_FOUND: a tree.
absl::Status DescribeQuotas(Txn& txn, const v1::QuotasRequest& request, const QuotaView& view,
                            v1::QuotasReply& reply);

}  // namespace reel::mdc
