// A LUN that the kernel shows as a block device: SCSI (FC, open-iscsi), NVMe, device mapper.
//
// The path to it is the kernel's, and one for all processes of the host: a command of a process
// that was killed stays with the kernel, which may send it again much later, under whatever key the
// host is registered with by then. So the claim is held by the very file that carries the I/O. The
// kernel lets go of a file when the last request on it has ended, not when its process has; who
// gets the claim after that comes after the last of its commands. Nothing is registered without the
// claim (volume/scsi/block_reservations.h).
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "volume/lun/fd_lun.h"
#include "volume/scsi/block_reservations.h"

namespace reel {

class BlockLun final : public FdLun {
 public:
  static absl::StatusOr<std::unique_ptr<Lun>> Open(const std::string& path, LunAccess access);

  Reservations* reservations() const override { return reservations_.get(); }
  bool executes_late() const override { return true; }
  absl::Status Discard(std::uint64_t offset_bytes, std::uint64_t length_bytes) override;
  // The device is the kernel's to mend: OK when it answers a read.
  absl::Status Reopen() override;
  // Mounts, swap, LVM, MD and other claimants of the kernel's count as holders too; and so does
  // what a process that is gone has left with the kernel. What this object did before is not
  // covered.
  absl::Status ClaimForThisProcess() override;

 private:
  // A file that was opened exclusively. All objects of this process for one device share it.
  struct Claim;
  using FdLun::FdLun;
  std::unique_ptr<BlockReservations> reservations_;
  std::shared_ptr<const Claim> claim_;  // under the mutex of all claims
};

}  // namespace reel
