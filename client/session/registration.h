// The first exchange on a stream: Hello, and what the controller says to it.
// Threads: the stream is the caller's alone.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "client/session/mdc_stream.h"
#include "proto/protocol.h"
#include "proto/session.pb.h"
#include "volume/base/uuid.h"
#include "volume/format/descriptor.h"

namespace reel::client {

// A controller that leaves a Hello unanswered for that long is given up for the next one.
inline constexpr std::uint64_t kHandshakeTimeoutMs = 5000;

struct HelloFrom {
  std::string volume;
  std::string host;
  std::string mount_point;
  Uuid incarnation;
  std::uint64_t resume_session = 0;
  std::uint64_t map_generation = 0;
  Uuid mounted_volume;  // nil: none yet
  bool caches_attributes = false;
  bool early_replies = true;
  ProtocolRange protocol{};
  std::string program{};  // this client's release
};

struct Greeting {
  v1::HelloReply hello;
  // What came before that answer or along with it, as recalls may that a lost stream had left: it
  // is to be handled before what the stream brings next.
  v1::ServerFrame rest;
};

// UNAVAILABLE when the stream ended first (its Finish says why); else the controller's own errno.
// Of a standby EREMOTE, and `*active` is whom it named. EPROTONOSUPPORT: no common protocol
// version, and which program is to be upgraded. ENODEV: the volume of that name is another one than
// is mounted.
absl::StatusOr<Greeting> SayHello(MdcStream& stream, const HelloFrom& from, std::string* active);

// The volume descriptor of a reply to a first Hello; DATA_LOSS when there is none or it is damaged.
absl::StatusOr<VolumeDescriptor> DescriptorOf(const v1::HelloReply& reply);

// Cancels the stream, drops what still comes, and says how it ended.
absl::Status EndStream(MdcStream& stream);

}  // namespace reel::client
