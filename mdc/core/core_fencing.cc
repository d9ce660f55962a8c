// What ends a session, and what keeps it off the LUNs: keys, evictions, fences.
//
// The order is the promise: the end is recorded durably → the session's keys are taken off every
// LUN → what it had sent is waited for → its record goes, durably → others get what it held. A
// controller that dies in between finds the record, and goes on from there. While a fence's outcome
// is unknown it is tried again, and only what that session held is withheld (in a new epoch, where
// nobody knows what that was, all that is not reclaimed). Without keys the lease alone protects: an
// evicted session's is waited out, and then what a target may still execute of it.
#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "mdc/base/alarm.h"
#include "mdc/core/core_impl.h"
#include "mdc/metadb/schema.h"
#include "proto/records.pb.h"
#include "spdlog/spdlog.h"
#include "volume/format/reservation_key.h"

namespace reel::mdc {
namespace {

// The keys that a session may have on one LUN, but for `except`.
std::vector<std::uint64_t> KeysOn(const v1::SessionRecord& record, const std::string& lun,
                                  std::uint64_t except) {
  std::vector<std::uint64_t> keys;
  for (const v1::SessionKey& key : record.keys()) {
    if ((key.lun().empty() || key.lun() == lun) && key.key() != except) keys.push_back(key.key());
  }
  return keys;
}

// On that LUN the earlier keys of its own are history. (The first one is for the others too.)
void ForgetKeysBefore(v1::SessionRecord& record, const std::string& lun, std::uint64_t key) {
  auto& keys = *record.mutable_keys();
  keys.erase(std::remove_if(keys.begin(), keys.end(),
                            [&](const v1::SessionKey& known) {
                              return known.lun() == lun && known.key() != key;
                            }),
             keys.end());
}

}  // namespace

// ---- the end of a session ---------------------------------------------------------------------

// Its client may not have heard that it is over: it reads until its lease ends, and writes where it
// has no keys. The lease runs on while the SessionClock stands still. What it sent in the last
// moment of its lease, a LUN that knows no keys may execute later: also of a host that was killed,
// or that is cut off the LAN alone.
FenceRun CoreImpl::FenceOf(const Session& session, bool drain) const {
  FenceRun run;
  run.drain = drain;
  if (MustFence(session)) {
    for (const v1::SessionKey& key : session.record.keys()) run.victims.push_back(key.key());
  }
  if (session.gave_up && MustFence(session)) {
    // It reads no more; what its kernel has kept for a moment is forgotten by then.
    run.until_ms = GaveUpMs(options_.session_lease_ms);
  } else if (!session.record.left()) {
    const std::uint64_t now_ms = session_clock_.NowMs();
    run.until_ms = std::max(session.lease_until_ms, now_ms) - now_ms;
  }
  if (drain) run.until_ms += options_.keyless_quarantine_ms;
  run.until_ms += clock_.NowMs();
  return run;
}

bool CoreImpl::BeginEnding(Session& session, bool drain) {
  session.record.set_evicted(true);
  WriteBatch batch;
  batch.Put(schema::SessionKey(session.id), session.record.SerializeAsString());
  FenceRun run = FenceOf(session, drain);
  if (!Apply(batch, &run.recorded_at)) return false;
  session.ending = std::move(run);
  session.phase = Session::Phase::kEnding;
  session.rekeys.clear();
  fencing_.orders.Add(session.id);
  DropOperations(session);
  return true;
}

void CoreImpl::Evict(Session& session, std::string_view reason) {
  spdlog::warn("volume {}: session {} of {} is evicted: {}", descriptor_.name, session.id.value(),
               session.record.host(), reason);
  if (!BeginEnding(session, /*drain=*/true)) return;
  ++counters_.evictions;
  if (session.stream == kNoStream) return;
  v1::Callback callback;
  callback.mutable_evicted()->set_reason(std::string(reason));
  const Sequence recorded_at = session.ending.recorded_at;
  outbox_.queue.Emit(session.stream, std::move(callback), recorded_at);
  outbox_.queue.Emit(session.stream, OutputQueue::End{}, recorded_at);
  streams_.Refuse(session.stream);
}

absl::Status CoreImpl::EvictSession(SessionId id, std::string_view reason) {
  Session* session = sessions_.Find(id);
  if (session == nullptr || session->phase == Session::Phase::kEnding) {
    return absl::NotFoundError(absl::StrCat("there is no session ", id.value()));
  }
  Evict(*session, reason);
  RunWoken();
  return health_;
}

void CoreImpl::EndStream(StreamId stream, std::string_view reason) {
  if (!streams_.IsHere(stream) || streams_.IsRefused(stream)) return;
  Session* session = sessions_.FindByStream(stream);
  if (session == nullptr) {
    Refuse(stream, 0, EACCES, reason);
  } else if (session->phase != Session::Phase::kEnding) {
    Evict(*session, reason);
    RunWoken();
  }
}

// It can do no more harm: its record goes.
void CoreImpl::ForgetRecord(Session& session) {
  WriteBatch batch;
  batch.Delete(schema::SessionKey(session.id));
  for (std::uint32_t slot = 1; slot < session.slots.size(); ++slot) {
    if (session.slots[slot].sequence == 0) continue;
    batch.Delete(schema::ReplyKey(session.id, slot));
  }
  Sequence sequence;
  if (Apply(batch, &sequence)) session.forgotten_at = sequence;
}

// ---- fences -----------------------------------------------------------------------------------

// Brings every fence as far as durability and time allow.
void CoreImpl::AdvanceFences() {
  if (!health_.ok()) return;
  const std::uint64_t now_ms = clock_.NowMs();
  for (const SessionId id : fencing_.orders.sessions()) {
    Session& session = *sessions_.Find(id);
    if (session.phase == Session::Phase::kEnding) {
      AdvanceEnding(session, now_ms);
    } else {
      AdvanceRekeys(session, now_ms);
      if (session.rekeys.empty()) fencing_.orders.Remove(id);
    }
  }
}

void CoreImpl::AdvanceEnding(Session& session, std::uint64_t now_ms) {
  if (session.forgotten_at) {
    if (*session.forgotten_at <= outbox_.queue.durable()) Release(session);
    return;
  }
  session.ending.Advance(outbox_.queue.durable(), now_ms);
  if (session.ending.IsDue(now_ms)) fencing_.orders.Order(session.ending);
  if (session.ending.stage == FenceRun::Stage::kOver) ForgetRecord(session);
}

FenceRun* CoreImpl::FindFence(Session& session, FenceId fence) {
  FenceRun* run = nullptr;
  if (session.phase == Session::Phase::kEnding) {
    if (session.ending.id == fence) run = &session.ending;
  } else {
    for (Session::Rekey& rekey : session.rekeys) {
      if (rekey.run.id == fence) run = &rekey.run;
    }
  }
  return run != nullptr && run->stage == FenceRun::Stage::kFencing ? run : nullptr;
}

void CoreImpl::OnFenced(FenceId fence, const FenceOutcome& outcome) {
  if (!health_.ok()) return;
  const std::uint64_t now_ms = clock_.NowMs();
  for (const SessionId id : fencing_.orders.sessions()) {
    const Session& session = *sessions_.Find(id);
    FenceRun* const run = FindFence(*sessions_.Find(id), fence);
    if (run == nullptr) continue;
    const bool said = run->problem == outcome.problem;
    run->Ended(outcome, now_ms);
    if (outcome.done) {
      spdlog::info("volume {}: session {} of {} is off {}", descriptor_.name, id.value(),
                   session.record.host(),
                   run->lun ? "a LUN that it wants a new path to" : "the LUNs");
    } else if (!said) {
      spdlog::error(
          "volume {}: session {} of {} cannot be fenced yet; it is tried again, and what "
          "the session held is withheld: {}",
          descriptor_.name, id.value(), session.record.host(), outcome.problem);
    }
    break;
  }
  AdvanceFences();
  RunWoken();
}

// A registration of nobody: left by a host that registered after it had lost its session, or that
// nobody remembers. It writes nothing by itself, but must not stand there.
void CoreImpl::OnKeysSeen(const std::vector<std::uint64_t>& keys) {
  if (!health_.ok()) return;
  const std::map<std::uint64_t, SessionId> known = KnownKeys();
  std::vector<std::uint64_t> victims;
  for (const std::uint64_t key : keys) {
    if (!known.contains(key)) victims.push_back(key);
  }
  if (victims.empty()) return;
  spdlog::warn("volume {}: key {} is registered on LUNs and belongs to no session; it goes",
               descriptor_.name, KeyText(victims.front()));
  fencing_.orders.OrderOff(std::move(victims));
}

std::map<std::uint64_t, SessionId> CoreImpl::KnownKeys() const {
  std::map<std::uint64_t, SessionId> known;
  for (const auto& [id, session] : sessions_.all()) {
    for (const v1::SessionKey& key : session->record.keys()) known.emplace(key.key(), id);
  }
  return known;
}

// ---- keys for new paths -----------------------------------------------------------------------

void CoreImpl::OnNewKey(Session& session, const v1::Request& request) {
  v1::Reply reply;
  const std::string& lun = request.new_key().lun();
  const bool is_ours =
      std::any_of(descriptor_.pools.begin(), descriptor_.pools.end(), [&](const Pool& pool) {
        return std::any_of(pool.sets.begin(), pool.sets.end(), [&](const StripeSet& set) {
          return std::any_of(set.luns.begin(), set.luns.end(),
                             [&](const LunEntry& entry) { return entry.lun.ToBytes() == lun; });
        });
      });
  if (!is_ours || session.record.keys().empty() || !options_.reservations) {
    reply.set_error(EINVAL);
    reply.set_message("the session has no keys, or the volume no such LUN");
    return Answer(session, request, std::move(reply), Sequence());
  }
  const Uuid uuid = *Uuid::FromBytes(lun);
  const auto under_way = std::find_if(session.rekeys.begin(), session.rekeys.end(),
                                      [&](const auto& rekey) { return rekey.run.lun == uuid; });
  if (under_way != session.rekeys.end()) {  // asked again, on another stream perhaps
    under_way->stream = session.stream;
    under_way->request = request.id();
    return;
  }
  const std::optional<std::uint64_t> key = fencing_.keys->Take();
  if (!key) {
    reply.set_error(ENOSPC);
    reply.set_message("this epoch has no keys left; restart the controller");
    return Answer(session, request, std::move(reply), Sequence());
  }
  v1::SessionKey& added = *session.record.add_keys();
  added.set_key(*key);
  added.set_lun(lun);
  WriteBatch batch;
  batch.Put(schema::SessionKey(session.id), session.record.SerializeAsString());
  Session::Rekey rekey{.run = {}, .key = *key, .stream = session.stream, .request = request.id()};
  if (!Apply(batch, &rekey.run.recorded_at)) return;
  rekey.run.victims = KeysOn(session.record, lun, *key);
  rekey.run.lun = uuid;
  session.rekeys.push_back(std::move(rekey));
  fencing_.orders.Add(session.id);
}

void CoreImpl::AdvanceRekeys(Session& session, std::uint64_t now_ms) {
  for (auto rekey = session.rekeys.begin(); rekey != session.rekeys.end();) {
    rekey->run.Advance(outbox_.queue.durable(), now_ms);
    if (rekey->run.IsDue(now_ms)) fencing_.orders.Order(rekey->run);
    if (rekey->run.stage != FenceRun::Stage::kOver) {
      ++rekey;
      continue;
    }
    ForgetKeysBefore(session.record, rekey->run.lun->ToBytes(), rekey->key);
    v1::Reply reply;
    reply.set_id(rekey->request);
    reply.mutable_key()->set_key(rekey->key);
    outbox_.queue.Emit(rekey->stream, std::move(reply), Sequence());
    rekey = session.rekeys.erase(rekey);
  }
}

// ---- what administration sees -----------------------------------------------------------------

std::string CoreImpl::StateOf(const Session& session) {
  switch (session.phase) {
    case Session::Phase::kMustReclaim:
      return "reclaiming";
    case Session::Phase::kServing:
      for (const Session::Rekey& rekey : session.rekeys) {
        if (!rekey.run.problem.empty()) {
          return absl::StrCat("serving, waits for a key: ", rekey.run.problem);
        }
      }
      return "serving";
    case Session::Phase::kEnding:
      break;
  }
  return session.ending.problem.empty() ? "ending"
                                        : absl::StrCat("ending: ", session.ending.problem);
}

void CoreImpl::DescribeAlarms(v1::ShowReply& reply) const {
  DescribeRecallAlarms(reply);
  DescribeFullStore(reply);
  DescribeScrub(reply);
  for (std::string& low : work_.space.Alarms())
    AddAlarm(reply, v1::ALARM_SPACE_LOW, std::move(low));
  for (const auto& [id, session] : sessions_.all()) {
    if (session->phase != Session::Phase::kEnding || session->ending.problem.empty()) continue;
    AddAlarm(
        reply, v1::ALARM_SESSION_NOT_FENCED,
        absl::StrCat("session ", id.value(), " of ", session->record.host(),
                     " could not be fenced, what it held is withheld: ", session->ending.problem));
  }
}

}  // namespace reel::mdc
