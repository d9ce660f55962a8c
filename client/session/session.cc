#include "client/session/session.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/session/session_impl.h"
#include "proto/status.h"
#include "spdlog/spdlog.h"

namespace reel::client {
namespace {

constexpr std::uint64_t kGoodbyeTimeoutMs = 1000;
constexpr std::uint64_t kReplayTimeoutMs = 10'000;
// How often a waiting call looks for an interrupt: a signal is answered within that time.
constexpr std::chrono::milliseconds kInterruptPoll{50};
// For so long a message stays for which nobody waits: those of the next files go with it, and each
// message of its own would wake a thread here and two at the controller, for longer than its work
// takes.
constexpr std::chrono::milliseconds kGatherTime{2};

}  // namespace

void Session::Start(v1::Request request,
                    std::function<void(const absl::StatusOr<v1::Reply>&)> on_done,
                    std::uint64_t session, bool /*under_token*/) {
  if (session != 0 && session != session_id()) {
    if (on_done) on_done(ErrnoStatus(ESTALE, "the session with the controller ended meanwhile"));
    return;
  }
  const absl::StatusOr<v1::Reply> reply = Call(std::move(request), CallOptions{});
  if (on_done) on_done(reply);
}

// ---- calls ------------------------------------------------------------------------------------

absl::StatusOr<v1::Reply> SessionImpl::Call(v1::Request request, const CallOptions& options) {
  if (options.credentials != nullptr) *request.mutable_credentials() = *options.credentials;
  auto call = std::make_shared<PendingCall>(std::move(request));
  call->on_reply = options.on_reply;
  call->on_done = options.on_done;
  call->session = options.session;
  call->under_token = options.under_token;
  absl::StatusOr<v1::Reply> unsent;
  {
    MutexLock lock(mutex_);
    if (absl::Status closed = phase_.Closed(); !closed.ok()) {
      unsent = closed;
    } else if (options.session != 0 && options.session != session_id()) {
      unsent = ErrnoStatus(ESTALE, "the session with the controller ended meanwhile");
    } else {
      queue_.Add(call);
      SendQueued();
      bool withdrawn = false;
      absl::StatusOr<v1::Reply> outcome = Await(call, options, &withdrawn);
      if (!withdrawn) return outcome;
      unsent = std::move(outcome);
    }
  }
  if (call->on_done) call->on_done(unsent);
  return unsent;
}

void SessionImpl::Start(v1::Request request,
                        std::function<void(const absl::StatusOr<v1::Reply>&)> on_done,
                        std::uint64_t session, bool under_token) {
  auto call = std::make_shared<PendingCall>(std::move(request));
  call->on_done = std::move(on_done);
  call->session = session;
  call->under_token = under_token;
  absl::Status refusal;
  {
    MutexLock lock(mutex_);
    if (absl::Status closed = phase_.Closed(); !closed.ok()) {
      refusal = closed;
    } else if (session != 0 && session != session_id()) {
      refusal = ErrnoStatus(ESTALE, "the session with the controller ended meanwhile");
    } else {
      queue_.Add(std::move(call));
      WakeWriter();
      return;
    }
  }
  if (call->on_done) call->on_done(refusal);
}

void SessionImpl::PostSync() {
  if (phase_.closing() || !early_.BeginSync()) return;
  v1::Request request;
  request.mutable_sync();
  auto sync = std::make_shared<PendingCall>(std::move(request));
  sync->on_done = [this](const absl::StatusOr<v1::Reply>&) {
    MutexLock lock(mutex_);
    early_.EndSync();
  };
  queue_.Add(std::move(sync));
  writer_wake_.NotifyOne();
}

std::uint64_t SessionImpl::SendDelegated(v1::Request request, const v1::Replay& decided) {
  const auto call = std::make_shared<PendingCall>(std::move(request));
  MutexLock lock(mutex_);
  if (phase_.closing() || !link_.live() || !LeaseHolds()) return 0;
  const std::uint64_t early_number = queue_.SendDelegated(call, decided);
  if (early_number == 0) return 0;
  early_.Promised(early_number);
  WakeWriter();
  return early_number;
}

absl::Status SessionImpl::Sync(std::uint64_t early_number, std::uint64_t losses,
                               const Interrupt* interrupt) {
  if (!Confirmed(early_number)) {
    v1::Request request;
    request.mutable_sync();
    CallOptions options;
    options.interrupt = interrupt;
    absl::Status status = Call(std::move(request), options).status();
    if (!status.ok()) return status;
    // Its answer comes behind those to all that was told before.
    if (!Confirmed(early_number)) return ErrnoStatus(EIO, "changes of names have no answer");
  }
  if (!early_.TakeLoss(losses)) return absl::OkStatus();
  return ErrnoStatus(EIO, "changes of names were lost with the session");
}

bool SessionImpl::TimedOut() const {
  MutexLock lock(mutex_);
  return TimedOutLocked();
}

bool SessionImpl::TimedOutLocked() const {
  return link_.TimedOut(clock_.NowMs(), contact_.soft_timeout_ms());
}

absl::Status SessionImpl::GoesOn(const Interrupt* interrupt) const {
  if (interrupt != nullptr && interrupt->interrupted()) {
    return ErrnoStatus(EINTR, "interrupted while waiting for the controller");
  }
  if (TimedOutLocked()) return ErrnoStatus(ETIMEDOUT, "no controller answers");
  return absl::OkStatus();
}

absl::StatusOr<v1::Reply> SessionImpl::Await(const PendingCallPtr& call, const CallOptions& options,
                                             bool* withdrawn) {
  const bool polls = options.interrupt != nullptr || contact_.soft_timeout_ms() != 0;
  while (call->state != PendingCall::State::kDone) {
    if (!polls) {
      call->done.Wait(mutex_);
      continue;
    }
    if (call->done.WaitFor(mutex_, kInterruptPoll)) continue;
    absl::Status status = GoesOn(options.interrupt);
    if (status.ok() || call->state == PendingCall::State::kDone) continue;
    *withdrawn = queue_.Remove(call);
    if (!*withdrawn) call->abandoned = true;
    return status;
  }
  return std::move(call->outcome);
}

// The caller sends by itself when nobody else does: no thread switch on the way out.
void SessionImpl::SendQueued() {
  if (!link_.MaySend() || !queue_.CanSend()) return;
  MdcStream* const stream = link_.BeginSend();  // stays until EndSend
  const v1::ClientFrame frame = queue_.TakeFrame(clock_.NowMs());
  mutex_.Unlock();
  if (!stream->Send(frame)) stream->Cancel();
  mutex_.Lock();
  link_.EndSend();
  if (!link_.live()) {
    idle_.NotifyAll();
  } else if (queue_.CanSend()) {
    writer_wake_.NotifyOne();
  }
}

void SessionImpl::WriterMain() {
  MutexLock lock(mutex_);
  while (!phase_.ending()) {
    if (link_.MaySend() && queue_.CanSend()) {
      Gather();
      SendQueued();
    } else {
      writer_wake_.Wait(mutex_);
    }
  }
}

void SessionImpl::Gather() {
  link_.SetGathering(true);
  while (queue_.MayGather() && !phase_.ending()) {
    if (!writer_wake_.WaitFor(mutex_, kGatherTime)) break;
  }
  link_.SetGathering(false);
}

void SessionImpl::WakeWriter() {
  if (!link_.gathering() || !queue_.MayGather()) writer_wake_.NotifyOne();
}

// ---- begin and end ----------------------------------------------------------------------------

absl::Status SessionImpl::Begin() {
  if (options_.mdcs.empty()) return absl::InvalidArgumentError("no controller is named (mdc=)");
  threads_.watch = Thread([this] { WatchMain(); });
  std::vector<std::string> refusals;
  const absl::Status last = FirstRegistration(refusals);
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
  threads_.receiver = Thread([this] { ReceiverMain(); });
  threads_.writer = Thread([this] { WriterMain(); });
  if (options_.mdcs.size() > 1) threads_.scout = Thread([this] { ScoutMain(); });
  return absl::OkStatus();
}

void SessionImpl::Shutdown() {
  {
    MutexLock lock(mutex_);
    if (!phase_.BeginShutdown()) return;
    // Where a controller comes back soon, it is to get what it may have lost, before the goodbye.
    const std::uint64_t patience_ms = clock_.NowMs() + kReplayTimeoutMs;
    while (session_id() != 0 && queue_.confirmed() < early_.last() &&
           clock_.NowMs() < patience_ms) {
      if (link_.live()) PostSync();
      idle_.WaitFor(mutex_, kInterruptPoll);
    }
    if (link_.live() && !phase_.closing()) {
      v1::Request request;
      request.mutable_goodbye()->set_unfinished(unfinished_);
      auto goodbye = std::make_shared<PendingCall>(std::move(request));
      queue_.Add(goodbye);
      phase_.Close();
      SendQueued();
      const std::uint64_t until_ms = clock_.NowMs() + kGoodbyeTimeoutMs;
      while (link_.live() && goodbye->state != PendingCall::State::kDone &&
             clock_.NowMs() < until_ms) {
        goodbye->done.WaitFor(mutex_, kInterruptPoll);
      }
    }
    if (queue_.confirmed() < early_.last()) {
      spdlog::error("volume {}: unmounting although changes of names may not be durable",
                    options_.volume);
    }
    phase_.End();
    if (link_.stream() != nullptr) link_.stream()->Cancel();
    writer_wake_.NotifyAll();
    watch_wake_.NotifyAll();
    backoff_.NotifyAll();
    scout_wake_.NotifyAll();
  }
  for (Thread* thread : {&threads_.receiver, &threads_.writer, &threads_.watch, &threads_.scout}) {
    if (thread->joinable()) thread->Join();
  }
  lease_.Void();
}

absl::StatusOr<std::unique_ptr<Session>> Session::Connect(Options options, MdcConnector& connector,
                                                          SessionEvents& events,
                                                          const Clock& clock) {
  auto session = std::make_unique<SessionImpl>(std::move(options), connector, events, clock);
  if (absl::Status status = session->Begin(); !status.ok()) return status;
  return session;
}

}  // namespace reel::client
