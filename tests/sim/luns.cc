#include "tests/sim/luns.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "volume/check.h"
#include "volume/lun_fault.h"

namespace reel::sim {
namespace {

// What a slow LUN takes at most for one request: well within the margin of a lease of 2 s.
constexpr Micros kSlowest = 60 * kMs;
// … and for a write to one with reservations.
constexpr Micros kLatest = 4000 * kMs;
constexpr std::byte kRubbish{0xa5};

}  // namespace

void Disk::Free::operator()(std::byte* bytes) const {
  std::free(bytes);
}

Disk::Disk(std::string name, std::uint64_t size_bytes, bool reserves)
    : name_(std::move(name)),
      size_bytes_(size_bytes),
      reserves_(reserves),
      bytes_(static_cast<std::byte*>(std::calloc(size_bytes, 1))),
      written_(size_bytes / kBlockBytes) {
  REEL_CHECK(size_bytes % kBlockBytes == 0, "a disk is made of blocks");
}

void Disk::Write(std::uint64_t offset_bytes, const std::byte* data, std::uint64_t length_bytes) {
  for (std::uint64_t at = offset_bytes; at < offset_bytes + length_bytes; at += kBlockBytes) {
    std::byte* const block = bytes_.get() + at;
    if (!written_[at / kBlockBytes]) std::memset(block, static_cast<int>(kRubbish), kBlockBytes);
    written_[at / kBlockBytes] = true;
    const auto [safe, fresh] = unflushed_.try_emplace(at);
    if (fresh) safe->second.assign(block, block + kBlockBytes);
    std::memcpy(block, data + (at - offset_bytes), kBlockBytes);
  }
}

void Disk::Read(std::uint64_t offset_bytes, std::byte* data, std::uint64_t length_bytes) const {
  for (std::uint64_t at = 0; at < length_bytes; at += kBlockBytes) {
    if (written_[(offset_bytes + at) / kBlockBytes]) {
      std::memcpy(data + at, bytes_.get() + offset_bytes + at, kBlockBytes);
    } else {
      std::memset(data + at, static_cast<int>(kRubbish), kBlockBytes);
    }
  }
}

void Disk::Flush() {
  unflushed_.clear();
}

std::size_t Disk::PowerFails(Random& random) {
  std::size_t lost = 0;
  for (const auto& [at, safe] : unflushed_) {
    if (random.OneIn(2)) continue;
    std::memcpy(bytes_.get() + at, safe.data(), kBlockBytes);
    ++lost;
  }
  unflushed_.clear();
  return lost;
}

void Disk::Reset() {
  for (const std::shared_ptr<Flight>& flight : std::exchange(flights_, {})) {
    flight->over = true;
    if (!Scheduler::Get().alive(flight->host)) continue;
    flight->request->Complete(LunFaultStatus(LunFault::kAborted, "ended by a reset"));
  }
}

// A write that a target has taken in may land after any lease, where a reset can end it.
Micros Path::WriteDelay() {
  Random& random = Scheduler::Get().random();
  if (disk_.reserves() && random.OneIn(weather_.slow ? 6 : 48)) {
    return random.Between(kMs, kLatest);
  }
  return Delay();
}

Micros Path::Delay() {
  Random& random = Scheduler::Get().random();
  if (weather_.slow && random.OneIn(2)) return random.Between(kMs, kSlowest);
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
        disk_.Write(request.offset_bytes + from, memory, to - from);
      }
    }
    at += part.iov_len;
  }
}

// From this byte on; what is before has landed.
void Path::Land(Disk::Flight& flight, std::uint64_t from_bytes) {
  LunRequest& request = *flight.request;
  Scheduler& world = Scheduler::Get();
  if (world.alive(host_)) {
    Perform(request, from_bytes, request.length_bytes);
    return request.Complete(absl::OkStatus());
  }
  if (request.kind == LunRequest::Kind::kRead) return;
  const std::uint64_t blocks = request.length_bytes / Disk::kBlockBytes;
  const std::uint64_t torn = world.random().Below(blocks + 1) * Disk::kBlockBytes;
  Perform(request, std::min(from_bytes, torn), torn);
}

void Path::Start(LunRequest& request) {
  absl::Status valid = CheckLunRange(*this, request.offset_bytes, request.length_bytes);
  if (!valid.ok()) return request.Complete(std::move(valid));
  Scheduler& scheduler = Scheduler::Get();
  const bool write = request.kind == LunRequest::Kind::kWrite;
  if (write && disk_.reserves() && !disk_.MayWrite(host_)) {
    return request.Complete(LunFaultStatus(LunFault::kFenced, "RESERVATION CONFLICT"));
  }
  const std::uint64_t session = write && weather_.on_submit ? weather_.on_submit() : 0;
  auto flight = std::make_shared<Disk::Flight>(Disk::Flight{&request, host_});
  disk_.flights().push_back(flight);
  const Micros delay = write ? WriteDelay() : Delay();
  const std::uint64_t blocks = request.length_bytes / Disk::kBlockBytes;
  std::uint64_t half = 0;
  if (blocks > 1 && scheduler.random().OneIn(4)) {
    half = scheduler.random().Below(blocks) * Disk::kBlockBytes;
    scheduler.After(delay / 2, [this, flight, half] {
      if (!flight->over && Scheduler::Get().alive(host_)) Perform(*flight->request, 0, half);
    });
  }
  scheduler.After(delay, [this, flight, half, write, session] {
    if (std::exchange(flight->over, true)) return;
    disk_.flights().remove(flight);
    if (write && weather_.on_land) weather_.on_land(session);
    Land(*flight, half);
  });
}

absl::Status Path::Flush() {
  disk_.Flush();
  Scheduler::Get().Sleep(Delay() * 2);
  return absl::OkStatus();
}

absl::Status Path::Discard(std::uint64_t, std::uint64_t) {
  return absl::UnimplementedError("no discard");
}

}  // namespace reel::sim
