// One iSCSI session with one connection, for one LUN, by one of its portals. It alone speaks to
// libiscsi, here and in iscsi_login.cc.
//
// A thread of its own owns libiscsi's context and turns a poll loop; commands are handed to it from
// any thread and end on it. Invariants:
//   1. A command ends exactly once, through its `done`.
//   2. Once lost, lost for good: the context is gone before the first command learns of it, so no
//      byte is sent or received any more, and nothing is sent again. (libiscsi by itself would
//      reconnect and resend.)
//   3. At most kMaxInFlight commands are with the target; the others wait, each for a caller's.
//   4. What the target says it did not execute (a unit attention, BUSY, TASK SET FULL, NOT READY)
//      is sent again here, within the command's patience; nothing else is.
//   5. Where there is another portal to go on by, a silent one is asked, and lost if it says
//      nothing (volume/iscsi/iscsi_silence.h). Else only a command's time ends it.
// Threads: all methods may be called concurrently. `done` runs on the connection's thread, or,
// where the connection is lost already, in Submit; it must not wait.
#pragma once

#include <sys/uio.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "volume/base/mutex.h"
#include "volume/iscsi/iscsi_silence.h"
#include "volume/iscsi/iscsi_url.h"
#include "volume/lun/fd_lun.h"
#include "volume/scsi/scsi.h"
#include "volume/scsi/scsi_outcome.h"

struct iscsi_context;
struct scsi_task;

namespace reel {

struct IscsiCommand {
  enum class Data { kNone, kIn, kOut };

  scsi::Cdb cdb;
  Data data = Data::kNone;
  std::uint32_t length_bytes = 0;        // the sum of `memory`
  absl::InlinedVector<iovec, 2> memory;  // what it points to outlives `done`
  std::function<void(const ScsiOutcome&)> done;
  bool reset_lun =
      false;  // instead of a CDB: LOGICAL UNIT RESET, with nothing else of ours on its way
  // For so long it is sent again where the target says that it cannot; nullopt: for its time.
  std::optional<std::chrono::milliseconds> patience;

  // The connection's own.
  std::chrono::steady_clock::time_point first_sent{};
  int attentions = 0;
};

class IscsiConnection {
 public:
  static constexpr std::size_t kMaxInFlight = 64;

  // Connects and logs in by `portal`, one of the URL's, following at most kMaxRedirects.
  // PERMISSION_DENIED (CHAP, access lists), NOT_FOUND (the target does not exist there),
  // UNAVAILABLE (nobody answers in time).
  static absl::StatusOr<std::unique_ptr<IscsiConnection>> Open(const IscsiUrl& url,
                                                               const std::string& portal);
  // Logs out. REQUIRES: no command is on its way.
  ~IscsiConnection();
  IscsiConnection(const IscsiConnection&) = delete;
  IscsiConnection& operator=(const IscsiConnection&) = delete;

  void Submit(std::unique_ptr<IscsiCommand> command);
  // Submits and waits; `done` is this method's own.
  ScsiOutcome Execute(IscsiCommand command);
  bool lost() const { return lost_.load(std::memory_order_acquire); }

 private:
  using Clock = std::chrono::steady_clock;
  using CommandList = std::deque<std::unique_ptr<IscsiCommand>>;
  static constexpr int kMaxRedirects = 3;

  // A place for a command that is with the target.
  struct Slot {
    IscsiConnection* owner = nullptr;
    std::unique_ptr<IscsiCommand> command;  // null: free
    scsi_task* task = nullptr;              // null for a reset
    Clock::time_point deadline;
  };
  struct Step {  // of logging in
    bool ended = false;
    int status = 0;
  };

  IscsiConnection(const IscsiUrl& url, const std::string& portal, UniqueFd wake);

  absl::Status LogIn(const std::string& secret);
  absl::Status MakeContext(const std::string& secret);
  // Turns the loop until the step has ended. DEADLINE_EXCEEDED.
  absl::Status Drive(const Step& step, Clock::time_point deadline);
  absl::Status LoginError(const std::string& what) const;
  std::string ContextError() const;  // never empty

  // All of these on the thread alone.
  void Run();
  // Takes what was submitted. True when there was anything; else the thread counts as asleep.
  bool TakeInbox();
  void Send();
  bool SendOne(std::unique_ptr<IscsiCommand>& command);
  void WaitForEvents();
  void CheckTimes();
  void CheckSilence(Clock::time_point now);
  void LogOut();
  void Lose(const std::string& why);
  void Finish(Slot& slot, const ScsiOutcome& outcome);
  void Answered(Slot& slot, int status);
  static void OnStep(iscsi_context* context, int status, void* data, void* step);
  static void OnScsi(iscsi_context* context, int status, void* data, void* slot);
  static void OnReset(iscsi_context* context, int status, void* data, void* slot);

  const IscsiUrl url_;
  const UniqueFd wake_;  // an eventfd
  const std::chrono::milliseconds timeout_;

  // The thread's, and before it starts the opener's.
  iscsi_context* context_ = nullptr;
  std::string portal_;
  SilenceWatch silence_;
  std::vector<Slot> slots_;
  std::vector<std::size_t> free_slots_;
  CommandList pending_;  // not yet sent
  CommandList busy_;     // to be sent again after a while
  Clock::time_point busy_until_, next_check_;
  Clock::time_point looked_;  // at the socket, for the last time
  bool resetting_ = false;
  std::string broken_;  // why the connection is to be given up, when it is
  Step step_;

  std::atomic<bool> asleep_{false};
  std::atomic<bool> lost_{false};
  Mutex mutex_;
  CommandList inbox_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::string why_ ABSL_GUARDED_BY(mutex_);

  std::thread thread_;  // last: it uses all the others
};

}  // namespace reel
