#include "mdc/rpc/session_stream.h"

#include <cerrno>
#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "grpcpp/alarm.h"
#include "mdc/rpc/read_gate.h"
#include "mdc/rpc/unsent_frames.h"
#include "mdc/serve/volume_server.h"
#include "spdlog/spdlog.h"

namespace reel::mdc {
namespace {

class SessionStream final : public StreamPeer, public std::enable_shared_from_this<SessionStream> {
 public:
  explicit SessionStream(const StreamContext& shared) : shared_(shared) {}

  // Waits for a client. The steps under way own the stream, and so does the volume's core until it
  // has seen it end.
  void Accept() {
    self_ = shared_from_this();
    context_.AsyncNotifyWhenDone(ended_.tag());
    MutexLock lock(mutex_);
    ++steps_;
    shared_.service.RequestSession(&context_, &rpc_, shared_.queue.get(), shared_.queue.get(),
                                   accepted_.tag());
  }

  void Send(v1::ServerFrame frame) override {
    MutexLock lock(mutex_);
    const UnsentFrames::Added added = unsent_.Add(std::move(frame));
    if (added == UnsentFrames::Added::kTooMuch) {
      spdlog::warn("stream {} from {} is cut off: {} bytes of replies are not read",
                   stream_.value(), context_.peer(), unsent_.bytes());
      context_.TryCancel();
    }
    if (added == UnsentFrames::Added::kWaits) Advance();
  }

  void End() override {
    MutexLock lock(mutex_);
    unsent_.End();
    Advance();
  }

  void Taken(std::size_t) override {
    MutexLock lock(mutex_);
    if (read_gate_.Taken() && !unsent_.finished()) Read();
  }

 private:
  void OnAccepted(bool ok) {
    if (!ok) {  // the server is shutting down
      ended_.Forget();
      return StepDone();
    }
    std::make_shared<SessionStream>(shared_)->Accept();
    {
      MutexLock lock(mutex_);
      steps_ += 2;  // ended_, which comes for every call that was accepted, and the alarm
      hello_due_.Set(shared_.queue.get(),
                     std::chrono::system_clock::now() +
                         std::chrono::milliseconds(shared_.gate.options().unknown_ms),
                     overdue_.tag());
      Read();
    }
    StepDone();
  }

  void OnRead(bool ok) {
    if (!ok) {
      EndOfInput();
    } else if (volume_ != nullptr || Choose()) {
      const auto count = static_cast<std::size_t>(incoming_.requests_size());
      const std::size_t bytes = incoming_.ByteSizeLong();
      volume_->wire().bytes_in += bytes;
      volume_->wire().messages_in += count;
      bool reads_on = false;
      v1::ClientFrame frame = std::exchange(incoming_, {});
      {
        MutexLock lock(mutex_);
        reads_on = read_gate_.Queued(count, bytes);
      }
      volume_->Post(stream_, std::move(frame));
      MutexLock lock(mutex_);
      if (reads_on && !unsent_.finished()) Read();
    }
    StepDone();
  }

  void OnWritten(bool ok) {
    {
      MutexLock lock(mutex_);
      unsent_.Written(ok);
      Advance();
    }
    StepDone();
  }

  // No Hello came in time; false: Hello came, or the stream has ended.
  void OnOverdue(bool due) {
    if (due) context_.TryCancel();
    StepDone();
  }

  // The client is gone, or the call was answered.
  void OnEnded() {
    hello_due_.Cancel();
    EndOfInput();
    StepDone();
  }

  void StepDone() {
    std::shared_ptr<SessionStream> last;  // destroyed when the lock is free again
    MutexLock lock(mutex_);
    if (--steps_ == 0) last = std::move(self_);
  }

  void Read() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    ++steps_;
    rpc_.Read(&incoming_, read_.tag());
  }

  // By the first message, which names the volume. False: the stream is being ended.
  bool Choose() {
    v1::Reply reply;
    if (incoming_.requests_size() == 0 || !incoming_.requests(0).has_hello()) {
      reply.set_error(ENOTCONN);
      reply.set_message("the first message of a stream must be a Hello");
      return Reject(std::move(reply), grpc::StatusCode::FAILED_PRECONDITION);
    }
    const auto peer = shared_.guard.Check(*context_.auth_context(), TlsRole::kClient, "mounting");
    if (!peer.ok()) {
      shared_.gate.CountRefused();
      if (const auto more = shared_.refusals.Admit(SystemClock().NowMs())) {
        spdlog::warn("a mount from {} is refused: {}{}", context_.peer(),
                     std::string(peer.status().message()), *more);
      }
      reply.set_id(incoming_.requests(0).id());
      reply.set_error(EACCES);
      reply.set_message(std::string(peer.status().message()));
      return Reject(std::move(reply), grpc::StatusCode::PERMISSION_DENIED);
    }
    const std::string& name = incoming_.requests(0).hello().volume();
    reply.set_id(incoming_.requests(0).id());
    for (const VolumeRole* role : shared_.volumes) {
      if (role->name() != name) continue;
      shared_.gate.Welcome(context_.peer());
      if (role->server() == nullptr) return SendOn(*role, std::move(reply));
      hello_due_.Cancel();
      volume_ = role->server();
      stream_ = volume_->AddStream(shared_from_this(), peer->name);
      if (shared_.guard.tls()) EndWhenRevoked(*peer);
      return true;
    }
    reply.set_error(ENOENT);
    reply.set_message("no such volume here");
    return Reject(std::move(reply), grpc::StatusCode::NOT_FOUND);
  }

  void EndWhenRevoked(const TlsPeer& peer) {
    watched_ = shared_.guard.Watch(peer, [volume = volume_, stream = stream_, name = peer.name] {
      volume->RunOnCore([stream, name](Core& core) {
        core.EndStream(stream, absl::StrCat("the certificate of ", name, " is revoked"));
      });
    });
  }

  bool SendOn(const VolumeRole& role, v1::Reply reply) {
    reply.set_active(role.active().address);
    reply.set_error(EREMOTE);
    reply.set_message(role.active().stopped ? "the volume is stopped by an administrator"
                      : reply.active().empty()
                          ? "a standby; no controller is active"
                          : absl::StrCat("a standby; the active controller is ", reply.active()));
    return Reject(std::move(reply), grpc::StatusCode::FAILED_PRECONDITION);
  }

  bool Reject(v1::Reply reply, grpc::StatusCode code) {
    MutexLock lock(mutex_);
    outcome_ = grpc::Status(code, reply.message());
    v1::ServerFrame frame;
    *frame.add_replies() = std::move(reply);
    unsent_.AddLast(std::move(frame));
    Advance();
    return false;
  }

  // The client closed its side, or the stream broke: nothing more comes, and nothing more is
  // wanted.
  void EndOfInput() {
    {
      MutexLock lock(mutex_);
      if (std::exchange(input_ended_, true)) return;
      unsent_.Discard();
      unsent_.End();
      Advance();
    }
    shared_.guard.Forget(watched_);
    if (volume_ != nullptr) volume_->StreamEnded(stream_);
  }

  // Starts the next write, or ends the stream after the last one.
  void Advance() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    switch (unsent_.Next(&outgoing_)) {
      case UnsentFrames::Step::kNothing:
        return;
      case UnsentFrames::Step::kWrite:
        ++steps_;
        return rpc_.Write(outgoing_, written_.tag());
      case UnsentFrames::Step::kFinish:
        ++steps_;
        return rpc_.Finish(outcome_, finish_.tag());
    }
  }

  const StreamContext shared_;
  grpc::ServerContext context_;
  grpc::ServerAsyncReaderWriter<v1::ServerFrame, v1::ClientFrame> rpc_{&context_};
  Step accepted_{shared_.queue, [this](bool ok) { OnAccepted(ok); }};
  Step read_{shared_.queue, [this](bool ok) { OnRead(ok); }};
  Step written_{shared_.queue, [this](bool ok) { OnWritten(ok); }};
  Step finish_{shared_.queue, [this](bool) { StepDone(); }};
  Step ended_{shared_.queue, [this](bool) { OnEnded(); }};
  Step overdue_{shared_.queue, [this](bool due) { OnOverdue(due); }};
  grpc::Alarm hello_due_;

  // Of reading: one step at a time.
  v1::ClientFrame incoming_;
  VolumeServer* volume_ = nullptr;
  StreamId stream_;
  PeerGuard::Ticket watched_ = 0;

  Mutex mutex_;
  std::uint32_t steps_ ABSL_GUARDED_BY(mutex_) = 0;  // under way
  std::shared_ptr<SessionStream> self_;              // while there are any
  v1::ServerFrame outgoing_ ABSL_GUARDED_BY(mutex_);
  UnsentFrames unsent_ ABSL_GUARDED_BY(mutex_);
  ReadGate read_gate_ ABSL_GUARDED_BY(mutex_);
  bool input_ended_ ABSL_GUARDED_BY(mutex_) = false;
  grpc::Status outcome_ ABSL_GUARDED_BY(mutex_) = grpc::Status::OK;
};

}  // namespace

void AcceptStreams(const StreamContext& shared) {
  std::make_shared<SessionStream>(shared)->Accept();
}

}  // namespace reel::mdc
