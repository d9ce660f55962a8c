// A Lun that stands for another one, owned elsewhere and living longer: where an owner of LUNs is
// wanted (OpenVolume) but the LUN is shared, between two places of a volume or two hosts of a test.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "volume/lun/lun.h"

namespace reel {

class BorrowedLun final : public Lun {
 public:
  explicit BorrowedLun(Lun& lun) : lun_(lun) {}

  const std::string& name() const override { return lun_.name(); }
  std::uint64_t size_bytes() const override { return lun_.size_bytes(); }
  absl::StatusOr<std::uint64_t> SizeNow() override { return lun_.SizeNow(); }
  absl::Status Grow() override { return lun_.Grow(); }
  std::uint32_t logical_block_bytes() const override { return lun_.logical_block_bytes(); }
  std::uint32_t optimal_io_bytes() const override { return lun_.optimal_io_bytes(); }
  Reservations* reservations() const override { return lun_.reservations(); }
  bool executes_late() const override { return lun_.executes_late(); }
  bool read_only() const override { return lun_.read_only(); }
  void Start(LunRequest& request) override { lun_.Start(request); }
  absl::Status Flush() override { return lun_.Flush(); }
  absl::Status Discard(std::uint64_t offset_bytes, std::uint64_t length_bytes) override {
    return lun_.Discard(offset_bytes, length_bytes);
  }
  absl::Status ClaimForThisProcess() override { return lun_.ClaimForThisProcess(); }
  absl::Status Reopen() override { return lun_.Reopen(); }

 private:
  Lun& lun_;
};

}  // namespace reel
