// A LUN that the kernel shows as a block device: SCSI (FC, open-iscsi), NVMe, device mapper.
//
// The path to it is the kernel's, and one for all processes of the host: a command of a process
// that was killed stays with the kernel, which may send it again much later, under whatever key the
// host is registered with by then. So the claim is held by the very file that carries the I/O. The
// kernel lets go of a file when the last request on it has ended, not when its process has; who
// gets the claim after that comes after the last of its commands. Nothing is registered without the
// claim (volume/scsi/block_reservations.h).
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "volume/lun/fd_lun.h"
#include "volume/scsi/block_reservations.h"

namespace reel {

class BlockLun final : public FdLun {
 public:
  static absl::StatusOr<std::unique_ptr<Lun>> Open(const std::string& path, LunAccess access);

  Reservations* reservations() const override { return reservations_.get(); }
  bool executes_late() const override { return true; }
  absl::StatusOr<std::uint64_t> SizeNow() override;
  absl::Status Discard(std::uint64_t offset_bytes, std::uint64_t length_bytes) override;
  // The device is the kernel's to mend: OK when it answers a read. One that the kernel has removed
  // never will; what has its name by then is used from then on, if that begins with the same block.
  // It is another path, not registered; and claimed, if the old one was.
  // REQUIRES, for that: nothing that was started has yet to complete.
  absl::Status Reopen() override;
  // Mounts, swap, LVM, MD and other claimants of the kernel's count as holders too; and so does
  // what a process that is gone has left with the kernel. What this object did before is not
  // covered.
  absl::Status ClaimForThisProcess() override;

 private:
  // A file that was opened exclusively. All objects of this process for one device share it.
  struct Claim;
  using FdLun::FdLun;
  // Under the mutex of all claims. FAILED_PRECONDITION: somebody else has it.
  absl::StatusOr<std::shared_ptr<const Claim>> ClaimOf(dev_t device) const;
  std::vector<DevicePath> Paths() const;
  absl::Status MoveTo(const UniqueFd& device, dev_t number);
  // The first block: a label, which names the LUN. Empty when it could not be read.
  static std::string BeginningOf(int fd);

  std::string beginning_;  // as of Open
  std::unique_ptr<BlockReservations> reservations_;
  std::shared_ptr<const Claim> claim_;  // under the mutex of all claims
};

}  // namespace reel
