// The receiving side of a session: replies, callbacks, reconnection, lease.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/session/registration.h"
#include "client/session/session_impl.h"
#include "proto/status.h"
#include "spdlog/spdlog.h"

namespace reel::client {
namespace {

// How often the watch looks at the clock: well within a renewal period, and never busy.
std::chrono::milliseconds WatchPeriod(std::uint64_t lease_ms) {
  return std::chrono::milliseconds(std::clamp<std::uint64_t>(lease_ms / 10, 5, 200));
}

// In messages; the controller takes no more.
constexpr std::size_t kMaxTroubleBytes = 256;

// Somebody waits, nothing moves, and a LUN is not reached.
bool MustGiveUp(const RecallWork& work, std::uint64_t lease_ms) {
  return work.any && work.stalled_ms >= GiveUpMs(lease_ms) && !work.lost_lun.empty() &&
         work.lost_ms >= PathPatienceMs(lease_ms);
}

absl::Status StatusOf(const v1::Reply& reply) {
  if (reply.error() == 0) return absl::OkStatus();
  const bool known = reply.error() > 0 && reply.error() < 4096;
  return ErrnoStatus(known ? reply.error() : EIO, reply.message());
}

}  // namespace

// ---- time -------------------------------------------------------------------------------------

// Renews the lease, and ends streams on which nothing comes any more.
void SessionImpl::WatchMain() {
  MutexLock lock(mutex_);
  while (!ending_) {
    watch_wake_.WaitFor(mutex_, WatchPeriod(lease_ms_));
    if (handshake_until_ms_ != 0 && clock_.NowMs() >= handshake_until_ms_ && stream_ != nullptr) {
      stream_->Cancel();
    }
    if (!live_ || closing_) continue;
    mutex_.Unlock();
    const RecallWork work = events_.LookAtRecalls();
    mutex_.Lock();
    if (!live_ || closing_) continue;
    const std::uint64_t now_ms = clock_.NowMs();
    if (tells_work_ && !giving_up_ && now_ms >= give_up_at_ms_ && MustGiveUp(work, lease_ms_)) {
      GiveUp(now_ms, work);
    }
    const bool unanswered = renewal_ != nullptr && renewal_->state != PendingCall::State::kDone;
    if (unanswered) {
      if (renewal_->state == PendingCall::State::kSent &&
          now_ms - renewal_->sent_ms > RenewalTimeoutMs(lease_ms_)) {
        stream_->Cancel();
      }
    } else if (now_ms >= renew_at_ms_) {
      Renew(now_ms, work);
    }
  }
}

void SessionImpl::Renew(std::uint64_t now_ms, const RecallWork& work) {
  v1::Request request;
  const std::uint64_t period_ms = RenewalPeriodMs(lease_ms_, options_.mdcs.size());
  request.mutable_renew()->set_next_ms(
      options_.mdcs.size() > 1 ? static_cast<std::uint32_t>(period_ms) : 0);
  if (tells_work_) {
    v1::RecallWork& told = *request.mutable_renew()->mutable_work();
    told.set_any(work.any);
    told.set_stalled_ms(static_cast<std::uint32_t>(work.stalled_ms));
    told.set_trouble(work.trouble.substr(0, kMaxTroubleBytes));
  }
  renewal_ = std::make_shared<PendingCall>(std::move(request));
  renewal_->on_done = [this](const absl::StatusOr<v1::Reply>& reply) {
    if (reply.ok()) commits_wait_.store(reply->commits_wait());
  };
  renew_at_ms_ = now_ms + period_ms;
  queue_.Add(renewal_);
  Pump();
}

void SessionImpl::GiveUp(std::uint64_t now_ms, const RecallWork& work) {
  give_up_at_ms_ = now_ms + PathPatienceMs(lease_ms_);
  giving_up_ = true;
  lease_.Void();
  v1::Request request;
  request.mutable_give_up()->set_lun(work.lost_lun);
  request.mutable_give_up()->set_reason(work.trouble.substr(0, kMaxTroubleBytes));
  auto call = std::make_shared<PendingCall>(std::move(request));
  // (Where it is granted the end of the session is told instead.)
  call->on_done = [this](const absl::StatusOr<v1::Reply>&) {
    MutexLock lock(mutex_);
    giving_up_ = false;
    renew_at_ms_ = 0;
  };
  queue_.Add(std::move(call));
  Pump();
}

// ---- receiving --------------------------------------------------------------------------------

void SessionImpl::ReceiverMain() {
  do {
    ReceiveUntilLost();
  } while (Reconnect());
  std::vector<PendingCallPtr> rest;
  {
    MutexLock lock(mutex_);
    closing_ = true;
    rest = queue_.TakeAll();
  }
  for (const PendingCallPtr& call : rest) {
    Complete(call, ErrnoStatus(ESHUTDOWN, "the file system is being unmounted"));
  }
}

void SessionImpl::ReceiveUntilLost() {
  MdcStream* stream;
  {
    MutexLock lock(mutex_);
    stream = stream_.get();  // only this thread replaces it
  }
  v1::ServerFrame frame;
  while (!evicted_ && stream->Receive(&frame)) {
    heard_ms_.store(clock_.NowMs(), std::memory_order_relaxed);
    for (v1::Reply& reply : *frame.mutable_replies()) HandleReply(reply);
    for (const v1::Callback& callback : frame.callbacks()) HandleCallback(callback);
    frame.Clear();
  }
  stream->Cancel();
  {
    // No send begins from here on, and the one under way ends soon.
    MutexLock lock(mutex_);
    live_ = false;
    away_.store(true);
    away_since_ms_ = clock_.NowMs();
    while (sending_) idle_.Wait(mutex_);
  }
  const absl::Status why = EndStream(*stream);
  events_.OnStreamLost();
  MutexLock lock(mutex_);
  queue_.StreamLost();
  stream_.reset();
  if (!ending_ && !closing_ && !evicted_) {
    spdlog::warn("volume {}: the controller is away ({}); reconnecting", options_.volume,
                 why.ok() ? "it ended the stream" : std::string(why.message()));
  }
}

void SessionImpl::HandleProvisional(v1::Reply& reply) {
  PendingCallPtr call;
  {
    MutexLock lock(mutex_);
    call = queue_.Told(reply);
    if (call == nullptr) return;
    last_told_.store(std::max(call->told, last_told_.load()));
    queue_.Durable(reply.provisional().durable());
    confirmed_.store(queue_.confirmed());
    if (queue_.ToldMuch()) PostSync();
    if (queue_.CanSend()) writer_wake_.NotifyOne();
  }
  told_ = call->told;
  events_.OnReply(call->request, reply);
  if (call->on_reply) std::exchange(call->on_reply, nullptr)(reply);
  told_ = 0;
  Complete(call, std::move(reply));
}

void SessionImpl::NoteLoss() {
  ++losses_;
  untold_loss_ = true;
}

// Its caller has had its answer. One that came out otherwise is lost.
void SessionImpl::HandleAsTold(const PendingCallPtr& call, const v1::Reply& reply) {
  const absl::Status status = StatusOf(reply);
  if (call->request.has_foretold()) events_.OnReply(call->request, reply);
  if (!status.ok() || reply.entry().attr().inode() != call->redo.inode()) {
    spdlog::error("volume {}: a change that a program was told of is lost: {}", options_.volume,
                  status.ok() ? "it came out otherwise" : status.ToString());
    NoteLoss();
    v1::Reply lost;
    lost.set_error(EIO);
    lost.mutable_entry()->mutable_attr()->set_inode(call->redo.inode());
    events_.OnRedone(call->request, lost);
  } else if (reply.redone()) {
    events_.OnRedone(call->request, reply);
  }
  MutexLock lock(mutex_);
  queue_.Confirmed(call);
  confirmed_.store(queue_.confirmed());
  if (queue_.CanSend()) writer_wake_.NotifyOne();
}

void SessionImpl::HandleReply(v1::Reply& reply) {
  if (reply.has_provisional()) return HandleProvisional(reply);
  PendingCallPtr call;
  {
    MutexLock lock(mutex_);
    call = queue_.Answered(reply.id());
    if (call == nullptr) return;
    queue_.Durable(reply.sequence());
    confirmed_.store(queue_.confirmed());
    if (queue_.CanSend()) writer_wake_.NotifyOne();  // a slot came free
    if (call->request.op_case() == v1::Request::kRenew && reply.error() == 0 && !giving_up_) {
      lease_.Renew(call->sent_ms, lease_ms_);
    }
  }
  if (call->told != 0) return HandleAsTold(call, reply);
  events_.OnReply(call->request, reply);
  const absl::Status status = StatusOf(reply);
  if (call->request.op_case() == v1::Request::kReclaim && !status.ok()) {
    spdlog::error("volume {}: the controller refused what this host held ({})", options_.volume,
                  std::string(status.message()));
    evicted_ = true;
  }
  if (status.ok() && call->on_reply) call->on_reply(reply);
  if (status.ok()) {
    Complete(call, std::move(reply));
  } else {
    Complete(call, status);
  }
}

void SessionImpl::HandleCallback(const v1::Callback& callback) {
  if (callback.has_recall_token()) {
    const v1::RecallToken& recall = callback.recall_token();
    const auto span = ParseTokenSpan(recall.first_block(), recall.length_blocks());
    events_.OnRecall(recall.inode(), recall.mode(), span.value_or(kWholeFile));
  } else if (callback.has_recall_attr()) {
    events_.OnRecallAttr(callback.recall_attr().inode(), callback.recall_attr().to_shared());
  } else if (callback.has_recall_locks()) {
    const v1::RecallLocks& recall = callback.recall_locks();
    events_.OnRecallLocks(recall.inode(), recall.token(), recall.contended());
  } else if (callback.has_locks_broken()) {
    events_.OnLocksBroken(callback.locks_broken().inode());
  } else if (callback.has_farewell()) {
    const v1::Farewell& farewell = callback.farewell();
    spdlog::info("volume {}: {}{}", options_.volume, farewell.reason(),
                 farewell.stopped() ? "; waiting until it is started again" : "");
  } else if (callback.has_evicted()) {
    lease_.Void();
    evicted_ = true;
    spdlog::error("volume {}: the controller evicted this host: {}", options_.volume,
                  callback.evicted().reason());
  }
}

void SessionImpl::Complete(const PendingCallPtr& call, absl::StatusOr<v1::Reply> outcome) {
  if (call->on_done) std::exchange(call->on_done, nullptr)(outcome);
  {
    MutexLock lock(mutex_);
    call->outcome = std::move(outcome);
    call->state = PendingCall::State::kDone;
  }
  call->done.NotifyAll();
}

// ---- registration -----------------------------------------------------------------------------

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
    session_id_ = 0;
    first_lost = queue_.confirmed() + 1;
  }
  if (first_lost <= last_told_) {  // known to all before anybody takes it for confirmed
    NoteLoss();
    events_.OnToldLost(first_lost);
  }
  {
    MutexLock lock(mutex_);
    doomed = queue_.SessionOver();
    confirmed_.store(queue_.confirmed());
  }
  events_.OnEvicted();
  for (const auto& [call, errno_value] : doomed) {
    Complete(call, ErrnoStatus(errno_value, "the session with the controller ended meanwhile"));
  }
}

bool SessionImpl::Reconnect() {
  for (std::uint32_t rounds = 0;;) {
    std::string address;
    {
      MutexLock lock(mutex_);
      if (ending_ || closing_) return false;
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
    absl::Status status = TryRegister(address, &active);
    if (ErrnoOf(status) == ESTALE && session_id_ != 0) {
      SessionIsOver(std::string(status.message()));
      status = TryRegister(address, &active);
    }
    if (status.ok()) {
      spdlog::info("volume {}: the controller is back, at {}", options_.volume, address);
      return true;
    }
    if (ErrnoOf(status) == EPROTONOSUPPORT && !std::exchange(told_of_protocol_, true)) {
      spdlog::error("volume {}: {}: {}", options_.volume, address, std::string(status.message()));
    }
    if (ErrnoOf(status) == ENODEV) OnOtherVolume(address, status);
    MutexLock lock(mutex_);
    search_.Failed(address, clock_.NowMs() - began_ms, active);
  }
}

// The first one is what is mounted, for good.
absl::Status SessionImpl::TakeDescriptor(const v1::HelloReply& hello) {
  if (descriptor_.generation != 0 && hello.volume_descriptor().empty()) return absl::OkStatus();
  absl::StatusOr<VolumeDescriptor> told = DescriptorOf(hello);
  if (!told.ok()) return told.status();
  if (descriptor_.generation == 0) {
    descriptor_ = *std::move(told);
  } else if (told->volume != descriptor_.volume) {
    return ErrnoStatus(ENODEV, absl::StrCat("volume ", options_.volume, " is another one (",
                                            told->volume.ToString(), ") than is mounted"));
  } else if (told->generation > descriptor_.generation) {
    spdlog::warn("volume {}: its LUNs changed; mount it again to use the new ones",
                 options_.volume);
  }
  return absl::OkStatus();
}

// The volume was made anew, or another one has its name: what is mounted cannot be reached here.
// Some other controller may still have it, as long as the lease holds. After that programs are told
// so, until it is found: they do not wait for what is no more.
void SessionImpl::OnOtherVolume(const std::string& address, const absl::Status& why) {
  if (!std::exchange(told_of_other_volume_, true)) {
    spdlog::error("volume {}: {}: {}; unmount it", options_.volume, address,
                  std::string(why.message()));
  }
  if (lease_.Holds(clock_.NowMs())) return;
  if (session_id_ != 0) SessionIsOver("its volume is gone");
  std::vector<PendingCallPtr> waiting;
  absl::Status gone;
  {
    MutexLock lock(mutex_);
    volume_gone_ = true;
    waiting = queue_.TakeAll();
    gone = Closed();
  }
  for (const PendingCallPtr& call : waiting) Complete(call, gone);
}

absl::Status SessionImpl::TryRegister(const std::string& address, std::string* active) {
  absl::StatusOr<std::unique_ptr<MdcStream>> connected = connector_.Connect(address);
  if (!connected.ok()) return connected.status();
  MdcStream* stream = connected->get();
  const std::uint64_t sent_ms = clock_.NowMs();
  {
    MutexLock lock(mutex_);
    if (ending_) {
      (void)EndStream(*stream);
      return absl::CancelledError("unmounting");
    }
    stream_ = *std::move(connected);
    handshake_until_ms_ = sent_ms + kHandshakeTimeoutMs;
  }
  const HelloFrom from{.volume = options_.volume,
                       .host = options_.host,
                       .mount_point = options_.mount_point,
                       .incarnation = incarnation_,
                       .resume_session = session_id_,
                       // A new session is told what volume it is one of, also by a controller of
                       // a release that does not compare.
                       .map_generation = session_id_ != 0 ? descriptor_.generation : 0,
                       .mounted_volume = descriptor_.volume,
                       .caches_attributes = options_.caches_attributes,
                       .told_at_once = options_.told_at_once,
                       .protocol = options_.protocol,
                       .program = options_.program};
  absl::StatusOr<v1::HelloReply> hello = SayHello(*stream, from, active);
  absl::Status status = hello.status();
  if (status.ok()) status = TakeDescriptor(*hello);
  if (status.ok() && hello->must_reclaim() && (hello->features() & v1::FEATURE_PROVISIONAL) == 0) {
    MutexLock lock(mutex_);
    if (queue_.AnyTold()) {
      status = ErrnoStatus(ESTALE, "the controller cannot do again what the last one had told");
    }
  }
  if (!status.ok()) {
    const absl::Status ended = EndStream(*stream);
    if (hello.status().code() == absl::StatusCode::kUnavailable && !ended.ok()) status = ended;
    MutexLock lock(mutex_);
    handshake_until_ms_ = 0;
    stream_.reset();
    return status;
  }
  const bool resumed = session_id_ != 0;
  read_only_.store(hello->read_only());
  checks_opens_.store(hello->check_opens());
  const bool was_squashed = squashed_.exchange(hello->squashed());
  if (resumed && hello->squashed() && !was_squashed) {
    spdlog::warn(
        "volume {}: exported squashed from now on; what is mounted keeps its flags: "
        "mount -o remount,nosuid,nodev {}",
        options_.volume, options_.mount_point);
  }
  foretells_.store((hello->features() & v1::FEATURE_FORETELL) != 0);
  commits_wait_.store(false);
  sets_ahead_.store((hello->features() & v1::FEATURE_SET_AHEAD) != 0);
  lease_.Renew(sent_ms, hello->lease_ms());
  if (!resumed) key_ = hello->key();
  {
    MutexLock lock(mutex_);
    session_id_ = hello->session();
    volume_gone_ = false;
    search_.Prefer(address);
    address_ = address;
    epoch_ = hello->epoch();
    handshake_until_ms_ = 0;
    lease_ms_ = hello->lease_ms();
    tells_work_ = (hello->features() & v1::FEATURE_RECALL_WORK) != 0;
    giving_up_ = false;
    renew_at_ms_ = sent_ms + RenewalPeriodMs(lease_ms_, options_.mdcs.size());
    if (!resumed) {
      queue_.SessionBegins(hello->slots());
    } else {
      queue_.Resumed(hello->must_reclaim());
    }
  }
  if (!resumed) events_.OnRegistered(hello->session(), hello->key());
  if (resumed && hello->must_reclaim()) SendReclaims();
  MutexLock lock(mutex_);
  live_ = true;
  away_.store(false);
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
