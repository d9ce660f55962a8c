// Usage is what the inodes say, after every operation, while it is counted, and after any crash.
#include <random>

#include "mdc/core/tests/quota_volume.h"

namespace reel::mdc {
namespace {

// Random changes by two sessions for three users, in two directories of a tree and two of none.
class QuotaCountTest : public QuotaVolume {
 protected:
  void MakeDirectories() {
    AddTree("scans");
    for (const char* name : {"d0", "d1", "d2", "d3"}) directories_.push_back(MakeDir(1, name));
    for (const std::size_t i : {0, 1})
      ASSERT_EQ(a_.Do(As(0, TreeOf(directories_[i], "scans")), true), 0);
  }
  std::uint32_t Pick(std::uint32_t end) { return random_() % end; }
  std::uint64_t Directory() { return directories_[Pick(4)]; }
  std::string Name() { return absl::StrCat("n", Pick(6)); }
  Client& Session() { return Pick(2) == 0 ? a_ : b_; }
  std::uint64_t Find(std::uint64_t directory, const std::string& name) {
    std::string value;
    v1::DirentRecord record;
    const std::string key = schema::DirentKey(InodeNumber(directory), name);
    const auto found = harness_.db().Get(key, &value, Tier::kAll);
    return *found == Found::kYes && record.ParseFromString(value) ? record.inode() : 0;
  }
  // Gives back what stands in the way of others, until it is answered. While nothing becomes
  // durable nothing is: whatever can be done is done.
  void Do(Client& client, const v1::Request& request) {
    const std::uint32_t slot = 2 + next_slot_++ % 60;
    const std::uint64_t id = client.SendIn(slot, request);
    for (int i = 0; i < 20 && !client.Answered(id); ++i) {
      harness_.Run();
      for (Client* holder : {&a_, &b_}) {
        for (const v1::RecallToken& recall : std::exchange(holder->recalls_, {}))
          holder->SendIn(2 + next_slot_++ % 60, Client::ReturnOf(recall.inode()));
        const auto attrs = std::exchange(holder->attr_recalls_, {});
        if (!attrs.empty()) holder->Send(Client::AttrReturnOf(attrs));
      }
      if (harness_.hold_syncs_ && i == 2) return;
      if (!harness_.hold_syncs_) harness_.Tick();
    }
    EXPECT_TRUE(client.Answered(id)) << request.ShortDebugString();
    if (client.Answered(id) && client.Answer(id).error() == EDQUOT) ++refused_;
  }
  void Change() {
    const std::uint64_t directory = Directory();
    const std::string name = Name();
    const std::uint32_t user = 1000 + Pick(3);
    constexpr std::uint32_t kTypes[] = {S_IFREG, S_IFREG, S_IFDIR, S_IFLNK, S_IFIFO};
    const std::uint64_t file = Find(directory, name);
    v1::Request request;
    switch (Pick(10)) {
      case 0:
      case 1:
        request = CreateIn(directory, name, kTypes[Pick(5)], Pick(2) == 0);
        if (request.create().open()) {
          request.mutable_create()->set_token(v1::TOKEN_EXCLUSIVE);
          request.mutable_create()->set_allocate_bytes(Pick(4) * kBlock);
        }
        break;
      case 2:
        request = Client::UnlinkOf(name);
        request.mutable_unlink()->set_parent(directory);
        request.mutable_unlink()->set_directory(Pick(4) == 0);
        break;
      case 3:
        request = RenameOf(directory, name, Directory(), Name(), Pick(3) == 0 ? 4 : 0);
        break;
      case 4:
        request = LinkOf(file, Directory(), Name());
        break;
      case 5:
        if (!changes_owners_) return;
        request = OwnerChangeOf(file, user);
        break;
      case 6:
        request = SizeOf(file, Pick(8) * kBlock);
        break;
      case 7:
        request = ReserveOf(file, Pick(8), 1 + Pick(4), Pick(2) == 0 ? 0 : 3);  // 3: a hole
        break;
      case 8:
        if (!changes_owners_) return;
        request = TreeOf(file, Pick(2) == 0 ? "scans" : "");
        break;
      default:
        request = BlocksFor(file, Pick(8), 1 + Pick(8));
        break;
    }
    const bool as_root = request.has_set_attr() || request.has_set_xattr();
    Do(Session(), As(as_root ? 0 : user, request));
  }
  std::mt19937 random_{7};
  std::uint32_t next_slot_ = 0;
  bool changes_owners_ = true;
  int refused_ = 0;  // as EDQUOT
  std::vector<std::uint64_t> directories_;
};

TEST_F(QuotaCountTest, EveryOperationIsCharged) {
  CountAll();
  MakeDirectories();
  for (int i = 0; i < 1500; ++i) {
    Change();
    ASSERT_EQ(Charged(), Recounted()) << i;
  }
  EXPECT_GT(BlocksOf("user", 1001), 0u);
}

TEST_F(QuotaCountTest, NoHardLimitIsPassed) {
  CountAll();
  MakeDirectories();
  ASSERT_TRUE(LimitBlocks("user", 1001, 0, 12).ok());
  ASSERT_TRUE(LimitBlocks("tree", 0, 0, 16, "scans").ok());
  ASSERT_TRUE(LimitFiles("group", 1002, 0, 4).ok());
  changes_owners_ = false;  // root may pass them
  for (int i = 0; i < 1500; ++i) {
    Change();
    ASSERT_LE(BlocksOf("user", 1001), 12u) << i;
    ASSERT_LE(QuotaOf("tree", 0, "scans").bytes(), 16 * kBlock) << i;
    ASSERT_LE(FilesOf("group", 1002), 4u) << i;
  }
  EXPECT_EQ(Charged(), Recounted());
  EXPECT_GT(refused_, 20);
}

TEST_F(QuotaCountTest, ChangesOnBothSidesOfTheCountAreCounted) {
  harness_.options_.steps.reaped = 1;
  Restart();
  MakeDirectories();
  for (int i = 0; i < 150; ++i) Change();
  int between = 0;
  for (int round = 0; round < 5; ++round) {
    ASSERT_TRUE(Switch("off").ok());
    v1::SetQuotasRequest on;
    on.set_state("on");
    v1::SetQuotasReply reply;
    harness_.hold_syncs_ = true;  // else a count comes to its end before anybody changes anything
    harness_.core_->SetQuotas(on, reply, [](const absl::Status& s) { EXPECT_TRUE(s.ok()); });
    for (int i = 0; i < 10'000 && State() != "on"; ++i) {
      harness_.Tick();
      ASSERT_EQ(Charged(), Recounted()) << round << " " << i;
      if (i % 2 != 0 || State() != "counting") continue;
      ++between;
      Change();
      ASSERT_EQ(Charged(), Recounted()) << round << " " << i;
    }
    EXPECT_EQ(State(), "on");
    harness_.hold_syncs_ = false;
    harness_.Pass(1'000, {&a_, &b_});
    for (int i = 0; i < 20; ++i) Change();
    ASSERT_EQ(Charged(), Recounted());
  }
  EXPECT_GT(between, 40);
}

TEST_F(QuotaCountTest, ACountGoesOnAfterACrash) {
  harness_.options_.steps.reaped = 2;
  Restart();
  MakeDirectories();
  for (int i = 0; i < 100; ++i) Change();
  ASSERT_TRUE(Switch("on").ok());
  std::uint64_t last = 1;
  for (int i = 0; i < 1000 && State() != "on"; ++i) {
    harness_.hold_syncs_ = true;
    harness_.Tick();
    ASSERT_EQ(Charged(), Recounted()) << i;
    ASSERT_GE(StoredState().counted_below(), last);
    last = StoredState().counted_below();
    harness_.Restart();
    ASSERT_EQ(Charged(), Recounted()) << i;
  }
  EXPECT_EQ(State(), "on");
}

}  // namespace
}  // namespace reel::mdc
