// What a session may do in a directory before the controller knows: it alone holds that one's
// attribute token, exclusively (docs/internals/directory-delegations.md).
#include <linux/fs.h>
#include <sys/stat.h>

#include <algorithm>
#include <optional>

#include "mdc/core/core_impl.h"
#include "mdc/ops/layout.h"
#include "mdc/ops/quota.h"
#include "proto/convert.h"
#include "proto/protocol.h"
#include "proto/request_kind.h"
#include "proto/status.h"

namespace reel::mdc {

absl::Status CoreImpl::RequireUndelegated(const Pending& op, OpContext& ctx) {
  if (!holdings_.attr_tokens.AnyExclusive()) return absl::OkStatus();
  const auto require = [&](InodeNumber inode) -> absl::Status {
    if (absl::Status undelegated = ctx.RequireUndelegated(inode); !undelegated.ok())
      return undelegated;
    const absl::StatusOr<v1::InodeRecord*> record = ctx.txn.Inode(inode);
    if (!record.ok() || ctx.IsUndelegated(inode, **record)) return absl::OkStatus();
    return ctx.RequireUndelegated(InodeNumber((*record)->directory()));
  };
  for (const InodeNumber inode : ctx.effects.described) {
    if (absl::Status undelegated = require(inode); !undelegated.ok()) return undelegated;
  }
  for (const InodeNumber inode : KindOf(op.request).looks_at) {
    if (absl::Status undelegated = require(inode); !undelegated.ok()) return undelegated;
  }
  return absl::OkStatus();
}

bool CoreImpl::MayDelegate(const Session& session, InodeNumber directory) const {
  return !parked_.Any(directory) && !store_room_.spent() &&
         holdings_.attr_tokens.Held(session.id, directory) != v1::TOKEN_NONE &&
         holdings_.attr_tokens.OthersAtMost(session.id, directory, v1::TOKEN_NONE) &&
         !holdings_.attr_tokens.RecallPending(session.id, directory) &&
         !delegations_.shared().IsShared(directory, clock_.NowMs());
}

// Whoever has just changed a directory, when nobody else knew it, is likely to do so again.
void CoreImpl::GrantDelegations(const Pending& op, OpContext& ctx, v1::Reply& reply) {
  if (ctx.decided.replay != nullptr) {
    return;  // its client does not look, and others have yet to come
  }
  const Session& session = *sessions_.Find(op.session);
  const Session::Spoken& spoken = session.spoken;
  if ((spoken.features & v1::FEATURE_DELEGATION) == 0 || !spoken.caches_attributes) {
    return;
  }
  for (const InodeNumber inode : ctx.txn.ChangedInodes()) {
    const v1::InodeRecord& record = **ctx.txn.Inode(inode);
    if (!S_ISDIR(record.mode()) || record.nlink() == 0 || !MayDelegate(session, inode)) continue;
    holdings_.attr_tokens.Grant(session.id, inode, v1::TOKEN_EXCLUSIVE);
    reply.add_exclusive(inode.value());
  }
  if (op.request.create().reserved_inodes() > 0) GrantReservedInodes(op, ctx, reply);
  TellSole(op, reply);
}

bool CoreImpl::AsksForSiblings(const Pending& op) const {
  const v1::Request& request = op.request;
  if (request.siblings().empty()) return false;
  const InodeNumber parent(request.has_rename() ? request.rename().parent()
                                                : request.unlink().parent());
  return holdings_.attr_tokens.Held(op.session, parent) == v1::TOKEN_EXCLUSIVE &&
         !holdings_.attr_tokens.RecallPending(op.session, parent);
}

// Another session knows the file that a change of names in a delegated directory is about: it is
// likely to know the next ones, too, and to look at none of them. Its answers come in the order of
// the recalls, that for the file itself at last.
void CoreImpl::RecallSiblings(const Pending& op, InodeNumber file) {
  if (!AsksForSiblings(op)) return;
  const int most = std::min(op.request.siblings_size(), kMaxSiblings);
  for (int i = 0; i < most; ++i) {
    const InodeNumber inode(op.request.siblings(i));
    if (inode != file && holdings_.attr_tokens.Held(op.session, inode) != v1::TOKEN_NONE) {
      SendAttrRecalls(holdings_.attr_tokens.RecallOthers(op.session, inode, v1::TOKEN_NONE));
    }
  }
}

// Whoever else wants to look at one of them waits for the recall of their directory, by which the
// session learns that they are sole no more.
void CoreImpl::TellSole(const Pending& op, v1::Reply& reply) const {
  const v1::Request& request = op.request;
  if (!AsksForSiblings(op)) return;
  const int most = std::min(request.siblings_size(), kMaxSiblings);
  for (int i = 0; i < most; ++i) {
    const InodeNumber inode(request.siblings(i));
    if (holdings_.attr_tokens.Held(op.session, inode) != v1::TOKEN_NONE &&
        holdings_.attr_tokens.OthersAtMost(op.session, inode, v1::TOKEN_NONE) &&
        !holdings_.attr_tokens.RecallPending(op.session, inode)) {
      reply.add_sole(inode.value());
    }
  }
}

void CoreImpl::GrantReservedInodes(const Pending& op, OpContext& ctx, v1::Reply& reply) {
  const v1::Create& create = op.request.create();
  const InodeNumber parent(create.parent());
  if (!op.request.has_delegated()) DropReservedInodes(op.session, parent);
  if (holdings_.attr_tokens.Held(op.session, parent) != v1::TOKEN_EXCLUSIVE ||
      !store_room_.ample()) {
    return;
  }
  const InodeNumber made(reply.entry().attr().inode());
  inode_numbers_->Taken(made);  // with this commit
  const std::size_t has = delegations_.reserved().CountOf(op.session, parent);
  AllocationRequest space;
  space.length_blocks = NewFileBlocks(create.reserved_bytes(), descriptor_.block_bytes);
  space.affinity = (*ctx.txn.Inode(parent))->affinity();
  space.session = op.session;
  space.directory = parent;
  const bool takes_room = work_.quotas.counts() || space.length_blocks > 0;
  const std::size_t all = takes_room ? kMaxReservedWithRoom : kMaxReservedInodes;
  std::uint64_t most = std::min<std::uint64_t>(create.reserved_inodes(), all - std::min(has, all));
  std::optional<QuotaOwner> owner;
  if (work_.quotas.counts()) {
    // Whoever makes them is known now, and charged.
    if ((sessions_.Find(op.session)->spoken.features & v1::FEATURE_QUOTA) == 0) return;
    owner = OwnerOf(**ctx.txn.Inode(made));
    most = std::min(most, ReservableFiles(ctx, *owner, space.length_blocks).value_or(0));
  }
  for (std::uint64_t i = 0; i < most; ++i) {
    const std::optional<InodeNumber> inode = inode_numbers_->Reserve();
    if (!inode) return;
    ReservedInode reserved{
        .inode = *inode, .generation = ctx.next_sequence.value(), .runs = {}, .owner = owner};
    if (space.length_blocks > 0) {
      if (auto runs = allocator_->Reserve(space); runs.ok()) reserved.runs = *std::move(runs);
    }
    v1::ReservedInode& offered = *reply.add_reserved_inodes();
    offered.set_inode(inode->value());
    offered.set_generation(reserved.generation);
    if (owner) {
      offered.set_owned(true);
      offered.set_uid(owner->uid);
      offered.set_gid(owner->gid);
    }
    FileBlock next(0);
    for (const mdc::Run& run : reserved.runs) {
      Extent extent;
      extent.file_block = next;
      extent.length_blocks = run.length_blocks;
      extent.state = ExtentState::kUnwritten;
      extent.pool = run.pool;
      extent.pool_block = run.start;
      *offered.add_extents() = ToProto(extent);
      next = next + run.length_blocks;
    }
    offered.set_allocated_bytes(next.value() * descriptor_.block_bytes);
    delegations_.reserved().Add(op.session, parent, std::move(reserved), clock_.NowMs());
  }
}

namespace {

// What a session may make by itself: regular files with their token, symbolic links, directories.
bool MayBeMadeAhead(const v1::Create& create) {
  if (create.unnamed()) return false;
  if (S_ISLNK(create.mode()) || S_ISDIR(create.mode())) return true;
  return S_ISREG(create.mode()) && create.open() && create.token() == v1::TOKEN_EXCLUSIVE;
}

// The one directory that the request changes; nullopt: it is no change that may be delegated.
std::optional<InodeNumber> DirectoryChangedAhead(const v1::Request& request) {
  if (request.has_create() && MayBeMadeAhead(request.create())) {
    return InodeNumber(request.create().parent());
  }
  if (request.has_unlink()) return InodeNumber(request.unlink().parent());
  const v1::Rename& rename = request.rename();
  const bool moves = request.has_rename() && rename.parent() == rename.new_parent() &&
                     (rename.flags() & ~std::uint32_t{RENAME_NOREPLACE}) == 0;
  return moves ? std::optional(InodeNumber(rename.parent())) : std::nullopt;
}

}  // namespace

// EPROTO: no correct client sends such.
absl::Status CoreImpl::TakeDelegated(const Pending& op, OpContext& ctx) {
  const v1::Request& request = op.request;
  const std::optional<InodeNumber> changed = DirectoryChangedAhead(request);
  const InodeNumber parent = changed.value_or(InodeNumber(0));
  if (!changed || request.has_replay() ||
      holdings_.attr_tokens.Held(op.session, parent) != v1::TOKEN_EXCLUSIVE) {
    return ErrnoStatus(EPROTO, "delegated without an exclusive token of the directory");
  }
  ctx.decided.delegated = &request.delegated();
  ctx.now = reel::FromProto(ctx.decided.delegated->time()).value_or(ctx.now);
  if (request.has_rename() && store_room_.spent()) {
    // Longer names take what is left of the store: those that follow have to ask.
    ctx.effects.on_commit.push_back([this, parent] { ShareDelegated(parent); });
  }
  if (!request.has_create()) return absl::OkStatus();
  const InodeNumber inode(request.delegated().inode());
  ctx.decided.reserved = delegations_.reserved().Find(op.session, parent, inode);
  const bool has_blocks = S_ISREG(request.create().mode());
  ctx.effects.on_commit.push_back([this, session = op.session, parent, inode, has_blocks] {
    const ReservedInode* const used = delegations_.reserved().Find(session, parent, inode);
    if (used != nullptr && !has_blocks) {
      for (const mdc::Run& run : used->runs) allocator_->Unreserve(run);
    }
    delegations_.reserved().Use(session, parent, inode);
  });
  return absl::OkStatus();
}

// Its session may have written to it already.
void CoreImpl::QuarantineReservedInode(const Pending& op) {
  delegations_.reserved().Quarantine(op.session, InodeNumber(op.request.create().parent()),
                                     InodeNumber(op.request.delegated().inode()));
}

bool CoreImpl::AnyDelegated(const Session& session) {
  return std::any_of(session.lane.begin(), session.lane.end(),
                     [](const PendingRef& op) { return op->request.has_delegated(); });
}

void CoreImpl::RecallIdle() {
  for (const auto& [session, directory] : delegations_.LookForIdle(clock_.NowMs())) {
    ShareDelegated(directory);
  }
}

void CoreImpl::ShareDelegated(InodeNumber directory) {
  SendAttrRecalls(holdings_.attr_tokens.RecallOthers(SessionId(0), directory, v1::TOKEN_SHARED));
}

void CoreImpl::DropReservedInodes(SessionId session, InodeNumber directory) {
  for (const mdc::Run& run : delegations_.reserved().Drop(session, directory)) {
    allocator_->Unreserve(run);
  }
}

}  // namespace reel::mdc
