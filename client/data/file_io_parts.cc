// What reads and writes share, and changes of size: zeros, flushes, and what a small file needs.
#include <algorithm>
#include <cerrno>
#include <optional>

#include "client/data/file_io.h"
#include "client/session/session_end.h"
#include "proto/status.h"
#include "volume/base/aligned_buffer.h"

namespace reel::client {

// A small file's content is changed in memory, where it has to have blocks. (Those of the write
// itself, which may be far behind them, are found afterwards.)
std::optional<Finding> FileIo::LookToUnpack(const FileState& f,
                                            const std::optional<absl::Status>& refused) {
  const std::uint64_t block_bytes = f.block_bytes;
  const std::uint64_t to = f.SmallEnd();
  if (!f.grant.Has(kWholeFile, v1::TOKEN_EXCLUSIVE)) {
    return Finding::FetchToken({kWholeFile, 0, to, !refused});
  }
  ExtentList extents;
  std::optional<std::uint64_t> lacked = f.grant.Cover(0, f.grant.small().size_bytes(), extents);
  for (const Extent& extent : extents) {
    if (extent.state != ExtentState::kHole) continue;
    const std::uint64_t at = extent.file_block.value() * block_bytes;
    lacked = std::min(lacked.value_or(at), at);
    if (refused) return Finding::Fail(*refused);
  }
  if (!lacked) return std::nullopt;
  return Finding::Fetch({kWholeFile, *lacked, to - *lacked, !refused});
}

absl::Status FileIo::FlushMarks(const LunMarks& marks, const IoPermit& permit) {
  const auto end = SessionEnd(*context_.session, permit.session, permit.interrupt);
  absl::Status status = context_.io->Flush(marks, &end);
  const bool raised = permit.interrupt != nullptr && permit.interrupt->interrupted();
  if (ErrnoOf(status) != EINTR || raised) return status;
  return PermitOver("the session has ended");
}

absl::Status FileIo::Zero(std::span<const Extent> extents, std::uint64_t from_bytes,
                          std::uint64_t to_bytes, LunMarks& marks, const IoPermit& permit) {
  const std::uint64_t block_bytes = context_.io->block_bytes();
  for (const Extent& extent : extents) {
    const std::uint64_t from = std::max(from_bytes, extent.file_block.value() * block_bytes);
    const std::uint64_t to = std::min(to_bytes, extent.end().value() * block_bytes);
    if (from >= to || extent.state != ExtentState::kWritten) continue;
    const AlignedBuffer zeros = AlignedBuffer::Zeroed(to - from);
    absl::Status status = context_.io->Write({&extent, 1}, from, zeros.span(), marks, permit);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace reel::client
