// What reeladm asks a metadata controller: the calls of proto/admin.proto, without gRPC in sight,
// so that commands can be tested against made-up answers. Threads: one.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
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
  // UNAVAILABLE: the controller cannot be reached; else what it answered.
  virtual absl::StatusOr<v1::VolumesReply> Volumes() = 0;
  virtual absl::StatusOr<v1::DisksReply> Disks() = 0;
  virtual absl::StatusOr<v1::ShowReply> Show(const std::string& volume) = 0;
  virtual absl::StatusOr<v1::StatReply> Stat(const std::string& volume) = 0;
  virtual absl::StatusOr<v1::WhoReply> Who(const std::string& volume) = 0;
  virtual absl::StatusOr<v1::FailReply> Fail(const v1::FailRequest& request) = 0;
  virtual absl::StatusOr<v1::StopReply> Stop(const std::string& volume) = 0;
  virtual absl::StatusOr<v1::StartReply> Start(const std::string& volume) = 0;
  virtual absl::StatusOr<v1::MaintenanceReply> Maintenance(
      const v1::MaintenanceRequest& request) = 0;
  virtual absl::StatusOr<v1::EvictReply> Evict(const v1::EvictRequest& request) = 0;
  virtual absl::StatusOr<v1::ReservationsReply> Reservations(const std::string& volume) = 0;
  virtual absl::StatusOr<v1::LocksReply> Locks(const std::string& volume) = 0;
  virtual absl::StatusOr<v1::LocksReply> BreakLocks(const v1::BreakLocksRequest& request) = 0;

  // Dumps of the metadata. Each may be asked twice without harm, but BeginDump, which gives up what
  // was begun before.
  virtual absl::StatusOr<v1::BeginDumpReply> BeginDump(const std::string& volume) = 0;
  virtual absl::StatusOr<v1::ReadDumpReply> ReadDump(const v1::ReadDumpRequest& request) = 0;
  virtual absl::StatusOr<v1::KeepDumpReply> KeepDump(const v1::KeepDumpRequest& request) = 0;
  virtual absl::StatusOr<v1::ReleaseDumpReply> ReleaseDump(const std::string& volume) = 0;

  // The controllers that are asked, as they were given.
  virtual std::vector<std::string> mdcs() const = 0;
  // Each of them by itself, and whom they name as active: each daemon once.
  virtual std::vector<MdcAnswer> Everywhere() = 0;
  // The one at HOST:PORT, and no other.
  virtual std::unique_ptr<AdminApi> At(const std::string& mdc) = 0;
};

// Over gRPC to one of `mdcs` ("HOST:PORT"); connects at the first call, and each call waits at most
// `timeout_ms`. What a standby cannot answer is asked of the active controller that it names; where
// there is no answer, the next one is asked, but nothing that might be done twice by that.
std::unique_ptr<AdminApi> ConnectAdmin(std::vector<std::string> mdcs, std::uint32_t timeout_ms,
                                       std::optional<TlsMaterial> tls);

}  // namespace reel::tools
