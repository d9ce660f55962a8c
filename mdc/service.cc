#include "mdc/service.h"

#include <cerrno>
#include <deque>
#include <utility>

#include "absl/strings/str_cat.h"
#include "spdlog/spdlog.h"

namespace reel::mdc {
namespace {

constexpr std::size_t kMaxQueuedRequests = 1024;
constexpr std::size_t kMaxUnsentBytes = 64 << 20;

class StreamReactor final : public grpc::ServerBidiReactor<v1::ClientFrame, v1::ServerFrame>,
                            public StreamPeer,
                            public std::enable_shared_from_this<StreamReactor> {
 public:
  StreamReactor(grpc::CallbackServerContext* context, const std::vector<VolumeServer*>& volumes)
      : context_(context), volumes_(volumes) {}

  // gRPC owns the reactor until OnDone; the volume's core, until it has seen the stream end.
  void Begin() {
    self_ = shared_from_this();
    StartRead(&incoming_);
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      EndOfInput();
      return;
    }
    const std::size_t count = static_cast<std::size_t>(incoming_.requests_size());
    if (volume_ == nullptr && !Choose()) return;
    volume_->wire().bytes_in += incoming_.ByteSizeLong();
    volume_->wire().messages_in += count;
    {
      MutexLock lock(mutex_);
      queued_ += count;
    }
    volume_->Post(stream_, std::exchange(incoming_, {}));
    MutexLock lock(mutex_);
    if (finished_) return;
    if (queued_ < kMaxQueuedRequests) {
      StartRead(&incoming_);
    } else {
      reading_paused_ = true;
    }
  }

  void OnWriteDone(bool ok) override {
    MutexLock lock(mutex_);
    writing_ = false;
    if (!ok) unsent_.clear();
    Advance();
  }

  void OnCancel() override {
    MutexLock lock(mutex_);
    unsent_.clear();
    ending_ = true;
    Advance();
  }

  void OnDone() override {
    EndOfInput();
    {
      MutexLock lock(mutex_);
      done_ = true;
    }
    const std::shared_ptr<StreamReactor> last = std::move(self_);
  }

  void Send(v1::ServerFrame frame) override {
    MutexLock lock(mutex_);
    if (done_ || finished_ || ending_) return;
    unsent_bytes_ += frame.ByteSizeLong();
    if (unsent_bytes_ > kMaxUnsentBytes) {
      spdlog::warn("stream {} from {} is cut off: {} bytes of replies are not read",
                   stream_.value(), context_->peer(), unsent_bytes_);
      context_->TryCancel();
      return;
    }
    unsent_.push_back(std::move(frame));
    Advance();
  }

  void End() override {
    MutexLock lock(mutex_);
    ending_ = true;
    Advance();
  }

  void Taken(std::size_t requests) override {
    MutexLock lock(mutex_);
    queued_ -= requests;
    if (reading_paused_ && queued_ < kMaxQueuedRequests / 2 && !finished_ && !done_) {
      reading_paused_ = false;
      StartRead(&incoming_);
    }
  }

 private:
  // By the first message, which names the volume. False: the stream is being ended.
  bool Choose() {
    v1::Reply reply;
    if (incoming_.requests_size() == 0 || !incoming_.requests(0).has_hello()) {
      reply.set_error(ENOTCONN);
      reply.set_message("the first message of a stream must be a Hello");
      return Reject(std::move(reply), grpc::StatusCode::FAILED_PRECONDITION);
    }
    const std::string& name = incoming_.requests(0).hello().volume();
    for (VolumeServer* volume : volumes_) {
      if (volume->name() != name) continue;
      volume_ = volume;
      stream_ = volume->AddStream(shared_from_this());
      return true;
    }
    reply.set_id(incoming_.requests(0).id());
    reply.set_error(ENOENT);
    reply.set_message("no such volume here");
    return Reject(std::move(reply), grpc::StatusCode::NOT_FOUND);
  }

  bool Reject(v1::Reply reply, grpc::StatusCode code) {
    MutexLock lock(mutex_);
    outcome_ = grpc::Status(code, reply.message());
    v1::ServerFrame frame;
    *frame.add_replies() = std::move(reply);
    unsent_.push_back(std::move(frame));
    ending_ = true;
    Advance();
    return false;
  }

  // The client closed its side, or the stream broke: nothing more comes, and nothing more is
  // wanted.
  void EndOfInput() {
    {
      MutexLock lock(mutex_);
      if (std::exchange(input_ended_, true)) return;
      unsent_.clear();
      ending_ = true;
      Advance();
    }
    if (volume_ != nullptr) volume_->StreamEnded(stream_);
  }

  // Starts the next write, or ends the stream after the last one.
  void Advance() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (writing_ || finished_ || done_) return;
    if (!unsent_.empty()) {
      outgoing_ = std::move(unsent_.front());
      unsent_.pop_front();
      unsent_bytes_ -= std::min(unsent_bytes_, outgoing_.ByteSizeLong());
      writing_ = true;
      StartWrite(&outgoing_);
    } else if (ending_) {
      finished_ = true;
      Finish(outcome_);
    }
  }

  grpc::CallbackServerContext* const context_;
  const std::vector<VolumeServer*>& volumes_;
  std::shared_ptr<StreamReactor> self_;

  // Of gRPC's reading: one reaction at a time.
  v1::ClientFrame incoming_;
  VolumeServer* volume_ = nullptr;
  StreamId stream_;

  Mutex mutex_;
  v1::ServerFrame outgoing_ ABSL_GUARDED_BY(mutex_);
  std::deque<v1::ServerFrame> unsent_ ABSL_GUARDED_BY(mutex_);
  std::size_t unsent_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::size_t queued_ ABSL_GUARDED_BY(mutex_) = 0;
  bool reading_paused_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  bool input_ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
  grpc::Status outcome_ ABSL_GUARDED_BY(mutex_) = grpc::Status::OK;
};

}  // namespace

grpc::ServerBidiReactor<v1::ClientFrame, v1::ServerFrame>* SessionService::Session(
    grpc::CallbackServerContext* context) {
  auto reactor = std::make_shared<StreamReactor>(context, volumes_);
  reactor->Begin();
  return reactor.get();
}

}  // namespace reel::mdc
