#include "volume/iscsi/iscsi_connection.h"

#include <iscsi/iscsi.h>
#include <iscsi/scsi-lowlevel.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "spdlog/spdlog.h"
#include "volume/scsi/lun_times.h"

namespace reel {
namespace {

using Kind = ScsiOutcome::Kind;

constexpr auto kLogoutTime = std::chrono::milliseconds(1'000);
constexpr auto kBusyPause = std::chrono::milliseconds(10);
constexpr auto kCheckEvery = std::chrono::milliseconds(50);
constexpr const char* kTargetClosed = "the target closed the connection";
// A login, a reset and each change of registrations by others leave one; more in a row is a fault.
constexpr int kMaxAttentions = 32;

// As libiscsi lays it into the header: from 256 on by flat space addressing.
int LunAddress(std::uint32_t lun) {
  return static_cast<int>(lun < 256 ? lun : lun | 0x4000);
}

scsi_xfer_dir DirectionOf(const IscsiCommand& command) {
  switch (command.data) {
    case IscsiCommand::Data::kIn:
      return SCSI_XFER_READ;
    case IscsiCommand::Data::kOut:
      return SCSI_XFER_WRITE;
    case IscsiCommand::Data::kNone:
      break;
  }
  return SCSI_XFER_NONE;
}

// The process's signals are for its other threads; and libiscsi's writev would raise SIGPIPE.
void BlockSignals() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

std::uint64_t Transferred(const IscsiCommand& command, const scsi_task& task) {
  const std::uint64_t length = command.length_bytes;
  if (task.residual_status != SCSI_RESIDUAL_UNDERFLOW) return length;
  return length - std::min<std::uint64_t>(length, task.residual);
}

bool IsDeferred(const scsi_sense& sense) {
  const int response = sense.error_type & 0x7f;
  return response == 0x71 || response == 0x73;
}

}  // namespace

IscsiConnection::IscsiConnection(const IscsiUrl& url, const std::string& portal, UniqueFd wake)
    : url_(url),
      wake_(std::move(wake)),
      timeout_(url.timeout_ms),
      portal_(portal),
      silence_(url.portals.size() > 1),
      slots_(kMaxInFlight) {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    slots_[i].owner = this;
    free_slots_.push_back(slots_.size() - 1 - i);
  }
}

IscsiConnection::~IscsiConnection() {
  if (thread_.joinable()) {
    {
      MutexLock lock(mutex_);
      stopping_ = true;
    }
    eventfd_write(wake_.get(), 1);
    thread_.join();
  }
  if (context_ != nullptr) iscsi_destroy_context(context_);
}

// --- For callers.

void IscsiConnection::Submit(std::unique_ptr<IscsiCommand> command) {
  ScsiOutcome outcome;
  {
    MutexLock lock(mutex_);
    if (!closed_) {
      inbox_.push_back(std::move(command));
      // Once for all that come before the thread looks.
      if (asleep_.exchange(false)) eventfd_write(wake_.get(), 1);
      return;
    }
    outcome.kind = Kind::kClosed;
    outcome.text = why_;
  }
  command->done(outcome);
}

ScsiOutcome IscsiConnection::Execute(IscsiCommand command) {
  ScsiOutcome result;
  std::atomic<bool> ended{false};
  auto submitted = std::make_unique<IscsiCommand>(std::move(command));
  submitted->done = [&](const ScsiOutcome& outcome) {
    result = outcome;
    // Not a condition variable: nothing of this frame is touched once `ended` is seen. Notifying
    // uses the address alone.
    ended.store(true, std::memory_order_release);
    ended.notify_one();
  };
  Submit(std::move(submitted));
  ended.wait(false, std::memory_order_acquire);
  return result;
}

// --- The thread.

void IscsiConnection::Run() {
  BlockSignals();
  pthread_setname_np(pthread_self(), "iscsi");
  while (broken_.empty()) {
    const bool more = TakeInbox();
    {
      MutexLock lock(mutex_);
      if (stopping_ && !more) break;
    }
    Send();
    if (!broken_.empty()) break;
    if (!more) WaitForEvents();
    CheckTimes();
  }
  if (broken_.empty()) LogOut();
  Lose(broken_.empty() ? "closed" : broken_);
}

bool IscsiConnection::TakeInbox() {
  MutexLock lock(mutex_);
  if (inbox_.empty()) {
    asleep_.store(true);
    return false;
  }
  while (!inbox_.empty()) {
    pending_.push_back(std::move(inbox_.front()));
    inbox_.pop_front();
  }
  return true;
}

void IscsiConnection::Send() {
  bool sent = false;
  while (!pending_.empty() && !free_slots_.empty() && !resetting_ && broken_.empty()) {
    const bool reset = pending_.front()->reset_lun;
    if (reset && free_slots_.size() != slots_.size()) break;  // once ours have ended
    if (!SendOne(pending_.front())) {
      broken_ = ContextError();
      return;
    }
    pending_.pop_front();
    sent = true;
  }
  // At once, without asking poll whether the socket has room: it nearly always has.
  if (sent && iscsi_service(context_, POLLOUT) != 0) broken_ = ContextError();
}

bool IscsiConnection::SendOne(std::unique_ptr<IscsiCommand>& command) {
  Slot& slot = slots_[free_slots_.back()];
  const int lun = LunAddress(url_.lun);
  const Clock::time_point now = Clock::now();
  if (command->first_sent == Clock::time_point()) command->first_sent = now;
  if (command->reset_lun) {
    if (iscsi_task_mgmt_async(context_, lun, ISCSI_TM_LUN_RESET, 0xffffffff, 0, &OnReset, &slot) !=
        0) {
      return false;
    }
    resetting_ = true;
  } else {
    scsi_task* const task =
        scsi_create_task(command->cdb.size, command->cdb.bytes.data(), DirectionOf(*command),
                         static_cast<int>(command->length_bytes));
    if (task == nullptr) return false;
    // libiscsi's iovec is POSIX's by its own promise; it is changed while in use, and put back.
    auto* const iov = reinterpret_cast<scsi_iovec*>(command->memory.data());
    const int parts = static_cast<int>(command->memory.size());
    if (command->data == IscsiCommand::Data::kIn) scsi_task_set_iov_in(task, iov, parts);
    if (command->data == IscsiCommand::Data::kOut) scsi_task_set_iov_out(task, iov, parts);
    if (iscsi_scsi_command_async(context_, lun, task, &OnScsi, nullptr, &slot) != 0) {
      scsi_free_scsi_task(task);
      return false;
    }
    slot.task = task;
  }
  slot.command = std::move(command);
  slot.deadline = now + timeout_;
  free_slots_.pop_back();
  return true;
}

void IscsiConnection::WaitForEvents() {
  const bool busy = free_slots_.size() != slots_.size() || !busy_.empty();
  const int limit =
      busy_.empty() ? static_cast<int>(kCheckEvery.count()) : static_cast<int>(kBusyPause.count());
  pollfd events[2] = {{.fd = iscsi_get_fd(context_),
                       .events = static_cast<short>(iscsi_which_events(context_)),
                       .revents = 0},
                      {.fd = wake_.get(), .events = POLLIN, .revents = 0}};
  looked_ = Clock::now();
  const int ready = poll(events, 2, busy ? limit : silence_.idle_poll_ms());
  asleep_.store(false);
  if (ready < 0) {
    if (errno != EINTR) broken_ = "poll failed";
    return;
  }
  if (events[1].revents != 0) {
    eventfd_t count = 0;
    eventfd_read(wake_.get(), &count);
  }
  if (events[0].revents == 0) return;
  if ((events[0].revents & POLLIN) != 0) silence_.Heard(Clock::now());
  // What had arrived before the end is still answered; the end is seen by the service itself, or,
  // when it has put the matter off for a reconnection that we never ask for, by the next turn.
  if (iscsi_service(context_, events[0].revents) != 0 && broken_.empty()) {
    broken_ = ContextError();
    // What it says of an end that it has seen before.
    if (absl::StrContains(broken_, "reconnect")) broken_ = kTargetClosed;
  }
  if ((events[0].revents & (POLLHUP | POLLERR)) != 0 && broken_.empty()) broken_ = kTargetClosed;
}

void IscsiConnection::CheckTimes() {
  const Clock::time_point now = Clock::now();
  if (!busy_.empty() && now >= busy_until_) {
    while (!busy_.empty()) {
      pending_.push_front(std::move(busy_.back()));
      busy_.pop_back();
    }
  }
  if (now < next_check_) return;
  next_check_ = now + kCheckEvery;
  for (const Slot& slot : slots_) {
    if (slot.command == nullptr || slot.deadline > now || !broken_.empty()) continue;
    broken_ = absl::StrCat("no answer within ", timeout_.count(), " ms");
  }
  if (broken_.empty()) CheckSilence(now);
}

void IscsiConnection::CheckSilence(Clock::time_point now) {
  switch (silence_.Look(looked_, now)) {
    case SilenceWatch::Then::kNothing:
      break;
    case SilenceWatch::Then::kAsk:  // whatever comes is an answer
      if (iscsi_nop_out_async(context_, nullptr, nullptr, 0, nullptr) != 0) {
        broken_ = ContextError();
      }
      break;
    case SilenceWatch::Then::kGiveUp:
      broken_ = absl::StrCat("the portal is silent: no answer to a ping within ", PortalAnswerMs(),
                             " ms");
      break;
  }
}

void IscsiConnection::LogOut() {
  step_ = {};
  if (iscsi_logout_async(context_, &OnStep, &step_) != 0) return;
  // Whether the target hears it makes no difference to us: it sees the connection end.
  Drive(step_, Clock::now() + kLogoutTime).IgnoreError();
}

// The end of everything on this connection, in the order that invariant 2 asks for.
void IscsiConnection::Lose(const std::string& why) {
  lost_.store(true, std::memory_order_release);
  CommandList unsent;
  {
    MutexLock lock(mutex_);
    closed_ = true;
    why_ = absl::StrCat("the path is lost (", why, ")");
    unsent.swap(inbox_);
  }
  iscsi_destroy_context(context_);
  context_ = nullptr;
  if (free_slots_.size() != slots_.size() || why != "closed") {
    spdlog::error("{}: the path {}is lost: {}; {} commands on their way", url_.shown,
                  url_.portals.size() > 1 ? absl::StrCat("by portal ", portal_, " ") : "", why,
                  slots_.size() - free_slots_.size());
  }
  ScsiOutcome unknown;
  unknown.kind = Kind::kUnknown;
  unknown.text = absl::StrCat("the path was lost (", why, ")");
  for (Slot& slot : slots_) {
    if (slot.command != nullptr) Finish(slot, unknown);
  }
  ScsiOutcome closed;
  closed.kind = Kind::kClosed;
  closed.text = absl::StrCat("the path is lost (", why, ")");
  for (CommandList* list : {&busy_, &pending_, &unsent}) {
    for (std::unique_ptr<IscsiCommand>& command : *list) command->done(closed);
    list->clear();
  }
}

void IscsiConnection::Finish(Slot& slot, const ScsiOutcome& outcome) {
  const std::unique_ptr<IscsiCommand> command = std::move(slot.command);
  if (slot.task != nullptr) scsi_free_scsi_task(std::exchange(slot.task, nullptr));
  free_slots_.push_back(static_cast<std::size_t>(&slot - slots_.data()));
  command->done(outcome);
}

void IscsiConnection::Answered(Slot& slot, int status) {
  const scsi_task& task = *slot.task;
  ScsiOutcome outcome;
  bool not_yet = false;
  switch (status) {
    case SCSI_STATUS_GOOD:
      outcome.kind = Kind::kDone;
      break;
    case SCSI_STATUS_CHECK_CONDITION:
      not_yet =
          TakeSense(static_cast<std::uint8_t>(task.sense.key),
                    static_cast<std::uint16_t>(task.sense.ascq), IsDeferred(task.sense), outcome) &&
          ++slot.command->attentions <= kMaxAttentions;
      break;
    case SCSI_STATUS_RESERVATION_CONFLICT:
      outcome.kind = Kind::kConflict;
      break;
    case SCSI_STATUS_TASK_ABORTED:
      outcome.kind = Kind::kAborted;
      break;
    default:
      outcome.kind = Kind::kBusy;
      break;
  }
  if (outcome.kind == Kind::kDone) {
    outcome.transferred_bytes = Transferred(*slot.command, task);
  }
  const Clock::time_point now = Clock::now();
  const bool wait = outcome.kind == Kind::kBusy && !not_yet &&
                    now - slot.command->first_sent < slot.command->patience.value_or(timeout_);
  if (!not_yet && !wait) return Finish(slot, outcome);
  if (wait && busy_.empty()) busy_until_ = now + kBusyPause;
  (not_yet ? pending_ : busy_).push_front(std::move(slot.command));
  scsi_free_scsi_task(std::exchange(slot.task, nullptr));
  free_slots_.push_back(static_cast<std::size_t>(&slot - slots_.data()));
}

void IscsiConnection::OnScsi(iscsi_context* /*context*/, int status, void* /*data*/, void* slot) {
  Slot& mine = *static_cast<Slot*>(slot);
  IscsiConnection& owner = *mine.owner;
  // Once it is lost, its end is Lose's; what libiscsi cancels may be told of twice.
  if (!owner.broken_.empty() || owner.lost() || mine.command == nullptr) return;
  switch (status) {
    case SCSI_STATUS_GOOD:
    case SCSI_STATUS_CHECK_CONDITION:
    case SCSI_STATUS_RESERVATION_CONFLICT:
    case SCSI_STATUS_TASK_ABORTED:
    case SCSI_STATUS_BUSY:
    case SCSI_STATUS_TASK_SET_FULL:
      return owner.Answered(mine, status);
    default:
      owner.broken_ = status == SCSI_STATUS_CANCELLED ? kTargetClosed : owner.ContextError();
  }
}

void IscsiConnection::OnReset(iscsi_context* /*context*/, int status, void* data, void* slot) {
  Slot& mine = *static_cast<Slot*>(slot);
  IscsiConnection& owner = *mine.owner;
  if (!owner.broken_.empty() || owner.lost() || mine.command == nullptr) return;
  if (status != SCSI_STATUS_GOOD || data == nullptr) {
    owner.broken_ = kTargetClosed;
    return;
  }
  owner.resetting_ = false;
  ScsiOutcome outcome;
  outcome.kind = Kind::kDone;
  if (*static_cast<const std::uint32_t*>(data) != ISCSI_TMR_FUNC_COMPLETE) {
    outcome.kind = Kind::kCheck;
    outcome.key = scsi::kIllegalRequest;
    outcome.code = scsi::kInvalidCommand;
  }
  owner.Finish(mine, outcome);
}

}  // namespace reel
