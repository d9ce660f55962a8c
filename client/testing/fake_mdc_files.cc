// The fake controller's operations on tokens, layouts and attributes.
#include <linux/falloc.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/testing/fake_mdc.h"
#include "proto/convert.h"
#include "proto/protocol.h"

namespace reel::client {
namespace {

constexpr std::uint64_t kDescribedBytes = 64 * kMiB;

}  // namespace

bool FakeMdc::OthersAtMost(File& file, std::uint64_t session, v1::TokenMode allowed,
                           const TokenSpan& span) {
  bool free = true;
  for (auto& [id, holder] : file.holders) {
    if (id == session || holder.held.Most(span) <= allowed) continue;
    free = false;
    const bool out =
        std::any_of(holder.recalled.begin(), holder.recalled.end(),
                    [&](const Recalled& r) { return r.mode <= allowed && r.span.Contains(span); });
    if (out) continue;
    holder.recalled.push_back({span, allowed});
    SendRecall(sessions_.at(id), file.attr.inode(), holder.recalled.back());
  }
  return free;
}

TokenSpan FakeMdc::WidestAround(const File& file, std::uint64_t session, v1::TokenMode allowed,
                                const TokenSpan& span) const {
  TokenSpan widest;
  for (const auto& [id, holder] : file.holders) {
    if (id == session) continue;
    const TokenSpan room = holder.held.WidestAround(span, allowed);
    widest = {std::max(widest.first, room.first), std::min(widest.end, room.end)};
  }
  return widest;
}

bool FakeMdc::Holds(const File& file, std::uint64_t session, const TokenSpan& span) const {
  const auto held = file.holders.find(session);
  return held != file.holders.end() && held->second.held.Has(span, v1::TOKEN_EXCLUSIVE);
}

std::vector<Extent> FakeMdc::ExtentsOf(std::uint64_t inode) const {
  MutexLock lock(mutex_);
  return files_.at(inode).extents.All();
}

void FakeMdc::RefuseAlong(int error) {
  MutexLock lock(mutex_);
  refused_along_ = error;
}

void FakeMdc::ParkLayoutGet() {
  MutexLock lock(mutex_);
  parks_layout_get_ = true;
}

bool FakeMdc::LayoutGet(ClientSession& session, const v1::Request& request, v1::Reply& reply) {
  const v1::LayoutGet& get = request.layout_get();
  const auto found = files_.find(get.inode());
  if (found == files_.end()) {
    reply.set_error(ENOENT);
    return true;
  }
  File& file = found->second;
  TokenSpan asked = *ParseTokenSpan(get.token_first_block(), get.token_length_blocks());
  if (!file.content.empty()) asked = kWholeFile;
  Holder& mine = file.holders[session.id];
  const v1::TokenMode allowed =
      get.mode() == v1::TOKEN_EXCLUSIVE ? v1::TOKEN_NONE : v1::TOKEN_SHARED;
  if (!mine.held.Has(asked, get.mode())) {
    if (!OthersAtMost(file, session.id, allowed, asked)) return false;
    if (!mine.recalled.empty()) return false;
  }
  const TokenSpan token = WidestAround(file, session.id, allowed, asked);
  mine.held.Raise(token, get.mode());
  const BlockSpan span =
      BlocksOf(get.offset_bytes(), get.length_bytes(), static_cast<std::uint32_t>(block_bytes_));
  std::uint64_t length_blocks = get.allocate()
                                    ? span.length_blocks
                                    : std::max(span.length_blocks, kDescribedBytes / block_bytes_);
  if (get.allocate()) {
    const TokenSpan range{span.start, span.start + length_blocks};
    if (!mine.held.Has(range, v1::TOKEN_EXCLUSIVE)) RecordMistake("allocation without token");
    if (!TakeBlocks(file, span.start, length_blocks)) {
      reply.set_error(ENOSPC);
      return true;
    }
    const std::uint64_t preallocated =
        std::min(options_.preallocated_blocks, token.end - range.end);
    if (TakeBlocks(file, range.end, preallocated)) length_blocks += preallocated;
  }
  const FileBlock start = std::clamp(span.start, token.first, token.end);
  length_blocks = std::min(span.start + length_blocks, token.end) - start;
  v1::LayoutReply& layout = *reply.mutable_layout();
  layout.set_mode(get.mode());
  layout.set_token_first_block(token.first.value());
  layout.set_token_length_blocks(LengthForMessage(token));
  layout.set_file_block(start.value());
  std::vector<Extent> known = file.extents.Slice(start, length_blocks);
  if (known.size() > options_.max_extents) {
    known.resize(options_.max_extents);
    length_blocks = known.back().end() - start;
  }
  layout.set_length_blocks(length_blocks);
  ExtentMap full;
  full.Set({start, length_blocks, ExtentState::kHole, PoolId(), PoolBlock()});
  for (const Extent& extent : known) full.Set(extent);
  for (const Extent& extent : full.All()) *layout.add_extents() = ToProto(extent);
  *layout.mutable_attr() = file.attr;
  if (!file.content.empty()) layout.set_content(file.content);
  return true;
}

void FakeMdc::Open(ClientSession& session, const v1::Open& open, v1::Reply& reply) {
  session.opens.insert(open.inode());
  File& file = files_.at(open.inode());
  *reply.mutable_attr()->mutable_attr() = file.attr;
  if (!options_.opens_grant || open.token() == v1::TOKEN_NONE) return;
  v1::Reply granted;
  if (GrantAtOnce(session, file, open.token(), 1, granted)) reply.Swap(&granted);
}

bool FakeMdc::GrantAtOnce(ClientSession& session, File& file, v1::TokenMode mode,
                          std::uint64_t length_bytes, v1::Reply& reply) {
  const v1::TokenMode allowed = mode == v1::TOKEN_EXCLUSIVE ? v1::TOKEN_NONE : v1::TOKEN_SHARED;
  const bool free = std::all_of(file.holders.begin(), file.holders.end(), [&](const auto& entry) {
    const auto& [id, holder] = entry;
    return holder.recalled.empty() && (id == session.id || holder.held.Most() <= allowed);
  });
  if (!free) return false;
  v1::Request request;
  v1::LayoutGet& get = *request.mutable_layout_get();
  get.set_inode(file.attr.inode());
  get.set_mode(mode);
  get.set_length_bytes(length_bytes);
  get.set_token_length_blocks(LengthForMessage(kWholeFile));
  return LayoutGet(session, request, reply);
}

void FakeMdc::LookAhead(ClientSession& session, const v1::Lookup& lookup, v1::Reply& reply) {
  std::uint64_t inode = 0;
  const bool number = absl::SimpleAtoi(lookup.name(), &inode);
  const auto found = number ? files_.find(inode) : files_.end();
  if (!lookup.ahead() || found == files_.end()) {
    reply.set_error(lookup.ahead() ? ENOENT : EOPNOTSUPP);
    return;
  }
  File& file = found->second;
  const bool written = std::any_of(file.holders.begin(), file.holders.end(), [&](const auto& held) {
    return held.first != session.id && held.second.held.Most() == v1::TOKEN_EXCLUSIVE;
  });
  if (written) return reply.set_error(EAGAIN);
  v1::EntryReply& entry = *reply.mutable_entry();
  *entry.mutable_attr() = file.attr;
  const std::uint64_t length_bytes = std::max<std::uint64_t>(lookup.layout_bytes(), 1);
  v1::Reply granted;
  if (GrantAtOnce(session, file, v1::TOKEN_SHARED, length_bytes, granted)) {
    entry.mutable_layout()->Swap(granted.mutable_layout());
  }
}

// There is one directory: the names of its files are their numbers.
void FakeMdc::ListAhead(ClientSession& session, const v1::ReadDir& read, v1::Reply& reply) {
  std::uint64_t behind = 0;
  if (!absl::SimpleAtoi(read.behind(), &behind)) return reply.set_error(ENOENT);
  v1::ReadDirReply& listing = *reply.mutable_read_dir();
  std::uint32_t layouts = read.layouts();
  auto next = files_.upper_bound(behind);
  for (; next != files_.end() && layouts > 0; ++next, --layouts) {
    v1::ReadDirReply::Entry& entry = *listing.add_entries();
    entry.set_name(absl::StrCat(next->first));
    entry.set_inode(next->first);
    *entry.mutable_attr() = next->second.attr;
    v1::Reply granted;
    if (!GrantAtOnce(session, next->second, v1::TOKEN_SHARED, 1, granted)) continue;
    entry.mutable_layout()->Swap(granted.mutable_layout());
  }
  listing.set_end(next == files_.end());
}

void FakeMdc::RunParked(std::uint64_t inode) {
  for (;;) {
    File& file = files_.at(inode);
    if (file.parked.empty()) return;
    const Parked parked = file.parked.front();
    file.parked.pop_front();
    if (!Execute(sessions_.at(parked.session), parked.request)) {
      files_.at(inode).parked.push_front(parked);
      return;
    }
  }
}

bool FakeMdc::CommitContent(const ClientSession& session, const v1::LayoutCommit& commit,
                            File& file) {
  const FileBlock end(DivideUp(file.content.size(), block_bytes_));
  bool replaces = false;
  for (const v1::BlockRange& range : commit.written()) {
    if (range.file_block() >= end.value()) continue;
    replaces = range.file_block() == 0 && range.length_blocks() >= end.value();
    if (!replaces) RecordMistake("a commit of some of a small file's blocks");
  }
  if (replaces) file.content.clear();
  if (!commit.has_content()) return true;
  const std::uint64_t size = commit.has_size_bytes() ? commit.size_bytes() : file.attr.size_bytes();
  if (commit.content().size() != size || size > kMaxSmallFileBytes || size == 0 ||
      commit.written_size() > 0 || !Holds(file, session.id)) {
    RecordMistake("a commit of a content that cannot be");
    return false;
  }
  file.content = commit.content();
  return true;
}

std::string FakeMdc::ContentOf(std::uint64_t inode) const {
  MutexLock lock(mutex_);
  return files_.at(inode).content;
}

void FakeMdc::Commit(ClientSession& session, const v1::LayoutCommit& commit, v1::Reply& reply) {
  const auto found = files_.find(commit.inode());
  if (found == files_.end()) return reply.set_error(ENOENT);
  File& file = found->second;
  const FileBlock end_of_file(file.attr.size_bytes() / block_bytes_);
  const bool grows = commit.has_size_bytes() && commit.size_bytes() != file.attr.size_bytes();
  bool may = file.holders[session.id].held.Most() == v1::TOKEN_EXCLUSIVE;
  if (grows || commit.release_tail()) may = may && Holds(file, session.id, {.first = end_of_file});
  for (const v1::BlockRange& range : commit.written()) {
    const FileBlock first(range.file_block());
    may = may && Holds(file, session.id, {first, first + range.length_blocks()});
  }
  if (grows && commit.size_bytes() < file.attr.size_bytes())
    RecordMistake("a commit shrinks a file");
  if (!may) {
    RecordMistake("a commit without the exclusive token");
    return reply.set_error(EPERM);
  }
  for (const v1::BlockRange& range : commit.written()) {
    std::uint64_t covered = 0;
    for (const Extent& e :
         file.extents.Slice(FileBlock(range.file_block()), range.length_blocks())) {
      if (e.state != ExtentState::kHole) covered += e.length_blocks;
    }
    if (covered != range.length_blocks()) {
      RecordMistake("a commit of blocks that were never granted");
      return reply.set_error(ESTALE);
    }
  }
  if (!CommitContent(session, commit, file)) return reply.set_error(EINVAL);
  for (const v1::BlockRange& range : commit.written()) {
    file.extents.MarkWritten(FileBlock(range.file_block()), range.length_blocks());
  }
  if (commit.has_size_bytes()) file.attr.set_size_bytes(commit.size_bytes());
  if (commit.has_mtime()) *file.attr.mutable_mtime() = commit.mtime();
  if (commit.kill_suid_sgid()) file.attr.set_mode(file.attr.mode() & ~06000u);
  if (commit.kill_sgid()) file.attr.set_mode(file.attr.mode() & ~02000u);
  if (commit.release_tail()) {
    const std::uint64_t kept = commit.has_content() ? 0 : file.attr.size_bytes();
    FreeBlocks(file, FileBlock(DivideUp(kept, block_bytes_)), 1 << 30);
  }
  file.attr.set_change(file.attr.change() + 1);
  *reply.mutable_attr()->mutable_attr() = file.attr;
  if (!commit.has_attributes() || !options_.knows_attributes_along) return;
  if (refused_along_ == 0) SetAttr(session, commit.attributes(), reply);
  reply.mutable_attr()->set_refused(refused_along_);
}

void FakeMdc::SetAttr(ClientSession& session, const v1::SetAttr& set, v1::Reply& reply) {
  File& file = files_.at(set.inode());
  if ((set.fields() & v1::SetAttr::SIZE) != 0) {
    if (!Holds(file, session.id)) RecordMistake("truncation without the exclusive token");
    const std::uint64_t kept = std::min(file.attr.size_bytes(), set.size_bytes());
    if (set.size_bytes() < file.attr.size_bytes()) {
      FreeBlocks(file, FileBlock(DivideUp(kept, block_bytes_)), 1 << 30);
    }
    file.attr.set_size_bytes(set.size_bytes());
    if (kept < file.content.size()) file.content.resize(kept);
  }
  if ((set.fields() & v1::SetAttr::FLAGS) != 0) file.attr.set_flags(set.flags());
  if ((set.fields() & v1::SetAttr::MODE) != 0) {
    file.attr.set_mode((file.attr.mode() & ~07777u) | set.mode());
  }
  if ((set.fields() & v1::SetAttr::ACCESSED) != 0) *file.attr.mutable_atime() = set.atime();
  if ((set.fields() & v1::SetAttr::ATIME) != 0) *file.attr.mutable_atime() = set.atime();
  if ((set.fields() & v1::SetAttr::MTIME) != 0) *file.attr.mutable_mtime() = set.mtime();
  *reply.mutable_attr()->mutable_attr() = file.attr;
}

void FakeMdc::NoteReads(const v1::Accessed& accessed) {
  if (accessed.reads_size() > kMaxReads) RecordMistake("more access times than a message takes");
  for (const v1::Accessed::Read& read : accessed.reads()) {
    const auto file = files_.find(read.inode());
    if (file != files_.end()) *file->second.attr.mutable_atime() = read.time();
  }
}

void FakeMdc::Allocate(ClientSession& session, const v1::Allocate& allocate, v1::Reply& reply) {
  File& file = files_.at(allocate.inode());
  if (!Holds(file, session.id)) {
    RecordMistake("fallocate without the exclusive token");
  }
  const std::uint64_t end = allocate.offset_bytes() + allocate.length_bytes();
  const FileBlock inner_start(DivideUp(allocate.offset_bytes(), block_bytes_));
  const FileBlock inner_end(end / block_bytes_);
  if ((allocate.mode() & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE)) != 0) {
    for (std::uint64_t at = allocate.offset_bytes(); at < std::min(end, file.content.size()); ++at)
      file.content[at] = '\0';
  }
  if ((allocate.mode() & FALLOC_FL_PUNCH_HOLE) != 0) {
    if (inner_start < inner_end) FreeBlocks(file, inner_start, inner_end - inner_start);
  } else {
    if ((allocate.mode() & FALLOC_FL_ZERO_RANGE) != 0 && inner_start < inner_end) {
      FreeBlocks(file, inner_start, inner_end - inner_start);
    }
    const BlockSpan span = BlocksOf(allocate.offset_bytes(), allocate.length_bytes(),
                                    static_cast<std::uint32_t>(block_bytes_));
    if (!TakeBlocks(file, span.start, span.length_blocks)) return reply.set_error(ENOSPC);
    if ((allocate.mode() & FALLOC_FL_KEEP_SIZE) == 0) {
      file.attr.set_size_bytes(std::max(file.attr.size_bytes(), end));
    }
  }
  *reply.mutable_attr()->mutable_attr() = file.attr;
}

void FakeMdc::AddRecall(v1::ServerFrame& frame, std::uint64_t inode, const Recalled& recalled) {
  v1::RecallToken& recall = *frame.add_callbacks()->mutable_recall_token();
  recall.set_inode(inode);
  recall.set_mode(recalled.mode);
  recall.set_first_block(recalled.span.first.value());
  recall.set_length_blocks(LengthForMessage(recalled.span));
}

void FakeMdc::SendRecall(ClientSession& session, std::uint64_t inode, const Recalled& recalled) {
  if (session.stream == nullptr) return;
  v1::ServerFrame frame;
  AddRecall(frame, inode, recalled);
  session.stream->Push(std::move(frame));
}

bool FakeMdc::TakeBlocks(File& file, FileBlock start, std::uint64_t length_blocks) {
  std::vector<FileBlock> holes;
  for (FileBlock at = start; at < start + length_blocks; at = at + 1) {
    if (!file.extents.Find(at)) holes.push_back(at);
  }
  if (holes.size() > free_.size()) return false;
  // The lowest free blocks first: freed ones come back soon. A jump after each run.
  auto next = free_.begin();
  std::uint64_t run = 0;
  for (const FileBlock hole : holes) {
    if (++run > options_.run_blocks && free_.size() > 2 * holes.size() &&
        std::next(next) != free_.end()) {
      ++next;
      run = 0;
    }
    file.extents.Set({hole, 1, ExtentState::kUnwritten, PoolId(0), PoolBlock(*next)});
    next = free_.erase(next);
    if (next == free_.end()) next = free_.begin();
  }
  return true;
}

void FakeMdc::FreeBlocks(File& file, FileBlock start, std::uint64_t length_blocks) {
  for (const Extent& extent : file.extents.Slice(start, length_blocks)) {
    for (std::uint64_t i = 0; i < extent.length_blocks; ++i) {
      free_.insert(extent.pool_block.value() + i);
    }
  }
  file.extents.Erase(start, length_blocks);
}

// ---- its map ----------------------------------------------------------------------------------

void FakeMdc::ChangeMap(const VolumeDescriptor& map, std::uint64_t first) {
  MutexLock lock(mutex_);
  descriptor_ = map;
  free_.clear();
  for (std::uint64_t block = first; block < map.pools[0].size_blocks(); ++block) {
    free_.insert(free_.end(), block);
  }
  for (auto& [id, session] : sessions_) {
    if (session.stream == nullptr) continue;
    v1::ServerFrame frame;
    frame.add_callbacks()->mutable_new_map()->set_volume_descriptor(*EncodeDescriptor(map));
    session.stream->Push(std::move(frame));
  }
}

std::uint64_t FakeMdc::taken_map() const {
  MutexLock lock(mutex_);
  return map_taken_.generation();
}

std::string FakeMdc::map_problem() const {
  MutexLock lock(mutex_);
  return map_taken_.problem();
}

}  // namespace reel::client
