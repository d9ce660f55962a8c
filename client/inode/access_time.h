// The last read of a file, until the controller knows of it.
//
// Invariants:
//   1. It waits at one place to be told, or one message about it is under way. A read meanwhile is
//      told with a later one.
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

  // True: it is to wait for its message from now on, and does not yet.
  bool BeginWaiting();
  // The end of that: the time to tell now; none where it has been forgotten.
  std::optional<v1::Time> BeginSending();
  // The controller knows of that time (or will not be told).
  void Sent(const v1::Time& time);

 private:
  enum class Stage : std::uint8_t { kNone, kWaiting, kSent };

  std::optional<v1::Time> accessed_;
  Stage stage_ = Stage::kNone;
};

}  // namespace reel::client
