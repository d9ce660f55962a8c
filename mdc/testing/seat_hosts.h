// Hosts that share one arbitration block, whose writes may be lost, late or of unknown outcome, and
// a clock that goes as a test says: for tests of mdc/seat.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "mdc/seat/seat.h"
#include "volume/base/coding.h"
#include "volume/testing/sample_volume.h"

namespace reel::mdc {

class ManualClock final : public Clock {
 public:
  std::uint64_t NowMs() const override { return now_ms; }
  WallTime WallNow() const override { return {}; }
  std::uint64_t now_ms = 1'000'000;
};

// One host's way to the block.
class HostPort final : public ArbitrationPort {
 public:
  HostPort(std::string& block, ManualClock& clock) : block_(block), clock_(clock) {}

  absl::StatusOr<std::string> Read() override {
    clock_.now_ms += read_ms;
    if (broken) return absl::UnavailableError("the path is lost");
    if (remade) return absl::FailedPreconditionError("the LUN belongs to another volume");
    std::string bytes = block_;
    Run(after_read);
    return bytes;
  }
  ArbitrationResult Write(const ArbitrationBlock& block) override {
    Run(before_write);
    clock_.now_ms += write_ms;
    if (fenced) return {ArbitrationOutcome::kLost, absl::AbortedError("fenced")};
    if (broken) return {ArbitrationOutcome::kUnknown, absl::UnavailableError("the path is lost")};
    if (fail_next != 0) {
      --fail_next;
      if (fail_carried_out) block_ = EncodeArbitration(block);
      if (fail_late) late.push_back(EncodeArbitration(block));
      return {ArbitrationOutcome::kUnknown, absl::UnavailableError("no answer")};
    }
    block_ = EncodeArbitration(block);
    Run(after_write);
    return {ArbitrationOutcome::kDone, {}};
  }
  void Wait(std::uint64_t ms) override {
    clock_.now_ms += ms;
    Run(after_wait);
  }
  void LandLateWrites() {
    for (; !late.empty(); late.pop_front()) block_ = late.front();
  }

  std::uint64_t read_ms = 1, write_ms = 1;
  bool broken = false, fenced = false;
  bool remade = false;  // the LUN is another volume's by now
  int fail_next = 0;
  bool fail_carried_out = false, fail_late = false;
  std::deque<std::string> late;
  // Once each.
  std::function<void()> after_read, before_write, after_write, after_wait;

 private:
  static void Run(std::function<void()>& hook) {
    if (auto now = std::exchange(hook, nullptr)) now();
  }
  std::string& block_;
  ManualClock& clock_;
};

class SeatTest : public testing::Test {
 protected:
  struct Host {
    Host(SeatTest& test, std::string name)
        : port(test.block_, test.clock_),
          options{.volume = SampleUuid(9),
                  .machine = SampleUuid(8),
                  .host = name,
                  .address = name + ":7440",
                  .seat_ms = 1500},
          watch(options),
          seat(port, test.clock_, options) {}
    HostPort port;
    SeatOptions options;
    SeatWatch watch;
    Seat seat;
  };

  SeatLook Look(Host& host) {
    SeatLook look;
    look.began_ms = clock_.now_ms;
    look.bytes = *host.port.Read();
    look.block = DecodeArbitration(AsBytes(look.bytes));
    look.ended_ms = clock_.now_ms;
    return look;
  }
  SeatWatch::Verdict Watch(Host& host) { return host.watch.Consider(Look(host)); }
  // Looks as a standby does, until it may claim or the time is up.
  SeatWatch::Verdict WatchFor(Host& host, std::uint64_t ms) {
    const std::uint64_t until_ms = clock_.now_ms + ms;
    SeatWatch::Verdict verdict = Watch(host);
    while (verdict == SeatWatch::Verdict::kHeld && clock_.now_ms < until_ms) {
      clock_.now_ms += SeatLookMs(1500);
      verdict = Watch(host);
    }
    return verdict;
  }
  absl::Status Claim(Host& host, std::uint64_t epoch) {
    return host.seat.Claim(Look(host), Epoch(epoch), false);
  }
  bool Holds(const Host& host) const { return host.seat.Holds(clock_.now_ms); }
  ArbitrationBlock Block() const { return *DecodeArbitration(AsBytes(block_)); }

  ManualClock clock_;
  std::string block_ = std::string(kArbitrationBytes, '\0');
  Host a_{*this, "a"}, b_{*this, "b"};
};

}  // namespace reel::mdc
