// Recalls that are not answered, and sessions that give up for the others' sake.
//
// A client renews its lease over the LAN, and may be cut off the LUNs all the same: then it cannot
// write what it must before it answers a recall, and everybody who waits for that would wait for
// as long as the cut lasts. It says so itself, and asks to be evicted (GiveUp); where it does not,
// the recall has a limit. Nobody is evicted for a LUN that this controller does not reach either:
// no fence could be carried out there, and no other host could use what the session held.
#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "mdc/base/alarm.h"
#include "mdc/base/fence_times.h"
#include "mdc/core/core_impl.h"

namespace reel::mdc {
namespace {

constexpr std::size_t kMaxTextBytes = 256;

std::string WhoIs(const Session& session) {
  const std::string& where = session.record.mount_point();
  return absl::StrCat("session ", session.id.value(), " of ", session.record.host(),
                      where.empty() ? "" : " at ", where);
}

std::string InSeconds(std::uint64_t ms) {
  return absl::StrCat(ms / 1000, " s");
}

}  // namespace

void CoreImpl::NoteRecalls(const std::vector<Recall>& recalls, RecallClock::Kind kind) {
  for (const Recall& recall : recalls) {
    Session* const session = sessions_.Find(recall.session);
    if (session == nullptr) continue;
    session->recalls.Note({.since_ms = session_clock_.NowMs(),
                           .kind = kind,
                           .inode = recall.inode,
                           .number = recall.number});
  }
}

// By the SessionClock, which may step back.
std::uint64_t CoreImpl::RecallAgeMs(Session& session) const {
  const auto oldest = session.recalls.Oldest(
      [&](const RecallClock::Out& out) { return holdings_.IsOut(session.id, out); });
  if (!oldest) return 0;
  const std::uint64_t now_ms = session_clock_.NowMs();
  return now_ms - std::min(now_ms, oldest->since_ms);
}

std::string CoreImpl::OverdueRecall(Session& session) const {
  const std::uint64_t limit_ms = RecallLimitMs(options_.session_lease_ms);
  const std::uint64_t age_ms = RecallAgeMs(session);
  if (age_ms < limit_ms || fencing_.luns.AnyLost()) return {};
  if (store_room_.HoldsCommitOf(session.id)) return {};  // it is the store that it waits for
  const bool reports = session.recall_work.has_value();
  const std::string trouble = reports ? session.recall_work->trouble() : "";
  if (age_ms < RecallMostMs(options_.session_lease_ms)) {
    const bool moves =
        reports && session.recall_work->any() && session.recall_work->stalled_ms() < limit_ms / 2;
    if (moves) return {};
    // An operation of its own waits for somebody else's token: it may be what the recall waits for.
    if (age_ms < 2 * limit_ms && parked_.AnyOf(session.id)) return {};
  }
  return absl::StrCat("it has not answered a recall for ", InSeconds(age_ms),
                      trouble.empty() ? "" : "; it does not reach ", trouble);
}

bool CoreImpl::Reaches(const std::string& lun) const {
  return !options_.reservations ||
         fencing_.luns.Reaches(lun, clock_.NowMs());  // without, it does not look
}

void CoreImpl::OnLunsSeen(const std::vector<Uuid>& lost) {
  fencing_.luns.Seen(lost, clock_.NowMs());
}

void CoreImpl::OnGiveUp(Session& session, const v1::Request& request) {
  const v1::GiveUp& message = request.give_up();
  const bool waited_for = RecallAgeMs(session) >= options_.session_lease_ms / 2;
  if (!waited_for || !Reaches(message.lun())) {
    v1::Reply reply;
    reply.set_error(EAGAIN);
    reply.set_message(waited_for ? "the controller does not reach that LUN either"
                                 : "nobody waits for the session");
    return Answer(session, request, std::move(reply), Sequence());
  }
  const std::string reason = absl::StrCat("it does not reach a LUN, and others waited for it: ",
                                          message.reason().substr(0, kMaxTextBytes));
  session.gave_up = true;
  NoteCutOff(session, reason);
  Evict(session, reason);
}

// ---- what administration sees -----------------------------------------------------------------

void CoreImpl::NoteCutOff(const Session& session, std::string_view reason) {
  fencing_.cut_off.Add(clock_.NowMs(),
                       absl::StrCat(WhoIs(session), " was evicted: ", std::string(reason)));
}

void CoreImpl::DescribeRecallAlarms(v1::ShowReply& reply) const {
  for (const auto& [id, session] : sessions_.all()) {
    if (session->phase == Session::Phase::kEnding) continue;
    const std::string who = WhoIs(*session);
    const std::uint64_t age_ms = RecallAgeMs(*session);
    if (age_ms >= options_.session_lease_ms) {
      AddAlarm(reply, v1::ALARM_RECALL_UNANSWERED,
               absl::StrCat(who, " has not answered a recall for ", InSeconds(age_ms),
                            ", and others wait for it"));
    }
    if (session->recall_work && !session->recall_work->trouble().empty()) {
      AddAlarm(reply, v1::ALARM_LUN_NOT_REACHED,
               absl::StrCat(who, " does not reach a LUN: ", session->recall_work->trouble()));
    }
  }
  for (const CutOffLog::CutOff& cut : fencing_.cut_off.Shown(clock_.NowMs())) {
    AddAlarm(reply, v1::ALARM_SESSION_EVICTED,
             absl::StrCat(cut.what, "; ", InSeconds(cut.ago_ms),
                          " ago; what its programs had not synced is lost"));
  }
}

}  // namespace reel::mdc
