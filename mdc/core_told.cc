// What a session is told of its changes before they are durable, and how they are done again when
// the epoch has ended before (docs/failover.md, "What was told and is not durable").
#include "mdc/core_impl.h"
#include "mdc/request_kinds.h"

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
