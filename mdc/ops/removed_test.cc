// What was removed costs nothing: scans do not step over it again and again.
#include <gtest/gtest.h>

#include <random>

#include "mdc/ops/layout.h"
#include "mdc/ops/names.h"
#include "mdc/ops/orphans.h"
#include "mdc/testing/op_fixture.h"

namespace reel::mdc {
namespace {

// Removed keys that a round may pass: some for each scan, however many rounds there were.
constexpr std::uint64_t kPassedInARound = 100;

class RemovedTest : public OpFixture {
 protected:
  std::uint64_t Passed() {
    for (const auto& [name, value] : store_.db().Counters()) {
      if (name == "removed_keys_passed") return value;
    }
    ADD_FAILURE() << "no such counter";
    return 0;
  }
  // Runs the rounds, and looks at the cost of the first hundreds and of the last.
  template <typename Round>
  void ExpectFlat(int rounds, Round round) {
    constexpr int kLooked = 200;
    std::uint64_t before = 0;
    for (int i = 0; i < rounds; ++i) {
      if (i == 0 || i == rounds - kLooked) before = Passed();
      round(i);
      if (i == kLooked - 1 || i == rounds - 1) {
        EXPECT_LE(Passed() - before, kLooked * kPassedInARound) << "up to round " << i;
      }
      ASSERT_FALSE(HasFailure());
    }
  }
};

TEST_F(RemovedTest, WritingAtARandomPlaceAndTruncatingCostsTheSameForEver) {
  const std::uint64_t file = MakeFile(kRoot, "file");
  std::mt19937 random(1);
  ExpectFlat(3000, [&](int) {
    v1::Request request;
    v1::LayoutGet& get = *request.mutable_layout_get();
    get.set_inode(file);
    get.set_mode(v1::TOKEN_EXCLUSIVE);
    get.set_allocate(true);
    get.set_offset_bytes(std::uint64_t{random() % (1 << 19)} * volume_.block_bytes);
    get.set_length_bytes(volume_.block_bytes);
    ASSERT_EQ(Do(LayoutGet, request), 0);
    ASSERT_EQ(Truncate(file, get.offset_bytes() + get.length_bytes()), 0);
    ASSERT_EQ(Truncate(file, 0), 0);
  });
  ExpectSound();
}

TEST_F(RemovedTest, ListingASpoolDirectoryCostsTheSameForEver) {
  const std::uint64_t spool = MakeDir(kRoot, "spool");
  std::mt19937 random(1);
  std::vector<std::string> waiting;
  ExpectFlat(3000, [&](int i) {
    waiting.push_back("job" + std::to_string(i));
    MakeFile(spool, waiting.back());
    if (waiting.size() > 8) {
      const auto next = waiting.begin() + static_cast<std::ptrdiff_t>(random() % waiting.size());
      ASSERT_EQ(Unlink(spool, *next), 0);
      waiting.erase(next);
    }
    ASSERT_EQ(List(spool).size(), waiting.size() + 2);
  });
  ExpectSound();
}

TEST_F(RemovedTest, RemovingALargeFileLooksAtEachExtentOnce) {
  constexpr std::uint64_t kCount = 30'000;
  const std::uint64_t file = MakeFile(kRoot, "file");
  Scatter(file, kCount);
  ASSERT_EQ(Unlink(kRoot, "file"), 0);
  const std::uint64_t before = Passed();
  const int steps = Reap();
  EXPECT_GE(steps, static_cast<int>(kCount / kReapExtents) - 1);
  EXPECT_LE(Passed() - before, static_cast<std::uint64_t>(steps) * kPassedInARound);
  ExpectSound();
}

}  // namespace
}  // namespace reel::mdc
