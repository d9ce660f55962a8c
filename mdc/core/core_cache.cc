// Attribute tokens: what sessions may cache of attributes and names, and how they are told.
#include <algorithm>
#include <utility>

#include "mdc/core/core_impl.h"
#include "mdc/ops/inode.h"

namespace reel::mdc {

absl::Status CoreImpl::RequireUncached(OpContext& ctx) {
  if (ctx.effects.lazily_seen) return absl::OkStatus();
  for (const InodeNumber inode : ctx.txn.ChangedInodes()) {
    if (absl::Status recalled = ctx.RequireUncached(inode); !recalled.ok()) return recalled;
  }
  return absl::OkStatus();
}

// Nothing is granted that somebody waits for, nor the attributes of a file that another session is
// writing: that one knows them.
void CoreImpl::GrantCaching(const Pending& op, OpContext& ctx, v1::Reply& reply) {
  const Session& session = *sessions_.Find(op.session);
  if (!session.spoken.caches_attributes) return;
  for (const InodeNumber inode : ctx.effects.described) {
    if (parked_.AnyBut(inode, op)) continue;
    if (holdings_.attr_tokens.Held(session.id, inode) == v1::TOKEN_NONE) {
      if (!holdings_.attr_tokens.HasRoom(session.id) ||
          !holdings_.tokens.OthersAtMost(session.id, inode, v1::TOKEN_SHARED)) {
        continue;
      }
      holdings_.attr_tokens.Grant(session.id, inode, v1::TOKEN_SHARED);
    } else if (holdings_.attr_tokens.RecallPending(session.id, inode)) {
      continue;
    }
    reply.add_cacheable(inode.value());
  }
}

void CoreImpl::FillChanged(const Pending& op, OpContext& ctx, v1::Reply& reply) {
  const Session& session = *sessions_.Find(op.session);
  for (const InodeNumber inode : ctx.txn.ChangedInodes()) {
    if (holdings_.attr_tokens.Held(session.id, inode) == v1::TOKEN_NONE) continue;
    const v1::InodeRecord& record = **ctx.txn.Inode(inode);
    if (record.nlink() == 0) DropReservedInodes(session.id, inode);
    v1::Attr& changed = *reply.add_changed();
    // What has just lost its last name, and is not open, will go without being looked at: the
    // recall of these attributes, and its answer, need not follow. (One that is on its way already
    // has an answer.)
    const bool goes = record.nlink() == 0 && !holdings_.opens.IsOpen(inode) &&
                      std::find(ctx.effects.orphans.begin(), ctx.effects.orphans.end(), inode) !=
                          ctx.effects.orphans.end();
    if (goes && !holdings_.attr_tokens.RecallPending(session.id, inode)) {
      changed.set_inode(inode.value());
      holdings_.attr_tokens.Return(session.id, inode, v1::TOKEN_NONE);
      parked_.Wake(inode);
      continue;
    }
    FillAttr(inode, record, descriptor_, changed);
  }
  for (const InodeNumber inode : ctx.txn.DeletedInodes()) {
    // No name leads there any more: nobody has to wait until the others know, too.
    const std::vector<Recall> recalls =
        holdings_.attr_tokens.RecallOthers(session.id, inode, v1::TOKEN_NONE);
    if (!recalls.empty()) RecallSiblings(op, inode);
    SendAttrRecalls(recalls);
    if (holdings_.attr_tokens.Held(session.id, inode) != v1::TOKEN_NONE) {
      reply.add_changed()->set_inode(inode.value());
    }
    holdings_.attr_tokens.Forget(inode);
    DropReservedInodes(session.id, inode);
    parked_.Wake(inode);  // who waits for the token learns that the inode is gone
  }
}

// Behind every reply that may have granted the token: then the client knows what it gives up.
void CoreImpl::SendAttrRecalls(const std::vector<Recall>& recalls) {
  NoteRecalls(recalls, RecallClock::Kind::kAttributes);
  for (const Recall& recall : recalls) {
    ++counters_.recalls;
    const Session* session = sessions_.Find(recall.session);
    if (session == nullptr || session->stream == kNoStream ||
        work_.resends.WillSend(session->id, RecallClock::Kind::kAttributes, recall.inode)) {
      continue;
    }
    v1::Callback callback;
    callback.mutable_recall_attr()->set_inode(recall.inode.value());
    callback.mutable_recall_attr()->set_to_shared(recall.mode == v1::TOKEN_SHARED);
    outbox_.queue.EmitLast(session->stream, std::move(callback));
  }
}

}  // namespace reel::mdc
