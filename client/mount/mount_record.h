// What umount.reelfs knows a mount's client by: a file /run/reelfs/MAJOR:MINOR, named after the
// mount's device and locked for as long as the client's process lives, at whose end it says there
// whether everything written is on the LUNs.
//
// Threads: externally synchronised.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "volume/lun/fd_lun.h"

namespace reel::client {

inline constexpr char kMountRecords[] = "/run/reelfs";

class MountRecord {
 public:
  // Takes the place of what an earlier client left, whose mount had the same number.
  static absl::StatusOr<MountRecord> Create(const std::string& device,
                                            const std::string& directory = kMountRecords);
  MountRecord(MountRecord&&) = default;
  MountRecord& operator=(MountRecord&&) = delete;
  // It is gone then; whoever has it open already reads what was said last.
  ~MountRecord();

  // OK: nothing that was written is lost.
  void End(const absl::Status& outcome);

 private:
  MountRecord(std::string path, UniqueFd file) : path_(std::move(path)), file_(std::move(file)) {}

  std::string path_;
  UniqueFd file_;
};

// The same from the other side, from before the unmount on.
class ClientWatch {
 public:
  // Nothing where no client of this release has mounted that.
  static std::optional<ClientWatch> Open(const std::string& device,
                                         const std::string& directory = kMountRecords);

  // Waits for the end of the client's process. DATA_LOSS says what it said, or that it said
  // nothing; DEADLINE_EXCEEDED: it lives on.
  absl::Status Await(std::uint64_t limit_ms) const;

 private:
  explicit ClientWatch(UniqueFd file) : file_(std::move(file)) {}

  UniqueFd file_;
};

}  // namespace reel::client
