#include "mdc/ops/open.h"

#include <sys/stat.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "mdc/ops/inode.h"
#include "mdc/ops/layout.h"
#include "mdc/tables/token_table.h"
#include "proto/request_kind.h"
#include "proto/status.h"

namespace reel::mdc {
namespace {

// An open takes a token along only where it costs nobody anything; else LayoutGet waits for it in
// turn.
bool MayGrant(const OpContext& ctx, InodeNumber inode, v1::TokenMode mode) {
  const v1::TokenMode others = mode == v1::TOKEN_EXCLUSIVE ? v1::TOKEN_NONE : v1::TOKEN_SHARED;
  return ctx.tokens.HasRoom(ctx.caller.session) && !ctx.tokens.AnyRecallPending(inode) &&
         ctx.tokens.OthersAtMost(ctx.caller.session, inode, others) &&
         (mode != v1::TOKEN_EXCLUSIVE ||
          ctx.attr_tokens.OthersAtMost(ctx.caller.session, inode, v1::TOKEN_NONE));
}

}  // namespace

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
  if (wants_token && S_ISREG(record.mode()) && MayGrant(ctx, inode, open.token())) {
    absl::Status s =
        GrantLayout(ctx, inode, record, 0, 1, open.token(), kWholeFile, *reply.mutable_layout());
    if (!s.ok()) return s;
  } else {
    FillAttr(inode, record, ctx.descriptor, *reply.mutable_attr()->mutable_attr());
  }
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
