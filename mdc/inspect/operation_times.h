// How long the controller takes for requests, by kind: from their arrival to their (first) reply.
//
// It always runs, so it costs two looks into a hash table a request. Bounded by the streams and by
// kMostUnderWay requests of each, which is more than any client has under way. Threads: externally
// synchronised. (The holder of a volume's core seat.)
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "mdc/base/ids.h"
#include "proto/admin.pb.h"
#include "proto/mdc.pb.h"
#include "proto/time_histogram.h"

namespace reel::mdc {

class OperationTimes {
 public:
  static constexpr std::size_t kMostUnderWay = 65'536;
  struct Took {
    v1::Request::OpCase op;
    std::uint64_t us;
  };
  void Arrived(StreamId stream, const v1::Request& request, std::uint64_t now_us);
  // nullopt: it was answered before, or its arrival is not known.
  std::optional<Took> Answered(StreamId stream, const v1::Reply& reply, std::uint64_t now_us);
  // What is left of it gets no answer.
  void StreamEnded(StreamId stream) { under_way_.erase(stream); }

  void Describe(v1::StatReply& reply) const;

 private:
  struct Begun {
    v1::Request::OpCase op;
    std::uint64_t at_us;
  };
  absl::flat_hash_map<StreamId, absl::flat_hash_map<std::uint64_t, Begun>> under_way_;  // by id
  std::array<TimeHistogram, 64> times_{};  // by v1::Request::OpCase
};

}  // namespace reel::mdc
