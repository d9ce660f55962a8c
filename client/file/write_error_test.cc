#include "client/file/write_error.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace reel::client {
namespace {

TEST(WriteErrorTest, EachOpenFileGetsTheErrorOnce) {
  WriteError error;
  EXPECT_EQ(error.Report(1), 0);
  error.Note(EIO, 2);
  EXPECT_EQ(error.Report(1), EIO);
  EXPECT_EQ(error.Report(1), 0);
  EXPECT_EQ(error.Report(2), EIO);
  EXPECT_EQ(error.Report(2), 0);
  EXPECT_EQ(error.Report(3), 0);  // it was opened after that, and somebody knows
}

TEST(WriteErrorTest, AnUnreportedErrorWaits) {
  WriteError error;
  error.Note(EIO, 1);
  error.AllClosed();
  EXPECT_TRUE(error.unreported());
  EXPECT_EQ(error.Report(7), EIO);
  EXPECT_EQ(error.Report(7), 0);
  EXPECT_EQ(error.Report(8), 0);
  error.AllClosed();
  EXPECT_EQ(error.Report(1), 0);
}

TEST(WriteErrorTest, AnErrorThatCloseReturnedIsStillReported) {
  WriteError error;
  EXPECT_EQ(error.Show(1), 0);
  error.Note(EIO, 2);
  EXPECT_EQ(error.Show(1), EIO);
  EXPECT_EQ(error.Show(1), EIO);
  EXPECT_FALSE(error.unreported()) << "somebody may know";
  EXPECT_EQ(error.Report(3), 0) << "it was opened after that";
  EXPECT_EQ(error.Report(1), EIO);
  EXPECT_EQ(error.Show(1), 0);
  EXPECT_EQ(error.Report(1), 0);
  error.AllClosed();
  EXPECT_EQ(error.Report(2), 0);
}

TEST(WriteErrorTest, ALaterOpenGetsAnUnreportedError) {
  WriteError error;
  error.Note(EIO, 1);
  EXPECT_EQ(error.Show(7), 0) << "it has written none of it";
  EXPECT_EQ(error.Report(7), EIO);
  EXPECT_EQ(error.Report(7), 0);
  EXPECT_EQ(error.Report(8), 0);
  EXPECT_EQ(error.Show(1), EIO);
}

TEST(WriteErrorTest, TheNextErrorIsReportedAnew) {
  WriteError error;
  error.Note(EIO, 1);
  EXPECT_EQ(error.Report(1), EIO);
  error.Note(ETIMEDOUT, 2);
  EXPECT_EQ(error.Report(1), ETIMEDOUT);
  EXPECT_EQ(error.Report(2), ETIMEDOUT);
}

}  // namespace
}  // namespace reel::client
