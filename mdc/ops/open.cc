#include "mdc/ops/open.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "mdc/ops/inode.h"
#include "mdc/ops/layout.h"
#include "mdc/tables/token_table.h"
#include "proto/request_kind.h"
#include "proto/status.h"

namespace reel::mdc {
namespace {

// Whether it costs nobody anything; else LayoutGet waits for it in turn.
bool MayGrant(const OpContext& ctx, InodeNumber inode, v1::TokenMode mode) {
  const v1::TokenMode others = mode == v1::TOKEN_EXCLUSIVE ? v1::TOKEN_NONE : v1::TOKEN_SHARED;
  return ctx.tokens.HasRoom(ctx.caller.session) && !ctx.tokens.AnyRecallPending(inode) &&
         ctx.tokens.OthersAtMost(ctx.caller.session, inode, others) &&
         (mode != v1::TOKEN_EXCLUSIVE ||
          ctx.attr_tokens.OthersAtMost(ctx.caller.session, inode, v1::TOKEN_NONE));
}

}  // namespace

absl::StatusOr<bool> GrantAtOnce(OpContext& ctx, InodeNumber inode, const v1::InodeRecord& record,
                                 std::uint64_t length_bytes, v1::TokenMode mode,
                                 v1::LayoutReply& layout) {
  if (!S_ISREG(record.mode()) || !MayGrant(ctx, inode, mode)) return false;
  const std::uint64_t described_bytes = std::clamp<std::uint64_t>(length_bytes, 1, kMaxFileBytes);
  absl::Status granted =
      GrantLayout(ctx, inode, record, 0, described_bytes, mode, kWholeFile, layout);
  if (!granted.ok()) return granted;
  return true;
}

absl::Status Open(OpContext& ctx, const v1::Request& request, v1::Reply& reply) {
  const v1::Open& open = request.open();
  const InodeNumber inode(open.inode());
  const auto found = ctx.txn.Inode(inode);
  if (!found.ok()) return found.status();
  const v1::InodeRecord& record = **found;
  if (absl::Status alive = RequireAlive(ctx, inode, record); !alive.ok()) return alive;
  if (open.write() && (record.flags() & v1::INODE_FLAG_IMMUTABLE) != 0) {
    return ErrnoStatus(EPERM, absl::StrCat("inode ", inode.value(), " is immutable"));
  }
  if (ctx.opens.CountOf(ctx.caller.session) >= kMaxOpens &&
      !ctx.opens.IsOpenBy(ctx.caller.session, inode)) {
    return ErrnoStatus(ENFILE, absl::StrCat("the client has ", kMaxOpens, " files open"));
  }
  ctx.effects.on_commit.push_back(
      [&opens = ctx.opens, session = ctx.caller.session, inode] { opens.Open(session, inode); });
  if (OnlyRegisters(open)) return absl::OkStatus();
  const bool wants_token = open.token() == v1::TOKEN_SHARED || open.token() == v1::TOKEN_EXCLUSIVE;
  if (wants_token) {
    v1::LayoutReply layout;
    const absl::StatusOr<bool> granted = GrantAtOnce(ctx, inode, record, 1, open.token(), layout);
    if (!granted.ok()) return granted.status();
    if (*granted) {
      *reply.mutable_layout() = std::move(layout);
      return absl::OkStatus();
    }
  }
  FillAttr(inode, record, ctx.descriptor, *reply.mutable_attr()->mutable_attr());
  return absl::OkStatus();
}

absl::Status Close(OpContext& ctx, const v1::Request& request, v1::Reply&) {
  const InodeNumber inode(request.close().inode());
  ctx.effects.on_commit.push_back([&ctx, inode, lowers = request.close().lowers_token()] {
    ctx.opens.Close(ctx.caller.session, inode);
    if (lowers) ctx.tokens.Return(ctx.caller.session, inode, v1::TOKEN_SHARED);
  });
  return absl::OkStatus();
}

}  // namespace reel::mdc
