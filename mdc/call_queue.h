// The one thread that gRPC calls come in on. Its queue is the only one that the server polls, so a
// message goes from the socket through the volume's core and back to the socket without a change of
// threads. Steps must therefore not block.
//
// Threads: Start and Stop from one thread; steps may be started by any.
#pragma once

#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "grpcpp/grpcpp.h"

namespace reel::mdc {

// Something that gRPC was asked to do (its tag), and what follows when that is done. It outlives
// the doing. `then` runs on the queue's thread; false: it was not done, the call or the server
// ends.
class Step {
 public:
  explicit Step(std::function<void(bool)> then) : then_(std::move(then)) {}
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;

  void* tag() { return this; }
  void Done(bool ok) { then_(ok); }

 private:
  const std::function<void(bool)> then_;
};

class CallQueue {
 public:
  explicit CallQueue(std::unique_ptr<grpc::ServerCompletionQueue> queue)
      : queue_(std::move(queue)) {}
  ~CallQueue() { Stop(); }

  grpc::ServerCompletionQueue* get() { return queue_.get(); }
  void Start() {
    thread_ = std::thread([this] { Poll(); });
  }
  // REQUIRES: the server is shut down, and nobody starts steps any more.
  void Stop() {
    if (!thread_.joinable()) return;
    queue_->Shutdown();
    thread_.join();
  }

 private:
  void Poll() {
    void* tag = nullptr;
    for (bool ok = false; queue_->Next(&tag, &ok);) static_cast<Step*>(tag)->Done(ok);
  }

  const std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::thread thread_;
};

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
  Step accepted_{[this](bool ok) { OnAccepted(ok); }};
  Step finished_{[this](bool) { delete this; }};
};

}  // namespace reel::mdc
