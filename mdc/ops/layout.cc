#include "mdc/ops/layout.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "mdc/ops/allocate.h"
#include "mdc/ops/attributes.h"
#include "mdc/ops/extents.h"
#include "mdc/ops/inode.h"
#include "mdc/ops/quota.h"
#include "mdc/ops/small_content.h"
#include "mdc/tables/reserved_inode_table.h"
#include "mdc/tables/token_table.h"
#include "proto/convert.h"
#include "proto/protocol.h"
#include "proto/status.h"
#include "proto/times.h"

namespace reel::mdc {
namespace {

// A reply describes at least this much where it exists, so that a stream needs few calls …
constexpr std::uint64_t kDescribedBytes = 64 * kMiB;
// … but no more extents than this (holes between them come on top): the client asks again.
constexpr std::size_t kMaxReplyExtents = 500;
// … and of what follows an allocation, which may be one of many in a file full of holes, fewer.
constexpr std::size_t kMaxPreallocationExtents = 32;
// The most that one LayoutGet allocates as asked; the reply is then shorter than the request.
constexpr std::uint64_t kMaxGetBytes = 1 * kGiB;
// Blocks ahead of a file that grows, in proportion to its size.
constexpr std::uint64_t kMinPrefetchBytes = 1 * kMiB;
constexpr std::uint64_t kMaxPreallocationBytes = 256 * kMiB;
constexpr int kMaxCommitRanges = 65'536;

// Appends what lies in [next, extent), and the extent.
void AddWithHole(FileBlock& next, const Extent& extent, v1::LayoutReply& layout) {
  if (next < extent.file_block) {
    Extent hole;
    hole.file_block = next;
    hole.length_blocks = extent.file_block - next;
    *layout.add_extents() = ToProto(hole);
  }
  *layout.add_extents() = ToProto(extent);
  next = extent.end();
}

// Describes [start, end) by the extents found in it.
void Describe(FileBlock start, FileBlock end, const std::vector<Extent>& extents,
              v1::LayoutReply& layout) {
  FileBlock next = start;
  for (const Extent& extent : extents) AddWithHole(next, extent, layout);
  if (next < end) {
    Extent hole;
    hole.file_block = next;
    hole.length_blocks = end - next;
    *layout.add_extents() = ToProto(hole);
  }
  layout.set_file_block(start.value());
  layout.set_length_blocks(end - start);
}

// How much to allocate beyond a request: nothing for a small new file, whose first request is
// likely to be all of it, and nothing in the middle of a file.
std::uint64_t PreallocationOf(const v1::InodeRecord& record, const ExtentEdit& edit,
                              FileBlock start, FileBlock end, std::uint32_t block_bytes) {
  const std::uint64_t size_blocks = DivideUp(record.size_bytes(), block_bytes);
  const std::uint64_t least = DivideUp(kMinPrefetchBytes, block_bytes);
  const std::uint64_t most = kMaxPreallocationBytes / block_bytes;
  if (end.value() < size_blocks) return 0;
  if (start == FileBlock(0)) {
    return end.value() >= least ? std::min(end.value(), most) : 0;
  }
  const auto before = edit.Before(start);
  const bool continues = start.value() <= size_blocks || (before && before->end() == start);
  return continues ? std::clamp(start.value(), least, most) : 0;
}

constexpr v1::TokenMode MostOfOthers(v1::TokenMode mode) {
  return mode == v1::TOKEN_EXCLUSIVE ? v1::TOKEN_NONE : v1::TOKEN_SHARED;
}

absl::Status RequireMode(OpContext& ctx, InodeNumber inode, v1::TokenMode mode,
                         const TokenSpan& span) {
  const v1::TokenMode others = MostOfOthers(mode);
  if (absl::Status free = ctx.RequireOthersAtMost(inode, others, span); !free.ok()) return free;
  // Another session waits for this one's token: first the answer, then its turn comes again.
  if (ctx.tokens.Held(ctx.caller.session, inode, span) < mode &&
      ctx.tokens.RecallPending(ctx.caller.session, inode, span)) {
    return ctx.Block(inode, others, span);
  }
  // Its holder, and nobody else, knows size and times.
  return mode == v1::TOKEN_EXCLUSIVE ? ctx.RequireUncached(inode) : absl::OkStatus();
}

void GrantOnCommit(OpContext& ctx, InodeNumber inode, v1::TokenMode mode, const TokenSpan& span,
                   v1::LayoutReply& layout) {
  layout.set_mode(mode);
  layout.set_token_first_block(span.first.value());
  layout.set_token_length_blocks(LengthForMessage(span));
  ctx.effects.on_commit.push_back([&tokens = ctx.tokens, session = ctx.caller.session, inode, mode,
                                   span] { tokens.Grant(session, inode, mode, span); });
}

// Allocates what is missing of the range, and describes it and what was taken ahead, which `limit`
// ends.
absl::Status AllocateLayout(OpContext& ctx, InodeNumber inode, const v1::InodeRecord& record,
                            FileBlock start, std::uint64_t length_blocks, FileBlock limit,
                            v1::LayoutReply& layout) {
  const std::uint32_t block_bytes = ctx.descriptor.block_bytes;
  ExtentEdit edit(ctx, inode);
  const absl::StatusOr<FileBlock> loaded = edit.Load(start, length_blocks, kMaxReplyExtents);
  if (!loaded.ok()) return loaded.status();
  // Among very many extents and holes the reply is shorter than the request.
  const FileBlock end = *loaded;
  const bool whole = end == start + length_blocks;
  const std::uint64_t beyond =
      whole ? std::min(kMaxPreallocationBytes / block_bytes, limit - end) : 0;
  FileBlock described = end;
  if (whole) {
    const absl::StatusOr<FileBlock> preallocated = edit.Load(end, beyond, kMaxPreallocationExtents);
    if (!preallocated.ok()) return preallocated.status();
    described = *preallocated;
  }
  const std::uint64_t preallocated =
      std::min(PreallocationOf(record, edit, start, end, block_bytes), beyond);
  const absl::StatusOr<FileBlock> filled =
      FillHoles(ctx, edit, record, start, end - start, preallocated);
  if (!filled.ok()) return filled.status();
  if (*filled < end) described = *filled;
  ctx.effects.ahead.emplace(inode, OwnerOf(record));
  std::vector<Extent> extents = edit.Allocated(start, described - start);
  if (extents.size() > kMaxReplyExtents) {
    extents.resize(kMaxReplyExtents);
    described = extents.back().end();
  }
  Describe(start, described, extents, layout);
  return edit.Store();
}

// In a full store what is written may be written again, and no other block: how much of the span,
// from its start on. ENOSPC: nothing.
absl::StatusOr<std::uint64_t> WrittenBytes(OpContext& ctx, InodeNumber inode,
                                           const BlockSpan& blocks) {
  const auto extents =
      ReadExtents(ctx.txn, inode, blocks.start, blocks.length_blocks, kMaxReplyExtents);
  if (!extents.ok()) return extents.status();
  FileBlock next = blocks.start;
  for (const Extent& extent : *extents) {
    if (extent.file_block != next || extent.state != ExtentState::kWritten) break;
    next = extent.end();
  }
  if (next == blocks.start) return StoreIsFull();
  return (next - blocks.start) * ctx.descriptor.block_bytes;
}

// The new file gets what was reserved for it.
absl::Status GiveReserved(OpContext& ctx, InodeNumber inode, const std::vector<Run>& runs,
                          v1::LayoutReply& layout) {
  if (runs.empty()) return ErrnoStatus(ENOSPC);
  ExtentEdit edit(ctx, inode);
  std::uint64_t length_blocks = 0;
  for (const Run& run : runs) length_blocks += run.length_blocks;
  if (absl::Status s = edit.Load(FileBlock(0), length_blocks).status(); !s.ok()) return s;
  FileBlock next(0);
  for (const Run& run : runs) {
    ctx.allocator.Claim(ctx.txn, run);
    if (absl::Status s = edit.InsertUnwritten(next, run); !s.ok()) return s;
    next = next + run.length_blocks;
  }
  Describe(FileBlock(0), next, edit.Allocated(FileBlock(0), length_blocks), layout);
  return edit.Store();
}

absl::Status ValidateCommit(const v1::LayoutCommit& commit) {
  if (commit.written_size() > kMaxCommitRanges) {
    return ErrnoStatus(EINVAL, absl::StrCat(commit.written_size(), " ranges in one commit"));
  }
  for (const v1::BlockRange& range : commit.written()) {
    if (range.length_blocks() == 0 || range.file_block() >= kEndOfFileBlocks.value() ||
        range.length_blocks() > kEndOfFileBlocks.value() - range.file_block()) {
      return ErrnoStatus(EINVAL, absl::StrCat("written range [", range.file_block(), ", +",
                                              range.length_blocks(), ")"));
    }
  }
  if (commit.has_size_bytes() && commit.size_bytes() > kMaxFileBytes) return ErrnoStatus(EFBIG);
  if (absl::Status valid = ValidateContent(commit); !valid.ok()) return valid;
  if (commit.has_mtime()) return FromProto(commit.mtime()).status();
  return absl::OkStatus();
}

// Each block that was written, and for what is done to the end of the file all blocks from there
// on, has to be held exclusively; for times alone, any.
bool MayCommit(const OpContext& ctx, InodeNumber inode, const v1::InodeRecord& record,
               const v1::LayoutCommit& commit) {
  const auto holds = [&](const TokenSpan& span) {
    return ctx.tokens.Held(ctx.caller.session, inode, span) == v1::TOKEN_EXCLUSIVE;
  };
  if (ctx.tokens.Most(ctx.caller.session, inode) != v1::TOKEN_EXCLUSIVE) return false;
  const FileBlock end_of_file(record.size_bytes() / ctx.descriptor.block_bytes);
  const bool grows = commit.has_size_bytes() && commit.size_bytes() != record.size_bytes();
  if ((grows || commit.release_tail()) && !holds({.first = end_of_file})) return false;
  return std::all_of(commit.written().begin(), commit.written().end(), [&](const auto& range) {
    const FileBlock first(range.file_block());
    return holds({.first = first, .end = first + range.length_blocks()});
  });
}

// Preallocated blocks beyond the end go back; what fallocate(2) asked for stays.
absl::Status ReleaseTail(ExtentEdit& edit, const TokenSpan& span) {
  for (const Extent& extent : edit.Allocated(span.first, span.end - span.first)) {
    if (extent.state != ExtentState::kUnwritten) continue;
    absl::Status s = edit.Remove(extent.file_block, extent.length_blocks);
    if (!s.ok()) return s;
  }
  return absl::OkStatus();
}

// The next step of what a commit does to extents: ranges become written, one after the other, and
// then the tail goes. Blocks before `end_of_content`, which a small file's content stands for, are
// marked in one step: those that its new content comes in place of, as unwritten ones.
absl::Status CommitExtents(OpContext& ctx, InodeNumber inode, const v1::LayoutCommit& commit,
                           bool release, FileBlock tail, FileBlock end_of_content) {
  ExtentEdit edit(ctx, inode);
  Progress& progress = ctx.progress;
  const std::size_t most_extents =
      std::max<std::size_t>(ctx.steps.extents, end_of_content - FileBlock(0));
  if (commit.has_content()) {
    const absl::StatusOr<FileBlock> loaded =
        edit.Load(FileBlock(0), end_of_content - FileBlock(0), most_extents);
    if (!loaded.ok()) return loaded.status();
  }
  const auto load = [&](FileBlock start, FileBlock end) -> absl::StatusOr<TokenSpan> {
    start = std::max(start, progress.block);
    const absl::StatusOr<FileBlock> loaded = edit.Load(start, end - start, most_extents);
    if (!loaded.ok()) return loaded.status();
    const bool all = *loaded == end;
    progress = {progress.item + (all ? 1 : 0), all ? FileBlock(0) : *loaded};
    return TokenSpan{.first = start, .end = *loaded};
  };
  const auto ranges = static_cast<std::size_t>(commit.written_size());
  std::vector<TokenSpan> written;
  std::optional<TokenSpan> released;
  const auto full = [&] {
    return progress.block != FileBlock(0) ||
           std::max(edit.loaded(), written.size()) >= ctx.steps.extents;
  };
  for (bool first = true; progress.item < ranges && (first || !full()); first = false) {
    const v1::BlockRange& range = commit.written(static_cast<int>(progress.item));
    const FileBlock start(range.file_block());
    const absl::StatusOr<TokenSpan> part = load(start, start + range.length_blocks());
    if (!part.ok()) return part.status();
    written.push_back(*part);
  }
  if (release && progress.item == ranges && (written.empty() || !full())) {
    const absl::StatusOr<TokenSpan> part = load(tail, kEndOfFileBlocks);
    if (!part.ok()) return part.status();
    released = *part;
  }
  if (commit.has_content()) edit.MarkUnwritten(FileBlock(0), end_of_content - FileBlock(0));
  for (const TokenSpan& part : written) {
    absl::Status s = edit.MarkWritten(part.first, part.end - part.first);
    if (!s.ok()) return s;
  }
  if (released) {
    if (absl::Status s = ReleaseTail(edit, *released); !s.ok()) return s;
  }
  ctx.unfinished = progress.item < ranges + (release ? 1 : 0);
  return edit.Store();
}

absl::Status ApplyCommit(OpContext& ctx, InodeNumber inode, const v1::LayoutCommit& commit,
                         v1::Reply& reply) {
  if (absl::Status valid = ValidateCommit(commit); !valid.ok()) return valid;
  const auto found = RegularFile(ctx.txn, inode);
  if (!found.ok()) return found.status();
  v1::InodeRecord& record = **found;
  const std::uint64_t size = commit.has_size_bytes() ? commit.size_bytes() : record.size_bytes();
  if (size < record.size_bytes()) {
    return ErrnoStatus(EINVAL, "a commit does not shrink a file; SetAttr does");
  }
  if (!MayCommit(ctx, inode, record, commit)) {
    return ErrnoStatus(
        EPERM, absl::StrCat("a commit of inode ", inode.value(), " without its exclusive token"));
  }
  if (absl::Status may = MayCommitContent(ctx, inode, record, commit); !may.ok()) return may;
  const bool begun = ctx.progress.item != 0 || ctx.progress.block != FileBlock(0);
  const bool content = begun || commit.written_size() > 0 || commit.has_content() ||
                       size != record.size_bytes() || commit.has_mtime() ||
                       commit.kill_suid_sgid() || commit.kill_sgid();
  const bool release =
      commit.release_tail() && (record.flags() & v1::INODE_FLAG_KEEP_PREALLOCATION) == 0;

  if (commit.has_content()) SetContent(record, commit.content());
  const bool has_blocks = record.allocated_blocks() > 0;
  if (commit.written_size() > 0 || (has_blocks && (commit.has_content() || release))) {
    const FileBlock end_of_content = EndOfContent(record, ctx.descriptor.block_bytes);
    // (Who does not say what the content is may be about to write to these blocks.)
    const FileBlock tail(commit.has_content() ? 0 : DivideUp(size, ctx.descriptor.block_bytes));
    absl::Status s = CommitExtents(ctx, inode, commit, release, tail, end_of_content);
    if (!s.ok()) return s;
    const bool replaced =
        commit.written_size() > 0 && FileBlock(commit.written(0).file_block()) < end_of_content;
    if (replaced) ClearContent(record);
  }
  // With the first step: blocks beyond the end of a file are never written ones. Until they are
  // marked, they read as zeros.
  record.set_size_bytes(size);
  if (ctx.unfinished) return absl::OkStatus();
  if (commit.has_mtime()) *record.mutable_mtime() = commit.mtime();
  if (commit.kill_suid_sgid()) {
    if (absl::Status s = ClearPrivileges(ctx, inode, record); !s.ok()) return s;
  }
  if (commit.has_mtime()) {  // bytes were written
    if (absl::Status s = DropCapability(ctx, inode, record); !s.ok()) return s;
  }
  if (commit.kill_sgid()) record.set_mode(record.mode() & ~std::uint32_t{S_ISGID});
  // The change was when the write was, which stat(2) has shown since: a commit does not move ctime
  // (tar would call the file changed while it reads it).
  if (commit.has_mtime()) {
    const v1::Time now = ToProto(ctx.now);
    const v1::Time& written = Later(commit.mtime(), now) ? now : commit.mtime();
    if (Later(written, record.ctime())) *record.mutable_ctime() = written;
  }
  if (content) record.set_change(record.change() + 1);
  if (content) ctx.txn.Changed(inode);
  if (commit.has_attributes()) {
    const absl::StatusOr<int> refused = SetAttributesAlong(ctx, inode, commit.attributes(), record);
    if (!refused.ok()) return refused.status();
    reply.mutable_attr()->set_refused(*refused);
  }
  FillAttr(inode, record, ctx.descriptor, *reply.mutable_attr()->mutable_attr());
  return absl::OkStatus();
}

}  // namespace

absl::Status RequireAlive(const OpContext& ctx, InodeNumber inode, const v1::InodeRecord& record) {
  const bool used =
      ctx.opens.IsOpen(inode) || ctx.tokens.Most(ctx.caller.session, inode) != v1::TOKEN_NONE;
  if (record.nlink() > 0 || (used && !record.removing())) return absl::OkStatus();
  return ErrnoStatus(ESTALE, absl::StrCat("inode ", inode.value(), " has been removed"));
}

absl::Status GrantLayout(OpContext& ctx, InodeNumber inode, const v1::InodeRecord& record,
                         std::uint64_t offset_bytes, std::uint64_t length_bytes, v1::TokenMode mode,
                         const TokenSpan& token, v1::LayoutReply& layout) {
  const std::uint32_t block_bytes = ctx.descriptor.block_bytes;
  const BlockSpan span = BlocksOf(offset_bytes, length_bytes, block_bytes);
  const FileBlock start = std::clamp(span.start, token.first, token.end);
  const FileBlock asked_end = span.start + span.length_blocks;
  const FileBlock least_end =
      start + std::min(DivideUp(kDescribedBytes, block_bytes), kEndOfFileBlocks - start);
  const FileBlock limit = std::min(token.end, std::max(asked_end, least_end));
  if (start < limit) {
    auto extents = ReadExtents(ctx.txn, inode, start, limit - start, kMaxReplyExtents);
    if (!extents.ok()) return extents.status();
    // Blocks that a refused write had got may lie there, of which nobody knows any more.
    const FileBlock end_of_file(DivideUp(record.size_bytes(), block_bytes));
    const bool ahead = !extents->empty() && extents->back().end() > end_of_file;
    if (ahead && mode == v1::TOKEN_EXCLUSIVE) ctx.effects.ahead.emplace(inode, OwnerOf(record));
    const bool all = extents->size() < kMaxReplyExtents;
    Describe(start, all ? limit : extents->back().end(), *extents, layout);
  }
  FillAttr(inode, record, ctx.descriptor, *layout.mutable_attr());
  if (IsSmall(record)) layout.set_content(record.inline_data());
  GrantOnCommit(ctx, inode, mode, token, layout);
  return absl::OkStatus();
}

std::uint64_t NewFileBlocks(std::uint64_t allocate_bytes, std::uint32_t block_bytes) {
  return DivideUp(std::min(allocate_bytes, kMaxNewFileBytes), block_bytes);
}

absl::Status GrantNewFile(OpContext& ctx, InodeNumber inode, const v1::InodeRecord& record,
                          std::uint64_t allocate_bytes, v1::LayoutReply& layout) {
  absl::Status allocated = ErrnoStatus(ENOSPC);
  if (ctx.decided.reserved != nullptr) {
    allocated = GiveReserved(ctx, inode, ctx.decided.reserved->runs, layout);
    if (allocated.ok()) ctx.effects.ahead.emplace(inode, OwnerOf(record));
    ctx.decided.reserved_given = allocated.ok();
  } else if (allocate_bytes > 0 && ctx.decided.replay == nullptr) {
    allocated = AllocateLayout(ctx, inode, record, FileBlock(0),
                               NewFileBlocks(allocate_bytes, ctx.descriptor.block_bytes),
                               kEndOfFileBlocks, layout);
  }
  // Without room the file is there, and its first write says so.
  const int error = ErrnoOf(allocated);
  if (!allocated.ok() && error != ENOSPC && error != EDQUOT) return allocated;
  if (!allocated.ok()) {
    layout.Clear();
    Describe(FileBlock(0), FileBlock(DivideUp(kDescribedBytes, ctx.descriptor.block_bytes)), {},
             layout);
  }
  FillAttr(inode, record, ctx.descriptor, *layout.mutable_attr());
  GrantOnCommit(ctx, inode, v1::TOKEN_EXCLUSIVE, kWholeFile, layout);
  return absl::OkStatus();
}

absl::Status LayoutGet(OpContext& ctx, const v1::Request& request, v1::Reply& reply) {
  const v1::LayoutGet& get = request.layout_get();
  const InodeNumber inode(get.inode());
  const bool exclusive = get.mode() == v1::TOKEN_EXCLUSIVE;
  if ((get.mode() != v1::TOKEN_SHARED && !exclusive) || (get.allocate() && !exclusive)) {
    return ErrnoStatus(EINVAL, absl::StrCat("a layout in mode ", get.mode()));
  }
  if (absl::Status valid = ValidateByteRange(get.offset_bytes(), get.length_bytes()); !valid.ok()) {
    return valid;
  }
  auto asked = ParseTokenSpan(get.token_first_block(), get.token_length_blocks());
  if (!asked.ok()) return ErrnoStatus(EINVAL, std::string(asked.status().message()));
  const BlockSpan blocks =
      BlocksOf(get.offset_bytes(), get.length_bytes(), ctx.descriptor.block_bytes);
  const TokenSpan range{.first = blocks.start, .end = blocks.start + blocks.length_blocks};
  if (get.allocate() && !asked->Contains(range)) {
    return ErrnoStatus(EINVAL, "an allocation outside the token that it asks for");
  }
  const auto found = RegularFile(ctx.txn, inode);
  if (!found.ok()) return found.status();
  const v1::InodeRecord& record = **found;
  if (absl::Status alive = RequireAlive(ctx, inode, record); !alive.ok()) return alive;
  if (IsSmall(record)) asked = kWholeFile;  // its content is one piece
  if (absl::Status may = RequireMode(ctx, inode, get.mode(), *asked); !may.ok()) return may;

  if (!ctx.tokens.HasRoom(ctx.caller.session) &&
      ctx.tokens.Held(ctx.caller.session, inode, *asked) < get.mode()) {
    return ErrnoStatus(ENFILE, absl::StrCat("the client holds ", kMaxTokenRanges, " tokens"));
  }

  // Where many want the file at once, each gets what it needs: more would be recalled at once.
  const TokenSpan token =
      ctx.others.wait
          ? *asked
          : ctx.tokens.WidestAround(ctx.caller.session, inode, MostOfOthers(get.mode()), *asked);
  v1::LayoutReply& layout = *reply.mutable_layout();
  if (!get.allocate()) {
    return GrantLayout(ctx, inode, record, get.offset_bytes(), get.length_bytes(), get.mode(),
                       token, layout);
  }
  if (ctx.store.full) {
    const absl::StatusOr<std::uint64_t> written = WrittenBytes(ctx, inode, blocks);
    if (!written.ok()) return written.status();
    return GrantLayout(ctx, inode, record, get.offset_bytes(), *written, get.mode(), token, layout);
  }
  const std::uint64_t length =
      std::min(blocks.length_blocks, kMaxGetBytes / ctx.descriptor.block_bytes);
  if (get.ahead()) {
    if (absl::Status room = RequireRoomAhead(ctx, record, length); !room.ok()) return room;
  }
  absl::Status allocated =
      AllocateLayout(ctx, inode, record, range.first, length, token.end, layout);
  if (!allocated.ok()) return allocated;
  FillAttr(inode, record, ctx.descriptor, *layout.mutable_attr());
  if (IsSmall(record)) layout.set_content(record.inline_data());
  GrantOnCommit(ctx, inode, get.mode(), token, layout);
  return absl::OkStatus();
}

absl::Status LayoutCommit(OpContext& ctx, const v1::Request& request, v1::Reply& reply) {
  const v1::LayoutCommit& commit = request.layout_commit();
  return ApplyCommit(ctx, InodeNumber(commit.inode()), commit, reply);
}

absl::Status AttrReturn(OpContext& ctx, const v1::Request& request, v1::Reply&) {
  ctx.effects.on_commit.push_back([&ctx, &back = request.attr_return()] {
    for (const std::uint64_t inode : back.inodes()) {
      ctx.attr_tokens.Return(ctx.caller.session, InodeNumber(inode),
                             back.to_shared() ? v1::TOKEN_SHARED : v1::TOKEN_NONE);
    }
  });
  return absl::OkStatus();
}

absl::Status LayoutReturn(OpContext& ctx, const v1::Request& request, v1::Reply&) {
  const v1::LayoutReturn& back = request.layout_return();
  const InodeNumber inode(back.inode());
  if (back.mode() != v1::TOKEN_NONE && back.mode() != v1::TOKEN_SHARED) {
    return ErrnoStatus(EINVAL, absl::StrCat("a return to mode ", back.mode()));
  }
  const auto span = ParseTokenSpan(back.first_block(), back.length_blocks());
  if (!span.ok()) return ErrnoStatus(EINVAL, std::string(span.status().message()));
  ctx.effects.on_commit.push_back([&tokens = ctx.tokens, session = ctx.caller.session, inode,
                                   mode = back.mode(),
                                   span = *span] { tokens.Return(session, inode, mode, span); });
  return absl::OkStatus();
}

}  // namespace reel::mdc
