// What reeladm asks a metadata controller: the calls of proto/admin.proto, without gRPC in sight,
// so that commands can be tested against made-up answers. Threads: one.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/admin.pb.h"
#include "proto/tls.h"

namespace reel::tools {

class AdminApi {
 public:
  virtual ~AdminApi() = default;
  // UNAVAILABLE: the controller cannot be reached; else what it answered.
  virtual absl::StatusOr<v1::VolumesReply> Volumes() = 0;
  virtual absl::StatusOr<v1::DisksReply> Disks() = 0;
  virtual absl::StatusOr<v1::ShowReply> Show(const std::string& volume) = 0;
  virtual absl::StatusOr<v1::StatReply> Stat(const std::string& volume) = 0;
  virtual absl::StatusOr<v1::WhoReply> Who(const std::string& volume) = 0;
  virtual absl::StatusOr<v1::EvictReply> Evict(const v1::EvictRequest& request) = 0;
  virtual absl::StatusOr<v1::ReservationsReply> Reservations(const std::string& volume) = 0;
  virtual absl::StatusOr<v1::LocksReply> Locks(const std::string& volume) = 0;
  virtual absl::StatusOr<v1::LocksReply> BreakLocks(const v1::BreakLocksRequest& request) = 0;
};

// Over gRPC to "HOST:PORT"; connects at the first call, and each call waits at most `timeout_ms`.
std::unique_ptr<AdminApi> ConnectAdmin(const std::string& mdc, std::uint32_t timeout_ms,
                                       std::optional<TlsMaterial> tls);

}  // namespace reel::tools
