// The LUNs of a sweep: only such as hold nothing, and that hold nothing afterwards.
//
// Invariants:
//   1. A LUN with a label, a partition table, a file system, or any byte that is not zero in its
//      first or last MiB is refused. Nothing overrides that.
//   2. The first and the last MiB are never written: they stay zeros, so that the LUN can be
//   labelled
//      afterwards as before, whenever the sweep ends, and however.
//   3. It is claimed against other processes of this host, and looked at again before each point:
//      another host may have labelled it meanwhile.
// Thread rule: one thread owns it; the LUNs themselves may be used by any.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "volume/format/descriptor.h"
#include "volume/lun/lun.h"

namespace reel::bench {

class SweepLuns {
 public:
  // `names` as OpenLun takes them. Nothing is written. FAILED_PRECONDITION says what a LUN holds;
  // INVALID_ARGUMENT: too small for a volume.
  static absl::StatusOr<SweepLuns> Open(const std::vector<std::string>& names,
                                        std::uint64_t area_bytes);

  std::size_t size() const { return luns_.size(); }
  Lun& lun(std::size_t i) const { return *luns_[i]; }
  std::uint64_t area_bytes() const { return area_bytes_; }  // on each LUN, from 1 MiB on

  // Fills the area of every LUN: what was never written is not read from a medium.
  absl::Status LayOut(bool progress) const;
  // Invariant 3.
  absl::Status CheckStillBlank() const;
  // Gives the area back where the LUNs can (thin ones, image files); elsewhere it keeps the noise.
  void Discard() const;

  // A volume of one pool on the areas. INVALID_ARGUMENT where they do not hold such a stripe.
  absl::StatusOr<VolumeDescriptor> Volume(std::uint64_t block_bytes,
                                          std::uint64_t breadth_bytes) const;

 private:
  std::vector<std::unique_ptr<Lun>> luns_;
  std::uint64_t area_bytes_ = 0;
};

}  // namespace reel::bench
