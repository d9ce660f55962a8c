#include "mdc/qos/bandwidth_book.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "mdc/metadb/rocks_memory.h"
#include "mdc/qos/bandwidth_desk.h"

namespace reel::mdc {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kMiBs = 1 << 20;

// A pool for metadata, and one for data with two stripe sets; its first LUN has grown since, and
// stands in a third.
VolumeDescriptor TwoSets() {
  VolumeDescriptor descriptor;
  descriptor.name = "v";
  descriptor.block_bytes = 4096;
  const auto lun = [](const char* name) {
    return LunEntry{.lun = Uuid::Random(), .name = name, .data_start_bytes = 1 << 20};
  };
  const LunEntry first = lun("a");
  const auto pool = [](const char* name, std::uint32_t flags) {
    return Pool{.name = name, .flags = flags, .breadth_blocks = 16, .affinities = {}, .sets = {}};
  };
  descriptor.pools = {pool("meta", Pool::kMetadata), pool("data", Pool::kData)};
  descriptor.pools[0].sets.push_back({.luns = {lun("m")}, .rows = 100});
  descriptor.pools[1].sets.push_back({.luns = {first, lun("b")}, .rows = 100});
  descriptor.pools[1].sets.push_back({.luns = {lun("c")}, .rows = 100});
  descriptor.pools[1].sets.push_back({.luns = {first}, .rows = 100});
  return descriptor;
}

class Book : public ::testing::Test {
 protected:
  absl::Status Capacity(std::optional<std::uint32_t> set, std::uint64_t rate) {
    v1::CapacityRecord capacity;
    capacity.set_rate_bytes(rate);
    return Take(book_.SetCapacity(descriptor_, PoolId(1), set, capacity));
  }
  static v1::ReservationRecord Client(const std::string& name, std::uint64_t rate) {
    v1::ReservationRecord record;
    record.set_kind(v1::RESERVATION_CLIENT);
    record.set_name(name);
    record.set_rate_bytes(rate);
    return record;
  }
  static v1::ReservationRecord Stream(std::uint64_t session, std::uint64_t inode) {
    v1::ReservationRecord record;
    record.set_kind(v1::RESERVATION_STREAM);
    record.set_session(session);
    record.set_inode(inode);
    record.set_rate_bytes(kMiBs);
    return record;
  }
  absl::Status Reserve(v1::ReservationRecord record) {
    return Take(book_.Reserve(descriptor_, std::move(record)));
  }
  absl::Status Take(const absl::StatusOr<BandwidthBook::Change>& change) {
    if (change.ok()) book_.Take(*change);
    return change.status();
  }

  const VolumeDescriptor descriptor_ = TwoSets();
  BandwidthBook book_;
};

TEST_F(Book, NothingIsReservedOfWhatNobodyHasMeasured) {
  ASSERT_TRUE(Capacity(0, 1000 * kMiBs).ok());
  const absl::Status refused = Reserve(Client("ws1", 100 * kMiBs));
  EXPECT_TRUE(absl::IsFailedPrecondition(refused));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("data/1"));
  ASSERT_TRUE(Capacity(std::nullopt, 1000 * kMiBs).ok());
  EXPECT_TRUE(Reserve(Client("ws1", 100 * kMiBs)).ok());
}

TEST_F(Book, MoreThanCanBeKeptIsRefusedWithTheNumbers) {
  ASSERT_TRUE(Capacity(std::nullopt, 1000 * kMiBs).ok());
  ASSERT_TRUE(Reserve(Client("ws1", 500 * kMiBs)).ok());
  const absl::Status refused = Reserve(Client("ws2", 401 * kMiBs));
  EXPECT_TRUE(absl::IsFailedPrecondition(refused));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("500 MiB/s are"));
  EXPECT_TRUE(Reserve(Client("ws2", 400 * kMiBs)).ok());
  EXPECT_EQ(book_.ReservedOn({1, 0}), 900 * kMiBs);
}

TEST_F(Book, AChangedReservationCountsOnce) {
  ASSERT_TRUE(Capacity(std::nullopt, 1000 * kMiBs).ok());
  ASSERT_TRUE(Reserve(Client("ws1", 500 * kMiBs)).ok());
  ASSERT_TRUE(Reserve(Client("ws1", 900 * kMiBs)).ok());
  EXPECT_EQ(book_.reservations().size(), 1u);
  EXPECT_EQ(book_.ReservedOn({1, 1}), 900 * kMiBs);
}

TEST_F(Book, ACapacityBelowWhatIsReservedIsRefused) {
  ASSERT_TRUE(Capacity(std::nullopt, 1000 * kMiBs).ok());
  ASSERT_TRUE(Reserve(Client("ws1", 500 * kMiBs)).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(Capacity(1, 500 * kMiBs)));
  EXPECT_TRUE(absl::IsFailedPrecondition(Capacity(1, 0)));
  EXPECT_TRUE(Capacity(1, 600 * kMiBs).ok());
}

TEST_F(Book, ItIsTheSameAfterItWasLoaded) {
  MemoryStore store;
  v1::CapacityRecord capacity;
  capacity.set_rate_bytes(1000 * kMiBs);
  auto change = book_.SetCapacity(descriptor_, PoolId(1), std::nullopt, capacity);
  ASSERT_TRUE(change.ok());
  book_.Take(*change);
  auto reserved = book_.Reserve(descriptor_, Client("ws1", 500 * kMiBs));
  ASSERT_TRUE(reserved.ok());
  WriteBatch batch;
  change->Stage(batch);
  reserved->Stage(batch);
  ASSERT_TRUE(store.db().Apply(batch).ok());
  BandwidthBook loaded;
  ASSERT_TRUE(loaded.Load(store.db()).ok());
  EXPECT_EQ(loaded.ReservedOn({1, 0}), 500 * kMiBs);
  EXPECT_EQ(loaded.capacities().at({1, 1}).rate_bytes(), 1000 * kMiBs);
}

TEST_F(Book, StreamsOfOneFileAreEachSessionsOwn) {
  ASSERT_TRUE(Capacity(std::nullopt, 1000 * kMiBs).ok());
  ASSERT_TRUE(Reserve(Stream(1, 7)).ok());
  ASSERT_TRUE(Reserve(Stream(2, 7)).ok());
  EXPECT_EQ(book_.StreamsOf(SessionId(1)).size(), 1u);
  EXPECT_EQ(book_.reservations().size(), 2u);
}

// ---- the desk ---------------------------------------------------------------------------------

class Desk : public Book {
 protected:
  BandwidthDesk::Deals Round() {
    now_ms_ += BandwidthDesk::kRoundMs;
    return desk_.Round(descriptor_, peers_, now_ms_);
  }
  void Prepare() {
    ASSERT_TRUE(Capacity(std::nullopt, 1000 * kMiBs).ok());
    desk_.book() = book_;
  }
  void Put(const v1::ReservationRecord& record) {
    auto change = desk_.book().Reserve(descriptor_, record);
    ASSERT_TRUE(change.ok()) << change.status();
    desk_.book().Take(*change);
  }
  void Drop(std::uint64_t id) { desk_.book().Take({.reservations = {{id, std::nullopt}}}); }

  BandwidthDesk desk_;
  std::vector<BandwidthDesk::Peer> peers_{{SessionId(1), "ws1"}, {SessionId(2), "ws2"}};
  std::uint64_t now_ms_ = 50'000;
};

TEST_F(Desk, WithoutReservationsNobodyIsToldAnything) {
  Prepare();
  EXPECT_TRUE(Round().empty());
  EXPECT_TRUE(Round().empty());
}

TEST_F(Desk, AReserverMaySendAtItsRateAtOnce) {
  Prepare();
  Put(Client("ws1", 500 * kMiBs));
  const auto deals = Round();
  ASSERT_EQ(deals.size(), 2u);
  ASSERT_EQ(deals[0].second.sets_size(), 2);
  EXPECT_GE(deals[0].second.sets(0).shares(0).rate_bytes(), 500 * kMiBs - 1);
  EXPECT_GT(deals[1].second.sets(0).shares(0).rate_bytes(), 0u);
}

TEST_F(Desk, TheLastReleaseIsToldOnce) {
  Prepare();
  Put(Client("ws1", 500 * kMiBs));
  ASSERT_EQ(Round().size(), 2u);
  Drop(1);
  const auto deals = Round();
  ASSERT_EQ(deals.size(), 2u);
  EXPECT_EQ(deals[0].second.sets_size(), 0);
  EXPECT_TRUE(Round().empty());
}

TEST_F(Desk, ADealIsToldAgainToANewStream) {
  Prepare();
  Put(Client("ws1", 500 * kMiBs));
  ASSERT_EQ(Round().size(), 2u);
  EXPECT_TRUE(Round().empty());
  desk_.Forget(SessionId(2));
  const auto deals = Round();
  ASSERT_EQ(deals.size(), 1u);
  EXPECT_EQ(deals[0].first, SessionId(2));
}

TEST_F(Desk, AStreamIsTheSessionsAloneAndOnlyItEndsIt) {
  Prepare();
  Put(Stream(1, 7));
  v1::Traffic closed;
  closed.add_closed(1);
  EXPECT_TRUE(desk_.Closed(SessionId(1), closed).empty()) << "it was not told of it yet";
  const auto deals = Round();
  ASSERT_EQ(deals.size(), 2u);
  EXPECT_EQ(deals[0].second.reserved_size(), 1);
  EXPECT_EQ(deals[0].second.sets(0).shares_size(), 2);
  EXPECT_EQ(deals[1].second.reserved_size(), 0);
  EXPECT_TRUE(desk_.Closed(SessionId(2), closed).empty());
  EXPECT_EQ(desk_.Closed(SessionId(1), closed).size(), 1u);
}

TEST_F(Desk, TheMoverWaitsWhereSomethingIsReserved) {
  Prepare();
  EXPECT_EQ(desk_.NoteMoved({1, 0}, 16 * kMiBs, now_ms_), 0u);
  Put(Client("ws1", 500 * kMiBs));
  Round();
  desk_.NoteMoved({1, 0}, 16 * kMiBs, now_ms_);
  v1::Traffic traffic;  // both are greedy
  for (int i = 0; i < 20; ++i) {
    for (const auto& peer : peers_) {
      traffic.set_over_ms(200);
      traffic.clear_shares();
      v1::Traffic::Share& share = *traffic.add_shares();
      share.set_pool(1);
      share.set_cost_bytes(100 * kMiBs);
      share.set_held_ms(200);
      share.set_busy_ms(200);
      desk_.OnTraffic(peer.session, traffic, now_ms_);
    }
    desk_.NoteMoved({1, 0}, 16 * kMiBs, now_ms_);
    Round();
  }
  EXPECT_GT(desk_.NoteMoved({1, 0}, 16 * kMiBs, now_ms_), 100u);
}

}  // namespace
}  // namespace reel::mdc
