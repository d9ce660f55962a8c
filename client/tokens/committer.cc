#include "client/tokens/committer.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <iterator>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "client/base/interrupt.h"
#include "client/session/session_end.h"
#include "proto/status.h"
#include "spdlog/spdlog.h"

namespace reel::client {
namespace {

// Ranges in one message: it stays well below a frame.
constexpr std::size_t kMaxRanges = 16'384;
// A file with that many is committed before it is old.
constexpr std::size_t kUrgentRanges = 8'192;
// For how long a commit by age waits for a LUN whose path is lost. What does not need that LUN goes
// on then, and the rest is tried again when it has aged once more.
constexpr std::uint64_t kPatienceMs = 1'000;
// How often the thread looks where nothing is dirty.
constexpr std::uint64_t kRestMs = 250;

absl::Status LostWrites(int errno_value) {
  if (errno_value == 0) return absl::OkStatus();
  return ErrnoStatus(errno_value, "an earlier write of this file was lost");
}

// The controller no longer knows the file: it was deleted.
bool IsGone(const absl::Status& status) {
  const int errno_value = ErrnoOf(status);
  return errno_value == ENOENT || errno_value == ESTALE;
}

// It says that this host does not hold what the commit takes.
bool DeniesToken(const absl::Status& status) {
  return ErrnoOf(status) == EPERM;
}

}  // namespace

void Committer::Start(std::function<void()> each_second,
                      std::function<void(const FileRef&)> fetch_tail) {
  each_second_ = std::move(each_second);
  fetch_tail_ = std::move(fetch_tail);
  thread_ = Thread([this] { Main(); });
}

void Committer::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    wake_.NotifyAll();
  }
  if (thread_.joinable()) thread_.Join();
}

void Committer::NoteDirty(FileState& f) {
  const bool urgent = f.uncommitted.block_ranges() >= kUrgentRanges && !f.uncommitted.running();
  if (f.listed && !urgent) return;
  const std::uint64_t now_ms = context_.clock.NowMs();
  MutexLock lock(mutex_);
  const bool wakes = dirty_.empty() || (urgent && !urgent_);
  if (!f.listed) dirty_.push_back({f.shared_from_this(), now_ms});
  f.listed = true;
  urgent_ = urgent_ || urgent;
  if (wakes) wake_.NotifyAll();
}

void Committer::NoteLateTail(FileState& f, const absl::Status& answer) {
  if (f.opens.any() || !f.grant.tail_allocated()) return;
  IsGone(answer) ? f.grant.NoteTail(false) : NoteDirty(f);
}

void Committer::NoteMemoryShort() {
  MutexLock lock(mutex_);
  if (std::exchange(memory_short_, true)) return;
  wake_.NotifyAll();
}

// Without commits, each of which would flush the LUNs, but of small files, which need no LUN.
void Committer::RelieveMemory() {
  std::vector<FileRef> files;
  bool small = false;
  {
    MutexLock lock(mutex_);
    memory_short_ = false;
    for (const Listed& listed : dirty_) files.push_back(listed.file);
  }
  for (const FileRef& file : files) {
    MutexLock lock(file->mutex);
    if (file->FirstWithoutBlock() && IsSmall(*file)) {
      small = true;
    } else {
      write_behind_.Start(*file, WriteBehind::kAllBytes);
    }
  }
  if (!small) return;
  MutexLock lock(mutex_);
  urgent_ = true;
  wake_.NotifyAll();
}

Committer::PlanRef Committer::Begin(FileState& f, What what) {
  bool release_tail = what == What::kAllAndTail && f.grant.tail_allocated() &&
                      f.grant.Has(f.EndSpan(), v1::TOKEN_EXCLUSIVE);
  const bool dirty = what == What::kData ? f.uncommitted.any_of_data() : f.uncommitted.any();
  if (!dirty && !release_tail && !IsSmall(f)) return nullptr;
  auto plan = std::make_shared<Plan>();
  plan->file = f.shared_from_this();
  plan->lost_sessions = f.grant.lost_sessions();
  plan->session = f.grant.session();
  plan->taken = f.uncommitted.Begin(kMaxRanges, /*with_delayed=*/what != What::kData);
  v1::LayoutCommit& message = plan->message;
  message.set_inode(f.inode);
  plan->taken.blocks.ForEach([&](FileBlock start, std::uint64_t length_blocks) {
    v1::BlockRange& range = *message.add_written();
    range.set_file_block(start.value());
    range.set_length_blocks(length_blocks);
    plan->replaces_content = plan->replaces_content || start == FileBlock(0);
  });
  if (plan->taken.size) message.set_size_bytes(f.attr.size_bytes());
  if (plan->taken.mtime) *message.mutable_mtime() = f.attr.mtime();
  message.set_kill_suid_sgid(plan->taken.kill_set_id);
  message.set_kill_sgid(plan->taken.kill_sgid);
  if (message.written().empty()) release_tail = TakeSmall(f, *plan, release_tail);
  if (release_tail) {
    const std::uint64_t end = DivideUp(f.attr.size_bytes(), context_.io->block_bytes());
    f.grant.ReleaseTail(FileBlock(end));
    message.set_release_tail(true);
    plan->releases_tail = true;
  }
  plan->empty = message.written().empty() && !message.has_size_bytes() && !message.has_mtime() &&
                !message.kill_suid_sgid() && !message.release_tail() && !message.has_content();
  MutexLock lock(mutex_);
  committing_.emplace(&f, plan->file);
  return plan;
}

void Committer::Execute(std::span<const PlanRef> plans, const Interrupt* interrupt) {
  if (plans.empty()) return;
  const auto flush = [&](const LunMarks& marks, std::uint64_t session) {
    const auto end = SessionEnd(*context_.session, session, interrupt);
    return context_.io->Flush(marks, &end);
  };
  LunMarks marks;
  for (const PlanRef& plan : plans) MergeMarks(plan->taken.marks, marks);
  absl::Status flushed = flush(marks, plans.front()->session);
  for (const PlanRef& plan : plans) {
    // After a failure each learns about its own LUNs only.
    absl::Status status = flushed.ok() ? flushed : flush(plan->taken.marks, plan->session);
    const bool given_up = ErrnoOf(status) == EINTR;  // all of it is put back
    const bool says_something = (status.ok() && !plan->empty) || (plan->taken.delayed && !given_up);
    says_something ? Send(plan, status) : Finish(plan, status);
  }
}

// A message of its own: if the commit carried it, a new controller, which is told of the lower
// token first, would refuse the commit. And not a LayoutReturn: that may wait for a slot while an
// open overtakes it, whose grant it would lower.
void Committer::TellClosed(FileState& f) {
  const bool lowers = f.done_writing();
  if (lowers) f.grant.Lower(kWholeFile, v1::TOKEN_SHARED);
  const bool closes = !f.opens.any() && f.opens.Unregister();
  if (closes || lowers) context_.TellClosed(f.inode, lowers);
}

void Committer::PutBackAttributes(const Plan& plan, FileState& f) {
  f.uncommitted.PutBackAttributes(plan.taken);
  if (plan.releases_tail) f.grant.NoteTail(true);
  if (f.uncommitted.any() || f.grant.tail_allocated()) NoteDirty(f);
}

void Committer::PutBack(const Plan& plan, FileState& f) {
  context_.NoteLostFlushes(f);
  LunMarks marks = plan.taken.marks;
  if (context_.io->Prune(marks)) {
    LosePlanned(plan, f);
    if (!plan.taken.lost) f.NoteLoss(ErrnoStatus(EIO, "a flush failed"));
    return;
  }
  f.uncommitted.PutBackBlocks(plan.taken.blocks, marks);
  PutBackAttributes(plan, f);
}

void Committer::LosePlanned(const Plan& plan, FileState& f) {
  if (!plan.taken.lost) f.LoseWritten(plan.taken.blocks);
  PutBackAttributes(plan, f);
  f.uncommitted.CountAgain();
}

void Committer::Finish(const PlanRef& plan, const absl::Status& status) {
  FileState& f = *plan->file;
  MutexLock lock(f.mutex);
  plan->done = true;
  f.uncommitted.End(plan->taken);
  if (plan->holds_file) f.users.LeaveExclusive();
  f.changed.NotifyAll();
  const absl::Cleanup cleanup = [this, &f] {
    MutexLock settling(mutex_);
    committing_.erase(&f);
  };
  if (f.grant.lost_sessions() != plan->lost_sessions) return;  // the loss is noted already
  const bool denied = IsGone(status) || DeniesToken(status);
  if (FinishSmall(*plan, f, status, denied)) return;
  if (!plan->sent && ErrnoOf(status) == EINTR) return PutBack(*plan, f);
  f.uncommitted.NoteCommitted(plan->taken.through);
  plan->taken.delayed.reset();  // was told, whatever became of the data
  if (status.ok()) {
    context_.recalls.Moved(f.inode);
    if (!plan->delayed_outcome.ok()) f.NoteRefused(plan->delayed_outcome);
    return GoOn(f);
  }
  const bool more = !f.memory.empty() || f.uncommitted.any();
  if (!plan->sent || (more && !IsGone(status) && !DeniesToken(status))) {
    // The blocks stay unwritten, which is what the controller thinks they are.
    LosePlanned(*plan, f);
  } else {
    // The controller sees this file otherwise: begin anew with what it says.
    f.memory.Clear();
    dropper_.LoseToken(f);
    f.LowerToken(kWholeFile, v1::TOKEN_NONE);
    context_.RegisterOpens(f);
  }
  if (!plan->taken.lost && (f.opens.any() || !IsGone(status))) f.NoteLoss(status);
  GoOn(f);
}

// What is left has its turn again.
void Committer::GoOn(FileState& f) {
  if (f.untold()) {
    NoteDirty(f);
  } else {
    TellClosed(f);
  }
}

absl::Status Committer::Clean(const FileRef& file, const Interrupt* interrupt, What what) {
  FileState& f = *file;
  absl::Status flushed = EmptyMemory(file, interrupt, what);
  if (!flushed.ok()) return flushed;
  MutexLock lock(f.mutex);
  Uncommitted::Through through = f.uncommitted.now();
  if (what == What::kData) through.delayed = 0;
  const auto clean = [&] {
    f.mutex.AssertHeld();
    return f.uncommitted.IsCommitted(through);
  };
  while (!clean()) {
    if (f.uncommitted.running()) {
      if (absl::Status status = context_.Wait(f, interrupt); !status.ok()) return status;
      continue;
    }
    const PlanRef plan = Begin(f, what);
    if (plan == nullptr) break;
    f.mutex.Unlock();
    Execute({&plan, 1}, interrupt);
    f.mutex.Lock();
    if (!f.uncommitted.running() && !clean() && interrupt != nullptr && interrupt->interrupted()) {
      return ErrnoStatus(EINTR, "interrupted while waiting for a LUN");
    }
    // Its loss with the session is about to be noted.
    const bool over = f.grant.session() != 0 && f.grant.session() != context_.session->session_id();
    if (over && !f.uncommitted.running() && !clean()) {
      if (absl::Status status = context_.Wait(f, interrupt); !status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

bool Committer::FlushData(const FileRef& file, const Interrupt* interrupt) {
  FileState& f = *file;
  LunMarks marks;
  std::uint64_t session = 0;
  {
    MutexLock lock(f.mutex);
    session = f.grant.session();
    if (f.uncommitted.running() || f.uncommitted.any_for_readers()) return false;
    marks = f.uncommitted.unflushed();  // they stay: the commit passes over what is flushed
  }
  const auto end = SessionEnd(*context_.session, session, interrupt);
  return context_.io->Flush(marks, &end).ok();
}

absl::Status Committer::Sync(const FileRef& file, bool data_only, const Interrupt* interrupt) {
  const What what = data_only ? What::kData : What::kAll;
  absl::Status flushed = EmptyMemory(file, interrupt, what);
  if (!flushed.ok()) return flushed;
  if (data_only && FlushData(file, interrupt)) return absl::OkStatus();
  return Clean(file, interrupt, what);
}

absl::Status Committer::ReportLoss(const FileRef& file, std::uint64_t handle) {
  MutexLock lock(file->mutex);
  return LostWrites(file->write_error.Report(handle));
}

absl::Status Committer::ShowLoss(const FileRef& file, std::uint64_t handle) {
  MutexLock lock(file->mutex);
  return LostWrites(file->write_error.Show(handle));
}

void Committer::ReleaseTail(const FileRef& file, std::uint64_t cycle) {
  (void)EmptyMemory(file, nullptr, What::kAllAndTail);  // one commit tells of all
  PlanRef plan;
  {
    MutexLock lock(file->mutex);
    while (!file->recall.IsOver(cycle) && file->uncommitted.running()) {
      if (!context_.Wait(*file, nullptr).ok()) return;
    }
    // In a later cycle, after a lost session, somebody may be asking for blocks just there.
    if (file->recall.IsOver(cycle)) return;
    plan = Begin(*file, What::kAllAndTail);
  }
  if (plan == nullptr) return;
  Execute({&plan, 1}, nullptr);
  MutexLock lock(file->mutex);
  while (file->uncommitted.running() && context_.Wait(*file, nullptr).ok()) {
  }
}

// ---- by age -----------------------------------------------------------------------------------

std::uint64_t Committer::idle_age_ms() const {
  return context_.options.commit_age_ms / FileDataOptions::kIdlePart;
}

bool Committer::IsIdle(const FileState& f, std::uint64_t now_ms) const {
  return f.written_ms.load(std::memory_order_relaxed) + idle_age_ms() <= now_ms;
}

bool Committer::AwaitsMemory(FileState& f, std::uint64_t now_ms) {
  if (f.memory.empty() || IsSmall(f)) return false;
  const bool idle = IsIdle(f, now_ms);
  // (Whoever still has it open may write on; but a closed file is of use to others.)
  const std::uint32_t age_ms = !f.opens.any() || idle ? 0 : context_.options.write_behind_age_ms;
  write_behind_.Start(f, WriteBehind::kAllBytes, age_ms);
  // Nothing is on the LUNs that would have to be told.
  const bool unreported = f.uncommitted.any_on_luns();
  if (!idle || unreported) {
    NoteDirty(f);
    return !unreported;
  }
  // Its turn comes again as soon as that is there.
  MutexLock lock(mutex_);
  dirty_.push_front({f.shared_from_this(), now_ms - std::min(now_ms, idle_age_ms())});
  f.listed = true;
  return true;
}

std::vector<FileRef> Committer::TakeDue(std::uint64_t now_ms) {
  MutexLock lock(mutex_);
  const bool all = std::exchange(urgent_, false);
  std::vector<Listed> busy;
  while (!dirty_.empty() && taken_.size() < kMaxPlans) {
    Listed& next = dirty_.front();
    const std::uint64_t age_ms = now_ms - std::min(now_ms, next.since_ms);
    if (!all && age_ms < idle_age_ms()) break;
    if (all || age_ms >= context_.options.commit_age_ms || IsIdle(*next.file, now_ms)) {
      taken_.push_back(std::move(next.file));
    } else {
      busy.push_back(std::move(next));
    }
    dirty_.pop_front();
  }
  dirty_.insert(dirty_.begin(), std::make_move_iterator(busy.begin()),
                std::make_move_iterator(busy.end()));
  return taken_;
}

std::vector<Committer::PlanRef> Committer::BeginDue(std::uint64_t now_ms) {
  std::vector<PlanRef> plans;
  std::vector<FileRef> without_token;  // for their tails
  for (const FileRef& file : TakeDue(now_ms)) {
    MutexLock lock(file->mutex);
    file->listed = false;
    if (AwaitsMemory(*file, now_ms)) continue;
    const bool tail_to_go = !file->opens.any() && file->grant.tail_allocated();
    if (file->uncommitted.running()) {
      if (file->uncommitted.any() || tail_to_go) NoteDirty(*file);
      continue;
    }
    // Closed by all: its blocks ahead go back. No one may enter meanwhile.
    const bool unused = file->unused();
    PlanRef plan = Begin(*file, unused ? What::kAllAndTail : What::kAll);
    if (tail_to_go && !unused) NoteDirty(*file);
    if (tail_to_go && unused && !file->grant.Has(file->EndSpan(), v1::TOKEN_EXCLUSIVE)) {
      without_token.push_back(file);
    }
    if (plan == nullptr) {
      if (!file->untold()) TellClosed(*file);  // it was told, or forgotten, by others
      continue;
    }
    if (!plan->holds_file) {
      plan->holds_file = plan->releases_tail && file->users.EnterExclusive();
    }
    plans.push_back(std::move(plan));
  }
  for (const FileRef& file : without_token) fetch_tail_(file);
  MutexLock lock(mutex_);
  taken_.clear();
  return plans;
}

void Committer::Main() {
  // Looks often, so that what has become due is little: a create may have to wait behind all of it.
  const std::chrono::milliseconds period(std::clamp<std::uint64_t>(idle_age_ms() / 10, 5, kRestMs));
  std::uint64_t second_ms = context_.clock.NowMs();
  for (;;) {
    bool relieve = false;
    {
      MutexLock lock(mutex_);
      if (stopping_) return;
      if (!urgent_ && !memory_short_) {
        wake_.WaitFor(mutex_, dirty_.empty() ? std::chrono::milliseconds(kRestMs) : period);
      }
      if (stopping_) return;
      relieve = memory_short_;
    }
    if (relieve) RelieveMemory();
    const std::uint64_t now_ms = context_.clock.NowMs();
    if (const std::vector<PlanRef> plans = BeginDue(now_ms); !plans.empty()) {
      const auto patience = Deadline(context_.clock, kPatienceMs);
      Execute(plans, &patience);
    }
    if (now_ms - second_ms >= 1000) {
      second_ms = now_ms;
      if (each_second_) each_second_();
    }
  }
}

}  // namespace reel::client
