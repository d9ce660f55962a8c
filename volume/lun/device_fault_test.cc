// From a block device's errno to what a request may do next.
#include "volume/lun/device_fault.h"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>

namespace reel {
namespace {

TEST(DeviceFaultTest, EachErrnoHasItsMessage) {
  struct Row {
    int error;
    LunFault fault;
  };
  for (const Row& row : {
           Row{EBADE, LunFault::kFenced},
           Row{EAGAIN, LunFault::kBusy},
           Row{EBUSY, LunFault::kBusy},
           Row{ENOMEM, LunFault::kBusy},
           Row{EREMCHG, LunFault::kBusy},
           Row{EIO, LunFault::kInDoubt},
           Row{ENOLINK, LunFault::kInDoubt},
           Row{ETIMEDOUT, LunFault::kInDoubt},
           Row{ETIME, LunFault::kInDoubt},
           Row{ENODEV, LunFault::kInDoubt},
           Row{ENXIO, LunFault::kInDoubt},
           Row{EREMOTEIO, LunFault::kNone},
           Row{ENODATA, LunFault::kNone},
           Row{EILSEQ, LunFault::kNone},
           Row{ENOSPC, LunFault::kNone},
           Row{EINVAL, LunFault::kNone},
           Row{EROFS, LunFault::kNone},
           Row{EBADF, LunFault::kNone},
       }) {
    EXPECT_EQ(DeviceFault(row.error), row.fault) << row.error;
    const absl::Status failure = DeviceFailure(row.error);
    EXPECT_FALSE(failure.ok());
    EXPECT_EQ(FaultOf(failure), row.fault) << failure;
  }
}

TEST(DeviceFaultTest, TheWorstOfSeveralFaultsIsReported) {
  const std::array<absl::Status, 8> in_order = {
      absl::OkStatus(),
      LunFaultStatus(LunFault::kBusy, ""),
      LunFaultStatus(LunFault::kAborted, ""),
      absl::UnknownError("final"),
      LunFaultStatus(LunFault::kClosed, ""),
      LunFaultStatus(LunFault::kFenced, ""),
      LunFaultStatus(LunFault::kInDoubt, ""),
      LunFaultStatus(LunFault::kUnknown, ""),
  };
  for (std::size_t i = 0; i < in_order.size(); ++i) {
    for (std::size_t j = 0; j < in_order.size(); ++j) {
      EXPECT_EQ(IsWorse(in_order[i], in_order[j]), i > j) << i << " and " << j;
    }
  }
}

}  // namespace
}  // namespace reel
