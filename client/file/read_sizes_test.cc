#include "client/file/read_sizes.h"

#include <gtest/gtest.h>

namespace reel::client {
namespace {

TEST(ReadSizes, ManySmallReadsAreAHabitUntilALargeOne) {
  ReadSizes sizes;
  for (std::uint32_t i = 1; i < ReadSizes::kManyReads; ++i) sizes.Note(100);
  EXPECT_FALSE(sizes.small());
  sizes.Note(ReadSizes::kSmallBytes);
  EXPECT_TRUE(sizes.small());
  sizes.Note(ReadSizes::kLargeBytes - 1);
  EXPECT_TRUE(sizes.small());
  sizes.Note(ReadSizes::kLargeBytes);
  EXPECT_FALSE(sizes.small());
}

TEST(ReadSizes, MiddlingReadsSayNothing) {
  ReadSizes sizes;
  for (std::uint32_t i = 0; i < 2 * ReadSizes::kManyReads; ++i) {
    sizes.Note(ReadSizes::kSmallBytes + 1);
  }
  EXPECT_FALSE(sizes.small());
}

}  // namespace
}  // namespace reel::client
