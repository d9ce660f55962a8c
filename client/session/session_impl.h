// The one implementation of Session: calls on the callers' threads, and four of its own.
//
// The receiving thread owns the stream: it alone replaces it, registers anew, and hands over
// replies and callbacks. The writer sends what callers left behind; the watch renews the lease and
// ends streams on which nothing comes; the scout, where there are several controllers, asks the
// others when the one that serves us is silent. A stream is sent on by one thread at a time
// (`LiveLink`), without the lock. Threads: as Session says. Lock order: `mutex_` last, and never
// held across a send, an event or a reply's function.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "client/base/lease.h"
#include "client/session/early_replies.h"
#include "client/session/live_link.h"
#include "client/session/mdc_search.h"
#include "client/session/renewals.h"
#include "client/session/request_queue.h"
#include "client/session/session.h"
#include "client/session/session_state.h"
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
  std::uint64_t early_number() const override { return early_.handed_over(); }
  std::uint64_t last_early_number() const override { return early_.last(); }
  bool Confirmed(std::uint64_t early_number) const override {
    return early_.Confirmed(early_number);
  }
  std::uint64_t losses() const override { return early_.losses(); }
  absl::Status Sync(std::uint64_t early_number, std::uint64_t losses,
                    const Interrupt* interrupt) override;
  bool delegates() const override { return terms_.delegates(); }
  bool delegates_names() const override { return terms_.delegates_names(); }
  std::uint64_t SendDelegated(v1::Request request, const v1::Replay& decided) override;
  bool TimedOut() const override;
  bool Away() const override { return contact_.away(); }
  bool LeaseHolds() const override { return lease_.Holds(clock_.NowMs()); }
  std::uint64_t LeaseLeftMs() const override { return lease_.LeftMs(clock_.NowMs()); }
  Load load() const override {
    MutexLock lock(mutex_);
    return queue_.load();
  }
  std::uint64_t session_id() const override { return terms_.session_id(); }
  std::uint64_t key() const override { return terms_.key(); }
  void NoteUnfinished() override { unfinished_ = true; }
  void Claims(std::uint64_t inode) override {
    MutexLock lock(mutex_);
    queue_.Claims(inode);
  }
  bool read_only() const override { return terms_.read_only(); }
  bool checks_opens() const override { return terms_.checks_opens(); }
  bool squashed() const override { return terms_.squashed(); }
  void SetSoftTimeout(std::uint32_t soft_timeout_ms) override {
    contact_.SetSoftTimeout(soft_timeout_ms);
  }
  bool delays_attributes() const override { return terms_.delays_attributes(); }
  bool looks_ahead() const override { return terms_.looks_ahead(); }
  bool lists_layouts() const override { return terms_.lists_layouts(); }
  bool takes_reads_together() const override { return terms_.takes_reads_together(); }
  bool commits_attributes() const override { return terms_.commits_attributes(); }
  std::uint32_t small_file_bytes() const override { return terms_.small_file_bytes(); }
  bool commits_wait() const override { return terms_.commits_wait(); }
  const VolumeDescriptor& descriptor() const override { return descriptor_; }
  void TookMap(std::uint64_t generation, const absl::Status& status) override;
  void Shutdown() override;

 private:
  void SendQueued() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool TimedOutLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether a wait that has lasted for a while is to go on: EINTR, ETIMEDOUT.
  absl::Status GoesOn(const Interrupt* interrupt) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // `*withdrawn`: it was never sent and never will be, so nobody else completes it.
  absl::StatusOr<v1::Reply> Await(const PendingCallPtr& call, const CallOptions& options,
                                  bool* withdrawn) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  void WriterMain();
  // Until there is more to send than what may wait for a moment, or that is over.
  void Gather() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WakeWriter() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WatchMain();
  // `said`: for people.
  void LookAtLease(std::uint64_t now_ms, const RecallWork& work, const v1::Renew& said)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Asks to be evicted. The lease is over from here on, unless that is refused.
  void GiveUp(std::uint64_t now_ms, const RecallWork& work) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReceiverMain();
  void ReceiveUntilLost();
  void HandleReply(v1::Reply& reply);
  void HandleEarlyReply(v1::Reply& reply);
  // The answer to what its caller has been told: replayed, or delegated.
  void HandleDurableReply(const PendingCallPtr& call, const v1::Reply& reply);
  void PostSync() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void HandleCallback(const v1::Callback& callback);
  void Complete(const PendingCallPtr& call, absl::StatusOr<v1::Reply> outcome);
  void SessionIsOver(const std::string& why);
  // Tries the controllers in turn until one takes the session; false when the session is to end.
  absl::Status AskWhetherHere(const std::string& address, std::string* active);
  bool Reconnect();
  // `*active` is whom a standby names.
  absl::Status TryRegister(const std::string& address, std::string* active);
  // `later`: what the mounted volume's map is by now, if the controller says so. ENODEV: it is
  // another volume's than is mounted.
  absl::Status TakeDescriptor(const v1::HelloReply& hello, std::optional<VolumeDescriptor>& later);
  // Says once why the controller did not take the session, where a person has to do something; and
  // where it will take none, lets programs know when the lease is over.
  void OnRefused(const std::string& address, const absl::Status& why);
  // One try at each controller; more, where one of them stands by. `refusals` says why it failed.
  absl::Status FirstRegistration(std::vector<std::string>& refusals);
  void ScoutMain();
  void SendReclaims() ABSL_LOCKS_EXCLUDED(mutex_);

  struct Threads {
    Thread receiver, writer, watch, scout;
  };

  const Options options_;
  MdcConnector& connector_;
  SessionEvents& events_;
  const Clock& clock_;
  VolumeDescriptor descriptor_;  // set by Begin
  Lease lease_;
  SessionTerms terms_;
  Contact contact_{options_.soft_timeout_ms};
  EarlyReplies early_;
  std::atomic<bool> unfinished_{false};

  // Of the receiving thread (and of Begin, before it runs).
  Uuid incarnation_ = Uuid::Random();
  bool evicted_ = false;
  std::set<std::string> said_refusals_;  // each is logged once, until a session is taken

  mutable Mutex mutex_;
  CondVar writer_wake_, watch_wake_, idle_, backoff_, scout_wake_;
  MdcSearch search_ ABSL_GUARDED_BY(mutex_);
  LiveLink link_ ABSL_GUARDED_BY(mutex_);
  SessionPhase phase_ ABSL_GUARDED_BY(mutex_);
  Renewals renewals_ ABSL_GUARDED_BY(mutex_){options_.mdcs.size()};
  RequestQueue queue_ ABSL_GUARDED_BY(mutex_);

  Threads threads_;
};

}  // namespace reel::client
