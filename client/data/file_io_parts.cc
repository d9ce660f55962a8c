// What reads and writes share, and changes of size: zeros, flushes, and what a small file needs.
#include <sys/stat.h>

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

// Whether the writer is in the file's group takes long to find out.
bool FileIo::MayStayBehind(const FileState& f, bool small) {
  return small && (f.attr.mode() & (S_ISGID | S_IXGRP)) != S_ISGID;
}

// What the controller has already is changed in place, however short of room it is by now.
std::uint64_t FileIo::SmallLimit(const FileState& f, std::uint64_t end_bytes) const {
  const bool in_place = f.grant.small().at_controller() && end_bytes <= f.attr.size_bytes();
  return in_place ? kMaxSmallFileBytes : context_.session->small_file_bytes();
}

bool FileIo::MayNeedNoBlocks(const FileState& f, bool small, std::uint64_t end_bytes) const {
  return MayStayBehind(f, small) && !context_.session->commits_wait() &&
         end_bytes <= SmallLimit(f, end_bytes);
}

// Then it needs no blocks: memory has all of the file, and the controller will take it from there.
// (A write that is on its way to the LUNs may make it larger than that.)
bool FileIo::StaysSmall(const FileState& f, bool small, const ByteRange& write) const {
  return MayNeedNoBlocks(f, small, write.to) && write.from <= f.attr.size_bytes() &&
         f.locks.empty() && f.WouldBeSmall(write.to, SmallLimit(f, write.to));
}

// What memory has of a small file that outgrows it, and its content. Where they get none, nothing
// is lost but this write.
std::optional<Finding> FileIo::LookForBlocks(const FileState& f, const ByteRange& write,
                                             const std::optional<absl::Status>& refused) {
  if (f.grant.small().known()) return LookToUnpack(f, refused);
  const std::optional<std::uint64_t> at = f.FirstWithoutBlock();
  if (!at) return std::nullopt;
  if (refused) return Finding::Fail(*refused);
  // (One far behind the end leaves a hole.)
  std::uint64_t end = RoundUp(f.attr.size_bytes(), f.block_bytes);
  if (write.from <= end) end = std::max(end, RoundUp(write.to, f.block_bytes));
  return Finding::Fetch({kWholeFile, *at, end - *at, true});
}

// Looked up only where it matters: set-group-id without group execution, and a writer of another
// group.
bool FileIo::IsInGroup(std::uint32_t mode, std::uint32_t gid, const IoContext& io) {
  if ((mode & (S_ISGID | S_IXGRP)) != S_ISGID || io.credentials == nullptr) return true;
  if (io.credentials->uid() == 0 || io.credentials->gid() == gid) return true;
  if (io.groups == nullptr) return false;
  const std::vector<std::uint32_t> groups = io.groups->Get();
  return std::find(groups.begin(), groups.end(), gid) != groups.end();
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
