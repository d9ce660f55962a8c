#include "mdc/base/in_order.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

namespace reel {
namespace {

TEST(InOrderTest, EveryPartIsDoneOnceAndTakenInOrder) {
  for (const std::size_t threads : {1, 2, 7}) {
    for (const std::size_t parts : {0, 1, 5, 300}) {
      std::vector<std::size_t> made(parts, 0), taken;
      std::vector<std::atomic<int>> busy(threads);
      RunInOrder({.threads = threads,
                  .parts = parts,
                  .work =
                      [&](std::size_t worker, std::size_t part) {
                        EXPECT_EQ(busy.at(worker)++, 0);
                        made[part] += part + 1;
                        --busy[worker];
                      },
                  .take =
                      [&](std::size_t part) {
                        EXPECT_EQ(made[part], part + 1);
                        taken.push_back(part);
                      }});
      ASSERT_EQ(taken.size(), parts);
      for (std::size_t part = 0; part < parts; ++part) EXPECT_EQ(taken[part], part);
    }
  }
}

TEST(InOrderTest, FewResultsWait) {
  std::atomic<std::size_t> waiting{0}, most{0};
  RunInOrder({.threads = 3,
              .parts = 1000,
              .work =
                  [&](std::size_t, std::size_t) {
                    const std::size_t now = ++waiting;
                    if (now > most) most = now;
                  },
              .take = [&](std::size_t) { --waiting; }});
  EXPECT_LE(most, 12u);
}

}  // namespace
}  // namespace reel
