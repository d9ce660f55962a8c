// The fake controller's operations on tokens, layouts and attributes.
#include <linux/falloc.h>

#include <algorithm>
#include <cerrno>

#include "client/testing/fake_mdc.h"
#include "proto/convert.h"

namespace reel::client {

bool FakeMdc::OthersAtMost(File& file, std::uint64_t session, v1::TokenMode allowed) {
  bool free = true;
  for (auto& [id, holder] : file.holders) {
    if (id == session || holder.mode <= allowed) continue;
    free = false;
    if (holder.recalled && holder.recalled_to <= allowed) continue;
    holder.recalled = true;
    holder.recalled_to = allowed;
    SendRecall(sessions_.at(id), file.attr.inode(), allowed);
  }
  return free;
}

bool FakeMdc::LayoutGet(ClientSession& session, const v1::Request& request, v1::Reply& reply) {
  const v1::LayoutGet& get = request.layout_get();
  const auto found = files_.find(get.inode());
  if (found == files_.end()) {
    reply.set_error(ENOENT);
    return true;
  }
  File& file = found->second;
  const auto held = file.holders.find(session.id);
  const v1::TokenMode have = held == file.holders.end() ? v1::TOKEN_NONE : held->second.mode;
  if (have < get.mode()) {
    const bool exclusive = get.mode() == v1::TOKEN_EXCLUSIVE;
    if (!OthersAtMost(file, session.id, exclusive ? v1::TOKEN_NONE : v1::TOKEN_SHARED)) {
      return false;
    }
    if (held != file.holders.end() && held->second.recalled) return false;
    file.holders[session.id].mode = get.mode();
  }
  const BlockSpan span =
      BlocksOf(get.offset_bytes(), get.length_bytes(), static_cast<std::uint32_t>(block_bytes_));
  std::uint64_t length_blocks = span.length_blocks;
  if (get.allocate()) {
    if (file.holders[session.id].mode != v1::TOKEN_EXCLUSIVE) Wrong("allocation without token");
    if (!TakeBlocks(file, span.start, length_blocks)) {
      reply.set_error(ENOSPC);
      return true;
    }
    if (TakeBlocks(file, span.start + length_blocks, options_.ahead_blocks)) {
      length_blocks += options_.ahead_blocks;
    }
  }
  v1::LayoutReply& layout = *reply.mutable_layout();
  layout.set_mode(file.holders[session.id].mode);
  layout.set_file_block(span.start.value());
  std::vector<Extent> known = file.extents.Slice(span.start, length_blocks);
  if (known.size() > options_.max_extents) {
    known.resize(options_.max_extents);
    length_blocks = known.back().end() - span.start;
  }
  layout.set_length_blocks(length_blocks);
  ExtentMap full;
  full.Set({span.start, length_blocks, ExtentState::kHole, PoolId(), PoolBlock()});
  for (const Extent& extent : known) full.Set(extent);
  for (const Extent& extent : full.All()) *layout.add_extents() = ToProto(extent);
  *layout.mutable_attr() = file.attr;
  return true;
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

void FakeMdc::Commit(ClientSession& session, const v1::LayoutCommit& commit, v1::Reply& reply) {
  const auto found = files_.find(commit.inode());
  if (found == files_.end()) return reply.set_error(ENOENT);
  File& file = found->second;
  const auto held = file.holders.find(session.id);
  if (held == file.holders.end() || held->second.mode != v1::TOKEN_EXCLUSIVE) {
    Wrong("a commit without the exclusive token");
    return reply.set_error(EPERM);
  }
  for (const v1::BlockRange& range : commit.written()) {
    std::uint64_t covered = 0;
    for (const Extent& e :
         file.extents.Slice(FileBlock(range.file_block()), range.length_blocks())) {
      if (e.state != ExtentState::kHole) covered += e.length_blocks;
    }
    if (covered != range.length_blocks()) {
      Wrong("a commit of blocks that were never granted");
      return reply.set_error(ESTALE);
    }
  }
  for (const v1::BlockRange& range : commit.written()) {
    file.extents.MarkWritten(FileBlock(range.file_block()), range.length_blocks());
  }
  if (commit.has_size_bytes()) file.attr.set_size_bytes(commit.size_bytes());
  if (commit.has_mtime()) *file.attr.mutable_mtime() = commit.mtime();
  if (commit.kill_suid_sgid()) file.attr.set_mode(file.attr.mode() & ~06000u);
  if (commit.kill_sgid()) file.attr.set_mode(file.attr.mode() & ~02000u);
  if (commit.release_tail()) {
    FreeBlocks(file, FileBlock(DivideUp(file.attr.size_bytes(), block_bytes_)), 1 << 30);
  }
}

void FakeMdc::SetAttr(ClientSession& session, const v1::SetAttr& set, v1::Reply& reply) {
  File& file = files_.at(set.inode());
  const auto held = file.holders.find(session.id);
  const bool owner = held != file.holders.end() && held->second.mode == v1::TOKEN_EXCLUSIVE;
  if ((set.fields() & v1::SetAttr::SIZE) != 0) {
    if (!owner) Wrong("truncation without the exclusive token");
    const std::uint64_t kept = std::min(file.attr.size_bytes(), set.size_bytes());
    if (set.size_bytes() < file.attr.size_bytes()) {
      FreeBlocks(file, FileBlock(DivideUp(kept, block_bytes_)), 1 << 30);
    }
    file.attr.set_size_bytes(set.size_bytes());
  }
  if ((set.fields() & v1::SetAttr::FLAGS) != 0) file.attr.set_flags(set.flags());
  if ((set.fields() & v1::SetAttr::MODE) != 0) {
    file.attr.set_mode((file.attr.mode() & ~07777u) | set.mode());
  }
  if ((set.fields() & v1::SetAttr::ACCESSED) != 0) *file.attr.mutable_atime() = set.atime();
  if ((set.fields() & v1::SetAttr::MTIME) != 0) *file.attr.mutable_mtime() = set.mtime();
  *reply.mutable_attr()->mutable_attr() = file.attr;
}

void FakeMdc::Allocate(ClientSession& session, const v1::Allocate& allocate, v1::Reply& reply) {
  File& file = files_.at(allocate.inode());
  const auto held = file.holders.find(session.id);
  if (held == file.holders.end() || held->second.mode != v1::TOKEN_EXCLUSIVE) {
    Wrong("fallocate without the exclusive token");
  }
  const std::uint64_t end = allocate.offset_bytes() + allocate.length_bytes();
  const FileBlock inner_start(DivideUp(allocate.offset_bytes(), block_bytes_));
  const FileBlock inner_end(end / block_bytes_);
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

}  // namespace reel::client
