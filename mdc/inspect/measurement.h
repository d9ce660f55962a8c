// A measurement of how long clients wait: of messages for which nothing is done, or of their
// operations, from the arrival of a request to its (first) reply.
//
// One goes on at a time, and ends by itself after kMostMs: whoever began it may be gone. Bounded by
// the sessions that were connected when it began.
// Times are counted in buckets, eight to a doubling, so a percentile is true to an eighth of it.
// Threads: externally synchronised. (The holder of a volume's core seat.)
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "mdc/core/core.h"
#include "mdc/inspect/operation_times.h"
#include "proto/admin.pb.h"
#include "proto/mdc.pb.h"

namespace reel::mdc {

// Of the steady clock.
std::uint64_t NowUs();

class Measurement {
 public:
  static constexpr std::uint64_t kMostMs = 600'000;

  void Begin(v1::MeasureRequest::What what, std::vector<Core::Connected> targets,
             std::uint64_t now_us);
  // Nothing is to be told to it otherwise.
  bool on() const { return what_ != v1::MeasureRequest::COLLECT; }

  // The pings that are due: one each to whoever has answered its last one.
  std::vector<std::pair<StreamId, v1::Callback>> Pings(std::uint64_t now_us);
  void Arrived(StreamId stream, const v1::Request& request, std::uint64_t now_us);
  void Answered(StreamId stream, const OperationTimes::Took& took);

  void Describe(std::uint64_t now_us, v1::MeasureReply& reply) const;

 private:
  class Times {
   public:
    void Add(std::uint64_t us);
    void Describe(v1::MeasureReply::Series& series) const;

   private:
    static constexpr std::size_t kBuckets = 8 * 40;
    static std::size_t BucketOf(std::uint64_t us);
    std::uint64_t Percentile(double part) const;
    std::uint64_t count_ = 0, sum_us_ = 0, least_us_ = 0, most_us_ = 0;
    std::array<std::uint64_t, kBuckets> buckets_{};
  };
  struct Target {
    Core::Connected who;
    std::map<std::string, Times> times{};  // by name of operation
    struct Ping {
      std::uint64_t number;
      std::uint64_t at_us;
    };
    std::optional<Ping> ping{};  // that was not answered yet
  };
  Target* Find(StreamId stream);

  v1::MeasureRequest::What what_ = v1::MeasureRequest::COLLECT;
  std::uint64_t since_us_ = 0;
  std::uint64_t last_ping_ = 0;
  absl::flat_hash_map<StreamId, Target> targets_;
};

}  // namespace reel::mdc
