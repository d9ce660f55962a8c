// A LUN that the kernel shows as a block device: SCSI (FC, open-iscsi), NVMe, device mapper.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "volume/block_reservations.h"
#include "volume/fd_lun.h"

namespace reel {

class BlockLun final : public FdLun {
 public:
  static absl::StatusOr<std::unique_ptr<Lun>> Open(const std::string& path, LunAccess access);

  Reservations* reservations() const override { return reservations_.get(); }
  absl::Status Discard(std::uint64_t offset_bytes, std::uint64_t length_bytes) override;
  // The device is the kernel's to mend: OK when it answers a read.
  absl::Status Reopen() override;
  // Mounts, swap, LVM, MD and other claimants of the kernel's count as holders too.
  absl::Status ClaimForThisProcess() override;

 private:
  using FdLun::FdLun;
  std::unique_ptr<BlockReservations> reservations_;
  UniqueFd claim_;  // the exclusive descriptor, while claimed
};

}  // namespace reel
