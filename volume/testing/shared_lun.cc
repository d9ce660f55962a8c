#include "volume/testing/shared_lun.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "volume/base/aligned_buffer.h"
#include "volume/lun/lun_fault.h"

namespace reel {

using Outcome = ReservationResult::Outcome;

class SharedLun::Keeper final : public Reservations {
 public:
  Keeper(SharedLun& target, std::string host, std::string process)
      : target_(target), host_(std::move(host)), process_(std::move(process)) {}

  absl::Status ClaimPath() override { return target_.Claim(host_, process_); }
  ReservationResult Register(std::uint64_t key) override {
    if (absl::Status s = ClaimPath(); !s.ok()) return {.outcome = Outcome::kNotDone, .status = s};
    return target_.Perform(host_, [&](Nexus& nexus) {
      target_.mutex_.AssertHeld();
      if (nexus.key != 0) ++target_.registrations_refused_;
      if (nexus.key != 0) return false;
      nexus.key = key;
      return true;
    });
  }
  ReservationResult Unregister(std::uint64_t key) override {
    return target_.Perform(host_, [&](Nexus& nexus) {
      target_.mutex_.AssertHeld();
      if (nexus.key != key) return false;
      if (target_.holder_ == key) target_.holder_ = 0;
      nexus.key = 0;
      return true;
    });
  }
  ReservationResult Reserve(std::uint64_t key) override {
    return target_.Perform(host_, [&](Nexus& nexus) {
      target_.mutex_.AssertHeld();
      if (nexus.key != key) ++target_.keyless_reserves_;
      if (nexus.key != key || (target_.holder_ != 0 && target_.holder_ != key)) return false;
      target_.holder_ = key;
      return true;
    });
  }
  ReservationResult Preempt(std::uint64_t key, std::uint64_t victim) override {
    return target_.Perform(host_, [&](Nexus& nexus) {
      target_.mutex_.AssertHeld();
      if (nexus.key != key || key == 0) return false;
      bool found = std::erase(target_.left_over_, victim) > 0;
      for (auto& [host, other] : target_.paths_) {
        if (other.key != victim) continue;
        other.key = 0;
        found = true;
      }
      if (found && target_.holder_ == victim) target_.holder_ = key;
      return found;
    });
  }
  ReservationResult Clear(std::uint64_t key) override {
    return target_.Perform(host_, [&](Nexus& nexus) {
      target_.mutex_.AssertHeld();
      if (nexus.key != key) return false;
      target_.holder_ = 0;
      target_.left_over_.clear();
      for (auto& [host, other] : target_.paths_) other.key = 0;
      return true;
    });
  }
  absl::StatusOr<Registrations> ReadKeys() override {
    Registrations registrations;
    {
      MutexLock lock(target_.mutex_);
      if (absl::Status s = target_.CheckPath(host_, false); !s.ok()) return s;
      registrations.generation = target_.generation_;
    }
    registrations.keys = target_.Keys();
    return registrations;
  }
  absl::StatusOr<std::optional<ReservationHolder>> ReadHolder() override {
    MutexLock lock(target_.mutex_);
    if (absl::Status s = target_.CheckPath(host_, false); !s.ok()) return s;
    if (target_.holder_ == 0) return std::nullopt;
    return ReservationHolder{.key = target_.holder_, .write_exclusive_registrants_only = true};
  }
  ReservationResult ResetLun() override {
    std::vector<LunRequest*> aborted;
    ReservationResult result = target_.Perform(host_, [&](Nexus&) {
      target_.mutex_.AssertHeld();
      if (!target_.has_reset_) return false;
      for (Held& held : target_.held_) {
        if (held.request != nullptr && !held.in_host) aborted.push_back(held.request);
      }
      std::erase_if(target_.held_, [](const Held& held) { return !held.in_host; });
      ++target_.resets_;
      return true;
    });
    for (LunRequest* request : aborted) {
      request->Complete(LunFaultStatus(LunFault::kAborted, "ended by a reset"));
    }
    if (result.outcome == Outcome::kConflict) {
      return {.outcome = Outcome::kNotDone, .status = absl::UnimplementedError("no reset")};
    }
    return result;
  }

 private:
  SharedLun& target_;
  const std::string host_, process_;
};

class SharedLun::Path final : public Lun {
 public:
  Path(SharedLun& target, const std::string& host, const std::string& process)
      : target_(target), host_(host), process_(process), keeper_(target, host, process) {}

  const std::string& name() const override { return target_.lun_.name(); }
  std::uint64_t size_bytes() const override { return target_.lun_.size_bytes(); }
  std::uint32_t logical_block_bytes() const override { return target_.lun_.logical_block_bytes(); }
  Reservations* reservations() const override { return &keeper_; }
  bool executes_late() const override { return true; }
  void Start(LunRequest& request) override { target_.Start(host_, process_, request); }
  absl::Status Flush() override {
    {
      MutexLock lock(target_.mutex_);
      if (absl::Status s = target_.CheckPath(host_, true); !s.ok()) return s;
    }
    return target_.lun_.Flush();
  }
  absl::Status Discard(std::uint64_t, std::uint64_t) override {
    return absl::UnimplementedError("no discard");
  }
  absl::Status ClaimForThisProcess() override { return absl::OkStatus(); }
  absl::Status Reopen() override { return target_.Reopen(host_); }

 private:
  SharedLun& target_;
  const std::string host_, process_;
  mutable Keeper keeper_;
};

std::unique_ptr<Lun> SharedLun::NewPath(const std::string& host) {
  MutexLock lock(mutex_);
  const Nexus before = std::exchange(paths_[host], {});
  if (before.key != 0) left_over_.push_back(before.key);
  return std::make_unique<Path>(*this, host, "");
}

std::unique_ptr<Lun> SharedLun::NewPathOfProcess(const std::string& host,
                                                 const std::string& process) {
  MutexLock lock(mutex_);
  paths_.try_emplace(host);
  return std::make_unique<Path>(*this, host, process);
}

// As the kernel's: held by the file, which the commands of the process keep after its end.
absl::Status SharedLun::Claim(const std::string& host, const std::string& process) {
  MutexLock lock(mutex_);
  Nexus& nexus = paths_.at(host);
  const bool commands_left = std::any_of(held_.begin(), held_.end(), [&](const Held& held) {
    return held.in_host && held.host == host && held.process == nexus.claimed_by;
  });
  const bool free =
      nexus.claimed_by.empty() || (nexus.ended.contains(nexus.claimed_by) && !commands_left);
  if (nexus.ended.contains(process)) return absl::AbortedError("it has ended");
  if (nexus.claimed_by != process && !free) {
    ++claims_refused_;
    return absl::AbortedError("in use on this host");
  }
  nexus.claimed_by = process;
  return absl::OkStatus();
}

absl::Status SharedLun::CheckPath(const std::string& host, bool writes) const {
  const Nexus& nexus = paths_.at(host);
  if (nexus.lost) return LunFaultStatus(LunFault::kClosed, "the path is lost");
  if (nexus.removed) return LunFaultStatus(LunFault::kInDoubt, "there is no such device");
  if (writes && holder_ != 0 && nexus.key == 0) {
    return LunFaultStatus(LunFault::kFenced, "RESERVATION CONFLICT");
  }
  return absl::OkStatus();
}

template <typename Act>
ReservationResult SharedLun::Perform(const std::string& host, Act act) {
  MutexLock lock(mutex_);
  Nexus& nexus = paths_.at(host);
  if (absl::Status s = CheckPath(host, false); !s.ok()) {
    return {.outcome = Outcome::kNotDone, .status = s};
  }
  const bool lose = lose_changes_ > 0;
  if (lose) --lose_changes_;
  bool done = false;
  if (!lose || carry_out_) {
    done = act(nexus);
    if (done) ++generation_;
  }
  if (lose) {
    return {.outcome = Outcome::kUnknown,
            .status = LunFaultStatus(LunFault::kUnknown, "no answer to the change")};
  }
  if (done) return {.outcome = Outcome::kDone, .status = absl::OkStatus()};
  return {.outcome = Outcome::kConflict,
          .status = LunFaultStatus(LunFault::kFenced, "RESERVATION CONFLICT")};
}

void SharedLun::Start(const std::string& host, const std::string& process, LunRequest& request) {
  const bool write = request.kind == LunRequest::Kind::kWrite;
  absl::Status status;
  {
    MutexLock lock(mutex_);
    const bool in_host = write && paths_.at(host).holds_writes;
    if (!in_host) status = CheckPath(host, write);
    if (status.ok() && write && (holding_ || in_host)) {
      Held held{&request, host, process, in_host, request.offset_bytes, {}};
      for (const iovec& part : request.parts) {
        const auto* bytes = static_cast<const std::byte*>(part.iov_base);
        held.bytes.insert(held.bytes.end(), bytes, bytes + part.iov_len);
      }
      held_.push_back(std::move(held));
      return;
    }
  }
  if (status.ok()) {
    lun_.Start(request);
  } else {
    request.Complete(std::move(status));
  }
}

absl::Status SharedLun::Reopen(const std::string& host) {
  MutexLock lock(mutex_);
  Nexus& nexus = paths_.at(host);
  nexus.removed = false;
  if (!nexus.lost) return absl::OkStatus();
  if (unreachable_) return absl::UnavailableError("no target answers");
  nexus.lost = false;
  return absl::OkStatus();
}

void SharedLun::LosePath(const std::string& host, std::vector<LunRequest*>& unknown) {
  Nexus& nexus = paths_.at(host);
  nexus.lost = true;
  if (nexus.key != 0) left_over_.push_back(std::exchange(nexus.key, 0));
  for (Held& held : held_) {
    if (held.host != host || held.request == nullptr) continue;
    unknown.push_back(std::exchange(held.request, nullptr));
  }
}

void SharedLun::Cut(const std::string& host) {
  std::vector<LunRequest*> unknown;
  {
    MutexLock lock(mutex_);
    LosePath(host, unknown);
  }
  for (LunRequest* request : unknown) {
    request->Complete(LunFaultStatus(LunFault::kUnknown, "the path was lost"));
  }
}

void SharedLun::RemoveDevice(const std::string& host) {
  MutexLock lock(mutex_);
  paths_.at(host).removed = true;
}

void SharedLun::Restart() {
  std::vector<LunRequest*> unknown;
  {
    MutexLock lock(mutex_);
    for (auto& [host, nexus] : paths_) LosePath(host, unknown);
    left_over_.clear();
    held_.clear();
    holder_ = 0;
    generation_ = 0;
  }
  for (LunRequest* request : unknown) {
    request->Complete(LunFaultStatus(LunFault::kUnknown, "the path was lost"));
  }
}

void SharedLun::SetUnreachable(bool unreachable) {
  MutexLock lock(mutex_);
  unreachable_ = unreachable;
}

void SharedLun::LoseNextChange(bool carried_out) {
  MutexLock lock(mutex_);
  lose_changes_ = 1;
  carry_out_ = carried_out;
}

void SharedLun::SetHasReset(bool has_reset) {
  MutexLock lock(mutex_);
  has_reset_ = has_reset;
}

void SharedLun::HoldWrites() {
  MutexLock lock(mutex_);
  holding_ = true;
}

void SharedLun::HoldInHost(const std::string& host) {
  MutexLock lock(mutex_);
  paths_.at(host).holds_writes = true;
}

void SharedLun::SendFromHost(const std::string& host) {
  std::vector<LunRequest*> sent;
  {
    MutexLock lock(mutex_);
    paths_.at(host).holds_writes = false;
    for (const Held& held : held_) {
      if (held.in_host && held.host == host) sent.push_back(held.request);
    }
    std::erase_if(held_, [&](const Held& held) { return held.in_host && held.host == host; });
  }
  for (LunRequest* request : sent) Start(host, "", *request);
}

void SharedLun::EndProcess(const std::string& host, const std::string& process) {
  MutexLock lock(mutex_);
  paths_.at(host).ended.insert(process);
}

int SharedLun::claims_refused() const {
  MutexLock lock(mutex_);
  return claims_refused_;
}

int SharedLun::registrations_refused() const {
  MutexLock lock(mutex_);
  return registrations_refused_;
}

int SharedLun::keyless_reserves() const {
  MutexLock lock(mutex_);
  return keyless_reserves_;
}

void SharedLun::HoldNoMore() {
  MutexLock lock(mutex_);
  holding_ = false;
}

void SharedLun::ReleaseWrites() {
  std::deque<Held> released;
  {
    MutexLock lock(mutex_);
    holding_ = false;
    released.swap(held_);
  }
  for (const Held& held : released) {
    const AlignedBuffer copy(held.bytes.size());
    std::memcpy(copy.data(), held.bytes.data(), held.bytes.size());
    absl::Status status = lun_.Write(held.offset_bytes, copy.span());
    if (held.request != nullptr) held.request->Complete(std::move(status));
  }
}

std::vector<std::uint64_t> SharedLun::Keys() const {
  MutexLock lock(mutex_);
  std::vector<std::uint64_t> keys = left_over_;
  for (const auto& [host, nexus] : paths_) {
    if (nexus.key != 0) keys.push_back(nexus.key);
  }
  std::sort(keys.begin(), keys.end());
  return keys;
}

std::uint64_t SharedLun::Holder() const {
  MutexLock lock(mutex_);
  return holder_;
}

int SharedLun::resets() const {
  MutexLock lock(mutex_);
  return resets_;
}

std::size_t SharedLun::held_writes() const {
  MutexLock lock(mutex_);
  return held_.size();
}

}  // namespace reel
