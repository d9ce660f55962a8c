// A session that is told of new files before they are durable, and learns when a test says so.
//
// The rest of what file data ask of a session is another one's. Threads: all methods may be called
// concurrently.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <utility>

#include "client/session.h"
#include "volume/mutex.h"

namespace reel::client {

class ToldSession final : public Session {
 public:
  explicit ToldSession(Session& session) : session_(session) {}

  // What is created from here on is told under this number.
  void Tell(std::uint64_t number) {
    MutexLock lock(mutex_);
    told_ = number;
  }
  void Confirm(std::uint64_t through) {
    MutexLock lock(mutex_);
    confirmed_ = through;
    changed_.NotifyAll();
  }
  // Until somebody waits for a confirmation; false: nobody did for long.
  bool AwaitWaiter() {
    constexpr std::chrono::seconds kLong{20};
    MutexLock lock(mutex_);
    while (waiters_ == 0) {
      if (!changed_.WaitFor(mutex_, kLong)) return false;
    }
    return true;
  }
  int asked() const {
    MutexLock lock(mutex_);
    return asked_;
  }

  std::uint64_t told() const override {
    MutexLock lock(mutex_);
    return told_;
  }
  bool Confirmed(std::uint64_t told) const override {
    MutexLock lock(mutex_);
    return told <= confirmed_;
  }
  void AskConfirmed() override {
    MutexLock lock(mutex_);
    ++asked_;
  }
  absl::Status AwaitConfirmed(std::uint64_t told, const Interrupt* /*interrupt*/) override {
    MutexLock lock(mutex_);
    ++waiters_;
    changed_.NotifyAll();
    while (confirmed_ < told) changed_.Wait(mutex_);
    --waiters_;
    return absl::OkStatus();
  }

  absl::StatusOr<v1::Reply> Call(v1::Request request, const CallOptions& options) override {
    return session_.Call(std::move(request), options);
  }
  void Post(v1::Request request) override { session_.Post(std::move(request)); }
  void Start(v1::Request request, std::function<void(const absl::StatusOr<v1::Reply>&)> on_done,
             std::uint64_t session) override {
    session_.Start(std::move(request), std::move(on_done), session);
  }
  absl::Status Sync(std::uint64_t told, const Interrupt* interrupt) override {
    return session_.Sync(told, interrupt);
  }
  bool TimedOut() const override { return session_.TimedOut(); }
  bool Away() const override { return session_.Away(); }
  bool read_only() const override { return session_.read_only(); }
  bool checks_opens() const override { return session_.checks_opens(); }
  bool sets_ahead() const override { return session_.sets_ahead(); }
  void NoteUnfinished() override { session_.NoteUnfinished(); }
  bool LeaseHolds() const override { return session_.LeaseHolds(); }
  std::uint64_t session_id() const override { return session_.session_id(); }
  std::uint64_t key() const override { return session_.key(); }
  const VolumeDescriptor& descriptor() const override { return session_.descriptor(); }
  void Shutdown() override { session_.Shutdown(); }

 private:
  Session& session_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::uint64_t told_ ABSL_GUARDED_BY(mutex_) = 0;
  std::uint64_t confirmed_ ABSL_GUARDED_BY(mutex_) = 0;
  int waiters_ ABSL_GUARDED_BY(mutex_) = 0;
  int asked_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace reel::client
