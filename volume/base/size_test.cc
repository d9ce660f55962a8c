#include "volume/base/size.h"

#include <gtest/gtest.h>

namespace reel {
namespace {

TEST(Size, ParsesIecUnits) {
  EXPECT_EQ(*ParseSize("0"), 0u);
  EXPECT_EQ(*ParseSize("4096"), 4096u);
  EXPECT_EQ(*ParseSize("4096B"), 4096u);
  EXPECT_EQ(*ParseSize("16K"), 16384u);
  EXPECT_EQ(*ParseSize("16kib"), 16384u);
  EXPECT_EQ(*ParseSize("1 MiB"), 1u << 20);
  EXPECT_EQ(*ParseSize("3Gi"), std::uint64_t{3} << 30);
  EXPECT_EQ(*ParseSize("15EiB"), std::uint64_t{15} << 60);
}

TEST(Size, RefusesAmbiguousSizes) {
  for (const char* text : {"", " 1", "K", "-1", "1.5G", "16kB", "1MB", "1X", "1KiBs", "1  K",
                           "16EiB", "18446744073709551616", "99999999999999999999"}) {
    EXPECT_FALSE(ParseSize(text).ok()) << text;
  }
}

TEST(Size, RefusesOnOneLine) {
  EXPECT_EQ(ParseSize("2\n\x1b[2J").status().message(),
            "\"2\\n\\x1b[2J\" is not a size (unknown unit); write it like 4096, 256KiB or 1GiB");
}

TEST(Size, PrintsTheLargestUnitRoundedDown) {
  EXPECT_EQ(FormatSize(0), "0 B");
  EXPECT_EQ(FormatSize(1023), "1023 B");
  EXPECT_EQ(FormatSize(16384), "16 KiB");
  EXPECT_EQ(FormatSize((3u << 20) / 2), "1.5 MiB");
  EXPECT_EQ(FormatSize((1u << 20) - 1), "1023.9 KiB");
  EXPECT_EQ(FormatSize(~std::uint64_t{0}), "15.9 EiB");
}

TEST(Size, PrintedSizesParse) {
  for (std::uint64_t size : {1ull, 1024ull, 7ull << 20, 5ull << 40, 1ull << 60}) {
    EXPECT_EQ(*ParseSize(FormatSize(size)), size);
  }
}

}  // namespace
}  // namespace reel
