#include "client/session.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/lease.h"
#include "client/registration.h"
#include "client/request_queue.h"
#include "proto/status.h"
#include "spdlog/spdlog.h"
#include "volume/mutex.h"

namespace reel::client {

void Session::Start(v1::Request request, std::function<void(absl::StatusOr<v1::Reply>)> on_done) {
  absl::StatusOr<v1::Reply> reply = Call(std::move(request), CallOptions{});
  if (on_done) on_done(std::move(reply));
}

namespace {

constexpr std::uint64_t kBackoffFirstMs = 100;
constexpr std::uint64_t kBackoffLastMs = 1000;
constexpr std::uint64_t kGoodbyeTimeoutMs = 1000;
// How often a waiting call looks for an interrupt: a signal is answered within that time.
constexpr std::chrono::milliseconds kInterruptPoll{50};
// How often the watch looks at the clock: well within a renewal period, and never busy.
std::chrono::milliseconds WatchPeriod(std::uint64_t lease_ms) {
  return std::chrono::milliseconds(std::clamp<std::uint64_t>(lease_ms / 10, 5, 200));
}

absl::Status StatusOf(const v1::Reply& reply) {
  if (reply.error() == 0) return absl::OkStatus();
  const bool known = reply.error() > 0 && reply.error() < 4096;
  return ErrnoStatus(known ? reply.error() : EIO, reply.message());
}

class SessionImpl : public Session {
 public:
  SessionImpl(Options options, MdcConnector& connector, SessionEvents& events, const Clock& clock)
      : options_(std::move(options)), connector_(connector), events_(events), clock_(clock) {}
  ~SessionImpl() override { Shutdown(); }

  absl::Status Begin();

  absl::StatusOr<v1::Reply> Call(v1::Request request, const CallOptions& options) override;
  void Post(v1::Request request) override { Start(std::move(request), {}); }
  void Start(v1::Request request, std::function<void(absl::StatusOr<v1::Reply>)> on_done) override;
  bool LeaseHolds() const override { return lease_.Holds(clock_.NowMs()); }
  std::uint64_t session_id() const override { return session_id_.load(); }
  const VolumeDescriptor& descriptor() const override { return descriptor_; }
  void Shutdown() override;

 private:
  void Pump() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<v1::Reply> Await(const PendingCallPtr& call, const CallOptions& options)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  void WriterMain();
  void WatchMain();
  void ReceiverMain();
  void ReceiveUntilLost();
  void HandleReply(v1::Reply& reply);
  void HandleCallback(const v1::Callback& callback);
  void Complete(const PendingCallPtr& call, absl::StatusOr<v1::Reply> outcome);
  void SessionIsOver(const std::string& why);
  // Tries the controllers in turn until one takes the session; false when the session is to end.
  bool Reconnect();
  absl::Status TryRegister(const std::string& address);
  void SendReclaims() ABSL_LOCKS_EXCLUDED(mutex_);

  const Options options_;
  MdcConnector& connector_;
  SessionEvents& events_;
  const Clock& clock_;
  VolumeDescriptor descriptor_;  // set by Begin
  Lease lease_;
  std::atomic<std::uint64_t> session_id_{0};

  // Of the receiving thread (and of Begin, before it runs).
  Uuid incarnation_ = Uuid::Random();
  std::size_t next_mdc_ = 0;
  bool evicted_ = false;

  Mutex mutex_;
  CondVar writer_wake_, watch_wake_, idle_, backoff_;
  std::unique_ptr<MdcStream> stream_ ABSL_GUARDED_BY(mutex_);
  bool live_ ABSL_GUARDED_BY(mutex_) = false;     // registered on stream_: requests may go
  bool sending_ ABSL_GUARDED_BY(mutex_) = false;  // one thread is in stream_->Send
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;  // no new calls
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;   // threads end
  bool joined_ ABSL_GUARDED_BY(mutex_) = false;
  std::uint32_t lease_ms_ ABSL_GUARDED_BY(mutex_) = 0;
  std::uint64_t away_since_ms_ ABSL_GUARDED_BY(mutex_) = 0;
  std::uint64_t handshake_until_ms_ ABSL_GUARDED_BY(mutex_) = 0;  // 0: none
  std::uint64_t renew_at_ms_ ABSL_GUARDED_BY(mutex_) = 0;
  PendingCallPtr renewal_ ABSL_GUARDED_BY(mutex_);  // the one on its way
  RequestQueue queue_ ABSL_GUARDED_BY(mutex_);

  std::thread receiver_, writer_, watch_;
};

// ---- calls
// ---------------------------------------------------------------------------------------

absl::StatusOr<v1::Reply> SessionImpl::Call(v1::Request request, const CallOptions& options) {
  if (options.credentials != nullptr) *request.mutable_credentials() = *options.credentials;
  auto call = std::make_shared<PendingCall>(std::move(request));
  call->on_reply = options.on_reply;
  MutexLock lock(mutex_);
  if (closing_) return ErrnoStatus(ESHUTDOWN, "the file system is being unmounted");
  queue_.Add(call);
  Pump();
  return Await(call, options);
}

void SessionImpl::Start(v1::Request request,
                        std::function<void(absl::StatusOr<v1::Reply>)> on_done) {
  auto call = std::make_shared<PendingCall>(std::move(request));
  call->on_done = std::move(on_done);
  {
    MutexLock lock(mutex_);
    if (!closing_) {
      queue_.Add(std::move(call));
      writer_wake_.NotifyOne();
      return;
    }
  }
  if (call->on_done) call->on_done(ErrnoStatus(ESHUTDOWN, "the file system is being unmounted"));
}

absl::StatusOr<v1::Reply> SessionImpl::Await(const PendingCallPtr& call,
                                             const CallOptions& options) {
  const bool polls = options.interrupt != nullptr || options_.soft_timeout_ms != 0;
  while (call->state != PendingCall::State::kDone) {
    if (!polls) {
      call->done.Wait(mutex_);
      continue;
    }
    if (call->done.WaitFor(mutex_, kInterruptPoll)) continue;
    int errno_value = 0;
    if (options.interrupt != nullptr && options.interrupt->interrupted()) {
      errno_value = EINTR;
    } else if (options_.soft_timeout_ms != 0 && !live_ &&
               clock_.NowMs() - away_since_ms_ >= options_.soft_timeout_ms) {
      errno_value = ETIMEDOUT;
    }
    if (errno_value == 0 || call->state == PendingCall::State::kDone) continue;
    if (!queue_.Remove(call)) call->abandoned = true;
    return ErrnoStatus(errno_value, errno_value == EINTR
                                        ? "interrupted while waiting for the controller"
                                        : "no controller answers");
  }
  return std::move(call->outcome);
}

// The caller sends by itself when nobody else does: no thread switch on the way out.
void SessionImpl::Pump() {
  if (!live_ || sending_ || !queue_.CanSend()) return;
  sending_ = true;
  const v1::ClientFrame frame = queue_.TakeFrame(clock_.NowMs());
  MdcStream* stream = stream_.get();  // stays until sending_ is false
  mutex_.Unlock();
  if (!stream->Send(frame)) stream->Cancel();
  mutex_.Lock();
  sending_ = false;
  if (!live_) {
    idle_.NotifyAll();
  } else if (queue_.CanSend()) {
    writer_wake_.NotifyOne();
  }
}

void SessionImpl::WriterMain() {
  MutexLock lock(mutex_);
  while (!ending_) {
    if (live_ && !sending_ && queue_.CanSend()) {
      Pump();
    } else {
      writer_wake_.Wait(mutex_);
    }
  }
}

// ---- time
// ----------------------------------------------------------------------------------------

// Renews the lease, and ends streams on which nothing comes any more.
void SessionImpl::WatchMain() {
  MutexLock lock(mutex_);
  while (!ending_) {
    watch_wake_.WaitFor(mutex_, WatchPeriod(lease_ms_));
    const std::uint64_t now_ms = clock_.NowMs();
    if (handshake_until_ms_ != 0 && now_ms >= handshake_until_ms_ && stream_ != nullptr) {
      stream_->Cancel();
    }
    if (!live_ || closing_) continue;
    const bool unanswered = renewal_ != nullptr && renewal_->state != PendingCall::State::kDone;
    if (unanswered) {
      if (renewal_->state == PendingCall::State::kSent &&
          now_ms - renewal_->sent_ms > RenewalTimeoutMs(lease_ms_)) {
        stream_->Cancel();
      }
    } else if (now_ms >= renew_at_ms_) {
      v1::Request request;
      request.mutable_renew();
      renewal_ = std::make_shared<PendingCall>(std::move(request));
      renew_at_ms_ = now_ms + RenewalPeriodMs(lease_ms_);
      queue_.Add(renewal_);
      Pump();
    }
  }
}

// ---- receiving
// -----------------------------------------------------------------------------------

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
    for (v1::Reply& reply : *frame.mutable_replies()) HandleReply(reply);
    for (const v1::Callback& callback : frame.callbacks()) HandleCallback(callback);
    frame.Clear();
  }
  stream->Cancel();
  {
    MutexLock lock(mutex_);
    live_ = false;
    away_since_ms_ = clock_.NowMs();
    while (sending_) idle_.Wait(mutex_);
  }
  const absl::Status why = stream->Finish();
  MutexLock lock(mutex_);
  queue_.StreamLost();
  stream_.reset();
  if (!ending_ && !closing_ && !evicted_) {
    spdlog::warn("volume {}: the controller is away ({}); reconnecting", options_.volume,
                 why.ok() ? "it ended the stream" : std::string(why.message()));
  }
}

void SessionImpl::HandleReply(v1::Reply& reply) {
  PendingCallPtr call;
  {
    MutexLock lock(mutex_);
    call = queue_.Answered(reply.id());
    if (call == nullptr) return;
    if (queue_.CanSend()) writer_wake_.NotifyOne();  // a slot came free
    if (call->request.op_case() == v1::Request::kRenew && reply.error() == 0) {
      lease_.Renew(call->sent_ms, lease_ms_);
    }
  }
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
    events_.OnRecall(callback.recall_token().inode(), callback.recall_token().mode());
  } else if (callback.has_evicted()) {
    lease_.Void();
    evicted_ = true;
    spdlog::error("volume {}: the controller evicted this host: {}", options_.volume,
                  callback.evicted().reason());
  }
}

void SessionImpl::Complete(const PendingCallPtr& call, absl::StatusOr<v1::Reply> outcome) {
  if (call->on_done) {
    call->on_done(std::move(outcome));
    outcome = absl::UnknownError("handed on");
  }
  {
    MutexLock lock(mutex_);
    call->outcome = std::move(outcome);
    call->state = PendingCall::State::kDone;
  }
  call->done.NotifyAll();
}

// ---- registration
// --------------------------------------------------------------------------------

void SessionImpl::SessionIsOver(const std::string& why) {
  spdlog::error("volume {}: the session is over ({}); what was not synced is lost", options_.volume,
                why);
  lease_.Void();
  session_id_ = 0;
  incarnation_ = Uuid::Random();
  evicted_ = false;
  std::vector<std::pair<PendingCallPtr, int>> doomed;
  {
    MutexLock lock(mutex_);
    doomed = queue_.SessionOver();
  }
  events_.OnEvicted();
  for (const auto& [call, errno_value] : doomed) {
    Complete(call, ErrnoStatus(errno_value, "the session with the controller ended meanwhile"));
  }
}

bool SessionImpl::Reconnect() {
  std::uint64_t backoff_ms = kBackoffFirstMs;
  for (;;) {
    for (std::size_t i = 0; i < options_.mdcs.size(); ++i) {
      {
        MutexLock lock(mutex_);
        if (ending_ || closing_) return false;
      }
      if (evicted_) SessionIsOver("evicted");
      const std::string& address = options_.mdcs[next_mdc_];
      absl::Status status = TryRegister(address);
      if (ErrnoOf(status) == ESTALE && session_id_ != 0) {
        SessionIsOver("the controller has given it up");
        status = TryRegister(address);
      }
      if (status.ok()) {
        spdlog::info("volume {}: the controller is back, at {}", options_.volume, address);
        return true;
      }
      next_mdc_ = (next_mdc_ + 1) % options_.mdcs.size();
    }
    MutexLock lock(mutex_);
    if (!ending_) backoff_.WaitFor(mutex_, std::chrono::milliseconds(backoff_ms));
    backoff_ms = std::min(backoff_ms * 2, kBackoffLastMs);
  }
}

absl::Status SessionImpl::TryRegister(const std::string& address) {
  absl::StatusOr<std::unique_ptr<MdcStream>> connected = connector_.Connect(address);
  if (!connected.ok()) return connected.status();
  MdcStream* stream = connected->get();
  const std::uint64_t sent_ms = clock_.NowMs();
  {
    MutexLock lock(mutex_);
    if (ending_) {
      stream->Cancel();
      (void)stream->Finish();
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
                       .map_generation = descriptor_.generation};
  absl::StatusOr<v1::HelloReply> hello = SayHello(*stream, from);
  absl::Status status = hello.status();
  if (status.ok() && descriptor_.generation == 0) {
    absl::StatusOr<VolumeDescriptor> descriptor = DescriptorOf(*hello);
    status = descriptor.status();
    if (status.ok()) descriptor_ = *std::move(descriptor);
  } else if (status.ok() && !hello->volume_descriptor().empty()) {
    spdlog::warn("volume {}: its LUNs changed; mount it again to use the new ones",
                 options_.volume);
  }
  if (!status.ok()) {
    stream->Cancel();
    const absl::Status ended = stream->Finish();
    if (hello.status().code() == absl::StatusCode::kUnavailable && !ended.ok()) status = ended;
    MutexLock lock(mutex_);
    handshake_until_ms_ = 0;
    stream_.reset();
    return status;
  }
  const bool resumed = session_id_ != 0;
  session_id_ = hello->session();
  lease_.Renew(sent_ms, hello->lease_ms());
  {
    MutexLock lock(mutex_);
    handshake_until_ms_ = 0;
    lease_ms_ = hello->lease_ms();
    renew_at_ms_ = sent_ms + RenewalPeriodMs(lease_ms_);
    if (!resumed) queue_.SessionBegins(hello->slots());
  }
  if (resumed && hello->must_reclaim()) SendReclaims();
  MutexLock lock(mutex_);
  live_ = true;
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
  queue_.AddFirst(std::move(calls));
}

// ---- begin and end
// -------------------------------------------------------------------------------

absl::Status SessionImpl::Begin() {
  if (options_.mdcs.empty()) return absl::InvalidArgumentError("no controller is named (mdc=)");
  watch_ = std::thread([this] { WatchMain(); });
  std::vector<std::string> refusals;
  absl::Status last;
  for (; next_mdc_ < options_.mdcs.size(); ++next_mdc_) {
    last = TryRegister(options_.mdcs[next_mdc_]);
    if (last.ok()) break;
    refusals.push_back(absl::StrCat(options_.mdcs[next_mdc_], ": ", last.message()));
  }
  if (!last.ok()) {
    const bool clear = ErrnoOf(last) == ENOENT || absl::IsNotFound(last);
    const std::string reasons = absl::StrJoin(refusals, "; ");
    if (clear) {
      return absl::NotFoundError(absl::StrCat("no volume ", options_.volume, ": ", reasons));
    }
    if (absl::IsUnimplemented(last)) return absl::UnimplementedError(reasons);
    return absl::UnavailableError(
        absl::StrCat("no controller serves volume ", options_.volume, ": ", reasons));
  }
  receiver_ = std::thread([this] { ReceiverMain(); });
  writer_ = std::thread([this] { WriterMain(); });
  return absl::OkStatus();
}

void SessionImpl::Shutdown() {
  {
    MutexLock lock(mutex_);
    if (joined_) return;
    joined_ = true;
    if (live_ && !closing_) {
      v1::Request request;
      request.mutable_goodbye();
      auto goodbye = std::make_shared<PendingCall>(std::move(request));
      queue_.Add(goodbye);
      closing_ = true;
      Pump();
      const std::uint64_t until_ms = clock_.NowMs() + kGoodbyeTimeoutMs;
      while (live_ && goodbye->state != PendingCall::State::kDone && clock_.NowMs() < until_ms) {
        goodbye->done.WaitFor(mutex_, kInterruptPoll);
      }
    }
    closing_ = true;
    ending_ = true;
    if (stream_ != nullptr) stream_->Cancel();
    writer_wake_.NotifyAll();
    watch_wake_.NotifyAll();
    backoff_.NotifyAll();
  }
  for (std::thread* thread : {&receiver_, &writer_, &watch_}) {
    if (thread->joinable()) thread->join();
  }
  lease_.Void();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Session>> Session::Connect(Options options, MdcConnector& connector,
                                                          SessionEvents& events,
                                                          const Clock& clock) {
  auto session = std::make_unique<SessionImpl>(std::move(options), connector, events, clock);
  if (absl::Status status = session->Begin(); !status.ok()) return status;
  return session;
}

}  // namespace reel::client
