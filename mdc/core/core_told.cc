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
constexpr std::uint64_t kMaxAhead = 16'384;

}  // namespace

// Never past an answer that came before and waits: what that shows would be taken for the newer.
bool CoreImpl::MayTellAtOnce(const Pending& op, const OpContext& ctx) const {
  const Session& session = *sessions_.all().at(op.session);
  return options_.names == NamesTold::kEarly && (session.features & v1::FEATURE_PROVISIONAL) != 0 &&
         op.request.slot() != 0 && !op.request.has_redo() && Is(op.request, kEarly) &&
         ctx.txn.seen() == Sequence() && !outputs_.AnyWaits(session.stream) &&
         db_.last_applied().value() - outputs_.durable().value() < kMaxAhead;
}

// What a client may have been told before it was durable.
bool CoreImpl::MayRedo(const Session& session, const v1::Request& request) {
  return session.phase == Session::Phase::kMustReclaim && request.slot() != 0 &&
         Is(request, kEarly) && (session.features & v1::FEATURE_PROVISIONAL) != 0;
}

// What is done again comes out as it was told, with the blocks of a file that it made: its session
// may have written them. They stay its own also where it cannot be done.
absl::Status CoreImpl::TakeRedo(const Pending& op, OpContext& ctx) {
  ctx.redo = &op.request.redo();
  ctx.now = reel::FromProto(ctx.redo->time()).value_or(ctx.now);
  if (!op.request.has_create() || ctx.redo->extents().empty()) return absl::OkStatus();
  const InodeNumber inode(ctx.redo->inode());
  ctx.unborn = unborn_.Find(op.session, UnbornTable::kNoDirectory, inode);
  if (ctx.unborn == nullptr) {  // else the operation runs once more
    absl::StatusOr<Unborn> unborn = ReserveAgain(op.session, *ctx.redo);
    if (!unborn.ok()) return unborn.status();
    unborn_.Add(op.session, UnbornTable::kNoDirectory, *std::move(unborn), clock_.NowMs());
    ctx.unborn = unborn_.Find(op.session, UnbornTable::kNoDirectory, inode);
  }
  ctx.on_commit.push_back([this, &ctx, inode] {
    if (ctx.unborn_given) unborn_.Born(ctx.session, UnbornTable::kNoDirectory, inode);
  });
  return absl::OkStatus();
}

// EPROTO: no correct client was told of these.
absl::StatusOr<Unborn> CoreImpl::ReserveAgain(SessionId session, const v1::Redo& redo) {
  Unborn unborn{.inode = InodeNumber(redo.inode()), .generation = redo.generation(), .runs = {}};
  // What it was made with, and as much ahead.
  const std::uint64_t most = 2 * NewFileBlocks(kMaxFileBytes, descriptor_.block_bytes);
  absl::Status status;
  FileBlock next(0);
  for (const v1::Extent& told : redo.extents()) {
    const absl::StatusOr<Extent> extent = reel::FromProto(told);
    const mdc::Run run = extent.ok()
                             ? mdc::Run{extent->pool, extent->pool_block, extent->length_blocks}
                             : mdc::Run{};
    if (!extent.ok() || extent->file_block != next || run.length_blocks > most - next.value()) {
      status = absl::InvalidArgumentError("the extents are not those of a new file");
    } else {
      status = allocator_->ReserveAgain(run);
    }
    if (!status.ok()) break;
    unborn.runs.push_back(run);
    next = next + run.length_blocks;
  }
  if (unborn_.CountOf(session, UnbornTable::kNoDirectory) >= options_.slots) {
    status = absl::InvalidArgumentError("more files than were told of");
  }
  if (status.ok()) return unborn;
  for (const mdc::Run& run : unborn.runs) allocator_->Unreserve(run);
  return ErrnoStatus(EPROTO, absl::StrCat("blocks of inode ", redo.inode(),
                                          " to be made again: ", std::string(status.message())));
}

void CoreImpl::EndReclaim(Session& session) {
  if (session.phase != Session::Phase::kMustReclaim || !session.reclaimed || session.redos > 0) {
    return;
  }
  session.phase = Session::Phase::kServing;
  session.reclaimed = false;
  if (grace_.Leave(session.id)) OnGraceOver();
}

}  // namespace reel::mdc
