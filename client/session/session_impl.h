// The one implementation of Session: calls on the callers' threads, and four of its own.
//
// The receiving thread owns the stream: it alone replaces it, registers anew, and hands over
// replies and callbacks. The writer sends what callers left behind; the watch renews the lease and
// ends streams on which nothing comes; the scout, where there are several controllers, asks the
// others when the one that serves us is silent. A stream is sent on by one thread at a time
// (`sending_`), without the lock. Threads: as Session says. Lock order: `mutex_` last, and never
// held across a send, an event or a reply's function.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "client/base/lease.h"
#include "client/session/mdc_search.h"
#include "client/session/request_queue.h"
#include "client/session/session.h"
#include "volume/base/mutex.h"
#include "volume/base/thread.h"
#include "volume/base/uuid.h"

namespace reel::client {

class SessionImpl : public Session {
 public:
  SessionImpl(Options options, MdcConnector& connector, SessionEvents& events, const Clock& clock)
      : options_(std::move(options)),
        connector_(connector),
        events_(events),
        clock_(clock),
        search_(options_.mdcs) {}
  ~SessionImpl() override { Shutdown(); }

  absl::Status Begin();

  absl::StatusOr<v1::Reply> Call(v1::Request request, const CallOptions& options) override;
  void Post(v1::Request request) override {
    Start(std::move(request), {}, 0, /*under_token=*/false);
  }
  void Start(v1::Request request, std::function<void(const absl::StatusOr<v1::Reply>&)> on_done,
             std::uint64_t session, bool under_token) override;
  std::uint64_t told() const override { return told_; }
  std::uint64_t last_told() const override { return last_told_.load(); }
  bool Confirmed(std::uint64_t told) const override { return confirmed_.load() >= told; }
  std::uint64_t losses() const override { return losses_.load(); }
  absl::Status Sync(std::uint64_t told, std::uint64_t losses, const Interrupt* interrupt) override;
  bool foretells() const override { return foretells_.load(); }
  std::uint64_t Foretell(v1::Request request, const v1::Redo& as_told) override;
  bool TimedOut() const override;
  bool Away() const override { return away_.load(); }
  bool LeaseHolds() const override { return lease_.Holds(clock_.NowMs()); }
  std::uint64_t LeaseLeftMs() const override { return lease_.LeftMs(clock_.NowMs()); }
  std::uint64_t session_id() const override { return session_id_.load(); }
  std::uint64_t key() const override { return key_.load(); }
  void NoteUnfinished() override { unfinished_ = true; }
  void Claims(std::uint64_t inode) override {
    MutexLock lock(mutex_);
    queue_.Claims(inode);
  }
  bool read_only() const override { return read_only_.load(); }
  bool checks_opens() const override { return checks_opens_.load(); }
  bool squashed() const override { return squashed_.load(); }
  void SetSoftTimeout(std::uint32_t soft_timeout_ms) override {
    soft_timeout_ms_.store(soft_timeout_ms);
  }
  bool sets_ahead() const override { return sets_ahead_.load(); }
  bool commits_wait() const override { return commits_wait_.load(); }
  const VolumeDescriptor& descriptor() const override { return descriptor_; }
  void Shutdown() override;

 private:
  void Pump() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool TimedOutLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether a wait that has lasted for a while is to go on: EINTR, ETIMEDOUT.
  absl::Status GoesOn(const Interrupt* interrupt) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // `*withdrawn`: it was never sent and never will be, so nobody else completes it.
  absl::StatusOr<v1::Reply> Await(const PendingCallPtr& call, const CallOptions& options,
                                  bool* withdrawn) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  void WriterMain();
  void WatchMain();
  void Renew(std::uint64_t now_ms, const RecallWork& work) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Asks to be evicted. The lease is over from here on, unless that is refused.
  void GiveUp(std::uint64_t now_ms, const RecallWork& work) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReceiverMain();
  void ReceiveUntilLost();
  void HandleReply(v1::Reply& reply);
  void HandleProvisional(v1::Reply& reply);
  // The answer to what its caller has been told: redone, or foretold.
  void HandleAsTold(const PendingCallPtr& call, const v1::Reply& reply);
  void NoteLoss();
  void PostSync() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void HandleCallback(const v1::Callback& callback);
  void Complete(const PendingCallPtr& call, absl::StatusOr<v1::Reply> outcome);
  void SessionIsOver(const std::string& why);
  // Tries the controllers in turn until one takes the session; false when the session is to end.
  bool Reconnect();
  // `*active` is whom a standby names.
  absl::Status TryRegister(const std::string& address, std::string* active);
  // ENODEV: it is another volume's than is mounted.
  absl::Status TakeDescriptor(const v1::HelloReply& hello);
  void OnOtherVolume(const std::string& address, const absl::Status& why);
  // Not OK: no call can be made any more, or none for now.
  absl::Status Closed() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // One try at each controller; more, where one of them stands by. `refusals` says why it failed.
  absl::Status FirstRegistration(std::vector<std::string>& refusals);
  void ScoutMain();
  void SendReclaims() ABSL_LOCKS_EXCLUDED(mutex_);

  const Options options_;
  MdcConnector& connector_;
  SessionEvents& events_;
  const Clock& clock_;
  VolumeDescriptor descriptor_;  // set by Begin
  Lease lease_;
  std::atomic<std::uint64_t> session_id_{0};
  std::atomic<std::uint64_t> key_{0};
  std::atomic<bool> unfinished_{false};
  std::atomic<bool> read_only_{false};
  std::atomic<bool> sets_ahead_{false};
  std::atomic<bool> commits_wait_{false};
  std::atomic<bool> foretells_{false};
  std::atomic<bool> checks_opens_{false};
  std::atomic<bool> squashed_{false};
  std::atomic<std::uint32_t> soft_timeout_ms_{options_.soft_timeout_ms};

  // Of the receiving thread (and of Begin, before it runs).
  Uuid incarnation_ = Uuid::Random();
  bool evicted_ = false;
  std::uint64_t told_ = 0;
  bool told_of_protocol_ = false;      // a controller with which there is no common version
  bool told_of_other_volume_ = false;  // one that serves another volume under the name

  mutable Mutex mutex_;
  CondVar writer_wake_, watch_wake_, idle_, backoff_, scout_wake_;
  MdcSearch search_ ABSL_GUARDED_BY(mutex_);
  std::string address_ ABSL_GUARDED_BY(mutex_);  // of the controller that serves us
  std::uint64_t epoch_ ABSL_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<MdcStream> stream_ ABSL_GUARDED_BY(mutex_);
  bool live_ ABSL_GUARDED_BY(mutex_) = false;     // registered on stream_: requests may go
  bool sending_ ABSL_GUARDED_BY(mutex_) = false;  // one thread is in stream_->Send
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;  // no new calls
  // The session is over, and who serves the volume's name serves another volume.
  bool volume_gone_ ABSL_GUARDED_BY(mutex_) = false;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;  // threads end
  bool joined_ ABSL_GUARDED_BY(mutex_) = false;
  std::uint32_t lease_ms_ ABSL_GUARDED_BY(mutex_) = 0;
  std::uint64_t away_since_ms_ ABSL_GUARDED_BY(mutex_) = 0;
  std::atomic<bool> away_{false};  // !live_, for those who must not wait for the mutex
  std::uint64_t handshake_until_ms_ ABSL_GUARDED_BY(mutex_) = 0;  // 0: none
  std::uint64_t renew_at_ms_ ABSL_GUARDED_BY(mutex_) = 0;
  PendingCallPtr renewal_ ABSL_GUARDED_BY(mutex_);   // the one on its way
  bool tells_work_ ABSL_GUARDED_BY(mutex_) = false;  // the controller knows RecallWork and GiveUp
  bool giving_up_ ABSL_GUARDED_BY(mutex_) = false;   // the lease is not renewed
  std::uint64_t give_up_at_ms_ ABSL_GUARDED_BY(mutex_) = 0;  // not before then, after a refusal
  RequestQueue queue_ ABSL_GUARDED_BY(mutex_);

  std::atomic<std::uint64_t> last_told_{0};
  std::atomic<std::uint64_t> confirmed_{0};
  std::atomic<std::uint64_t> losses_{0};          // of what was told
  std::atomic<bool> untold_loss_{false};          // of the last one nobody has been told
  bool syncing_ ABSL_GUARDED_BY(mutex_) = false;  // a Sync that nobody waits for is on its way

  std::atomic<std::uint64_t> heard_ms_{0};  // when something came from the controller last

  Thread receiver_, writer_, watch_, scout_;
};

}  // namespace reel::client
