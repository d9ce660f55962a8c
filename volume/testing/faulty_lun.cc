#include "volume/testing/faulty_lun.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "volume/base/check.h"
#include "volume/base/types.h"
#include "volume/lun/lun_fault.h"

namespace reel {
namespace {

absl::Status InputOutputError() {
  return absl::UnknownError("Input/output error");
}

}  // namespace

FaultyLun::FaultyLun(Options options) : options_(std::move(options)) {
  REEL_CHECK(IsPowerOfTwo(options_.logical_block_bytes) && options_.logical_block_bytes >= 512 &&
                 options_.logical_block_bytes <= kPageBytes,
             "a logical block has 512 to 4096 bytes");
  for (int i = 0; i < options_.threads; ++i) threads_.emplace_back([this] { Work(); });
}

FaultyLun::~FaultyLun() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    work_.NotifyAll();
  }
  for (std::thread& thread : threads_) thread.join();
}

void FaultyLun::Start(LunRequest& request) {
  if (threads_.empty()) {
    Perform(request);
    return;
  }
  MutexLock lock(mutex_);
  queue_.push_back(&request);
  work_.NotifyOne();
}

void FaultyLun::Work() {
  for (;;) {
    LunRequest* request = nullptr;
    {
      MutexLock lock(mutex_);
      while ((request = NextRequest()) == nullptr && !stopping_) work_.Wait(mutex_);
      if (request == nullptr) return;
    }
    Perform(*request);
  }
}

LunRequest* FaultyLun::NextRequest() {
  const auto next = std::find_if(queue_.begin(), queue_.end(), [this](const LunRequest* request) {
    mutex_.AssertHeld();
    return !holds_writes_ || request->kind != Kind::kWrite;
  });
  if (next == queue_.end()) return nullptr;
  LunRequest* const request = *next;
  queue_.erase(next);
  return request;
}

void FaultyLun::HoldWrites(bool held) {
  MutexLock lock(mutex_);
  holds_writes_ = held;
  work_.NotifyAll();
}

void FaultyLun::HoldFlushes(bool held) {
  MutexLock lock(mutex_);
  holds_flushes_ = held;
  work_.NotifyAll();
}

std::size_t FaultyLun::held() const {
  MutexLock lock(mutex_);
  return held_flushes_ + (holds_writes_ ? queue_.size() : 0);
}

void FaultyLun::Perform(LunRequest& request) {
  absl::Status status;
  {
    MutexLock lock(mutex_);
    status = PerformLocked(request);
  }
  request.Complete(std::move(status));
}

absl::Status FaultyLun::PerformLocked(LunRequest& request) {
  const bool read = request.kind == Kind::kRead;
  if (absl::Status status = CheckRequest(request); !status.ok()) return status;
  if (absl::Status status = NextFault(); !status.ok()) return status;
  const bool countdown = HitsCountdown(request.kind);
  if (unplugged_ || HitsBadRange(request) || (countdown && read)) {
    ++counters_.errors;
    return InputOutputError();
  }
  ++(read ? counters_.reads : counters_.writes);
  (read ? counters_.read_bytes : counters_.written_bytes) += request.length_bytes;
  if (read) {
    ReadInto(request);
    return absl::OkStatus();
  }
  std::string bytes;
  bytes.reserve(request.length_bytes);
  for (const iovec& part : request.parts) {
    bytes.append(static_cast<const char*>(part.iov_base), part.iov_len);
  }
  if (countdown) {
    ++counters_.errors;
    bytes.resize(RoundDown(bytes.size() / 2, options_.logical_block_bytes));
    WriteUnflushed(request.offset_bytes, std::move(bytes));
    return InputOutputError();
  }
  WriteUnflushed(request.offset_bytes, std::move(bytes));
  return absl::OkStatus();
}

absl::Status FaultyLun::CheckRequest(const LunRequest& request) const {
  std::uint64_t length_bytes = 0;
  bool aligned = request.offset_bytes % options_.logical_block_bytes == 0;
  for (const iovec& part : request.parts) {
    length_bytes += part.iov_len;
    // What O_DIRECT asks of memory, so that a test on this LUN holds on a real one too.
    aligned = aligned && part.iov_len % options_.logical_block_bytes == 0 &&
              reinterpret_cast<std::uintptr_t>(part.iov_base) % options_.logical_block_bytes == 0;
  }
  if (!aligned || length_bytes != request.length_bytes || length_bytes == 0) {
    return absl::InvalidArgumentError("the request is not aligned to the logical block");
  }
  if (request.offset_bytes > options_.size_bytes ||
      length_bytes > options_.size_bytes - request.offset_bytes) {
    return absl::OutOfRangeError("beyond the end of the LUN");
  }
  if (request.kind == Kind::kWrite && options_.read_only) {
    return absl::FailedPreconditionError("the LUN was opened read-only");
  }
  return absl::OkStatus();
}

absl::Status FaultyLun::NextFault() {
  if (faults_left_ == 0) return absl::OkStatus();
  --faults_left_;
  ++counters_.errors;
  return LunFaultStatus(fault_, "injected");
}

bool FaultyLun::HitsCountdown(Kind kind) {
  bool hit = false;
  for (Countdown& countdown : countdowns_) {
    if (!countdown.kind || *countdown.kind == kind) hit |= --countdown.left == 0;
  }
  std::erase_if(countdowns_, [](const Countdown& c) { return c.left == 0; });
  return hit;
}

bool FaultyLun::HitsBadRange(const LunRequest& request) const {
  return std::ranges::any_of(bad_ranges_, [&](const BadRange& bad) {
    return (!bad.kind || *bad.kind == request.kind) &&
           request.offset_bytes < bad.offset_bytes + bad.length_bytes &&
           bad.offset_bytes < request.offset_bytes + request.length_bytes;
  });
}

void FaultyLun::ReadInto(const LunRequest& request) const {
  std::uint64_t offset_bytes = request.offset_bytes;
  for (const iovec& part : request.parts) {
    Get(current_, offset_bytes, static_cast<char*>(part.iov_base), part.iov_len);
    offset_bytes += part.iov_len;
  }
}

void FaultyLun::WriteUnflushed(std::uint64_t offset_bytes, std::string bytes) {
  Put(current_, offset_bytes, bytes);
  unflushed_.push_back({offset_bytes, std::move(bytes)});
}

absl::Status FaultyLun::Flush() {
  MutexLock lock(mutex_);
  ++counters_.flushes;
  ++held_flushes_;
  while (holds_flushes_) work_.Wait(mutex_);
  --held_flushes_;
  if (path_lost_) return LunFaultStatus(LunFault::kClosed, absl::StrCat(name(), ": no path"));
  if (absl::Status status = NextFault(); !status.ok()) return status;
  const bool planned = flushes_until_failure_ > 0 && --flushes_until_failure_ == 0;
  if (unplugged_ || planned) {
    ++counters_.errors;
    return absl::UnknownError(absl::StrCat(name(), ": flush: Input/output error"));
  }
  for (const UnflushedWrite& write : unflushed_) Put(durable_, write.offset_bytes, write.bytes);
  unflushed_.clear();
  return absl::OkStatus();
}

absl::Status FaultyLun::Reopen() {
  MutexLock lock(mutex_);
  if (path_lost_) return absl::UnavailableError(absl::StrCat(name(), ": no path"));
  return absl::OkStatus();
}

void FaultyLun::SetPathLost(bool lost) {
  MutexLock lock(mutex_);
  path_lost_ = lost;
}

absl::Status FaultyLun::Discard(std::uint64_t offset_bytes, std::uint64_t length_bytes) {
  MutexLock lock(mutex_);
  if (offset_bytes > options_.size_bytes || length_bytes > options_.size_bytes - offset_bytes) {
    return absl::OutOfRangeError("beyond the end of the LUN");
  }
  if (unplugged_) return InputOutputError();
  ++counters_.discards;
  WriteUnflushed(offset_bytes, std::string(length_bytes, '\xdc'));
  return absl::OkStatus();
}

void FaultyLun::Crash(std::uint64_t seed, CrashRules rules) {
  MutexLock lock(mutex_);
  std::mt19937_64 random(seed);
  // Draws of our own making: the distributions of <random> differ between libraries.
  const auto chance = [&](double p) { return static_cast<double>(random() >> 11) * 0x1p-53 < p; };
  if (rules.reorder) {
    for (std::size_t i = unflushed_.size(); i > 1; --i) {
      std::swap(unflushed_[i - 1], unflushed_[random() % i]);
    }
  }
  for (const UnflushedWrite& write : unflushed_) {
    if (chance(rules.lose)) continue;
    const bool torn = chance(rules.tear);
    const std::uint64_t step = options_.logical_block_bytes;
    for (std::uint64_t at = 0; at < write.bytes.size(); at += step) {
      if (torn && chance(0.5)) continue;
      Put(durable_, write.offset_bytes + at, std::string_view(write.bytes).substr(at, step));
    }
  }
  unflushed_.clear();
  current_ = durable_;
}

void FaultyLun::FailRequest(std::uint64_t nth, std::optional<Kind> kind) {
  REEL_CHECK(nth > 0, "the next request is number 1");
  MutexLock lock(mutex_);
  countdowns_.push_back({nth, kind});
}

void FaultyLun::FailFlush(std::uint64_t nth) {
  MutexLock lock(mutex_);
  flushes_until_failure_ = nth;
}

void FaultyLun::FailRange(std::uint64_t offset_bytes, std::uint64_t length_bytes,
                          std::optional<Kind> kind) {
  MutexLock lock(mutex_);
  bad_ranges_.push_back({offset_bytes, length_bytes, kind});
}

void FaultyLun::FailNext(std::uint64_t count, LunFault fault) {
  MutexLock lock(mutex_);
  faults_left_ = count;
  fault_ = fault;
}

void FaultyLun::SetUnplugged(bool unplugged) {
  MutexLock lock(mutex_);
  unplugged_ = unplugged;
}

void FaultyLun::ClearFaults() {
  MutexLock lock(mutex_);
  countdowns_.clear();
  bad_ranges_.clear();
  flushes_until_failure_ = 0;
  faults_left_ = 0;
  unplugged_ = false;
}

void FaultyLun::FlipBit(std::uint64_t offset_bytes, int bit) {
  MutexLock lock(mutex_);
  for (Pages* pages : {&current_, &durable_}) {
    char byte;
    Get(*pages, offset_bytes, &byte, 1);
    byte = static_cast<char>(byte ^ (1 << bit));
    Put(*pages, offset_bytes, {&byte, 1});
  }
  for (UnflushedWrite& write : unflushed_) {
    if (offset_bytes < write.offset_bytes) continue;
    if (offset_bytes - write.offset_bytes >= write.bytes.size()) continue;
    char& byte = write.bytes[offset_bytes - write.offset_bytes];
    byte = static_cast<char>(byte ^ (1 << bit));
  }
}

FaultyLun::Counters FaultyLun::counters() const {
  MutexLock lock(mutex_);
  return counters_;
}

std::size_t FaultyLun::unflushed_writes() const {
  MutexLock lock(mutex_);
  return unflushed_.size();
}

std::string FaultyLun::DurableContent(std::uint64_t offset_bytes,
                                      std::uint64_t length_bytes) const {
  MutexLock lock(mutex_);
  std::string content(length_bytes, '\0');
  Get(durable_, offset_bytes, content.data(), length_bytes);
  return content;
}

void FaultyLun::Put(Pages& pages, std::uint64_t offset_bytes, std::string_view bytes) {
  while (!bytes.empty()) {
    const std::uint64_t in_page = offset_bytes % kPageBytes;
    const std::size_t take = std::min<std::size_t>(bytes.size(), kPageBytes - in_page);
    Page& page = pages.try_emplace(offset_bytes / kPageBytes).first->second;
    std::memcpy(page.data() + in_page, bytes.data(), take);
    bytes.remove_prefix(take);
    offset_bytes += take;
  }
}

void FaultyLun::Get(const Pages& pages, std::uint64_t offset_bytes, char* to,
                    std::uint64_t length) {
  while (length > 0) {
    const std::uint64_t in_page = offset_bytes % kPageBytes;
    const std::uint64_t take = std::min(length, kPageBytes - in_page);
    const auto page = pages.find(offset_bytes / kPageBytes);
    if (page == pages.end()) {
      std::memset(to, 0, take);
    } else {
      std::memcpy(to, page->second.data() + in_page, take);
    }
    to += take;
    offset_bytes += take;
    length -= take;
  }
}

}  // namespace reel
