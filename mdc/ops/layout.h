// Layouts: which blocks a session may use, and what becomes of those that it has written.
//
// Invariants: blocks of a file are handed out *unwritten* and become written only by a commit of
// the session that holds the exclusive token; nothing changes a file's blocks while another session
// holds a token that covers them. Threads: the core thread.
#pragma once

#include "mdc/ops/operation.h"

namespace reel::mdc {

absl::Status LayoutGet(OpContext& ctx, const v1::Request& request, v1::Reply& reply);
absl::Status LayoutCommit(OpContext& ctx, const v1::Request& request, v1::Reply& reply);
absl::Status AttrReturn(OpContext& ctx, const v1::Request& request, v1::Reply& reply);
absl::Status LayoutReturn(OpContext& ctx, const v1::Request& request, v1::Reply& reply);

// ESTALE for an inode without a name, unless somebody has it open, or this session holds a token of
// it: then it may have it open without having said so.
absl::Status RequireAlive(const OpContext& ctx, InodeNumber inode, const v1::InodeRecord& record);

// Grants the exclusive token of a file that this operation makes, which nobody else knows, with
// `allocate_bytes` of unwritten blocks from its start where there is room; `layout` describes its
// beginning.
absl::Status GrantNewFile(OpContext& ctx, InodeNumber inode, const v1::InodeRecord& record,
                          std::uint64_t allocate_bytes, v1::LayoutReply& layout);

// How many blocks that is at most.
std::uint64_t NewFileBlocks(std::uint64_t allocate_bytes, std::uint32_t block_bytes);

// The part of LayoutGet that Open shares: grants `token` and describes, as far as it reaches,
// [offset, offset + length) and well beyond. REQUIRES: the session may hold `mode` there.
absl::Status GrantLayout(OpContext& ctx, InodeNumber inode, const v1::InodeRecord& record,
                         std::uint64_t offset_bytes, std::uint64_t length_bytes, v1::TokenMode mode,
                         const TokenSpan& token, v1::LayoutReply& layout);

}  // namespace reel::mdc
