#include "mdc/serve/store_workers.h"

#include <gtest/gtest.h>

#include <future>
#include <vector>

namespace reel::mdc {
namespace {

void OrderCommit(StoreWorkers& workers) {
  std::vector<int> none;
  workers.Order(/*commits=*/true, none, [](int) { return [] {}; });
}

TEST(StoreWorkers, ACommitThatWasOrderedIsDoneBeforeTheEnd) {
  int commits = 0;
  StoreWorkers workers;
  OrderCommit(workers);
  OrderCommit(workers);
  workers.Start([&] { return ++commits > 0; }, /*readers=*/0);
  workers.Stop();
  EXPECT_EQ(commits, 1);
}

TEST(StoreWorkers, OrdersDuringACommitShareTheNext) {
  int commits = 0;
  StoreWorkers workers;
  OrderCommit(workers);
  workers.Start(
      [&] {
        if (++commits == 1) {
          OrderCommit(workers);
          OrderCommit(workers);
        }
        return true;
      },
      /*readers=*/0);
  workers.Stop();
  EXPECT_EQ(commits, 2);
}

TEST(StoreWorkers, AFailedCommitIsTheLast) {
  int commits = 0;
  StoreWorkers workers;
  OrderCommit(workers);
  workers.Start(
      [&] {
        ++commits;
        OrderCommit(workers);
        return false;
      },
      /*readers=*/0);
  workers.Stop();
  EXPECT_EQ(commits, 1);
}

TEST(StoreWorkers, JobsBeginInOrder) {
  std::vector<int> done;
  std::promise<void> last;
  StoreWorkers workers;
  std::vector<int> orders = {1, 2};
  workers.Order(/*commits=*/false, orders,
                [&](int order) { return [&done, order] { done.push_back(order); }; });
  workers.Add([&] { last.set_value(); });
  workers.Start([] { return true; }, /*readers=*/1);
  last.get_future().wait();
  workers.Stop();
  EXPECT_EQ(done, (std::vector<int>{1, 2}));
}

}  // namespace
}  // namespace reel::mdc
