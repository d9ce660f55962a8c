// What a session is told of its changes before they are durable, and how they are done again when
// the epoch has ended before (docs/failover.md, "What was told and is not durable").
#include "absl/strings/str_cat.h"
#include "mdc/core/core_impl.h"
#include "mdc/ops/layout.h"
#include "proto/convert.h"
#include "proto/request_kind.h"
#include "proto/status.h"

namespace reel::mdc {
namespace {

// So many changes may wait to become durable while more are told of: far fewer than
// InodeNumbers::kMaxLost.
constexpr std::uint64_t kMaxEarlyReplies = 16'384;

}  // namespace

// The session changes names there by itself, or would have but for a want of inodes, say: that is
// durable no later than what it did by itself.
bool CoreImpl::ChangesDelegatedNames(const Pending& op, const OpContext& ctx) const {
  if (ctx.decided.delegated != nullptr) return true;
  const auto delegated = [&](std::uint64_t inode) {
    const InodeNumber directory(inode);
    return holdings_.attr_tokens.Held(op.session, directory) == v1::TOKEN_EXCLUSIVE &&
           !holdings_.attr_tokens.RecallPending(op.session, directory);
  };
  switch (const v1::Request& request = op.request; request.op_case()) {
    case v1::Request::kCreate:
      return delegated(request.create().parent());
    case v1::Request::kUnlink:
      return delegated(request.unlink().parent());
    case v1::Request::kRename:
      return delegated(request.rename().parent()) && delegated(request.rename().new_parent());
    default:
      return false;
  }
}

// Never past an answer that came before and waits: what that shows would be taken for the newer.
bool CoreImpl::MayReplyEarly(const Pending& op, const OpContext& ctx) const {
  const Session& session = *sessions_.all().at(op.session);
  const bool takes = options_.names == NameReplies::kEarly ||
                     (options_.names == NameReplies::kDelegated && ChangesDelegatedNames(op, ctx));
  // What an earlier run saw on its way up from a new parent is not in `seen`.
  const bool walked = op.walks[0].levels + op.walks[1].levels > 0;
  const bool knows = (session.spoken.features & v1::FEATURE_EARLY_REPLY) != 0;
  return takes && knows && !walked && op.request.slot() != 0 && !op.request.has_replay() &&
         Is(op.request, kEarly) && ctx.txn.seen() == Sequence() &&
         !outbox_.queue.AnyWaits(session.stream) &&
         db_.last_applied().value() - outbox_.queue.durable().value() < kMaxEarlyReplies;
}

// What a client may have been told before it was durable.
bool CoreImpl::MayReplay(const Session& session, const v1::Request& request) {
  return session.phase == Session::Phase::kMustReclaim && request.slot() != 0 &&
         Is(request, kEarly) && (session.spoken.features & v1::FEATURE_EARLY_REPLY) != 0;
}

// What is done again comes out as it was told, with the blocks of a file that it made: its session
// may have written them. They stay its own also where it cannot be done.
absl::Status CoreImpl::TakeReplay(const Pending& op, OpContext& ctx) {
  ctx.decided.replay = &op.request.replay();
  ctx.now = reel::FromProto(ctx.decided.replay->time()).value_or(ctx.now);
  if (!op.request.has_create() || ctx.decided.replay->extents().empty()) return absl::OkStatus();
  const InodeNumber inode(ctx.decided.replay->inode());
  ctx.decided.reserved =
      delegations_.reserved().Find(op.session, ReservedInodeTable::kNoDirectory, inode);
  if (ctx.decided.reserved == nullptr) {  // else the operation runs once more
    absl::StatusOr<ReservedInode> reserved = ReserveAgain(op.session, *ctx.decided.replay);
    if (!reserved.ok()) return reserved.status();
    delegations_.reserved().Add(op.session, ReservedInodeTable::kNoDirectory, *std::move(reserved),
                                clock_.NowMs());
    ctx.decided.reserved =
        delegations_.reserved().Find(op.session, ReservedInodeTable::kNoDirectory, inode);
  }
  ctx.effects.on_commit.push_back([this, &ctx, inode] {
    if (ctx.decided.reserved_given) {
      delegations_.reserved().Use(ctx.caller.session, ReservedInodeTable::kNoDirectory, inode);
    }
  });
  return absl::OkStatus();
}

// EPROTO: no correct client was told of these.
absl::StatusOr<ReservedInode> CoreImpl::ReserveAgain(SessionId session, const v1::Replay& replay) {
  ReservedInode reserved{
      .inode = InodeNumber(replay.inode()), .generation = replay.generation(), .runs = {}};
  // What it was made with, and as much ahead.
  const std::uint64_t most = 2 * NewFileBlocks(kMaxFileBytes, descriptor_.block_bytes);
  absl::Status status;
  FileBlock next(0);
  for (const v1::Extent& stored : replay.extents()) {
    const absl::StatusOr<Extent> extent = reel::FromProto(stored);
    const mdc::Run run = extent.ok()
                             ? mdc::Run{extent->pool, extent->pool_block, extent->length_blocks}
                             : mdc::Run{};
    if (!extent.ok() || extent->file_block != next || run.length_blocks > most - next.value()) {
      status = absl::InvalidArgumentError("the extents are not those of a new file");
    } else {
      status = allocator_->ReserveAgain(run);
    }
    if (!status.ok()) break;
    reserved.runs.push_back(run);
    next = next + run.length_blocks;
  }
  if (delegations_.reserved().CountOf(session, ReservedInodeTable::kNoDirectory) >=
      options_.slots) {
    status = absl::InvalidArgumentError("more files than were told of");
  }
  if (status.ok()) return reserved;
  for (const mdc::Run& run : reserved.runs) allocator_->Unreserve(run);
  return ErrnoStatus(EPROTO, absl::StrCat("blocks of inode ", replay.inode(),
                                          " to be made again: ", std::string(status.message())));
}

void CoreImpl::EndReclaim(Session& session) {
  if (session.phase != Session::Phase::kMustReclaim || !session.reclaim.done ||
      session.reclaim.replays_left > 0) {
    return;
  }
  session.phase = Session::Phase::kServing;
  session.reclaim.done = false;
  if (grace_.Leave(session.id)) OnGraceOver();
}

}  // namespace reel::mdc
