// A metadata store with little room left: what goes on when it has more, and what people are told.
#include <string>
#include <utility>
#include <vector>

#include "mdc/base/alarm.h"
#include "mdc/core/core_impl.h"

namespace reel::mdc {

void CoreImpl::OnStoreSpace(StoreSpace space, bool commits_wait) {
  store_room_.Set(space, commits_wait, clock_.NowMs());
  Resume(store_room_.TakeDueCommits(work_.orphans.all()));
  if (const auto grown = store_room_.TakeDueGrowth(); !grown.empty()) Resume(grown);
}

void CoreImpl::AnswerRenewal(const Session& session, const v1::Request& request) {
  v1::Reply reply;
  Sequence waits_for;
  reply.set_commits_wait(store_room_.HoldsLong(clock_.NowMs()));
  reply.set_small_file_bytes(OfferSmallFiles(session, waits_for));
  Answer(session, request, std::move(reply), waits_for);
}

void CoreImpl::DescribeFullStore(v1::ShowReply& reply) const {
  std::string alarm = store_room_.Alarm(clock_.NowMs());
  if (!alarm.empty()) AddAlarm(reply, v1::ALARM_STORE_FULL, std::move(alarm));
}

}  // namespace reel::mdc
