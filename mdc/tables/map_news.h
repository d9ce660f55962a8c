// The volume's map as sessions are told of it, and what of it waits until they know it.
// Threads: the core thread.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "proto/records.pb.h"

namespace reel::mdc {

class MapNews {
 public:
  // There is a map from now on, which sessions are sent as `framed`; with `waits`, some of its
  // blocks are not open yet.
  void Begin(std::string framed, bool waits, std::uint64_t now_ms) {
    framed_ = std::move(framed);
    waits_ = waits;
    since_ms_ = now_ms;
  }
  const std::string& framed() const { return framed_; }
  bool waits() const { return waits_; }
  std::uint64_t since_ms() const { return since_ms_; }
  void Opened() { waits_ = false; }

  // Where nothing is allocated, as the volume record has it.
  void SetClosed(const v1::VolumeRecord& volume) { closed_.CopyFrom(volume.closed()); }
  const google::protobuf::RepeatedPtrField<v1::Area>& closed() const { return closed_; }

 private:
  std::string framed_;
  bool waits_ = false;
  std::uint64_t since_ms_ = 0;
  google::protobuf::RepeatedPtrField<v1::Area> closed_;
};

}  // namespace reel::mdc
