// What --restore looks at before it writes anything: the dump, the LUNs of files, and their marks.
// Threads: one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "mdc/backup/dump_format.h"
#include "volume/format/descriptor.h"
#include "volume/lun/lun.h"

namespace reel::tools {

// Reads all of the dump: DATA_LOSS where anything of it is not as it was written.
struct WholeDump {
  mdc::DumpHead head;
  VolumeDescriptor descriptor;  // of the volume when the dump was taken
  std::uint64_t records = 0;
};
absl::StatusOr<WholeDump> ReadWholeDump(const std::string& path);

// What is left of a volume.
struct Remains {
  VolumeDescriptor descriptor;  // the last one that its LUNs know
  std::size_t metadata_pool = 0;
  // In the stripe map's order; null in the metadata pool.
  std::vector<std::shared_ptr<Lun>> luns{};
  std::vector<std::string> names{};  // of the same, as OpenLun takes them
  Epoch marked{};                    // the highest of a mark
};
// Finds and opens the LUNs of files. `replaced`: paths of LUNs that may still carry the label of a
// metadata LUN. NOT_FOUND, FAILED_PRECONDITION: a LUN of files is missing, a metadata LUN is not,
// both share a pool, or the volume has shrunk since the dump.
absl::StatusOr<Remains> FindRemains(const WholeDump& dump, const std::vector<std::string>& patterns,
                                    const std::vector<std::string>& replaced, bool look_only);
// FAILED_PRECONDITION: a mark does not name the dump, so that blocks that it names may be another
// file's by now.
absl::Status CheckMarks(const WholeDump& dump, Remains& remains);

}  // namespace reel::tools
