#include "proto/status.h"

#include <cerrno>

#include "gtest/gtest.h"

namespace reel {
namespace {

TEST(Status, ErrnoSurvivesExactly) {
  for (int value :
       {EPERM, ENOENT, EIO, EEXIST, ENOTDIR, EISDIR, EINVAL, EFBIG, ENOSPC, EMLINK, ERANGE,
        ENAMETOOLONG, ENOTEMPTY, ELOOP, ENODATA, ESTALE, EDQUOT, EOPNOTSUPP, 133}) {
    const absl::Status status = ErrnoStatus(value, "what failed");
    EXPECT_FALSE(status.ok());
    EXPECT_EQ(ErrnoOf(status), value);
    EXPECT_EQ(status.message(), "what failed");
  }
}

TEST(Status, EveryCodeHasAnErrno) {
  EXPECT_EQ(ErrnoOf(absl::OkStatus()), 0);
  EXPECT_EQ(ErrnoOf(absl::NotFoundError("")), ENOENT);
  EXPECT_EQ(ErrnoOf(absl::InvalidArgumentError("")), EINVAL);
  EXPECT_EQ(ErrnoOf(absl::ResourceExhaustedError("")), ENOSPC);
  EXPECT_EQ(ErrnoOf(absl::DataLossError("")), EIO);
  EXPECT_EQ(ErrnoOf(absl::InternalError("")), EIO);
  EXPECT_EQ(ErrnoOf(absl::UnknownError("")), EIO);
  EXPECT_EQ(ErrnoOf(absl::UnavailableError("")), EAGAIN);
  EXPECT_EQ(ErrnoOf(absl::UnimplementedError("")), EOPNOTSUPP);
}

TEST(Status, CodesAreTheNearest) {
  EXPECT_EQ(ErrnoStatus(ENODATA).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ErrnoStatus(EISDIR).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(ErrnoStatus(ENOENT).message().empty());
}

TEST(Status, ForeignPayloadIsNotTrusted) {
  absl::Status status = absl::NotFoundError("x");
  status.SetPayload("reelfs/errno", absl::Cord("-5"));
  EXPECT_EQ(ErrnoOf(status), ENOENT);
}

}  // namespace
}  // namespace reel
