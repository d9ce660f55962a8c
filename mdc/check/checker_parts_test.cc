// Where the work is, there are the parts: also where numbers lie in two heaps far from each other,
// as they do after a restore.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "mdc/check/checker_facts.h"
#include "mdc/metadb/rocks_memory.h"

namespace reel::mdc::checker {
namespace {

constexpr std::uint64_t kFar = std::uint64_t{1} << 40;
constexpr std::uint64_t kInodes = 600;  // in either heap

class PartsTest : public testing::Test {
 protected:
  PartsTest() {
    std::mt19937_64 random(1);
    for (std::uint64_t i = 0; i < kInodes; ++i) {
      WriteBatch batch;
      for (const std::uint64_t inode : {1 + i, kFar + i}) {
        std::string value(32 << 10, '\0');
        std::generate(value.begin(), value.end(), [&] { return static_cast<char>(random()); });
        batch.Put(schema::XattrKey(InodeNumber(inode), "user.large"), value);
      }
      EXPECT_TRUE(store_.db().Apply(batch).ok());
    }
    std::atomic<bool> cancelled{false};
    EXPECT_TRUE(store_.db().Compact(cancelled).ok());
  }
  MemoryStore store_;
};

TEST_F(PartsTest, AreAboutAsLargeAsEachOther) {
  const std::vector<std::uint64_t> parts = PartsOf(*store_.db().TakeSnapshot(), {});
  EXPECT_EQ(parts.front(), 0u);
  EXPECT_TRUE(std::is_sorted(parts.begin(), parts.end()));
  const auto low = std::count_if(parts.begin(), parts.end(), [](auto at) { return at < kFar; });
  EXPECT_GE(low, 6);  // 19 MiB by 2 MiB
  EXPECT_GE(static_cast<long>(parts.size()) - low, 6);
  EXPECT_LE(parts.size(), 48u);
}

TEST_F(PartsTest, EveryInodeIsInOneOfThem) {
  const auto view = store_.db().TakeSnapshot();
  CheckTotals totals;
  const CheckSink nobody{};
  Pace pace(nullptr);
  Report report(nobody, totals, pace);
  const std::vector<std::uint64_t> parts = PartsOf(*view, {});
  std::uint64_t seen = 0, last = 0;
  for (std::size_t part = 0; part < parts.size(); ++part) {
    InodeRange range{parts[part], std::nullopt};
    if (part + 1 < parts.size()) range.to = parts[part + 1];
    for (FamilyCursor cursor(*view, schema::Family::kXattr, range, report); cursor.valid();
         cursor.Next()) {
      EXPECT_GT(cursor.key().first, last);
      last = cursor.key().first;
      ++seen;
    }
  }
  EXPECT_EQ(seen, 2 * kInodes);
  EXPECT_EQ(totals.problems, 0u);
}

}  // namespace
}  // namespace reel::mdc::checker
