#include "tests/sim/luns.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "volume/base/check.h"
#include "volume/format/descriptor.h"
#include "volume/format/label.h"
#include "volume/lun/lun_fault.h"

namespace reel::sim {
namespace {

// What a slow LUN takes at most for one request: well within the margin of a lease of 2 s.
constexpr Micros kSlowest = 60 * kMs;
// … one of a controller, where its seat's term alone protects.
constexpr Micros kSlowestOfController = 8 * kMs;
// … and for a write to one with reservations.
constexpr Micros kLatest = 4000 * kMs;
// The answer to one that has landed does no harm, however late; but a controller that waits for it
// stands still.
constexpr Micros kLatestAnswer = 4000 * kMs;
constexpr Micros kLatestAnswerToController = 300 * kMs;
// A write may stay in its host that long (which pauses between its look at the lease and the
// submission) before the target takes it in, or refuses it.
constexpr Micros kLongestHold = 6'000 * kMs;
constexpr std::byte kRubbish{0xa5};

// Until the history's process ends.
std::byte* NewPages(std::uint64_t size_bytes) {
  void* const pages = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  REEL_CHECK(pages != MAP_FAILED, "there is memory for a disk");
  return static_cast<std::byte*>(pages);
}

}  // namespace

Disk::Disk(std::string name, std::uint64_t size_bytes, bool reserves)
    : name_(std::move(name)),
      size_bytes_(size_bytes),
      reserves_(reserves),
      bytes_(NewPages(size_bytes)),
      written_(size_bytes / kBlockBytes) {
  REEL_CHECK(size_bytes % kBlockBytes == 0, "a disk is made of blocks");
}

Disk::Disk(Disk&& content, bool reserves)
    : name_(content.name_),
      size_bytes_(content.size_bytes_),
      reserves_(reserves),
      bytes_(content.bytes_),
      written_(std::move(content.written_)) {}

void Disk::Write(int writer, std::uint64_t offset_bytes, const std::byte* data,
                 std::uint64_t length_bytes) {
  for (std::uint64_t at = offset_bytes; at < offset_bytes + length_bytes; at += kBlockBytes) {
    std::byte* const block = bytes_ + at;
    if (!written_[at / kBlockBytes]) std::memset(block, static_cast<int>(kRubbish), kBlockBytes);
    written_[at / kBlockBytes] = true;
    const auto [unflushed, fresh] = unflushed_.try_emplace(at);
    auto& [safe, writers] = unflushed->second;
    if (fresh) safe.assign(block, block + kBlockBytes);
    if (std::ranges::count(writers, writer) == 0) writers.push_back(writer);
    std::memcpy(block, data + (at - offset_bytes), kBlockBytes);
  }
}

void Disk::CopyTo(Disk& other) const {
  for (std::uint64_t block = 0; block < written_.size(); ++block) {
    if (!written_[block]) continue;
    other.Write(kControllers, block * kBlockBytes, bytes_ + block * kBlockBytes, kBlockBytes);
  }
  other.Flush();
}

void Disk::Read(std::uint64_t offset_bytes, std::byte* data, std::uint64_t length_bytes) const {
  for (std::uint64_t at = 0; at < length_bytes; at += kBlockBytes) {
    if (written_[(offset_bytes + at) / kBlockBytes]) {
      std::memcpy(data + at, bytes_ + offset_bytes + at, kBlockBytes);
    } else {
      std::memset(data + at, static_cast<int>(kRubbish), kBlockBytes);
    }
  }
}

void Disk::Flush() {
  unflushed_.clear();
}

void Disk::FlushOf(int writer) {
  std::erase_if(unflushed_, [&](const auto& block) {
    return std::ranges::count(block.second.writers, writer) > 0;
  });
}

void Disk::LoseOf(int writer, Random& random) {
  std::erase_if(unflushed_, [&](const auto& block) {
    const auto& [at, unflushed] = block;
    if (unflushed.writers != std::vector{writer} || random.OneIn(2)) return false;
    std::memcpy(bytes_ + at, unflushed.safe.data(), kBlockBytes);
    return true;
  });
}

std::size_t Disk::PowerFails(Random& random) {
  std::size_t lost = 0;
  for (const auto& [at, unflushed] : unflushed_) {
    if (random.OneIn(2)) continue;
    std::memcpy(bytes_ + at, unflushed.safe.data(), kBlockBytes);
    ++lost;
  }
  unflushed_.clear();
  return lost;
}

void Disk::Reset() {
  for (const std::shared_ptr<Flight>& flight : std::exchange(flights_, {})) {
    flight->over = true;
    if (flight->request == nullptr || !Scheduler::Get().alive(flight->host)) continue;
    flight->request->Complete(LunFaultStatus(LunFault::kAborted, "ended by a reset"));
  }
}

bool Disk::Claim(int machine, int process) {
  const auto [claim, fresh] = claims_.try_emplace(machine, process);
  if (!fresh && !Scheduler::Get().alive(claim->second)) claim->second = process;
  return claim->second == process;
}

void Disk::GiveUpClaim(int machine, int process) {
  const auto claim = claims_.find(machine);
  if (claim != claims_.end() && claim->second == process) claims_.erase(claim);
}

Path::Path(Disk& disk, int host, const FaultRates& fault_rates, int machine)
    : disk_(disk),
      host_(host),
      fault_rates_(fault_rates),
      machine_(machine),
      connection_(disk.NewConnection()) {
  if (disk.reserves()) reservations_ = NewReservations(*this);
}

Path::~Path() {
  if (claimed_) disk_.GiveUpClaim(machine_, host_);
  // As a connection that is closed: its registration stays, and nobody can use it.
}

absl::Status Path::ClaimForThisProcess() {
  if (machine_ < 0) return absl::OkStatus();
  claimed_ = disk_.Claim(machine_, host_);
  if (claimed_) return absl::OkStatus();
  return absl::FailedPreconditionError("another process of this machine has the LUN");
}

// ---- paths that are lost ----------------------------------------------------------------------

absl::Status Path::Look() {
  if (fault_rates_.cut && !lost_) {
    if (!disk_.reserves()) return absl::UnavailableError("the LUN does not answer");
    Lose();
  }
  return lost_ ? LunFaultStatus(LunFault::kClosed, "the path is lost") : absl::OkStatus();
}

absl::Status Path::Reopen() {
  Scheduler::Get().Sleep(Scheduler::Get().random().Between(100, 2000));
  if (fault_rates_.cut) return absl::UnavailableError("no target answers");
  if (!std::exchange(lost_, false)) return absl::OkStatus();
  connection_ = disk_.NewConnection();
  return absl::OkStatus();
}

void Path::Lose() {
  lost_ = true;
  for (const std::shared_ptr<Disk::Flight>& flight : std::list(disk_.flights())) {
    if (flight->connection != connection_ || flight->request == nullptr) continue;
    LunRequest& request = *flight->request;
    flight->request = nullptr;
    if (request.kind == LunRequest::Kind::kRead || flight->landed) {
      flight->over = true;
      disk_.flights().remove(flight);
    } else {
      LandLate(flight, request);
    }
    ++disk_.unknowns;
    request.Complete(LunFaultStatus(LunFault::kUnknown, "the path was lost"));
  }
}

// What the target has of it may be carried out some time later, or now, or never: until a reset, or
// where the lease protects within the margin.
void Path::LandLate(const std::shared_ptr<Disk::Flight>& flight, LunRequest& request) {
  Scheduler& sched = Scheduler::Get();
  if (fault_rates_.void_writes || sched.random().OneIn(3)) {
    flight->over = true;
    disk_.flights().remove(flight);
    return;
  }
  for (const iovec& part : request.parts) {
    const auto* from = static_cast<const std::byte*>(part.iov_base);
    flight->bytes.insert(flight->bytes.end(), from, from + part.iov_len);
  }
  const Micros late = disk_.reserves() ? kLatest : kSlowestOfController;
  sched.After(sched.random().OneIn(2) ? 0 : sched.random().Below(late),
              [flight, &disk = disk_, &fault_rates = fault_rates_, writer = writer(),
               at = request.offset_bytes] {
                if (std::exchange(flight->over, true)) return;
                disk.flights().remove(flight);
                disk.Write(writer, at, flight->bytes.data(), flight->bytes.size());
                if (fault_rates.on_written)
                  fault_rates.on_written(disk, flight->host, at, flight->bytes);
              });
}

bool Path::LosesChange() const {
  Random& random = Scheduler::Get().random();
  return (fault_rates_.lossy && random.OneIn(8)) || (fault_rates_.lossy_fences && random.OneIn(2));
}

// In bad weather a write to the arbitration block fails, and its outcome is not told.
bool Path::LoseOne(LunRequest& request) {
  if (request.kind != LunRequest::Kind::kWrite || request.offset_bytes != kArbitrationOffset ||
      !(fault_rates_.void_writes || (fault_rates_.lossy && Scheduler::Get().random().OneIn(2)))) {
    return false;
  }
  auto flight = std::make_shared<Disk::Flight>(
      Disk::Flight{.request = &request, .host = host_, .connection = connection_});
  disk_.flights().push_back(flight);
  if (disk_.reserves()) {
    Lose();
  } else {
    flight->request = nullptr;
    LandLate(flight, request);
    ++disk_.unknowns;
    Scheduler::Get().After(AnswerDelay(request), [this, &request] {
      if (Scheduler::Get().alive(host_)) {
        request.Complete(absl::UnavailableError("no answer came"));
      }
    });
  }
  return true;
}

// ---- requests ---------------------------------------------------------------------------------

// A write that a target has taken in may land after any lease, where a reset can end it.
Micros Path::WriteDelay() {
  Random& random = Scheduler::Get().random();
  const bool may_be_late = disk_.reserves() && (fault_rates_.slow || !fault_rates_.controller);
  if (may_be_late && random.OneIn(fault_rates_.slow ? 6 : 48)) {
    return random.Between(kMs, kLatest);
  }
  return Delay();
}

// Of a write that has landed.
Micros Path::AnswerDelay(const LunRequest& request) {
  Random& random = Scheduler::Get().random();
  if (fault_rates_.late_beats && request.offset_bytes == kArbitrationOffset) {
    return random.Between(kLatestAnswerToController, 2 * kLatestAnswerToController);
  }
  if (fault_rates_.controller && !fault_rates_.slow) return 0;
  if (!random.OneIn(fault_rates_.slow ? 6 : 64)) return 0;
  return random.Between(kMs, fault_rates_.controller ? kLatestAnswerToController : kLatestAnswer);
}

Micros Path::Delay() {
  Random& random = Scheduler::Get().random();
  const bool bounded = fault_rates_.controller && !disk_.reserves();
  if (fault_rates_.slow && random.OneIn(2)) {
    return random.Between(kMs, bounded ? kSlowestOfController : kSlowest);
  }
  return random.Between(20, random.OneIn(16) ? 3000 : 150);
}

// [from, to) of the request.
void Path::Perform(LunRequest& request, std::uint64_t from_bytes, std::uint64_t to_bytes) {
  std::uint64_t at = 0;
  for (const iovec& part : request.parts) {
    const std::uint64_t from = std::max(at, from_bytes);
    const std::uint64_t to = std::min(at + part.iov_len, to_bytes);
    if (from < to) {
      std::byte* const memory = static_cast<std::byte*>(part.iov_base) + (from - at);
      if (request.kind == LunRequest::Kind::kRead) {
        disk_.Read(request.offset_bytes + from, memory, to - from);
      } else {
        disk_.Write(writer(), request.offset_bytes + from, memory, to - from);
        if (fault_rates_.on_written) {
          fault_rates_.on_written(disk_, host_, request.offset_bytes + from, {memory, to - from});
        }
      }
    }
    at += part.iov_len;
  }
}

// From this byte on; what is before has landed.
void Path::Land(Disk::Flight& flight, std::uint64_t from_bytes) {
  LunRequest& request = *flight.request;
  Scheduler& sched = Scheduler::Get();
  if (sched.alive(host_)) {
    return Perform(request, from_bytes, request.length_bytes);
  }
  if (request.kind == LunRequest::Kind::kRead) return;
  const std::uint64_t blocks = request.length_bytes / Disk::kBlockBytes;
  const std::uint64_t torn = sched.random().Below(blocks + 1) * Disk::kBlockBytes;
  Perform(request, std::min(from_bytes, torn), torn);
}

void Path::Answer(const std::shared_ptr<Disk::Flight>& flight) {
  if (flight->request == nullptr || std::exchange(flight->over, true)) return;
  disk_.flights().remove(flight);
  if (Scheduler::Get().alive(host_)) flight->request->Complete(absl::OkStatus());
}

void Path::Start(LunRequest& request) {
  absl::Status valid = CheckLunRange(*this, request.offset_bytes, request.length_bytes);
  if (valid.ok()) valid = Look();
  if (!valid.ok()) return request.Complete(std::move(valid));
  if (LoseOne(request)) return;
  const bool write = request.kind == LunRequest::Kind::kWrite;
  const std::uint64_t session = write && fault_rates_.on_submit ? fault_rates_.on_submit() : 0;
  Random& random = Scheduler::Get().random();
  if (write && disk_.reserves() && fault_rates_.controller && random.OneIn(4)) {
    return Hold(request, random.Between(20, 400));
  }
  const bool may_be_held = write && disk_.reserves() && !fault_rates_.controller;
  const bool held = fault_rates_.stuck || random.OneIn(fault_rates_.slow ? 8 : 48);
  if (!may_be_held || !held) return Arrive(request, session);
  const bool long_held = fault_rates_.stuck || random.OneIn(2);
  Scheduler::Get().After(random.Between(long_held ? kLongestHold / 2 : kMs, kLongestHold),
                         [this, &request, session] {
                           if (Scheduler::Get().alive(host_)) Arrive(request, session);
                         });
}

// Behind the look at the clock that allowed it, and not yet sent; when its host stands still, it is
// sent when that goes on.
void Path::Hold(LunRequest& request, Micros time) {
  ++disk_.held[host_];
  Scheduler::Get().After(time, [this, &request] {
    --disk_.held[host_];
    Scheduler& sched = Scheduler::Get();
    // What a process that ended had handed over may be sent all the same.
    if (!sched.alive(host_) && sched.random().OneIn(2)) return;
    if (sched.alive(host_) && sched.paused(host_)) return Hold(request, kMs);
    if (absl::Status s = Look(); !s.ok()) return request.Complete(std::move(s));
    Arrive(request, 0);
  });
}

void Path::Arrive(LunRequest& request, std::uint64_t session) {
  Scheduler& scheduler = Scheduler::Get();
  const bool write = request.kind == LunRequest::Kind::kWrite;
  if (write && disk_.reserves() && !disk_.MayWrite(connection_)) {
    disk_.NoteRefusal();
    if (fault_rates_.refusals != nullptr) ++*fault_rates_.refusals;
    return request.Complete(LunFaultStatus(LunFault::kFenced, "RESERVATION CONFLICT"));
  }
  auto flight = std::make_shared<Disk::Flight>(
      Disk::Flight{.request = &request, .host = host_, .connection = connection_});
  disk_.flights().push_back(flight);
  const Micros delay = write ? WriteDelay() : Delay();
  const std::uint64_t blocks = request.length_bytes / Disk::kBlockBytes;
  std::uint64_t half = 0;
  if (blocks > 1 && scheduler.random().OneIn(4)) {
    half = scheduler.random().Below(blocks) * Disk::kBlockBytes;
    scheduler.After(delay / 2, [this, flight, half] {
      if (flight->over || flight->request == nullptr || !Scheduler::Get().alive(host_)) return;
      Perform(*flight->request, 0, half);
    });
  }
  scheduler.After(delay, [this, flight, half, write, session] {
    if (flight->request == nullptr || flight->over) return;
    const Micros late = write ? AnswerDelay(*flight->request) : 0;
    if (write && fault_rates_.on_land) fault_rates_.on_land(disk_, session, late == 0);
    Land(*flight, half);
    flight->landed = write;
    if (late == 0) return Answer(flight);
    Scheduler::Get().After(late, [this, flight] { Answer(flight); });
  });
}

absl::Status Path::Flush() {
  if (absl::Status s = Look(); !s.ok()) return s;
  Scheduler& sched = Scheduler::Get();
  const bool fails = fault_rates_.flushes_fail && sched.random().OneIn(2);
  if (!fails) disk_.FlushOf(writer());
  sched.Sleep(Delay() * 2);
  if (!fails) return absl::OkStatus();
  disk_.LoseOf(writer(), sched.random());
  if (fault_rates_.on_flush_failed) fault_rates_.on_flush_failed();
  return absl::DataLossError("the cache could not be written");
}

absl::Status Path::Discard(std::uint64_t, std::uint64_t) {
  return absl::UnimplementedError("no discard");
}

bool IsOfTheVolume(const Disk& disk) {
  VolumeDescriptor map;
  for (const std::uint64_t offset : kDescriptorSlotOffsets) {
    std::vector<std::byte> slot(kDescriptorSlotBytes);
    LunRack::Get().disks.front()->Read(offset, slot.data(), slot.size());
    auto read = DecodeDescriptor(slot);
    if (read.ok() && read->generation > map.generation) map = *std::move(read);
  }
  return std::ranges::any_of(map.pools, [&](const Pool& pool) {
    return std::ranges::any_of(pool.sets, [&](const StripeSet& set) {
      return std::ranges::find(set.luns, disk.name(), &LunEntry::name) != set.luns.end();
    });
  });
}

}  // namespace reel::sim

// ---- by name ----------------------------------------------------------------------------------

namespace reel::sim {

LunRack& LunRack::Get() {
  static LunRack rack;
  return rack;
}

}  // namespace reel::sim

namespace reel {

// In place of volume/iscsi/open_lun.cc.
absl::StatusOr<std::unique_ptr<Lun>> OpenLun(const std::string& name, LunAccess) {
  sim::LunRack& rack = sim::LunRack::Get();
  const int host = sim::Scheduler::Get().current_host();
  const sim::LunRack::Place& place = rack.places.at(host);
  for (sim::Disk* disk : rack.disks) {
    if (disk->name() != name) continue;
    auto path = std::make_unique<sim::Path>(*disk, host, *place.fault_rates, place.machine);
    if (absl::Status s = path->Reopen(); !s.ok()) return s;
    return path;
  }
  return absl::NotFoundError(name);
}

}  // namespace reel
