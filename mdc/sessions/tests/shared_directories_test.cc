#include "mdc/tables/shared_directories.h"

#include "gtest/gtest.h"

namespace reel::mdc {
namespace {

constexpr InodeNumber kDirectory(7);

TEST(SharedDirectories, ADirectoryIsSharedForAWhileAfterItWasLastWanted) {
  SharedDirectories shared(2'000);
  EXPECT_FALSE(shared.IsShared(kDirectory, 0));
  shared.Note(kDirectory, 1'000);
  EXPECT_TRUE(shared.IsShared(kDirectory, 2'999));
  EXPECT_FALSE(shared.IsShared(kDirectory, 3'000));
  EXPECT_FALSE(shared.IsShared(InodeNumber(8), 2'000));
  shared.Note(kDirectory, 2'500);
  EXPECT_TRUE(shared.IsShared(kDirectory, 4'499));
}

TEST(SharedDirectories, TheyAreBounded) {
  SharedDirectories shared(2'000);
  for (std::size_t i = 1; i <= SharedDirectories::kMost; ++i) shared.Note(InodeNumber(i), 0);
  EXPECT_TRUE(shared.IsShared(InodeNumber(1), 1));
  shared.Note(InodeNumber(SharedDirectories::kMost + 1), 0);
  EXPECT_FALSE(shared.IsShared(InodeNumber(1), 1));
  EXPECT_TRUE(shared.IsShared(InodeNumber(SharedDirectories::kMost + 1), 1));
}

}  // namespace
}  // namespace reel::mdc
