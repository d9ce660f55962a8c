#include "client/file/write_error.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace reel::client {
namespace {

TEST(WriteErrorTest, EachOpenFileIsToldOnce) {
  WriteError error;
  EXPECT_EQ(error.Tell(1), 0);
  error.Note(EIO, 2);
  EXPECT_EQ(error.Tell(1), EIO);
  EXPECT_EQ(error.Tell(1), 0);
  EXPECT_EQ(error.Tell(2), EIO);
  EXPECT_EQ(error.Tell(2), 0);
  EXPECT_EQ(error.Tell(3), 0);  // it was opened after that, and somebody knows
}

TEST(WriteErrorTest, AnErrorThatNobodyKnowsWaits) {
  WriteError error;
  error.Note(EIO, 1);
  error.AllClosed();
  EXPECT_TRUE(error.untold());
  EXPECT_EQ(error.Tell(7), EIO);
  EXPECT_EQ(error.Tell(7), 0);
  EXPECT_EQ(error.Tell(8), 0);
  error.AllClosed();
  EXPECT_EQ(error.Tell(1), 0);
}

TEST(WriteErrorTest, WhatACloseShowsIsToldAllTheSame) {
  WriteError error;
  EXPECT_EQ(error.Show(1), 0);
  error.Note(EIO, 2);
  EXPECT_EQ(error.Show(1), EIO);
  EXPECT_EQ(error.Show(1), EIO);
  EXPECT_FALSE(error.untold()) << "somebody may know";
  EXPECT_EQ(error.Tell(3), 0) << "it was opened after that";
  EXPECT_EQ(error.Tell(1), EIO);
  EXPECT_EQ(error.Show(1), 0);
  EXPECT_EQ(error.Tell(1), 0);
  error.AllClosed();
  EXPECT_EQ(error.Tell(2), 0);
}

TEST(WriteErrorTest, WhoOpensTheFileLaterIsToldWhatNobodyKnows) {
  WriteError error;
  error.Note(EIO, 1);
  EXPECT_EQ(error.Show(7), 0) << "it has written none of it";
  EXPECT_EQ(error.Tell(7), EIO);
  EXPECT_EQ(error.Tell(7), 0);
  EXPECT_EQ(error.Tell(8), 0);
  EXPECT_EQ(error.Show(1), EIO);
}

TEST(WriteErrorTest, TheNextErrorIsToldAnew) {
  WriteError error;
  error.Note(EIO, 1);
  EXPECT_EQ(error.Tell(1), EIO);
  error.Note(ETIMEDOUT, 2);
  EXPECT_EQ(error.Tell(1), ETIMEDOUT);
  EXPECT_EQ(error.Tell(2), ETIMEDOUT);
}

}  // namespace
}  // namespace reel::client
