#include "volume/iscsi/iscsi_lun.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "spdlog/spdlog.h"
#include "volume/base/aligned_buffer.h"
#include "volume/base/types.h"
#include "volume/iscsi/iscsi_path.h"
#include "volume/iscsi/iscsi_reservations.h"
#include "volume/lun/lun_fault.h"
#include "volume/scsi/lun_times.h"

namespace reel {
namespace {

using Kind = ScsiOutcome::Kind;
using Data = IscsiCommand::Data;

absl::Status OutcomeOf(const ScsiOutcome& outcome, std::uint64_t length_bytes) {
  if (outcome.kind == Kind::kDone && outcome.transferred_bytes == length_bytes) {
    return absl::OkStatus();
  }
  return FailureOf(outcome);
}

// A request that takes several commands: it ends with the last of them, with the worst outcome.
class Flight {
 public:
  Flight(LunRequest& request, std::size_t commands) : request_(request), left_(commands) {}

  void End(absl::Status status) {
    if (!status.ok()) {
      MutexLock lock(mutex_);
      if (IsWorse(status, worst_)) worst_ = std::move(status);
    }
    if (left_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    LunRequest& request = request_;
    mutex_.Lock();
    absl::Status worst = std::move(worst_);
    mutex_.Unlock();
    delete this;
    request.Complete(std::move(worst));
  }

 private:
  LunRequest& request_;
  std::atomic<std::size_t> left_;
  Mutex mutex_;
  absl::Status worst_ ABSL_GUARDED_BY(mutex_);
};

// The memory of a request, cut off piece by piece from its front.
class Parts {
 public:
  explicit Parts(std::span<const iovec> parts) : parts_(parts) {}

  void Take(std::uint64_t length_bytes, absl::InlinedVector<iovec, 2>& into) {
    while (length_bytes > 0) {
      const iovec& part = parts_.front();
      const std::uint64_t take = std::min<std::uint64_t>(length_bytes, part.iov_len - used_);
      into.push_back({static_cast<std::byte*>(part.iov_base) + used_, take});
      length_bytes -= take;
      used_ += take;
      if (used_ < part.iov_len) continue;
      parts_ = parts_.subspan(1);
      used_ = 0;
    }
  }

 private:
  std::span<const iovec> parts_;
  std::uint64_t used_ = 0;  // of the first
};

// FNV-1a: stable between processes, and short enough for a socket's name.
std::uint64_t Hash(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const unsigned char c : text) hash = (hash ^ c) * 0x100000001b3;
  return hash;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Lun>> IscsiLun::Open(const std::string& name, LunAccess access) {
  absl::StatusOr<IscsiUrl> url = ParseIscsiUrl(name);
  if (!url.ok()) return url.status();
  absl::StatusOr<IscsiPath> path = OpenIscsiPath(*url);
  if (!path.ok()) return path.status();
  if (path->portal != 0 && access == LunAccess::kReadWrite) {
    spdlog::info("{}: goes by portal {}", url->shown, url->portals[path->portal]);
  }
  auto lun = absl::WrapUnique(new IscsiLun(*std::move(url), access == LunAccess::kReadOnly));
  lun->facts_ = std::move(path->facts);
  if (lun->facts_.reservations) lun->reservations_ = std::make_unique<IscsiReservations>(*lun);
  MutexLock turn(lun->reopening_);
  lun->portal_ = path->portal;
  MutexLock lock(lun->mutex_);
  lun->connection_ = std::move(path->connection);
  return lun;
}

IscsiLun::IscsiLun(IscsiUrl url, bool read_only) : url_(std::move(url)), read_only_(read_only) {}

IscsiLun::~IscsiLun() = default;

Reservations* IscsiLun::reservations() const {
  return reservations_.get();
}

std::shared_ptr<IscsiConnection> IscsiLun::connection() {
  MutexLock lock(mutex_);
  return connection_;
}

void IscsiLun::Start(LunRequest& request) {
  const bool read = request.kind == LunRequest::Kind::kRead;
  absl::Status status = CheckLunRange(*this, request.offset_bytes, request.length_bytes);
  if (!read && status.ok()) status = CheckLunWritable(*this);
  if (!status.ok()) {
    request.Complete(std::move(status));
    return;
  }
  const std::shared_ptr<IscsiConnection> path = connection();
  const std::uint64_t most = facts_.max_transfer_bytes;
  const std::uint64_t commands = DivideUp(request.length_bytes, most);
  Flight* const flight = commands == 1 ? nullptr : new Flight(request, commands);
  // With the last command on its way the request may be gone: nothing of it is used after that.
  std::uint64_t offset_bytes = request.offset_bytes;
  std::uint64_t left_bytes = request.length_bytes;
  Parts parts(request.parts);
  for (std::uint64_t i = 0; i < commands; ++i) {
    const std::uint64_t length = std::min(left_bytes, most);
    const std::uint64_t block = offset_bytes / facts_.logical_block_bytes;
    const auto blocks = static_cast<std::uint32_t>(length / facts_.logical_block_bytes);
    auto command = std::make_unique<IscsiCommand>();
    command->cdb = read ? scsi::Read16(block, blocks) : scsi::Write16(block, blocks);
    command->data = read ? Data::kIn : Data::kOut;
    command->length_bytes = static_cast<std::uint32_t>(length);
    command->patience = std::chrono::milliseconds(ResendMs());
    parts.Take(length, command->memory);
    if (flight == nullptr) {
      command->done = [&request, length](const ScsiOutcome& outcome) {
        request.Complete(OutcomeOf(outcome, length));
      };
    } else {
      command->done = [flight, length](const ScsiOutcome& outcome) {
        flight->End(OutcomeOf(outcome, length));
      };
    }
    path->Submit(std::move(command));
    offset_bytes += length;
    left_bytes -= length;
  }
}

absl::Status IscsiLun::Flush() {
  ScsiOutcome outcome = Execute(scsi::SynchronizeCache16(), Data::kNone, {});
  if (outcome.kind == Kind::kCheck && outcome.key == scsi::kIllegalRequest) {
    outcome = Execute(scsi::SynchronizeCache10(), Data::kNone, {});
  }
  return StatusOf(outcome, "flush");
}

absl::StatusOr<std::uint64_t> IscsiLun::SizeNow() {
  std::array<std::byte, 32> buffer{};
  const ScsiOutcome outcome = Execute(scsi::ReadCapacity16(buffer.size()), Data::kIn, buffer);
  if (absl::Status s = StatusOf(outcome, "READ CAPACITY"); !s.ok()) return s;
  const auto capacity = scsi::DecodeCapacity(
      std::span(buffer).first(std::min<std::size_t>(outcome.transferred_bytes, buffer.size())));
  if (!capacity.ok()) {
    return WithText(capacity.status(), absl::StrCat(name(), ": ", capacity.status().message()));
  }
  const std::uint64_t block_bytes = facts_.logical_block_bytes;
  if (capacity->block_bytes != block_bytes || capacity->blocks > kMaxVolumeBytes / block_bytes) {
    return absl::FailedPreconditionError(absl::StrCat(
        name(), ": has ", capacity->blocks, " logical blocks of ", capacity->block_bytes,
        " bytes now; see the target: the LUN was opened with blocks of ", block_bytes));
  }
  return capacity->blocks * block_bytes;
}

absl::Status IscsiLun::Grow() {
  const auto now_bytes = SizeNow();
  if (now_bytes.ok()) grown_bytes_ = std::max(size_bytes(), *now_bytes);
  return now_bytes.status();
}

absl::Status IscsiLun::Discard(std::uint64_t /*offset_bytes*/, std::uint64_t /*length_bytes*/) {
  return absl::UnimplementedError(
      absl::StrCat(name(),
                   ": nothing is discarded on iSCSI LUNs: targets carry out a fenced "
                   "host's UNMAP"));
}

absl::Status IscsiLun::ClaimForThisProcess() {
  if (claim_.valid()) return absl::OkStatus();
  // A name in the abstract namespace belongs to one socket at a time, and ends with it.
  UniqueFd claim(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const std::string key = absl::StrCat(url_.target, "/", url_.lun, "/", facts_.identity);
  const std::string text = absl::StrCat("reelfs-lun-", absl::Hex(Hash(key), absl::kZeroPad16));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, text.data(), text.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  if (!claim.valid() || bind(claim.get(), reinterpret_cast<sockaddr*>(&address), length) != 0) {
    if (errno != EADDRINUSE) return OpenFailed(name(), errno);
    return absl::FailedPreconditionError(
        absl::StrCat(name(), ": in use by another process of this host; stop it first"));
  }
  claim_ = std::move(claim);
  return absl::OkStatus();
}

absl::Status IscsiLun::Reopen() {
  MutexLock turn(reopening_);
  if (!connection()->lost()) return absl::OkStatus();
  absl::StatusOr<IscsiPath> path = ReopenIscsiPath(url_, portal_, facts_);
  if (!path.ok()) return path.status();
  portal_ = path->portal;
  MutexLock lock(mutex_);
  connection_.swap(path->connection);
  return absl::OkStatus();
}

ScsiOutcome IscsiLun::Execute(const scsi::Cdb& cdb, Data data, std::span<std::byte> memory) {
  IscsiCommand command;
  command.cdb = cdb;
  command.data = data;
  command.length_bytes = static_cast<std::uint32_t>(memory.size());
  if (!memory.empty()) command.memory.push_back({memory.data(), memory.size()});
  return connection()->Execute(std::move(command));
}

ScsiOutcome IscsiLun::ResetLun() {
  IscsiCommand command;
  command.reset_lun = true;
  return connection()->Execute(std::move(command));
}

absl::Status IscsiLun::StatusOf(const ScsiOutcome& outcome, const std::string& what) const {
  if (outcome.kind == Kind::kDone) return absl::OkStatus();
  const absl::Status failure = FailureOf(outcome);
  return WithText(failure, absl::StrCat(name(), ": ", what, ": ", failure.message()));
}

}  // namespace reel
