// What reeladm asks a metadata controller: the calls of proto/admin.proto, without gRPC in sight,
// so that commands can be tested against made-up answers. Threads: one.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/strip.h"
#include "proto/admin.pb.h"
#include "proto/tls/tls.h"

namespace reel::tools {

// What one of a volume's controllers says of its volumes.
struct MdcAnswer {
  std::string address;
  absl::StatusOr<v1::VolumesReply> volumes;
};

class AdminApi {
 public:
  virtual ~AdminApi() = default;

  // Whether a question may be asked of another controller when the answer of one was lost.
  enum class Repeat { kYes, kNo };
  // Asks what `request` is named after: Ask<v1::ShowReply>(v1::ShowRequest) calls Show.
  // UNAVAILABLE: the controller cannot be reached; UNIMPLEMENTED: it lacks the call; else what it
  // answered.
  template <typename Reply, typename Request>
  absl::StatusOr<Reply> Ask(const Request& request, Repeat repeat = Repeat::kYes) {
    Reply reply;
    const absl::string_view name = Request::descriptor()->name();
    if (absl::Status status =
            Call(std::string(absl::StripSuffix(name, "Request")), request, reply, repeat);
        !status.ok()) {
      return status;
    }
    return reply;
  }
  // The same of a request that names a volume and nothing else.
  template <typename Reply, typename Request>
  absl::StatusOr<Reply> AskOf(const std::string& volume, Repeat repeat = Repeat::kYes) {
    Request request;
    request.set_volume(volume);
    return Ask<Reply>(request, repeat);
  }
  absl::StatusOr<v1::VolumesReply> Volumes() { return Ask<v1::VolumesReply>(v1::VolumesRequest()); }

  // The controllers that are asked, as they were given.
  virtual std::vector<std::string> mdcs() const = 0;
  // Each of them by itself, and whom they name as active: each daemon once.
  virtual std::vector<MdcAnswer> Everywhere() = 0;
  // The one at HOST:PORT, and no other.
  virtual std::unique_ptr<AdminApi> At(const std::string& mdc) = 0;

 protected:
  // `method`: a call of the service Admin, with its own request and reply.
  virtual absl::Status Call(const std::string& method, const google::protobuf::Message& request,
                            google::protobuf::Message& reply, Repeat repeat) = 0;
};

// Over gRPC to one of `mdcs` ("HOST:PORT"); connects at the first call, and each call waits at most
// `timeout_ms`. What a standby cannot answer is asked of the active controller that it names, and
// again while that one is not there, or nobody is; where there is no answer, the next one is asked,
// but nothing that might be done twice by that.
std::unique_ptr<AdminApi> ConnectAdmin(std::vector<std::string> mdcs, std::uint32_t timeout_ms,
                                       std::optional<TlsMaterial> tls);

}  // namespace reel::tools
