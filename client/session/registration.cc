#include "client/session/registration.h"

#include <cerrno>
#include <span>

#include "absl/strings/str_cat.h"
#include "proto/status.h"

namespace reel::client {
namespace {

// Ids of ordinary requests count from 1; a Hello has the stream for itself.
constexpr std::uint64_t kHelloId = ~std::uint64_t{0};

absl::Status Refusal(const HelloFrom& from, const v1::Reply& reply) {
  switch (reply.error()) {
    case ENOENT:
      return ErrnoStatus(ENOENT, absl::StrCat("no volume ", from.volume, " here"));
    default:
      return ErrnoStatus(reply.error() > 0 && reply.error() < 4096 ? reply.error() : EIO,
                         reply.message());
  }
}

}  // namespace

absl::StatusOr<Greeting> SayHello(MdcStream& stream, const HelloFrom& from, std::string* active) {
  v1::ClientFrame frame;
  v1::Request& request = *frame.add_requests();
  request.set_id(kHelloId);
  v1::Hello& hello = *request.mutable_hello();
  hello.set_protocol_min(from.protocol.oldest);
  hello.set_protocol_max(from.protocol.newest);
  if (from.protocol.newest >= 2) {
    const std::uint64_t unwanted = from.early_replies ? 0 : v1::FEATURE_EARLY_REPLY;
    hello.set_features(SpokenFeatures(from.protocol) & ~unwanted);
    hello.set_program(from.program);
    if (!from.mounted_volume.is_nil()) hello.set_mounted_volume(from.mounted_volume.ToBytes());
  }
  hello.set_volume(from.volume);
  hello.set_client(from.incarnation.ToBytes());
  hello.set_host(from.host);
  hello.set_mount_point(from.mount_point);
  hello.set_resume_session(from.resume_session);
  hello.set_map_generation(from.map_generation);
  hello.set_caches_attributes(from.caches_attributes);
  Greeting greeting;
  v1::ServerFrame received;
  if (!stream.Send(frame)) return absl::UnavailableError("the stream ended before Hello");
  while (stream.Receive(&received)) {
    greeting.rest.mutable_callbacks()->MergeFrom(received.callbacks());
    auto& replies = *received.mutable_replies();
    for (auto reply = replies.begin(); reply != replies.end(); ++reply) {
      if (reply->id() != kHelloId) continue;
      *active = reply->active();
      if (reply->error() != 0) return Refusal(from, *reply);
      const v1::HelloReply& result = greeting.hello = std::move(*reply->mutable_hello());
      if (result.session() == 0 || result.slots() == 0 || result.lease_ms() == 0) {
        return ErrnoStatus(EIO, "the controller's answer to Hello lacks session, slots or lease");
      }
      if (result.protocol() < from.protocol.oldest || result.protocol() > from.protocol.newest) {
        return ErrnoStatus(EPROTONOSUPPORT,
                           absl::StrCat("the controller chose protocol version ", result.protocol(),
                                        ", and this client speaks ", ProtocolText(from.protocol)));
      }
      replies.erase(reply);
      greeting.rest.mutable_replies()->Swap(&replies);
      return greeting;
    }
  }
  return absl::UnavailableError("the stream ended before the answer to Hello");
}

absl::Status EndStream(MdcStream& stream) {
  stream.Cancel();
  v1::ServerFrame rest;
  while (stream.Receive(&rest)) {
  }
  return stream.Finish();
}

absl::StatusOr<VolumeDescriptor> DescriptorOf(const v1::HelloReply& reply) {
  if (reply.volume_descriptor().empty()) {
    return absl::DataLossError("the controller sent no volume descriptor");
  }
  return DecodeDescriptor(std::as_bytes(std::span(reply.volume_descriptor())));
}

}  // namespace reel::client
