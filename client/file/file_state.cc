#include "client/file/file_state.h"

#include "client/file/attributes_ahead.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "proto/convert.h"
#include "proto/status.h"
#include "proto/times.h"
#include "spdlog/spdlog.h"

namespace reel::client {
namespace {

// An inode's known extents beyond that are forgotten and asked for again: some 50 MB of memory. (A
// file of 100,000 pieces with a hole after each has 200,000.)
constexpr std::size_t kMaxExtents = 500'000;
// As many blocks as an answer surely describes, whatever the file looks like and the block size is.
constexpr std::uint64_t kMinWindowBytes = 1 * kMiB;
constexpr std::uint64_t kMaxWindowBytes = 1 * kGiB;
// Few extents in an answer: the file is contiguous enough to ask for more of it at once.
constexpr int kFewExtents = 64;

// The blocks of `old_extent` that `answer` calls unwritten at the same place are written all the
// same: their commit and the answer crossed.
void KeepWritten(const Extent& old_extent, ExtentMap& extents) {
  for (const Extent& now : extents.Slice(old_extent.file_block, old_extent.length_blocks)) {
    if (now.state != ExtentState::kUnwritten || now.pool != old_extent.pool) continue;
    const std::uint64_t into = now.file_block - old_extent.file_block;
    if (old_extent.pool_block + into == now.pool_block) {
      extents.MarkWritten(now.file_block, now.length_blocks);
    }
  }
}

// The session has ended: to programs that is no stale file.
int ErrnoToTell(const absl::Status& why) {
  const int errno_value = ErrnoOf(why);
  return errno_value == ESTALE ? EIO : errno_value;
}

// At most to where files end.
ByteRange BytesOf(const TokenSpan& span, std::uint64_t block_bytes) {
  const std::uint64_t last = kMaxFileBytes / block_bytes;
  return {std::min(span.first.value(), last) * block_bytes,
          std::min(span.end.value(), last) * block_bytes};
}

}  // namespace

absl::Status FileState::Install(const v1::LayoutReply& reply, std::uint64_t session_id) {
  const absl::StatusOr<TokenSpan> granted =
      ParseTokenSpan(reply.token_first_block(), reply.token_length_blocks());
  if (!granted.ok()) return ErrnoStatus(EIO, std::string(granted.status().message()));
  const FileBlock start(reply.file_block());
  if (reply.length_blocks() > 0 &&
      !granted->Contains({.first = start, .end = start + reply.length_blocks()})) {
    return ErrnoStatus(EIO, "a layout describes blocks that its token does not cover");
  }
  std::vector<Extent> answer;
  for (const v1::Extent& extent : reply.extents()) {
    absl::StatusOr<Extent> parsed = FromProto(extent);
    if (!parsed.ok()) return ErrnoStatus(EIO, std::string(parsed.status().message()));
    answer.push_back(*parsed);
  }
  std::vector<Extent> written;
  if (token.empty() || extents.size() + answer.size() > kMaxExtents) {
    ForgetExtents();
  } else if (reply.length_blocks() > 0) {
    for (const Extent& known : extents.Slice(start, reply.length_blocks())) {
      if (known.state == ExtentState::kWritten) written.push_back(known);
    }
  }
  for (const Extent& extent : answer) extents.Set(extent);
  for (const Extent& known : written) KeepWritten(known, extents);
  const auto mark = [&](FileBlock first, std::uint64_t length_blocks) {
    mutex.AssertHeld();
    extents.MarkWritten(first, length_blocks);
  };
  if (reply.length_blocks() > 0) {
    dirty.blocks.ForEachIn(start, reply.length_blocks(), mark);
    committing.ForEachIn(start, reply.length_blocks(), mark);
  }
  if (reply.has_attr()) TakeAttr(reply.attr());
  token.Raise(*granted, reply.mode());
  session = session_id;
  return absl::OkStatus();
}

void FileState::ForgetExtents() {
  std::vector<Extent> kept;
  for (const DirtyWindowRef& window : memory.WindowsIn({0, kMaxFileBytes})) {
    const FileBlock first(window->ranges.front().from / block_bytes);
    const FileBlock end(DivideUp(window->ranges.back().to, block_bytes));
    for (const Extent& extent : extents.Slice(first, end - first)) kept.push_back(extent);
  }
  extents.Clear();
  for (const Extent& extent : kept) extents.Set(extent);
}

void FileState::NotMadeAgain() {
  extents.Clear();
  memory.Clear();
  NoteLoss(ErrnoStatus(EIO, "the file was lost in the controller's failover"));
}

TokenSpan FileState::SpanOf(std::uint64_t from_bytes, std::uint64_t to_bytes,
                            bool page_cache) const {
  if (page_cache) return kWholeFile;
  const std::uint64_t first_byte = std::min(from_bytes, attr.size_bytes());
  const FileBlock first((to_bytes > attr.size_bytes() ? first_byte : from_bytes) / block_bytes);
  if (to_bytes > attr.size_bytes()) return {.first = first};
  return {.first = first, .end = FileBlock(DivideUp(to_bytes, block_bytes))};
}

bool FileState::PageWaitsForToken() const {
  if (page_token_fetches > 0) return true;
  for (std::size_t mode = 0; mode < page_fetches.size(); ++mode) {
    if (page_fetches[mode] > 0 && token.Least() < static_cast<v1::TokenMode>(mode)) return true;
  }
  return false;
}

TokenSpan FileState::YieldFor(const TokenSpan& recalled_span) const {
  TokenSpan yielded = recalled_span;
  if (last_used.end <= recalled_span.first) {
    yielded.end = kEndOfFileBlocks;
  } else if (recalled_span.end <= last_used.first) {
    yielded = {.first = FileBlock(0), .end = last_used.first};
  }
  return yielded;
}

void FileState::BeginRecall(const Recalled& what) {
  recalled = what;
  yielded = YieldFor(what.span);
  beside = 0;
  ++beside_round;
  passed = false;
}

FileBlock FileState::HeldTo(FileBlock first, v1::TokenMode mode) const {
  for (const TokenRanges::Piece& piece : token.pieces()) {
    if (piece.span.first <= first && first < piece.span.end && piece.mode >= mode) {
      first = piece.span.end;
    }
  }
  return first;
}

bool FileState::DirtyIn(const TokenSpan& span) const {
  if (memory.Overlaps(BytesOf(span, block_bytes))) return true;
  if (!dirty.any()) return false;
  // Once another host writes, too, setting attributes may wait for that one, and it for this
  // recall.
  if (dirty.ahead) return true;
  bool blocks = false;
  dirty.blocks.ForEachIn(span.first, span.end - span.first,
                         [&](FileBlock, std::uint64_t) { blocks = true; });
  // A size is taken from who holds all from the size that the controller knows on.
  if (blocks || dirty.size) return true;
  // Whoever holds nothing exclusively any more has told all that it changed.
  TokenRanges left = token;
  left.Lower(span, v1::TOKEN_SHARED);
  return left.Most() != v1::TOKEN_EXCLUSIVE;
}

void FileState::LowerToken(const TokenSpan& span, v1::TokenMode mode) {
  token.Lower(span, mode);
  ForgetContents();
  if (mode == v1::TOKEN_NONE) ++data_changes;
  if (mode == v1::TOKEN_NONE) extents.Erase(span.first, span.end - span.first);
}

void FileState::ForgetContents() {
  zeros_to_bytes = 0;
  memory.ForgetAll();
}

FileState::Window FileState::WindowAround(std::uint64_t unknown_bytes,
                                          std::uint64_t end_bytes) const {
  const FileBlock block(unknown_bytes / block_bytes);
  // Behind what is known, it goes on; elsewhere whoever jumps about comes near again, before it or
  // behind it.
  const bool goes_on = block > FileBlock(0) && extents.Find(block - 1).has_value();
  const std::uint64_t grain_bytes = std::min(window_bytes, kFirstWindowBytes);
  const std::uint64_t from = RoundDown(unknown_bytes, goes_on ? block_bytes : grain_bytes);
  const std::uint64_t to = std::min(std::max(end_bytes, from + window_bytes), kMaxFileBytes);
  return {.offset_bytes = from, .length_bytes = to - from};
}

void FileState::AdaptWindow(const Window& asked, std::uint64_t described_to_bytes, int extents) {
  if (described_to_bytes < asked.offset_bytes + asked.length_bytes) {
    window_bytes = std::max(window_bytes / 4, kMinWindowBytes);
  } else if (extents <= kFewExtents) {
    window_bytes = std::min(window_bytes * 2, kMaxWindowBytes);
  }
}

void FileState::TakeAttr(const v1::Attr& from) {
  if (token.empty()) {
    attr = from;
    return;
  }
  const bool knows_all = token.Has(kWholeFile, v1::TOKEN_SHARED);
  const bool knows_size = token.Has(EndSpan(), v1::TOKEN_SHARED);
  const bool knows_mtime =
      knows_all || ((dirty.mtime || committing_mtime) && Later(attr.mtime(), from.mtime()));
  const std::uint64_t size_bytes =
      knows_size ? attr.size_bytes() : std::max(attr.size_bytes(), from.size_bytes());
  const v1::Time mtime = knows_mtime ? attr.mtime() : from.mtime();
  attr = from;
  attr.set_size_bytes(size_bytes);
  *attr.mutable_mtime() = mtime;
  if (dirty.kill_set_id || committing_kill_set_id) OverlayOn(attr);
  OverlayAhead(attr);
}

void FileState::OverlayAhead(v1::Attr& attributes) const {
  if (committing_ahead) ShowAhead(*committing_ahead, attributes);
  if (dirty.ahead) ShowAhead(*dirty.ahead, attributes);
}

void FileState::Learn(const v1::Attr& from) {
  if (from.change() >= attr.change()) TakeAttr(from);
}

void FileState::ShowAgain(const v1::Attr& from) {
  const std::uint64_t size_bytes = attr.size_bytes();
  const v1::Time mtime = dirty.mtime || committing_mtime ? attr.mtime() : from.mtime();
  attr = from;
  attr.set_size_bytes(size_bytes);
  *attr.mutable_mtime() = mtime;
  if (dirty.kill_set_id || committing_kill_set_id) OverlayOn(attr);
  OverlayAhead(attr);
}

void FileState::OverlayOn(v1::Attr& attributes) const {
  OverlayAhead(attributes);
  if (accessed && Later(*accessed, attributes.atime())) *attributes.mutable_atime() = *accessed;
  if (token.Most() != v1::TOKEN_EXCLUSIVE) return;
  const bool told = !dirty.mtime && !committing_mtime;
  if (token.Has(EndSpan(), v1::TOKEN_EXCLUSIVE)) attributes.set_size_bytes(attr.size_bytes());
  if (token.Has(kWholeFile, v1::TOKEN_EXCLUSIVE) ||
      (!told && Later(attr.mtime(), attributes.mtime()))) {
    *attributes.mutable_mtime() = attr.mtime();
  }
  if (!told && Later(attr.mtime(), attributes.ctime())) {
    *attributes.mutable_ctime() = attr.mtime();
  }
  if (dirty.kill_set_id || committing_kill_set_id) {
    const bool any_sgid = dirty.kill_sgid || committing_kill_sgid;
    const std::uint32_t group = any_sgid || (attributes.mode() & S_IXGRP) != 0 ? S_ISGID : 0;
    attributes.set_mode(attributes.mode() & ~(S_ISUID | group));
  }
}

std::optional<std::uint64_t> FileState::Cover(std::uint64_t offset_bytes,
                                              std::uint64_t length_bytes, ExtentList& list) const {
  list.clear();
  const BlockSpan span = BlocksOf(offset_bytes, length_bytes, block_bytes);
  const FileBlock end = span.start + span.length_blocks;
  for (FileBlock at = span.start; at < end;) {
    const std::optional<Extent> extent = extents.Find(at);
    if (!extent) return at.value() * block_bytes;
    list.push_back(*extent);
    at = extent->end();
  }
  return std::nullopt;
}

bool FileState::Conflicts(const BlockLocks& wanted) const {
  for (const BlockLock& mine : wanted) {
    for (const BlockLock& theirs : locks) {
      const bool overlap = mine.first < theirs.end && theirs.first < mine.end;
      if (overlap && (mine.alone || theirs.alone)) return true;
    }
  }
  return false;
}

bool FileState::ConflictsWithFlush(const BlockLocks& wanted) const {
  return std::any_of(wanted.begin(), wanted.end(), [&](const BlockLock& mine) {
    mutex.AssertHeld();
    return std::any_of(flush_waits.begin(), flush_waits.end(), [&](const BlockLock& flush) {
      return mine.first < flush.end && flush.first < mine.end;
    });
  });
}

void FileState::Lock(const BlockLocks& wanted) {
  locks.insert(locks.end(), wanted.begin(), wanted.end());
}

void FileState::Unlock(const BlockLocks& held) {
  for (const BlockLock& mine : held) {
    const auto it = std::find_if(locks.begin(), locks.end(), [&](const BlockLock& lock) {
      return lock.first == mine.first && lock.end == mine.end && lock.alone == mine.alone;
    });
    *it = locks.back();
    locks.pop_back();
  }
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
    if (from < to) dirty.blocks.Add(from, to - from);
  }
  // The flush of that commit may have begun before, and fail: what was written whole since then is
  // not lost with it.
  if (commit_running) {
    const FileBlock whole_from(DivideUp(range.from, block_bytes));
    const FileBlock whole_to(range.to / block_bytes);
    BlockSet again;
    if (whole_from < whole_to) {
      committing.ForEachIn(
          whole_from, whole_to - whole_from,
          [&](FileBlock first, std::uint64_t length_blocks) { again.Add(first, length_blocks); });
    }
    dirty.blocks.Add(again);
  }
  extents.MarkWritten(span.start, span.length_blocks);
  MergeMarks(marks, dirty.unflushed);
  ++changes;
}

bool FileState::NoteChange(const Written& write, std::span<const Extent> used) {
  if (write.end_bytes > attr.size_bytes()) {
    const FileBlock last((write.end_bytes - 1) / block_bytes);
    const bool whole = std::any_of(used.begin(), used.end(), [&](const Extent& extent) {
      return extent.file_block <= last && last < extent.end() &&
             extent.state == ExtentState::kUnwritten;
    });
    if (whole) zeros_to_bytes = (last.value() + 1) * block_bytes;
    attr.set_size_bytes(write.end_bytes);
    dirty.size = true;
  }
  attr.mutable_mtime()->set_seconds(write.time.seconds);
  attr.mutable_mtime()->set_nanoseconds(write.time.nanoseconds);
  dirty.mtime = dirty.wrote = true;
  for (std::optional<v1::SetAttr>* ahead : {&committing_ahead, &dirty.ahead}) {
    if (*ahead) (*ahead)->set_fields((*ahead)->fields() & ~std::uint32_t{v1::SetAttr::MTIME});
  }
  const bool sgid_goes = (attr.mode() & S_IXGRP) != 0 || !write.in_group;
  const std::uint32_t set_id = attr.mode() & (S_ISUID | (sgid_goes ? S_ISGID : 0));
  ++changes;
  ++data_changes;
  if (write.by_root || set_id == 0) return false;
  dirty.kill_set_id = true;
  dirty.kill_sgid = dirty.kill_sgid || !write.in_group;
  attr.set_mode(attr.mode() & ~set_id);
  return true;
}

void FileState::LoseWritten(const BlockSet& blocks) {
  BlockSet rewritten;
  blocks.ForEach([&](FileBlock first, std::uint64_t length_blocks) {
    mutex.AssertHeld();
    dirty.blocks.ForEachIn(first, length_blocks,
                           [&](FileBlock at, std::uint64_t count) { rewritten.Add(at, count); });
    for (Extent extent : extents.Slice(first, length_blocks)) {
      if (extent.state != ExtentState::kWritten) continue;
      extent.state = ExtentState::kUnwritten;
      extents.Set(extent);
    }
  });
  rewritten.ForEach([&](FileBlock first, std::uint64_t length_blocks) {
    mutex.AssertHeld();
    extents.MarkWritten(first, length_blocks);
  });
  ++lost_flushes;
  ++data_changes;
  ForgetContents();
}

void FileState::LoseDirty() {
  BlockSet lost = std::exchange(dirty.blocks, {});
  // (Of blocks that were written again the commit decides.)
  committing.ForEach(
      [&](FileBlock first, std::uint64_t length_blocks) { lost.Remove(first, length_blocks); });
  LoseWritten(lost);
}

void FileState::NoteLoss(const absl::Status& why) {
  write_error.Note(ErrnoToTell(why), newest_handle);
  ForgetContents();
  spdlog::error("inode {}: what was written last is lost: {}", inode, std::string(why.message()));
}

void FileState::NoteRefused(const absl::Status& why) {
  write_error.Note(ErrnoToTell(why), newest_handle);
  spdlog::error("inode {}: the controller refused attributes that were set: {}", inode,
                std::string(why.message()));
}

absl::Status FileState::LosePage() {
  absl::Status why =
      ErrnoStatus(EIO, "the session with the controller ended before it was written");
  if (!write_error.untold()) NoteLoss(why);  // one of perhaps very many
  return why;
}

bool FileState::NoteRead(AtimePolicy policy, const v1::Time& now) {
  const v1::Time& last = accessed && Later(*accessed, attr.atime()) ? *accessed : attr.atime();
  const bool due = policy == AtimePolicy::kStrict ? Later(now, last)
                                                  : AtimeDue(last, attr.mtime(), attr.ctime(), now);
  if (!due) return false;
  accessed = now;
  // A time that was set before, and is told later, would take it back.
  for (std::optional<v1::SetAttr>* ahead : {&committing_ahead, &dirty.ahead}) {
    if (*ahead && ((*ahead)->fields() & v1::SetAttr::ATIME) != 0) *(*ahead)->mutable_atime() = now;
  }
  return true;
}

void FileState::AccessTold(const v1::Time& time) {
  telling_access = false;
  if (Later(time, attr.atime())) *attr.mutable_atime() = time;
  if (accessed && !Later(*accessed, time)) accessed.reset();
}

void FileState::Void() {
  const bool all_told = committed == changes && told_ahead == set_ahead;
  if (dirty.any() || !memory.empty() || !all_told) write_error.Note(EIO, newest_handle);
  Reset();
}

void FileState::Reset() {
  ++era;
  ++data_changes;
  read_chunks.clear();
  memory.Clear();
  zeros_to_bytes = 0;
  token.Clear();
  session = 0;
  told = 0;
  attr.set_change(0);  // what the controller says from now on is newer
  extents.Clear();
  dirty = DirtyData();
  committing.Clear();
  committing_ahead.reset();
  committed = changes;
  told_ahead = set_ahead;
  tail_allocated = false;
  recall = Recall::kNone;
  next_recall.reset();
  ++recall_cycle;
  beside = 0;
  ++beside_round;
  registered = false;
  changed.NotifyAll();
}

}  // namespace reel::client
