// Sessions: Hello, Goodbye. Reclaim and grace are core_grace.cc's.
//
// A session that says Goodbye, or registers anew under the same client identity, holds nothing by
// its own word: without keys it is forgotten at once, with keys when they are off the LUNs. How
// sessions end against their will is core_fencing.cc's.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "mdc/core/core_impl.h"
#include "mdc/metadb/schema.h"
#include "proto/convert.h"
#include "proto/records.pb.h"
#include "proto/status.h"
#include "spdlog/spdlog.h"

namespace reel::mdc {
namespace {

constexpr std::size_t kMaxHostBytes = 255;
constexpr std::size_t kMaxMountPointBytes = 4096;
constexpr std::size_t kMaxProgramBytes = 64;
constexpr std::uint32_t kSlotsOfOld = 64;  // as every release has given

// A client that answers by itself cannot tell its squashed callers from the others.
bool MayCache(const Session& session, const v1::Hello& hello) {
  return hello.caches_attributes() && session.exported.squash == Export::Squash::kNone;
}

}  // namespace

void CoreImpl::OnStreamOpened(StreamId stream, std::string certificate) {
  if (streams_.Add(stream, std::move(certificate))) outbox_.queue.StreamOpened(stream);
}

void CoreImpl::OnRequest(StreamId stream, v1::Request request) {
  if (!health_.ok()) return;
  OnStreamOpened(stream, {});
  if (streams_.IsRefused(stream)) return;
  if (request.has_hello()) {
    OnHello(stream, request);
    RunWoken();
    return;
  }
  Session* session = sessions_.FindByStream(stream);
  if (session == nullptr) {
    Refuse(stream, request.id(), ENOTCONN, "the first message of a stream must be a Hello");
    return;
  }
  if (session->phase == Session::Phase::kEnding) return;
  RenewLease(*session);
  switch (request.op_case()) {
    case v1::Request::kRenew:
      session->renews_within_ms = request.renew().next_ms();
      if (request.renew().has_work()) session->recall_work = request.renew().work();
      TakeReports(*session, request.renew());
      AnswerRenewal(*session, request);
      break;
    case v1::Request::kTraffic:
      OnTraffic(*session, request);
      break;
    case v1::Request::kPong:
      Answer(*session, request, v1::Reply(), Sequence());
      break;
    case v1::Request::kReclaim:
      OnReclaim(*session, request);
      break;
    case v1::Request::kGoodbye:
      OnGoodbye(*session, request);
      break;
    case v1::Request::kNewKey:
      OnNewKey(*session, request);
      break;
    case v1::Request::kGiveUp:
      OnGiveUp(*session, request);
      break;
    case v1::Request::kMapTaken:
      OnMapTaken(*session, request);
      break;
    default:
      if (session->phase == Session::Phase::kMustReclaim && !session->reclaim.done &&
          !request.has_replay()) {
        Refuse(stream, request.id(), EPROTO, "in a new epoch, Reclaim comes first");
      } else if (request.has_replay() && (session->reclaim.done || !MayReplay(*session, request))) {
        Refuse(stream, request.id(), EPROTO, "there is nothing to be done again");
      } else {
        Operate(*session, std::move(request));
      }
      break;
  }
  RunWoken();
}

void CoreImpl::OnStreamEnded(StreamId stream) {
  streams_.Remove(stream);
  outbox_.queue.StreamEnded(stream);
  Session* session = sessions_.FindByStream(stream);
  if (session == nullptr) return;
  sessions_.Detach(*session);
  const std::uint64_t within_ms = session->renews_within_ms;
  if (within_ms != 0 && session_clock_.SilentMs() > 2 * within_ms) {
    session->ended_in_silence_ms = session_clock_.HeardMs();
  }
  session->hello.reset();
  DropOperations(*session);
  RunWoken();
}

void CoreImpl::Refuse(StreamId stream, std::uint64_t id, int error, std::string_view message) {
  // Once per stream: it is over with this.
  const Session* session = sessions_.FindByStream(stream);
  if (const auto more = refusals_.Admit(clock_.NowMs())) {
    spdlog::warn("volume {}: stream {} of {} is ended: {}{}", descriptor_.name, stream.value(),
                 session != nullptr ? session->record.host() : "an unknown client", message, *more);
  }
  ++counters_.refused;
  v1::Reply reply;
  reply.set_id(id);
  reply.set_error(error);
  reply.set_message(std::string(message));
  outbox_.queue.Emit(stream, std::move(reply), Sequence());
  outbox_.queue.Emit(stream, OutputQueue::End{}, Sequence());
  streams_.Refuse(stream);
}

void CoreImpl::RefuseHello(StreamId stream, std::uint64_t id, int error, std::string_view message) {
  v1::Reply reply;
  reply.set_id(id);
  reply.set_error(error);
  reply.set_message(std::string(message));
  outbox_.queue.Emit(stream, std::move(reply), Sequence());
}

void CoreImpl::OnHello(StreamId stream, const v1::Request& request) {
  const v1::Hello& hello = request.hello();
  if (sessions_.FindByStream(stream) != nullptr) {
    Refuse(stream, request.id(), EPROTO, "a second Hello on one stream");
    return;
  }
  const auto protocol = Negotiate(hello);
  if (!protocol.ok()) {
    Refuse(stream, request.id(), EPROTONOSUPPORT, std::string(protocol.status().message()));
    return;
  }
  if (hello.volume() != descriptor_.name) {
    Refuse(stream, request.id(), ENOENT, "no such volume here");
    return;
  }
  // Its inodes and its stripe map are not this one's, nor is its session.
  if (!hello.mounted_volume().empty() && hello.mounted_volume() != descriptor_.volume.ToBytes()) {
    Refuse(stream, request.id(), ENODEV,
           absl::StrCat("volume ", descriptor_.name, " is another one (",
                        descriptor_.volume.ToString(), ") than ",
                        hello.host().substr(0, kMaxHostBytes), " has mounted"));
    return;
  }
  const auto client = Uuid::FromBytes(hello.client());
  if (!client.ok() || client->is_nil() || hello.host().size() > kMaxHostBytes ||
      hello.mount_point().size() > kMaxMountPointBytes) {
    Refuse(stream, request.id(), EINVAL, "Hello without a client UUID, or with too long names");
    return;
  }
  if (hello.resume_session() == 0) {
    Register(stream, request, *client);
  } else {
    Resume(stream, request, *client);
  }
}

absl::StatusOr<std::uint32_t> CoreImpl::Negotiate(const v1::Hello& hello) const {
  return CommonProtocol(
      {absl::StrCat("mount.reelfs on ", hello.host().substr(0, kMaxHostBytes)),
       ProtocolOf(hello.protocol_min(), hello.protocol_max())},
      {absl::StrCat("reel-mdcd on ", options_.host.empty() ? "its host" : options_.host),
       options_.protocol});
}

// What this stream's Hello brings, which its session has until the next one's.
void CoreImpl::TakeHello(Session& session, const v1::Hello& hello) {
  session.spoken.caches_attributes = MayCache(session, hello);
  session.spoken.protocol = Negotiate(hello).value_or(options_.protocol.oldest);
  session.spoken.features = hello.features() & SpokenFeatures(options_.protocol);
  if (options_.names == NameReplies::kDurable) {
    session.spoken.features &= ~std::uint64_t{v1::FEATURE_DELEGATION};
  }
  session.spoken.program = hello.program().substr(0, kMaxProgramBytes);
  session.recall_work.reset();
  NoteMapOf(session, hello);
  work_.bandwidth.Forget(session.id);
}

bool CoreImpl::FindExport(StreamId stream, const v1::Request& request, std::string_view host,
                          Export& found) {
  const std::string certificate = streams_.CertificateOf(stream);
  const std::string_view name = certificate.empty() ? host : std::string_view(certificate);
  found = ExportFor(options_.exports, name);
  if (found.access != Export::Access::kNone) return true;
  Refuse(stream, request.id(), EACCES,
         absl::StrCat("volume ", descriptor_.name, " is not exported to ", std::string(name)));
  return false;
}

void CoreImpl::Register(StreamId stream, const v1::Request& request, const Uuid& client) {
  Export exported;
  if (!FindExport(stream, request, request.hello().host(), exported)) return;
  session_clock_.Heard();  // also where it will be refused, for want of sessions that run out
  if (Session* old = sessions_.FindByClient(client);
      old != nullptr && old->phase != Session::Phase::kEnding) {
    if (old->record.certificate() != streams_.CertificateOf(stream)) {
      Refuse(stream, request.id(), EPERM, "the client's identity belongs to another client");
      return;
    }
    // It holds nothing by its own word; but what it had sent may still be executing.
    if (!MayForget(*old, /*drain=*/true)) {
      old->record.set_left(true);
      Evict(*old, "its client registered anew");
    } else {
      Forget(*old);
    }
  }
  if (!health_.ok()) return;
  if (maintenance_) {
    RefuseHello(stream, request.id(), EBUSY,
                absl::StrCat("volume ", descriptor_.name, " is in maintenance, and takes no new ",
                             "mounts; \"reeladm maintenance off\" ends that"));
    return;
  }
  if (sessions_.size() >= options_.max_sessions) {
    RefuseHello(stream, request.id(), EMFILE,
                absl::StrCat("the volume has ", sessions_.size(), " sessions, the most allowed"));
    return;
  }
  Txn txn(db_, in_flight_, Tier::kAll);
  auto bytes = txn.Get(schema::VolumeKey());
  v1::VolumeRecord volume;
  if (!bytes.ok() || !bytes->has_value() || !volume.ParseFromString(**bytes)) {
    health_ = absl::DataLossError(absl::StrCat("volume ", descriptor_.name,
                                               ": the volume record is damaged; run fsck.reelfs"));
    return;
  }
  const v1::Hello& hello = request.hello();
  if (volume.hosts_name_volume() && hello.mounted_volume().empty() && hello.map_generation() != 0) {
    Refuse(stream, request.id(), EPROTONOSUPPORT,
           absl::StrCat("mount.reelfs on ", hello.host(), ", of an earlier release, has lost its ",
                        "session and cannot say which volume ", descriptor_.name,
                        " it has mounted; unmount it, and mount it again"));
    return;
  }
  const bool knows_maps = (hello.features() & v1::FEATURE_NEW_MAP) != 0;
  if (volume.grown() && !hello.mounted_volume().empty() && !knows_maps) {
    Refuse(stream, request.id(), EPROTONOSUPPORT,
           absl::StrCat("mount.reelfs on ", hello.host(), ", of an earlier release, has lost its ",
                        "session, and volume ", descriptor_.name, " has grown since; unmount it, ",
                        "and mount it again"));
    return;
  }
  if (small_files_.allowed && (hello.features() & v1::FEATURE_SMALL_FILES) == 0) {
    Refuse(stream, request.id(), EPROTONOSUPPORT,
           absl::StrCat("volume ", descriptor_.name, " has small files in its metadata, which ",
                        "mount.reelfs on ", hello.host(), ", of an earlier release, cannot read; ",
                        "upgrade it"));
    return;
  }
  Session session;
  session.id = SessionId(std::max<std::uint64_t>(volume.next_session(), 1));
  session.client = client;
  session.record.set_client(client.ToBytes());
  session.record.set_host(request.hello().host());
  session.record.set_mount_point(request.hello().mount_point());
  session.record.set_certificate(streams_.CertificateOf(stream));
  session.record.set_lease_ms(options_.session_lease_ms);
  session.exported = std::move(exported);
  *session.record.mutable_registered() = ToProto(clock_.WallNow());
  session.slots.resize(SlotsFor(hello.features()) + 1);
  if (options_.reservations && session.exported.access != Export::Access::kReadOnly) {
    const std::optional<std::uint64_t> key = fencing_.keys->Take();
    if (!key) {
      RefuseHello(stream, request.id(), ENOSPC,
                  "this epoch has no reservation keys left; restart the controller");
      return;
    }
    session.record.add_keys()->set_key(*key);
  }
  volume.set_next_session(session.id.value() + 1);
  WriteBatch batch;
  batch.Put(schema::VolumeKey(), volume.SerializeAsString());
  batch.Put(schema::SessionKey(session.id), session.record.SerializeAsString());
  Sequence sequence;
  if (!Apply(batch, &sequence)) return;

  Session& added = sessions_.Add(std::move(session));
  sessions_.Attach(added, stream);
  TakeHello(added, request.hello());
  RenewLease(added);
  spdlog::info("volume {}: session {} for {} at {}", descriptor_.name, added.id.value(),
               added.record.host(), added.record.mount_point());
  AnswerHello(added, request, sequence);
}

void CoreImpl::Resume(StreamId stream, const v1::Request& request, const Uuid& client) {
  Session* session = sessions_.Find(SessionId(request.hello().resume_session()));
  if (session == nullptr || session->phase == Session::Phase::kEnding) {
    RefuseHello(stream, request.id(), ESTALE, "the session was evicted; register a new one");
    return;
  }
  if (session->client != client ||
      session->record.certificate() != streams_.CertificateOf(stream)) {
    Refuse(stream, request.id(), EPERM, "the session to resume belongs to another client");
    return;
  }
  if (!FindExport(stream, request, session->record.host(), session->exported)) return;
  // With a key it could write to the LUNs, whatever it is told; without, it could not.
  const bool may_write = session->exported.access != Export::Access::kReadOnly;
  if (options_.reservations && may_write == session->record.keys().empty()) {
    Evict(*session, may_write ? "its export lets it write now" : "its export is read-only now");
    RefuseHello(stream, request.id(), ESTALE, "its export has changed; register a new session");
    return;
  }
  const StreamId before = sessions_.Attach(*session, stream);
  TakeHello(*session, request.hello());
  if (before != kNoStream) {
    outbox_.queue.Emit(before, OutputQueue::End{}, Sequence());
    streams_.Refuse(before);
    DropOperations(*session);
  }
  RenewLease(*session);
  if (session->phase == Session::Phase::kMustReclaim) {
    // Reclaiming starts over: what an earlier stream brought would be counted twice.
    session->reclaim.bytes = 0;
    session->reclaim.done = false;
    session->hello = request;
    ReleaseClaims(*session);
  } else {
    AnswerHello(*session, request, Sequence());
  }
  // Recalls may have been lost with the old stream. They follow with the next tick (and may still
  // leave in one frame with the answer to Hello, which clients from before 2026-12 do not handle).
  // So does what is recalled until then: a second answer to one recall could give up what was
  // granted between them.
  work_.resends.Add(session->id);
}

std::uint32_t CoreImpl::OfferSmallFiles(const Session& session, Sequence& waits_for) {
  if ((session.spoken.features & v1::FEATURE_SMALL_FILES) == 0 || store_room_.tight()) return 0;
  waits_for = std::max(waits_for, small_files_.since);
  const std::uint32_t bytes =
      options_.small_file_bytes.value_or(small_files_.allowed ? kDefaultSmallFileBytes : 0);
  if (small_files_.allowed || bytes == 0) return bytes;
  // (Of one that has not come back in this epoch nobody knows.)
  const bool all = std::ranges::all_of(sessions_.all(), [](const auto& known) {
    const Session& other = *known.second;
    return other.phase == Session::Phase::kEnding ||
           (other.spoken.features & v1::FEATURE_SMALL_FILES) != 0;
  });
  if (!all) return 0;
  absl::StatusOr<v1::VolumeRecord> volume = ReadVolumeRecord();
  if (!volume.ok()) return 0;
  volume->set_format(std::max(volume->format(), schema::kSmallFilesFormat));
  const absl::StatusOr<Sequence> sequence = CommitVolumeRecord(*volume);
  if (!sequence.ok()) return 0;
  small_files_.since = *sequence;
  waits_for = std::max(waits_for, *sequence);
  small_files_.allowed = true;
  return bytes;
}

// A controller of an earlier release, with which only kDurable goes, has no more than kSlotsOfOld.
// A client of one would go on there with as many as it had. (None of those knows of small files.)
std::uint32_t CoreImpl::SlotsFor(std::uint64_t features) const {
  const bool may_get_fewer = (features & v1::FEATURE_SMALL_FILES) != 0;
  const bool many = may_get_fewer && options_.names != NameReplies::kDurable;
  return many ? options_.slots : std::min(options_.slots, kSlotsOfOld);
}

void CoreImpl::AnswerHello(const Session& session, const v1::Request& request, Sequence waits_for) {
  v1::Reply reply;
  reply.mutable_hello()->set_small_file_bytes(OfferSmallFiles(session, waits_for));
  v1::HelloReply& hello = *reply.mutable_hello();
  hello.set_protocol(session.spoken.protocol);
  hello.set_features(session.spoken.features);
  hello.set_session(session.id.value());
  hello.set_epoch(term_.epoch.value());
  hello.set_lease_ms(session.record.lease_ms());
  hello.set_slots(SlotsFor(session.spoken.features));
  if (request.hello().map_generation() < descriptor_.generation) {
    hello.set_volume_descriptor(work_.map.framed());
  }
  hello.set_read_only(session.exported.access == Export::Access::kReadOnly);
  hello.set_check_opens(Restricts(session.exported));
  hello.set_squashed(Squashes(session.exported));
  if (!session.record.keys().empty()) hello.set_key(session.record.keys(0).key());
  hello.set_must_reclaim(session.phase == Session::Phase::kMustReclaim);
  reply.set_sequence(term_.VolumeSequence(std::max(waits_for, outbox_.queue.durable())).value());
  Answer(session, request, std::move(reply), waits_for);
}

void CoreImpl::RenewLease(Session& session) {
  session_clock_.Heard();
  if (options_.heard_ms != nullptr) {
    options_.heard_ms->store(session_clock_.observed_ms(), std::memory_order_relaxed);
  }
  session.lease_until_ms = session_clock_.NowMs() + session.record.lease_ms();
}

// Only who has come to this controller in this epoch counts, and has promised to renew often
// enough. One whose stream ended while others were heard, or had just been, has gone; but gRPC's
// keepalive ends the streams of those that a cut cable silences, too, and may be the first to.
bool CoreImpl::IsMissed(const Session& session) const {
  const std::uint64_t within_ms = session.renews_within_ms;
  const bool was_here =
      session.stream != kNoStream || session.ended_in_silence_ms == session_clock_.HeardMs();
  return was_here && within_ms != 0 && 2 * within_ms <= options_.unheard_limit_ms;
}

// A controller that nobody has reached from the start keeps the seat: its clients may all be gone.
// But one that was unheard when it passed the seat on, and has it again since nobody else could
// take it, is as cut off as it was.
std::uint32_t CoreImpl::TimesUnheard() const {
  if (options_.unheard_limit_ms == 0 || maintenance_) return 0;  // no standby would follow
  const bool heard = session_clock_.HasHeard();
  const std::uint32_t before = heard ? 0 : options_.unheard_before;
  if (!heard && before == 0) return 0;
  constexpr std::uint32_t kMostDoublings = 6;
  const std::uint64_t limit_ms = options_.unheard_limit_ms << std::min(before, kMostDoublings);
  if (session_clock_.SilentMs() <= limit_ms) return 0;
  if (options_.heard_ms != nullptr &&
      clock_.NowMs() - options_.heard_ms->load() <= options_.unheard_limit_ms) {
    return 0;
  }
  const bool missed = std::ranges::any_of(sessions_.all(), [&](const auto& known) {
    const Session& session = *known.second;
    return session.phase != Session::Phase::kEnding && (!heard || IsMissed(session));
  });
  return missed ? before + 1 : 0;
}

void CoreImpl::OnGoodbye(Session& session, const v1::Request& request) {
  const StreamId stream = session.stream;
  spdlog::info("volume {}: session {} of {} says goodbye", descriptor_.name, session.id.value(),
               session.record.host());
  session.record.set_left(true);
  Sequence sequence;
  const bool unfinished = request.goodbye().unfinished();
  if (MayForget(session, unfinished)) {
    sequence = Forget(session);
  } else if (BeginEnding(session, unfinished)) {
    sequence = session.ending.recorded_at;
  }
  v1::Reply reply;
  reply.set_id(request.id());
  reply.set_sequence(term_.VolumeSequence(sequence).value());
  outbox_.queue.Emit(stream, std::move(reply), sequence);
  outbox_.queue.Emit(stream, OutputQueue::End{}, sequence);
  streams_.Refuse(stream);
}

void CoreImpl::SayFarewell(const std::string& reason, bool stopped) {
  for (const auto& [id, session] : sessions_.all()) {
    if (session->stream == kNoStream || (session->spoken.features & v1::FEATURE_FAREWELL) == 0) {
      continue;
    }
    v1::Callback callback;
    callback.mutable_farewell()->set_reason(reason);
    callback.mutable_farewell()->set_stopped(stopped);
    outbox_.queue.Emit(session->stream, std::move(callback), Sequence());
  }
}

void CoreImpl::DropOperations(Session& session) {
  for (const PendingRef& op : session.lane) op->cancelled = true;
  session.lane.clear();
  parked_.CancelOf(session.id);
  holdings_.lock_waits.Drop(session.id);
  fetches_.CancelOf(session.id);
  store_room_.CancelOf(session.id);
  work_.unfinished.CancelOf(session.id);
  for (Slot& slot : session.slots) slot.running = 0;
  session.waiting = 0;
  session.waiting_bytes = 0;
  session.reclaim.replays_left = 0;
}

Sequence CoreImpl::Forget(Session& session) {
  DropOperations(session);
  ForgetRecord(session);
  const Sequence sequence = session.forgotten_at.value_or(Sequence());
  Release(session);
  return sequence;
}

}  // namespace reel::mdc
