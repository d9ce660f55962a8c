// A LUN in memory that fails as real ones do: for tests of every layer.
//
// It keeps what is durable (the content as of the last Flush) and the writes since then apart.
// Crash decides, by a seed, which of those writes reached the medium: whole, torn at a logical
// block, in another order, or not at all. Several hosts of a test share one through BorrowedLun.
// Invariants:
//   1. Reads see every completed write, until a Crash.
//   2. A Crash never touches what a Flush made durable, except where unflushed writes overlap it.
//   3. The same calls with the same seeds give the same content.
// Threads: all methods may be called concurrently.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "volume/base/mutex.h"
#include "volume/lun/lun.h"
#include "volume/lun/lun_fault.h"

namespace reel {

class FaultyLun final : public Lun {
 public:
  struct Options {
    std::string name = "faulty";
    std::uint64_t size_bytes = 64 << 20;
    std::uint32_t logical_block_bytes = 4096;  // 512 to 4096
    std::uint32_t optimal_io_bytes = 0;
    bool read_only = false;
    bool executes_late = false;
    // 0: requests complete within Start. Else this many threads complete them, in any order.
    int threads = 0;
  };
  // What becomes of each unflushed write: lost whole, else torn (each logical block by a toss),
  // else kept.
  struct CrashRules {
    double lose = 0.4;
    double tear = 0.3;
    bool reorder = true;  // overlapping survivors may land in another order
  };
  static constexpr CrashRules kLoseAll = {1, 0, false};
  static constexpr CrashRules kKeepAll = {0, 0, false};

  struct Counters {
    std::uint64_t reads = 0, writes = 0, flushes = 0, discards = 0;
    std::uint64_t read_bytes = 0, written_bytes = 0;
    std::uint64_t errors = 0;  // failures injected
  };
  // What a fault applies to; nullopt is both kinds of request.
  using Kind = LunRequest::Kind;

  FaultyLun() : FaultyLun(Options()) {}
  explicit FaultyLun(Options options);
  ~FaultyLun() override;

  const std::string& name() const override { return options_.name; }
  std::uint64_t size_bytes() const override { return options_.size_bytes; }
  std::uint32_t logical_block_bytes() const override { return options_.logical_block_bytes; }
  std::uint32_t optimal_io_bytes() const override { return options_.optimal_io_bytes; }
  bool read_only() const override { return options_.read_only; }
  bool executes_late() const override { return options_.executes_late; }
  void Start(LunRequest& request) override;
  absl::Status Flush() override;
  absl::Status Reopen() override;
  // Fills the range with 0xdc at once: content that nobody may rely on.
  absl::Status Discard(std::uint64_t offset_bytes, std::uint64_t length_bytes) override;
  absl::Status ClaimForThisProcess() override { return absl::OkStatus(); }

  // The host or the device loses power, and comes back.
  void Crash(std::uint64_t seed, CrashRules rules);
  void Crash(std::uint64_t seed) { Crash(seed, CrashRules()); }

  // The nth request from now on (1 is the next) fails, once. A failed write leaves its range torn.
  void FailRequest(std::uint64_t nth, std::optional<Kind> kind = std::nullopt);
  // The nth Flush from now on fails, once; what it should have made durable stays unflushed.
  void FailFlush(std::uint64_t nth);
  // Every request that touches the range fails, and a write changes nothing.
  void FailRange(std::uint64_t offset_bytes, std::uint64_t length_bytes,
                 std::optional<Kind> kind = std::nullopt);
  // The next `count` requests and flushes end with that word (volume/lun/lun_fault.h); not done.
  void FailNext(std::uint64_t count, LunFault fault);
  // All requests and flushes fail, as of a LUN that was unplugged.
  void SetUnplugged(bool unplugged);
  // Requests that write, or flushes, wait inside until that is over. Writes need `threads`.
  void HoldWrites(bool held);
  void HoldFlushes(bool held);
  std::size_t held() const;  // waiting so
  // Flushes are not sent, and the path cannot be opened again.
  void SetPathLost(bool lost);
  void ClearFaults();
  // Flips one bit for good, flushed or not. `bit` is 0 to 7.
  void FlipBit(std::uint64_t offset_bytes, int bit);

  Counters counters() const;
  std::size_t unflushed_writes() const;
  // What a host would find after losing every unflushed write. For comparing.
  std::string DurableContent(std::uint64_t offset_bytes, std::uint64_t length_bytes) const;

 private:
  static constexpr std::uint64_t kPageBytes = 4096;
  using Page = std::array<char, kPageBytes>;
  using Pages = std::map<std::uint64_t, Page>;  // by page number; absent is zeros
  struct UnflushedWrite {
    std::uint64_t offset_bytes;
    std::string bytes;
  };
  struct Countdown {
    std::uint64_t left;
    std::optional<Kind> kind;
  };
  struct BadRange {
    std::uint64_t offset_bytes, length_bytes;
    std::optional<Kind> kind;
  };

  void Work();
  // The first of the queue that may be performed, taken out; null: none.
  LunRequest* NextRequest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Perform(LunRequest& request);
  absl::Status PerformLocked(LunRequest& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckRequest(const LunRequest& request) const;
  // OK, or FailNext's failure.
  absl::Status NextFault() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HitsCountdown(Kind kind) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HitsBadRange(const LunRequest& request) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReadInto(const LunRequest& request) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WriteUnflushed(std::uint64_t offset_bytes, std::string bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static void Put(Pages& pages, std::uint64_t offset_bytes, std::string_view bytes);
  static void Get(const Pages& pages, std::uint64_t offset_bytes, char* to, std::uint64_t length);

  const Options options_;
  mutable Mutex mutex_;
  CondVar work_;
  Pages current_ ABSL_GUARDED_BY(mutex_);
  Pages durable_ ABSL_GUARDED_BY(mutex_);
  std::vector<UnflushedWrite> unflushed_ ABSL_GUARDED_BY(mutex_);
  std::vector<Countdown> countdowns_ ABSL_GUARDED_BY(mutex_);
  std::vector<BadRange> bad_ranges_ ABSL_GUARDED_BY(mutex_);
  std::uint64_t flushes_until_failure_ ABSL_GUARDED_BY(mutex_) = 0;  // 0: none planned
  bool unplugged_ ABSL_GUARDED_BY(mutex_) = false;
  bool path_lost_ ABSL_GUARDED_BY(mutex_) = false;
  std::uint64_t faults_left_ ABSL_GUARDED_BY(mutex_) = 0;
  LunFault fault_ ABSL_GUARDED_BY(mutex_) = LunFault::kNone;
  bool holds_writes_ ABSL_GUARDED_BY(mutex_) = false;
  bool holds_flushes_ ABSL_GUARDED_BY(mutex_) = false;
  std::size_t held_flushes_ ABSL_GUARDED_BY(mutex_) = 0;
  Counters counters_ ABSL_GUARDED_BY(mutex_);
  std::deque<LunRequest*> queue_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace reel
