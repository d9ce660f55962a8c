#include "tools/lib/table.h"

#include <gtest/gtest.h>

namespace reel::tools {
namespace {

TEST(Table, AlignsColumnsAndCutsTrailingSpaces) {
  Table table({{"name"}, {"size", Table::Align::kRight}, {"state"}});
  table.Add({"m0", "1 GiB", "ok"});
  table.Add({"größe", "16 KiB", ""});
  EXPECT_EQ(table.ToString(),
            "name     size  state\n"
            "m0      1 GiB  ok\n"
            "größe  16 KiB\n");
}

TEST(Table, NothingDrivesTheTerminal) {
  Table table({{"host"}});
  table.Add({"a\x1b[2J\nb"});
  EXPECT_EQ(table.ToString(), "host\na?[2J?b\n");
}

}  // namespace
}  // namespace reel::tools
