// The last read of a file, until the controller knows of it.
//
// Invariants:
//   1. One message about it is under way at a time. A read meanwhile is told with a later one.
//   2. A time is kept until the controller has been told of it, or of a later one.
// Threads: externally synchronised, by the file's mutex.
#pragma once

#include <cstdint>
#include <optional>

#include "client/inode/atime_policy.h"
#include "proto/types.pb.h"

namespace reel::client {

class AccessTime {
 public:
  // A read at `now` of a file with these attributes; true when the controller is to be told of it.
  bool Note(AtimePolicy policy, const v1::Attr& attr, const v1::Time& now);
  // Another time was set, or the file is gone.
  void Forget() { accessed_.reset(); }
  bool any() const { return accessed_.has_value(); }
  void Show(v1::Attr& attributes) const;

  // The time to tell; none where there is none, or a message is under way. `tick`: FileTable's.
  std::optional<v1::Time> BeginSending(std::uint32_t tick);
  bool WasSent(std::uint32_t tick) const { return sent_tick_ == tick; }
  // The controller knows of that time (or will not be told).
  void Sent(const v1::Time& time);

 private:
  std::optional<v1::Time> accessed_;
  bool sending_ = false;
  std::uint32_t sent_tick_ = 0;  // when that was begun last
};

}  // namespace reel::client
