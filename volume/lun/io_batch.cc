#include "volume/lun/io_batch.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "volume/lun/lun_fault.h"
#include "volume/lun/uring.h"

namespace reel {
namespace {

// How far back Add looks for a neighbour: a batch over many stripes comes back to the same LUN
// after as many pieces as the set has LUNs.
constexpr std::size_t kMergeReach = 16;

absl::Status Annotate(const Lun& lun, const LunRequest& request) {
  return WithText(
      request.status,
      absl::StrCat(lun.name(), ": ", request.kind == LunRequest::Kind::kRead ? "read" : "write",
                   " of ", request.length_bytes, " bytes at offset ", request.offset_bytes, ": ",
                   request.status.message()));
}

}  // namespace

void IoBatch::Add(Lun& lun, LunRequest::Kind kind, std::uint64_t offset_bytes, iovec memory) {
  while (memory.iov_len > kMaxRequestBytes) {
    Add(lun, kind, offset_bytes, {memory.iov_base, kMaxRequestBytes});
    offset_bytes += kMaxRequestBytes;
    memory.iov_base = static_cast<std::byte*>(memory.iov_base) + kMaxRequestBytes;
    memory.iov_len -= kMaxRequestBytes;
  }
  const std::size_t reach = std::min(kMergeReach, entries_.size());
  for (auto entry = entries_.rbegin(); entry != entries_.rbegin() + reach; ++entry) {
    if (entry->lun != &lun || entry->request.kind != kind) continue;
    if (entry->request.offset_bytes + entry->request.length_bytes != offset_bytes) continue;
    if (MergeInto(*entry, memory)) return;
  }
  Entry& entry = entries_.emplace_back();
  entry.lun = &lun;
  entry.request.kind = kind;
  entry.request.offset_bytes = offset_bytes;
  entry.request.length_bytes = memory.iov_len;
  entry.parts.push_back(memory);
}

bool IoBatch::MergeInto(Entry& entry, iovec memory) {
  if (entry.request.length_bytes + memory.iov_len > kMaxRequestBytes) return false;
  iovec& last = entry.parts.back();
  if (static_cast<std::byte*>(last.iov_base) + last.iov_len == memory.iov_base) {
    last.iov_len += memory.iov_len;
  } else {
    if (entry.parts.size() == kMaxParts) return false;
    entry.parts.push_back(memory);
  }
  entry.request.length_bytes += memory.iov_len;
  return true;
}

absl::Status IoBatch::Run() {
  if (notes_times_) began_ = std::chrono::steady_clock::now();
  outstanding_.store(static_cast<std::uint32_t>(entries_.size()), std::memory_order_relaxed);
  for (Entry& entry : entries_) {
    entry.request.parts = entry.parts;
    entry.request.batch = this;
    entry.lun->Start(entry.request);
  }
  Uring::DrainThisThread();
  Await();
  for (const Entry& entry : entries_) {
    if (!entry.request.status.ok()) return Annotate(*entry.lun, entry.request);
  }
  return absl::OkStatus();
}

absl::Status IoBatch::FailureOn(const Lun& lun) const {
  absl::Status worst;
  for (const Entry& entry : entries_) {
    if (entry.lun == &lun && IsWorse(entry.request.status, worst)) {
      worst = entry.request.status;
    }
  }
  return worst;
}

void IoBatch::ForEachTook(absl::FunctionRef<void(const Lun& lun, std::uint64_t us)> tell) const {
  for (const Entry& entry : entries_) {
    if (entry.request.status.ok()) tell(*entry.lun, entry.request.took_us);
  }
}

bool IoBatch::MayHaveLanded() const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [](const Entry& entry) { return !IsNotDone(entry.request.status); });
}

}  // namespace reel
