#include "client/file/file_state.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

#include "client/base/attributes.h"
#include "proto/convert.h"
#include "proto/protocol.h"
#include "proto/status.h"
#include "proto/times.h"
#include "spdlog/spdlog.h"

namespace reel::client {
namespace {

// The session has ended: to programs that is no stale file.
int ErrnoToReport(const absl::Status& why) {
  const int errno_value = ErrnoOf(why);
  return errno_value == ESTALE ? EIO : errno_value;
}

// At most to where files end.
ByteRange BytesOf(const TokenSpan& span, std::uint64_t block_bytes) {
  const std::uint64_t last = kMaxFileBytes / block_bytes;
  return {std::min(span.first.value(), last) * block_bytes,
          std::min(span.end.value(), last) * block_bytes};
}

FileBlock EndOfSmall(std::uint64_t block_bytes) {
  return FileBlock(DivideUp(kMaxSmallFileBytes, block_bytes));
}

// As long as what a volume may have, and under a token of all of it.
absl::Status ValidateContent(const v1::LayoutReply& reply, const Grant::Layout& layout) {
  if (!reply.has_content()) return absl::OkStatus();
  const bool whole = layout.token.Contains(kWholeFile) && layout.mode != v1::TOKEN_NONE;
  const std::size_t bytes = reply.content().size();
  if (whole && bytes > 0 && bytes <= kMaxSmallFileBytes) return absl::OkStatus();
  return ErrnoStatus(EIO, "a malformed grant: its content");
}

}  // namespace

absl::Status FileState::Install(const v1::LayoutReply& reply, std::uint64_t session_id) {
  const absl::StatusOr<Grant::Layout> layout = Grant::Parse(reply);
  if (!layout.ok()) return layout.status();
  if (absl::Status valid = ValidateContent(reply, *layout); !valid.ok()) return valid;
  // What came under the token is newer than an answer that crossed it.
  const TokenSpan first_blocks{.first = FileBlock(0), .end = EndOfSmall(block_bytes)};
  const bool knows = (grant.Has(first_blocks, v1::TOKEN_SHARED) &&
                      (grant.small().known() || grant.Find(FileBlock(0)).has_value())) ||
                     memory.Overlaps(BytesOf(first_blocks, block_bytes));
  const bool replaces_all = grant.ReplacesAll(*layout);
  if (replaces_all) ForgetExtents();
  grant.TakeExtents(*layout, replaces_all);
  const auto& [start, length_blocks] = layout->described;
  const auto mark = [&](FileBlock first, std::uint64_t count) {
    mutex.AssertHeld();
    grant.MarkWritten(first, count);
  };
  if (length_blocks > 0) uncommitted.ForEachBlockIn(start, length_blocks, mark);
  if (reply.has_attr()) TakeAttr(reply.attr());
  grant.TakeToken(*layout, session_id);
  if (knows) return absl::OkStatus();
  if (reply.has_content()) {
    grant.small().Take(reply.content());
  } else if (start == FileBlock(0) && length_blocks > 0) {
    grant.small().Forget();
  }
  return absl::OkStatus();
}

void FileState::ForgetSmall() {
  if (!grant.small().at_controller()) return;
  grant.small().Forget();
  grant.Forget({FileBlock(0), EndOfSmall(block_bytes) - FileBlock(0)});
}

bool FileState::IsSmall(std::uint64_t most_bytes) const {
  return attr.size_bytes() > 0 && !memory.empty() && !grant.small().known() &&
         WouldBeSmall(attr.size_bytes(), most_bytes);
}

bool FileState::WouldBeSmall(std::uint64_t to_bytes, std::uint64_t most_bytes) const {
  const std::uint64_t size_bytes = attr.size_bytes();
  if (std::max(size_bytes, to_bytes) > most_bytes || grant.small().keeps_blocks()) return false;
  if (!grant.Has(kWholeFile, v1::TOKEN_EXCLUSIVE) || uncommitted.any_on_luns()) return false;
  if (size_bytes == 0) return true;
  if (grant.small().known()) return grant.small().size_bytes() == size_bytes;
  if (!memory.Covers({0, size_bytes}) || memory.InFlight({0, kMaxFileBytes})) return false;
  // (What is not known is no matter: the content takes the place of written blocks, too.)
  for (std::uint64_t at = 0; at < size_bytes; at += block_bytes) {
    const std::optional<Extent> extent = grant.Find(FileBlock(at / block_bytes));
    if (extent && extent->state == ExtentState::kWritten) return false;
  }
  return true;
}

std::optional<std::uint64_t> FileState::FirstWithoutBlock() const {
  if (attr.size_bytes() > kMaxSmallFileBytes || memory.empty()) return std::nullopt;
  // (What was put there just now may lie beyond the size.)
  for (std::uint64_t at = 0; at < kMaxSmallFileBytes; at += block_bytes) {
    if (!memory.Overlaps({at, at + block_bytes})) continue;
    const std::optional<Extent> extent = grant.Find(FileBlock(at / block_bytes));
    if (!extent || extent->state == ExtentState::kHole) return at;
  }
  return std::nullopt;
}

void FileState::AskAgainIfSmall() {
  if (!grant.small().at_controller() || grant.small().known()) return;
  memory.Clear();
  grant.KeepExtents({});
  grant.small().Forget();
}

void FileState::ForgetExtents() {
  std::vector<BlockSpan> needed;
  for (const DirtyBufferRef& dirty_buffer : memory.BuffersIn({0, kMaxFileBytes})) {
    const FileBlock first(dirty_buffer->ranges.front().from / block_bytes);
    const FileBlock end(DivideUp(dirty_buffer->ranges.back().to, block_bytes));
    needed.push_back({first, end - first});
  }
  grant.KeepExtents(needed);
}

void FileState::ReplayFailed() {
  grant.KeepExtents({});
  memory.Clear();
  grant.small().Forget();
  NoteLoss(ErrnoStatus(EIO, "the file was lost in the controller's failover"));
}

bool FileState::DirtyIn(const TokenSpan& span) const {
  // (What has no block stays only as long as the whole file is held.)
  if (memory.Overlaps(BytesOf(span, block_bytes)) || FirstWithoutBlock()) return true;
  if (!uncommitted.any()) return false;
  if (uncommitted.AnyWithToken(span.first, span.end - span.first)) return true;
  // Whoever holds nothing exclusively any more has told all that it changed.
  TokenRanges left = grant.token();
  left.Lower(span, v1::TOKEN_SHARED);
  return left.Most() != v1::TOKEN_EXCLUSIVE;
}

void FileState::LowerToken(const TokenSpan& span, v1::TokenMode mode) {
  grant.Lower(span, mode);
  // (What has become dirty memory again goes with the commit that comes before.)
  if (mode == v1::TOKEN_NONE && grant.small().known()) ForgetSmall();
  ForgetContents();
  if (mode == v1::TOKEN_NONE) ForgetAhead();
}

void FileState::ForgetContents() {
  zeros_to_bytes = 0;
  memory.ForgetAll();
}

void FileState::TakeAttr(const v1::Attr& from) {
  if (grant.empty()) {
    Attributes(from).CopyTo(attr);
    return;
  }
  const bool knows_all = grant.Has(kWholeFile, v1::TOKEN_SHARED);
  const bool knows_size = grant.Has(EndSpan(), v1::TOKEN_SHARED);
  const bool knows_mtime = knows_all || (uncommitted.mtime() && Later(attr.mtime(), from.mtime()));
  const std::uint64_t size_bytes =
      knows_size ? attr.size_bytes() : std::max(attr.size_bytes(), from.size_bytes());
  const v1::Time mtime = knows_mtime ? attr.mtime() : from.mtime();
  Attributes(from).CopyTo(attr);
  attr.set_size_bytes(size_bytes);
  *attr.mutable_mtime() = mtime;
  if (uncommitted.takes_set_id()) OverlayOn(attr);
  uncommitted.ShowDelayed(attr);
}

void FileState::Learn(const v1::Attr& from) {
  if (from.change() >= attr.change()) TakeAttr(from);
}

void FileState::ShowAgain(const v1::Attr& from) {
  const std::uint64_t size_bytes = attr.size_bytes();
  const v1::Time mtime = uncommitted.mtime() ? attr.mtime() : from.mtime();
  Attributes(from).CopyTo(attr);
  attr.set_size_bytes(size_bytes);
  *attr.mutable_mtime() = mtime;
  if (uncommitted.takes_set_id()) OverlayOn(attr);
  uncommitted.ShowDelayed(attr);
}

void FileState::OverlayOn(v1::Attr& attributes) const {
  uncommitted.ShowDelayed(attributes);
  access.Show(attributes);
  if (!grant.holds_to_write()) return;
  const bool committed = !uncommitted.mtime();
  if (grant.Has(EndSpan(), v1::TOKEN_EXCLUSIVE)) attributes.set_size_bytes(attr.size_bytes());
  if (grant.Has(kWholeFile, v1::TOKEN_EXCLUSIVE) ||
      (!committed && Later(attr.mtime(), attributes.mtime()))) {
    *attributes.mutable_mtime() = attr.mtime();
  }
  if (!committed && Later(attr.mtime(), attributes.ctime())) {
    *attributes.mutable_ctime() = attr.mtime();
  }
  uncommitted.HideSetId(attributes);
  // (A file of no blocks would be one hole to tar(1).)
  if (attributes.allocated_bytes() == 0 && FirstWithoutBlock())
    attributes.set_allocated_bytes(RoundUp(attributes.size_bytes(), 512));
}

void FileState::TakeResized(const v1::Attr& now) {
  ForgetSmall();
  const std::uint64_t kept_bytes = std::min(attr.size_bytes(), now.size_bytes());
  grant.ForgetFrom(FileBlock(DivideUp(kept_bytes, block_bytes)));
  attr = now;
}

void FileState::TakeReallocated(const v1::Attr* now, const BlockSpan& blocks) {
  ForgetSmall();
  grant.Forget(blocks);
  if (now != nullptr) attr = *now;
}

void FileState::TakeTimes(const v1::Attr& now) {
  TakeAttr(now);
  *attr.mutable_mtime() = now.mtime();
}

void FileState::TakeRemoved(v1::Attr& removed) {
  OverlayOn(removed);
  Reset();
  access.Forget();
  attr = removed;
}

bool FileState::NoteWritten(const Written& write, std::span<const Extent> used,
                            const LunMarks& marks) {
  const bool took_set_id = NoteChange(write, used);
  NoteOnLuns({write.offset_bytes, write.end_bytes}, used, marks);
  return took_set_id;
}

void FileState::NoteOnLuns(const ByteRange& range, std::span<const Extent> used,
                           const LunMarks& marks) {
  const BlockSpan span = BlocksOf(range.from, range.to - range.from, block_bytes);
  const FileBlock end = span.start + span.length_blocks;
  for (const Extent& extent : used) {
    if (extent.state != ExtentState::kUnwritten) continue;
    const FileBlock from = std::max(span.start, extent.file_block);
    const FileBlock to = std::min(end, extent.end());
    if (from < to) uncommitted.AddBlocks(from, to - from);
  }
  uncommitted.NoteRewritten(FileBlock(DivideUp(range.from, block_bytes)),
                            FileBlock(range.to / block_bytes));
  grant.MarkWritten(span.start, span.length_blocks);
  uncommitted.CountOnLuns(marks);
}

bool FileState::NoteChange(const Written& write, std::span<const Extent> used) {
  const bool grows = write.end_bytes > attr.size_bytes();
  if (grows) {
    const FileBlock last((write.end_bytes - 1) / block_bytes);
    const bool whole = std::any_of(used.begin(), used.end(), [&](const Extent& extent) {
      return extent.file_block <= last && last < extent.end() &&
             extent.state == ExtentState::kUnwritten;
    });
    if (whole) zeros_to_bytes = (last.value() + 1) * block_bytes;
    attr.set_size_bytes(write.end_bytes);
  }
  attr.mutable_mtime()->set_seconds(write.time.seconds);
  attr.mutable_mtime()->set_nanoseconds(write.time.nanoseconds);
  uncommitted.CountWritten(/*size=*/grows);
  const bool sgid_goes = (attr.mode() & S_IXGRP) != 0 || !write.in_group;
  const std::uint32_t set_id = attr.mode() & (S_ISUID | (sgid_goes ? S_ISGID : 0));
  ForgetAhead();
  if (write.by_root || set_id == 0) return false;
  uncommitted.NoteSetIdTaken(/*sgid=*/!write.in_group);
  attr.set_mode(attr.mode() & ~set_id);
  return true;
}

void FileState::LoseWritten(const BlockSet& blocks) {
  const BlockSet rewritten = uncommitted.LoseFlush(blocks);
  blocks.ForEach([&](FileBlock first, std::uint64_t length_blocks) {
    mutex.AssertHeld();
    grant.MarkUnwritten(first, length_blocks);
  });
  rewritten.ForEach([&](FileBlock first, std::uint64_t length_blocks) {
    mutex.AssertHeld();
    grant.MarkWritten(first, length_blocks);
  });
  ForgetAhead();
  ForgetContents();
  AskAgainIfSmall();
}

void FileState::LoseDirty() {
  LoseWritten(uncommitted.TakeDirtyBlocks());
}

void FileState::NoteLoss(const absl::Status& why) {
  write_error.Note(ErrnoToReport(why), opens.newest_handle());
  ForgetContents();
  AskAgainIfSmall();
  spdlog::error("inode {}: what was written last is lost: {}", inode, std::string(why.message()));
}

void FileState::NoteRefused(const absl::Status& why) {
  write_error.Note(ErrnoToReport(why), opens.newest_handle());
  spdlog::error("inode {}: the controller refused attributes that were set: {}", inode,
                std::string(why.message()));
}

absl::Status FileState::LosePage() {
  absl::Status why =
      ErrnoStatus(EIO, "the session with the controller ended before it was written");
  if (!write_error.unreported()) NoteLoss(why);  // one of perhaps very many
  return why;
}

bool FileState::NoteRead(AtimePolicy policy, const v1::Time& now) {
  if (!access.Note(policy, attr, now)) return false;
  uncommitted.NoteRead(now);
  return true;
}

void FileState::AccessSent(const v1::Time& time) {
  access.Sent(time);
  if (Later(time, attr.atime())) *attr.mutable_atime() = time;
}

void FileState::Void() {
  const bool all_sent = uncommitted.all_committed() && !uncommitted.any();
  if (!all_sent || !memory.empty()) write_error.Note(EIO, opens.newest_handle());
  Reset();
}

void FileState::Reset() {
  grant.Void();
  grant.small().Forget();
  grant.small().SetKeepsBlocks(false);
  ForgetAhead();
  read_ahead_chunks.Clear();
  memory.Void();
  zeros_to_bytes = 0;
  DistrustAttr();
  uncommitted.Void();
  recall.Void();
  opens.Void();
  changed.NotifyAll();
}

}  // namespace reel::client
