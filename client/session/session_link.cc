// The receiving side of a session: replies and callbacks.
#include <cerrno>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "client/session/registration.h"
#include "client/session/session_impl.h"
#include "proto/status.h"
#include "spdlog/spdlog.h"

namespace reel::client {
namespace {

absl::Status StatusOf(const v1::Reply& reply) {
  if (reply.error() == 0) return absl::OkStatus();
  const bool known = reply.error() > 0 && reply.error() < 4096;
  return ErrnoStatus(known ? reply.error() : EIO, reply.message());
}

}  // namespace

void SessionImpl::ReceiverMain() {
  do {
    ReceiveUntilLost();
  } while (Reconnect());
  std::vector<PendingCallPtr> rest;
  {
    MutexLock lock(mutex_);
    phase_.Close();
    rest = queue_.TakeAll();
  }
  for (const PendingCallPtr& call : rest) {
    Complete(call, ErrnoStatus(ESHUTDOWN, "the file system is being unmounted"));
  }
}

void SessionImpl::ReceiveUntilLost() {
  MdcStream* stream;
  v1::ServerFrame frame;
  {
    MutexLock lock(mutex_);
    stream = link_.stream();  // only this thread replaces it
    frame = link_.TakeCameAlong();
  }
  do {
    contact_.NoteHeard(clock_.NowMs());
    for (v1::Reply& reply : *frame.mutable_replies()) HandleReply(reply);
    for (const v1::Callback& callback : frame.callbacks()) HandleCallback(callback);
    frame.Clear();
  } while (!evicted_ && stream->Receive(&frame));
  stream->Cancel();
  {
    // No send begins from here on, and the one under way ends soon.
    MutexLock lock(mutex_);
    link_.Lost(clock_.NowMs());
    contact_.SetAway(true);
    while (link_.sending()) idle_.Wait(mutex_);
  }
  const absl::Status why = EndStream(*stream);
  events_.OnStreamLost();
  std::vector<PendingCallPtr> lost;
  {
    MutexLock lock(mutex_);
    lost = queue_.StreamLost();
    link_.Drop();
  }
  for (const PendingCallPtr& call : lost) {
    Complete(call, ErrnoStatus(ECONNRESET, "the stream to the controller was lost"));
  }
  MutexLock lock(mutex_);
  if (!phase_.ending() && !phase_.closing() && !evicted_) {
    spdlog::warn("volume {}: the controller is away ({}); reconnecting", options_.volume,
                 why.ok() ? "it ended the stream" : std::string(why.message()));
  }
}

void SessionImpl::HandleEarlyReply(v1::Reply& reply) {
  PendingCallPtr call;
  {
    MutexLock lock(mutex_);
    call = queue_.NoteEarlyReply(reply);
    if (call == nullptr) return;
    early_.Promised(call->early_number);
    queue_.Durable(reply.early().durable());
    early_.ConfirmedUpTo(queue_.confirmed());
    if (queue_.ManyEarly()) PostSync();
    if (queue_.CanSend()) WakeWriter();
  }
  early_.SetHandedOver(call->early_number);
  events_.OnReply(call->request, reply);
  if (call->on_reply) std::exchange(call->on_reply, nullptr)(reply);
  early_.SetHandedOver(0);
  Complete(call, std::move(reply));
}

// Its caller has had its answer. One that came out otherwise is lost.
void SessionImpl::HandleDurableReply(const PendingCallPtr& call, const v1::Reply& reply) {
  const absl::Status status = StatusOf(reply);
  if (call->request.has_delegated()) events_.OnReply(call->request, reply);
  if (!status.ok() || reply.entry().attr().inode() != call->replay.inode()) {
    spdlog::error("volume {}: a change that a program was told of is lost: {}", options_.volume,
                  status.ok() ? "it came out otherwise" : status.ToString());
    early_.NoteLoss();
    v1::Reply lost;
    lost.set_error(EIO);
    lost.mutable_entry()->mutable_attr()->set_inode(call->replay.inode());
    events_.OnReplayed(call->request, lost);
  } else if (reply.replayed()) {
    events_.OnReplayed(call->request, reply);
  }
  MutexLock lock(mutex_);
  queue_.Confirmed(call);
  early_.ConfirmedUpTo(queue_.confirmed());
  if (queue_.CanSend()) WakeWriter();
}

void SessionImpl::HandleReply(v1::Reply& reply) {
  if (reply.has_early()) return HandleEarlyReply(reply);
  PendingCallPtr call;
  {
    MutexLock lock(mutex_);
    call = queue_.Answered(reply.id());
    if (call == nullptr) return;
    queue_.Durable(reply.sequence());
    early_.ConfirmedUpTo(queue_.confirmed());
    if (queue_.CanSend()) WakeWriter();  // a slot came free
    if (renewals_.Renews(*call, reply)) lease_.Renew(call->sent_ms, renewals_.lease_ms());
  }
  if (call->early_number != 0) return HandleDurableReply(call, reply);
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
  } else if (callback.has_ping()) {
    v1::Request request;
    request.mutable_pong()->set_number(callback.ping().number());
    Post(std::move(request));
  } else if (callback.has_farewell()) {
    const v1::Farewell& farewell = callback.farewell();
    spdlog::info("volume {}: {}{}", options_.volume, farewell.reason(),
                 farewell.stopped() ? "; waiting until it is started again" : "");
  } else if (callback.has_new_map()) {
    const std::string& framed = callback.new_map().volume_descriptor();
    const auto map = DecodeDescriptor(std::as_bytes(std::span(framed)));
    if (map.ok() && map->volume == descriptor_.volume) return events_.OnNewMap(*map);
    spdlog::error("volume {}: its new map cannot be used: {}", options_.volume,
                  map.ok() ? "it is another volume's" : std::string(map.status().message()));
  } else if (callback.has_deal()) {
    events_.OnDeal(callback.deal());
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

}  // namespace reel::client
