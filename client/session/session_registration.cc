// Registering a session with the controller that serves the volume, and its end there.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/session/registration.h"
#include "client/session/session_impl.h"
#include "proto/status.h"
#include "spdlog/spdlog.h"

namespace reel::client {
namespace {

constexpr std::size_t kMostRefusals = 16;
// Of so many rounds of tries one is with streams, the first.
constexpr std::uint32_t kFullRounds = 20;
constexpr std::size_t kMostProblem = 256;  // bytes of MapTaken.problem

}  // namespace

void SessionImpl::SessionIsOver(const std::string& why) {
  spdlog::error("volume {}: the session is over ({}); what was not synced is lost", options_.volume,
                why);
  lease_.Void();
  incarnation_ = Uuid::Random();
  evicted_ = false;
  std::vector<std::pair<PendingCallPtr, int>> doomed;
  std::uint64_t first_lost = 0;
  {
    MutexLock lock(mutex_);
    terms_.SetSession(0);
    first_lost = queue_.confirmed() + 1;
  }
  if (first_lost <= early_.last()) {  // known to all before anybody takes it for confirmed
    early_.NoteLoss();
    events_.OnEarlyLost(first_lost);
  }
  {
    MutexLock lock(mutex_);
    doomed = queue_.SessionOver();
    early_.ConfirmedUpTo(queue_.confirmed());
  }
  events_.OnEvicted();
  for (const auto& [call, errno_value] : doomed) {
    Complete(call, ErrnoStatus(errno_value, "the session with the controller ended meanwhile"));
  }
}

// Much cheaper than a stream, whose connection is made anew each time: the one that this question
// came by is kept. All clients search at once, and the next controller needs the processors to take
// over. Not OK: whoever is there does not serve the volume.
absl::Status SessionImpl::AskWhetherHere(const std::string& address, std::string* active) {
  const absl::StatusOr<MdcPlace> place = connector_.Where(address, options_.volume);
  if (absl::IsUnavailable(place.status()) || absl::IsDeadlineExceeded(place.status())) {
    return place.status();
  }
  if (!place.ok() || place->here) return absl::OkStatus();  // (why not, its stream says)
  *active = place->address;
  return ErrnoStatus(EREMOTE, "a standby");
}

bool SessionImpl::Reconnect() {
  for (std::uint32_t rounds = 0;;) {
    std::string address;
    {
      MutexLock lock(mutex_);
      if (phase_.ending() || phase_.closing()) return false;
      address = search_.Next();
      if (address.empty()) {
        backoff_.WaitFor(
            mutex_, std::chrono::milliseconds(SearchBackoffMs(options_.mdcs.size(), rounds++)));
        continue;
      }
    }
    if (evicted_) SessionIsOver("evicted");
    const std::uint64_t began_ms = clock_.NowMs();
    std::string active;
    absl::Status status =
        rounds % kFullRounds != 0 ? AskWhetherHere(address, &active) : absl::OkStatus();
    if (status.ok()) status = TryRegister(address, &active);
    if (ErrnoOf(status) == ESTALE && session_id() != 0) {
      SessionIsOver(std::string(status.message()));
      status = TryRegister(address, &active);
    }
    if (status.ok()) {
      said_refusals_.clear();
      spdlog::info("volume {}: the controller is back, at {}", options_.volume, address);
      return true;
    }
    OnRefused(address, status);
    MutexLock lock(mutex_);
    search_.Failed(address, clock_.NowMs() - began_ms, active);
  }
}

// The first one is what is mounted, for good; a later one is its map by now.
absl::Status SessionImpl::TakeDescriptor(const v1::HelloReply& hello,
                                         std::optional<VolumeDescriptor>& later) {
  if (descriptor_.generation != 0 && hello.volume_descriptor().empty()) return absl::OkStatus();
  absl::StatusOr<VolumeDescriptor> sent = DescriptorOf(hello);
  if (!sent.ok()) return sent.status();
  if (descriptor_.generation == 0) {
    descriptor_ = *std::move(sent);
    terms_.TookMap(descriptor_.generation);
  } else if (sent->volume != descriptor_.volume) {
    return ErrnoStatus(ENODEV, absl::StrCat("volume ", options_.volume, " is another one (",
                                            sent->volume.ToString(), ") than is mounted"));
  } else if ((hello.features() & v1::FEATURE_NEW_MAP) != 0) {
    later = *std::move(sent);
  } else if (sent->generation > terms_.map_generation()) {
    spdlog::warn("volume {}: its LUNs changed; mount it again to use the new ones",
                 options_.volume);
  }
  return absl::OkStatus();
}

void SessionImpl::TookMap(std::uint64_t generation, const absl::Status& status) {
  if (status.ok()) terms_.TookMap(generation);
  v1::Request request;
  request.mutable_map_taken()->set_generation(generation);
  request.mutable_map_taken()->set_problem(std::string(status.message().substr(0, kMostProblem)));
  Post(std::move(request));
}

// ENODEV: the volume was made anew, or another one has its name. EACCES, EPERM: this host's
// certificate is revoked, or the volume is not exported to it any more. Some other controller may
// still take the session, as long as the lease holds. After that programs are told so, until one
// does: they do not wait for what may never be.
void SessionImpl::OnRefused(const std::string& address, const absl::Status& why) {
  const int error = ErrnoOf(why);
  const bool shut_out = error == ENODEV || error == EACCES || error == EPERM;
  const bool known_here = absl::IsFailedPrecondition(why);  // of TLS, and a person has to mend it
  if (!shut_out && !known_here && error != EPROTONOSUPPORT) return;
  const std::string text =
      absl::StrCat(address, ": ", why.message(), error == ENODEV ? "; unmount it" : "");
  if (said_refusals_.size() < kMostRefusals && said_refusals_.insert(text).second) {
    spdlog::error("volume {}: {}", options_.volume, text);
  }
  if (!shut_out || lease_.Holds(clock_.NowMs())) return;
  if (session_id() != 0) SessionIsOver(std::string(why.message()));
  std::vector<PendingCallPtr> waiting;
  absl::Status closed;
  {
    MutexLock lock(mutex_);
    // (One errno for all: what answers a call that is not sent is told apart by it.)
    phase_.SetShutOut(ErrnoStatus(ENODEV, std::string(why.message())));
    waiting = queue_.TakeAll();
    closed = phase_.Closed();
  }
  for (const PendingCallPtr& call : waiting) Complete(call, closed);
}

absl::Status SessionImpl::TryRegister(const std::string& address, std::string* active) {
  absl::StatusOr<std::unique_ptr<MdcStream>> connected = connector_.Connect(address);
  if (!connected.ok()) return connected.status();
  MdcStream* stream = connected->get();
  const std::uint64_t sent_ms = clock_.NowMs();
  {
    MutexLock lock(mutex_);
    if (phase_.ending()) {
      (void)EndStream(*stream);
      return absl::CancelledError("unmounting");
    }
    link_.Begin(*std::move(connected), sent_ms + kHandshakeTimeoutMs);
  }
  const HelloFrom from{.volume = options_.volume,
                       .host = options_.host,
                       .mount_point = options_.mount_point,
                       .incarnation = incarnation_,
                       .resume_session = session_id(),
                       // A new session is told what volume it is one of, also by a controller of
                       // a release that does not compare.
                       .map_generation = session_id() != 0 ? terms_.map_generation() : 0,
                       .mounted_volume = descriptor_.volume,
                       .caches_attributes = options_.caches_attributes,
                       .early_replies = options_.early_replies,
                       .protocol = options_.protocol,
                       .program = options_.program};
  absl::StatusOr<Greeting> greeting = SayHello(*stream, from, active);
  absl::Status status = greeting.status();
  const v1::HelloReply* const hello = status.ok() ? &greeting->hello : nullptr;
  std::optional<VolumeDescriptor> later;
  if (status.ok()) status = TakeDescriptor(*hello, later);
  if (status.ok() && hello->must_reclaim() && (hello->features() & v1::FEATURE_EARLY_REPLY) == 0) {
    MutexLock lock(mutex_);
    if (queue_.AnyEarly()) {
      status = ErrnoStatus(ESTALE, "the controller cannot do again what the last one had told");
    }
  }
  if (!status.ok()) {
    const absl::Status ended = EndStream(*stream);
    if (greeting.status().code() == absl::StatusCode::kUnavailable && !ended.ok()) status = ended;
    MutexLock lock(mutex_);
    link_.Drop();
    return status;
  }
  const bool resumed = session_id() != 0;
  const bool newly_squashed = terms_.Take(*hello);
  if (resumed && newly_squashed) {
    spdlog::warn(
        "volume {}: exported squashed from now on; what is mounted keeps its flags: "
        "mount -o remount,nosuid,nodev {}",
        options_.volume, options_.mount_point);
  }
  lease_.Renew(sent_ms, hello->lease_ms());
  if (!resumed) terms_.SetKey(hello->key());
  {
    MutexLock lock(mutex_);
    terms_.SetSession(hello->session());
    phase_.SetShutOut(absl::OkStatus());
    search_.Prefer(address);
    link_.Greeted(address, hello->epoch(), std::move(greeting->rest));
    renewals_.Registered(sent_ms, hello->lease_ms(),
                         (hello->features() & v1::FEATURE_RECALL_WORK) != 0);
    if (!resumed) {
      queue_.SessionBegins(hello->slots());
    } else {
      queue_.LimitSlots(hello->slots());
      queue_.Resumed(hello->must_reclaim());
    }
  }
  if (!resumed) events_.OnRegistered(hello->session(), hello->key());
  if (later) events_.OnNewMap(*later);
  if (resumed && hello->must_reclaim()) SendReclaims();
  MutexLock lock(mutex_);
  link_.Live();
  contact_.SetAway(false);
  writer_wake_.NotifyOne();
  return absl::OkStatus();
}

// Queued before all else: the controller serves nothing before it knows what this host holds.
void SessionImpl::SendReclaims() {
  std::vector<v1::Reclaim> reclaims = events_.CollectReclaims();
  if (reclaims.empty()) reclaims.emplace_back();
  reclaims.back().set_done(true);
  std::vector<PendingCallPtr> calls;
  for (v1::Reclaim& reclaim : reclaims) {
    v1::Request request;
    *request.mutable_reclaim() = std::move(reclaim);
    calls.push_back(std::make_shared<PendingCall>(std::move(request)));
  }
  MutexLock lock(mutex_);
  queue_.DropClosesOfClaimed();
  queue_.AddFirst(std::move(calls));
}

}  // namespace reel::client
