// The one thread that gRPC calls come in on. Its queue is the only one that the server polls, so a
// message goes from the socket through the volume's core and back to the socket without a change of
// threads. Steps must therefore not block.
//
// Threads: Start and Stop from one thread; steps may be started by any.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "grpcpp/grpcpp.h"

namespace reel::mdc {

class CallQueue {
 public:
  explicit CallQueue(std::unique_ptr<grpc::ServerCompletionQueue> queue)
      : queue_(std::move(queue)) {}
  ~CallQueue() { Stop(); }

  grpc::ServerCompletionQueue* get() { return queue_.get(); }
  void Start() {
    thread_ = std::thread([this] { Poll(); });
  }
  // Waits for the steps under way, and for those that they start: gRPC aborts where one is started
  // on a queue that was shut down. REQUIRES: the server is shut down, which ends all of them.
  void Stop() {
    if (!thread_.joinable()) return;
    for (int left = under_way_.load(); left != 0; left = under_way_.load()) under_way_.wait(left);
    queue_->Shutdown();
    thread_.join();
  }

 private:
  friend class Step;
  void Poll();
  void Ended() {
    if (--under_way_ == 0) under_way_.notify_all();
  }

  const std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::atomic<int> under_way_{0};
  std::thread thread_;
};

// Something that gRPC was asked to do (its tag), and what follows when that is done. It outlives
// the doing. `then` runs on the queue's thread; false: it was not done, the call or the server
// ends.
class Step {
 public:
  Step(CallQueue& queue, std::function<void(bool)> then) : queue_(queue), then_(std::move(then)) {}
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;

  // For one doing.
  void* tag() {
    ++queue_.under_way_;
    return this;
  }
  void Done(bool ok) { then_(ok); }
  // It will never be done, and gRPC will not say so.
  void Forget() { queue_.Ended(); }

 private:
  CallQueue& queue_;
  const std::function<void(bool)> then_;
};

inline void CallQueue::Poll() {
  void* tag = nullptr;
  for (bool ok = false; queue_->Next(&tag, &ok);) {
    static_cast<Step*>(tag)->Done(ok);  // which may be the end of the step
    Ended();
  }
}

// A unary call, from the moment when one is waited for to its answer; owns itself in between.
// `Handler` is called with each that comes, and sees to it that Finish is called, once.
template <typename Service, typename Request, typename Reply>
class UnaryCall {
 public:
  using Ask = void (Service::*)(grpc::ServerContext*, Request*,
                                grpc::ServerAsyncResponseWriter<Reply>*, grpc::CompletionQueue*,
                                grpc::ServerCompletionQueue*, void*);
  using Handler = std::function<void(UnaryCall&)>;

  static void Accept(Service& service, Ask ask, Handler handler, CallQueue& queue) {
    auto* call = new UnaryCall(service, ask, std::move(handler), queue);
    (service.*ask)(&call->context_, &call->request_, &call->writer_, queue.get(), queue.get(),
                   call->accepted_.tag());
  }

  const Request& request() const { return request_; }
  Reply& reply() { return reply_; }
  grpc::ServerContext& context() { return context_; }
  // Nothing of the call may be used afterwards.
  void Finish(const grpc::Status& status) { writer_.Finish(reply_, status, finished_.tag()); }

 private:
  UnaryCall(Service& service, Ask ask, Handler handler, CallQueue& queue)
      : service_(service), ask_(ask), handler_(std::move(handler)), queue_(queue) {}

  void OnAccepted(bool ok) {
    if (!ok) {
      delete this;
      return;
    }
    Accept(service_, ask_, handler_, queue_);
    handler_(*this);
  }

  Service& service_;
  const Ask ask_;
  const Handler handler_;
  CallQueue& queue_;
  grpc::ServerContext context_;
  Request request_;
  Reply reply_;
  grpc::ServerAsyncResponseWriter<Reply> writer_{&context_};
  Step accepted_{queue_, [this](bool ok) { OnAccepted(ok); }};
  Step finished_{queue_, [this](bool) { delete this; }};
};

}  // namespace reel::mdc
