// What a session is told of its changes before they are durable, and how they are done again when
// the epoch has ended before (docs/failover.md, "What was told and is not durable").
#include "mdc/core_impl.h"

namespace reel::mdc {
namespace {

// So many changes may wait to become durable while more are told of: far fewer than
// InodeNumbers::kMaxLost.
constexpr std::uint64_t kMaxAhead = 16'384;

// What may be told before it is durable: changes of names and attributes that need nothing of other
// sessions but their caches. (Sizes, and all that is about blocks, are promises of another kind: a
// client acts on them by itself.) Nor what depends on a directory that it does not change:
// another's change of that would not wait for it, and may be done again before it.
bool TellableAtOnce(const v1::Request& request) {
  switch (request.op_case()) {
    case v1::Request::kCreate:
      return !request.create().unnamed();
    case v1::Request::kLink:
    case v1::Request::kUnlink:
    case v1::Request::kRename:
    case v1::Request::kSetXattr:
    case v1::Request::kRemoveXattr:
      return true;
    case v1::Request::kSetAttr:
      return (request.set_attr().fields() & v1::SetAttr::SIZE) == 0;
    default:
      return false;
  }
}

}  // namespace

// Never past an answer that came before and waits: what that shows would be taken for the newer.
bool CoreImpl::MayTellAtOnce(const Pending& op, const OpContext& ctx) const {
  const Session& session = *sessions_.all().at(op.session);
  return options_.tells_at_once && (session.features & v1::FEATURE_PROVISIONAL) != 0 &&
         op.request.slot() != 0 && !op.request.has_redo() && TellableAtOnce(op.request) &&
         ctx.txn.seen() == Sequence() && !outputs_.AnyWaits(session.stream) &&
         db_.last_applied().value() - outputs_.durable().value() < kMaxAhead;
}

// What a client may have been told before it was durable.
bool CoreImpl::MayRedo(const Session& session, const v1::Request& request) {
  return session.phase == Session::Phase::kMustReclaim && request.slot() != 0 &&
         (session.features & v1::FEATURE_PROVISIONAL) != 0;
}

void CoreImpl::EndReclaim(Session& session) {
  if (session.phase != Session::Phase::kMustReclaim || !session.reclaimed || session.redos > 0) {
    return;
  }
  session.phase = Session::Phase::kServing;
  session.reclaimed = false;
  LeaveGrace(session);
}

}  // namespace reel::mdc
