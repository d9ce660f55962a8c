// Tells the controller what was written: flush of the LUNs, then LayoutCommit.
//
// Invariants:
//   1. A block is called written only after a flush that began after its bytes were on the LUN.
//   2. One commit of an inode runs at a time; what becomes dirty meanwhile waits for the next.
//   3. What cannot be committed is told by WriteError, and forgotten here.
//   4. What a file has in memory goes to the LUNs before a commit that somebody waits for, and with
//      age: soon where nobody writes the file any more, since sync(1) tells a FUSE server nothing.
//   5. What is dirty or being committed is listed, taken or committing; so is, once nobody has it
//      open, a file with a tail, or its token is being asked for.
//   6. Of a small file all bytes go with the commit, in place of the LUNs. Its blocks go back with
//      it only while the file is held exclusively here, until the answer.
// Many inodes share one flush, and their commits travel together. Threads: all methods may be
// called concurrently; a thread of its own commits what has become old. Lock order: a FileState,
// then this.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "client/buffers/write_behind.h"
#include "client/file/data_context.h"
#include "client/tokens/page_dropper.h"
#include "volume/base/thread.h"

namespace reel::client {

class Committer {
 public:
  Committer(DataContext& context, WriteBehind& write_behind, PageDropper& dropper)
      : context_(context), write_behind_(write_behind), dropper_(dropper) {}
  ~Committer() { Stop(); }

  // Both are called from the committing thread. `fetch_tail`: of a file that nobody has open, and
  // whose tail cannot go without a token that others have taken as they looked; then NoteLateTail.
  void Start(std::function<void()> each_second, std::function<void(const FileRef&)> fetch_tail);
  void Stop();

  // The file became dirty, or its tail is to be released: it is committed in time.
  void NoteDirty(FileState& f) ABSL_EXCLUSIVE_LOCKS_REQUIRED(f.mutex);

  // A request that may have brought a tail, or the token for one, is answered with that status, or
  // cannot be sent now: of a file that nobody has open any more the tail has its turn (once more).
  void NoteLateTail(FileState& f, const absl::Status& answer)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(f.mutex);

  // Memory for writes runs short: what is in it begins to go, old or not.
  void RelieveMemory();
  // As that, soon.
  void NoteMemoryShort();

  // Of what is dirty: all but delayed attributes (fdatasync(2)); all; and preallocated
  // blocks beyond the end go back, too.
  enum class What : std::uint8_t { kData, kAll, kAllAndTail };

  // Waits until everything that was dirty at the call is committed or lost; the file's error, if
  // any, is told by ReportLoss. EINTR, ETIMEDOUT, ESHUTDOWN: given up, the commit goes on.
  // REQUIRES: no lock.
  absl::Status Clean(const FileRef& file, const Interrupt* interrupt, What what = What::kAll);
  // What the file has in memory now is on the LUNs, at the controller, or lost. As WriteBehind's
  // Flush.
  absl::Status EmptyMemory(const FileRef& file, const Interrupt* interrupt, What what = What::kAll);
  // What is in memory goes to the LUNs, then Clean (or with `data_only` a flush, where that is
  // enough).
  absl::Status Sync(const FileRef& file, bool data_only, const Interrupt* interrupt);
  // What of the file's writes was lost, once to each open file that could know of them; ShowLoss:
  // and it will be told all the same.
  static absl::Status ReportLoss(const FileRef& file, std::uint64_t handle);
  static absl::Status ShowLoss(const FileRef& file, std::uint64_t handle);
  // Everything dirty, of every inode; also the error of a file that lost writes of which nobody was
  // told yet. EINTR after `limit_ms`.
  absl::Status SyncAll(std::uint64_t limit_ms);
  // What all files have in memory, and not told: as Sync of each, but times of change are told
  // later, and an error is what was lost meanwhile.
  absl::Status SyncWritten(const Interrupt* interrupt);
  // Tells the controller what it need not keep for this host any more: the right to write, if
  // nobody has a use for it, and the open file, if nobody has it open. REQUIRES: not `untold`.
  void TellClosed(FileState& f) ABSL_EXCLUSIVE_LOCKS_REQUIRED(f.mutex);
  // For a file that nobody uses and whose token is about to go: blocks beyond its end go first.
  // `cycle` is the recall's; when that is over, nothing is done. REQUIRES: recall is kReturning in
  // it. The outcome as for Clean.
  void ReleaseTail(const FileRef& file, std::uint64_t cycle);

 private:
  static constexpr std::size_t kMaxPlans = 1'024;  // in one flush

  struct Plan {
    FileRef file;
    Uncommitted::Taken taken;
    v1::LayoutCommit message;  // gone once it is sent
    bool releases_tail = false;
    std::uint64_t lost_sessions = 0;
    std::uint64_t session = 0;
    bool holds_file = false;  // exclusively, until it is done
    // All of a small file, or what is known of it is told again, for its blocks to go.
    std::optional<WriteBehind::Whole> whole;
    bool frees_blocks = false;       // all of them
    bool replaces_content = false;   // by blocks
    bool done = false;               // under the file's mutex
    bool empty = false;              // nothing to say in `message`
    bool brings_attributes = false;  // the commit
    int unanswered = 0;              // under the file's mutex, as the outcomes
    absl::Status outcome;            // of the data
    absl::Status delayed_outcome;
    bool sent = false;
  };
  using PlanRef = std::shared_ptr<Plan>;

  // Of these: data on the LUNs and all else told, …
  absl::Status SyncFiles(const std::vector<FileRef>& all, const Interrupt* interrupt);
  // … in few flushes. Those whose commit is to be waited for.
  absl::StatusOr<std::vector<FileRef>> CommitTogether(const std::vector<FileRef>& all,
                                                      const Interrupt* interrupt);
  // Flushes the LUNs, where the controller knows all that it takes to read the data. False: Clean
  // is needed.
  bool FlushData(const FileRef& file, const Interrupt* interrupt);
  // Takes what is dirty; null when nothing is. REQUIRES: no commit runs.
  PlanRef Begin(FileState& f, What what) ABSL_EXCLUSIVE_LOCKS_REQUIRED(f.mutex);
  bool IsSmall(const FileState& f) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(f.mutex);
  // What of a small file goes with the plan. False: its tail does not go now.
  bool TakeSmall(FileState& f, Plan& plan, bool release_tail)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(f.mutex);
  // What became of that; `denied`: the file is gone, or not held. True: nothing is lost, as its
  // bytes go to the LUNs now.
  bool FinishSmall(Plan& plan, FileState& f, const absl::Status& status, bool denied)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(f.mutex);
  // One flush for all, then all commits on their way.
  void Execute(std::span<const PlanRef> plans, const Interrupt* interrupt);
  void Send(const PlanRef& plan, const absl::Status& flushed);
  void SendCommit(const PlanRef& plan);
  void SendAttributes(const PlanRef& plan, const v1::SetAttr& delayed);
  void CommitAnswered(const PlanRef& plan, const absl::StatusOr<v1::Reply>& reply);
  // One of the plan's requests is answered: with the last one it is finished.
  void Answered(const PlanRef& plan, const absl::StatusOr<v1::Reply>& reply);
  void AttributesRefused(const PlanRef& plan, const absl::Status& why);
  void Finish(const PlanRef& plan, const absl::Status& status);
  void GoOn(FileState& f) ABSL_EXCLUSIVE_LOCKS_REQUIRED(f.mutex);
  // What was to be committed is dirty again: all of it, or only what lies on no LUN.
  void PutBack(const Plan& plan, FileState& f) ABSL_EXCLUSIVE_LOCKS_REQUIRED(f.mutex);
  void PutBackAttributes(const Plan& plan, FileState& f) ABSL_EXCLUSIVE_LOCKS_REQUIRED(f.mutex);
  // The LUNs or the controller have not taken what the plan names, and nothing else is lost.
  void LosePlanned(const Plan& plan, FileState& f) ABSL_EXCLUSIVE_LOCKS_REQUIRED(f.mutex);

  // What a file in turn has in memory begins to go. True: and its commit is worth waiting for that.
  bool AwaitsMemory(FileState& f, std::uint64_t now_ms) ABSL_EXCLUSIVE_LOCKS_REQUIRED(f.mutex);

  void Main();
  std::uint64_t idle_age_ms() const;
  bool IsIdle(const FileState& f, std::uint64_t now_ms) const;
  std::vector<FileRef> TakeDue(std::uint64_t now_ms);
  std::vector<PlanRef> BeginDue(std::uint64_t now_ms);

  DataContext& context_;
  WriteBehind& write_behind_;
  PageDropper& dropper_;
  std::function<void()> each_second_;
  std::function<void(const FileRef&)> fetch_tail_;
  Mutex mutex_;
  CondVar wake_;
  struct Listed {
    FileRef file;
    std::uint64_t since_ms = 0;
  };
  std::deque<Listed> dirty_ ABSL_GUARDED_BY(mutex_);  // oldest first; bounded by the inodes in use
  std::vector<FileRef> taken_ ABSL_GUARDED_BY(mutex_);  // from there, by the thread
  absl::flat_hash_map<const FileState*, FileRef> committing_ ABSL_GUARDED_BY(mutex_);
  bool urgent_ ABSL_GUARDED_BY(mutex_) = false;  // some file has very many dirty ranges
  bool memory_short_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  Thread thread_;
};

}  // namespace reel::client
