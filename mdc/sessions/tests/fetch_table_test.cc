#include "mdc/sessions/fetch_table.h"

#include <memory>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace reel::mdc {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

PendingRef Waiter(std::uint64_t session = 1) {
  auto op = std::make_shared<Pending>();
  op->session = SessionId(session);
  return op;
}

Miss Get(const std::string& key) {
  return Miss{.key = key, .scan = false, .prefix = {}};
}

TEST(FetchTable, EqualMissesShareOneFetch) {
  FetchTable table;
  const PendingRef first = Waiter(), second = Waiter();
  table.Add(Get("k"), first);
  table.Add(Get("k"), second);
  const auto fetches = table.TakeFetches();
  ASSERT_THAT(fetches, SizeIs(1));
  EXPECT_EQ(fetches[0].miss.key, "k");
  EXPECT_TRUE(first->fetching && second->fetching);
  EXPECT_THAT(table.TakeFetches(), IsEmpty());
  EXPECT_THAT(table.Done(fetches[0].ticket), ElementsAre(first, second));
}

TEST(FetchTable, OtherKeysScansAndPrefixesAreOtherMisses) {
  FetchTable table;
  Miss scan = Get("k");
  scan.scan = true;
  Miss prefix = scan, shorter = scan;
  prefix.prefix = "k";  // its text is that of `shorter`, with the key
  prefix.key = "x";
  shorter.key = "kx";
  for (const Miss& miss : {Get("k"), Get("l"), scan, prefix, shorter}) table.Add(miss, nullptr);
  EXPECT_THAT(table.TakeFetches(), SizeIs(5));
}

TEST(FetchTable, AFinishedFetchBeginsAnewWithAnotherTicket) {
  FetchTable table;
  table.Add(Get("k"), nullptr);
  const TicketId first = table.TakeFetches().at(0).ticket;
  EXPECT_THAT(table.Done(first), IsEmpty());
  table.Add(Get("k"), Waiter());
  const TicketId second = table.TakeFetches().at(0).ticket;
  EXPECT_NE(first, second);
  EXPECT_THAT(table.Done(first), IsEmpty());
  EXPECT_THAT(table.Done(second), SizeIs(1));
}

TEST(FetchTable, AnEndedSessionsFetchesAreCancelled) {
  FetchTable table;
  const PendingRef gone = Waiter(1), other = Waiter(2);
  table.Add(Get("k"), gone);
  table.Add(Get("k"), other);
  table.CancelOf(SessionId(1));
  EXPECT_TRUE(gone->cancelled);
  EXPECT_FALSE(other->cancelled);
}

}  // namespace
}  // namespace reel::mdc
