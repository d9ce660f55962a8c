// Each kind of pool is filled to the end by each kind of change, and the power fails at its writes:
// the right call is refused or waits, the volume starts, what is removed makes room, and then all
// goes on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "mdc/core/tests/full_changes.h"
#include "mdc/core/tests/full_volume.h"
#include "mdc/metadb/schema.h"
#include "volume/testing/long_run.h"

namespace reel::mdc {
namespace {

using ::testing::HasSubstr;

const std::vector<PoolShape>& Shapes() {
  static const std::vector<PoolShape> shapes = {
      {.name = "metadata alone, the smallest", .mib = 24},
      {.name = "metadata and data", .flags = Pool::kMetadata | Pool::kData, .mib = 44},
      {.name = "metadata on three LUNs", .luns = 3, .mib = 48, .region_mib = 32},
  };
  return shapes;
}

// ---- bytes of small files -----------------------------------------------------------------------

TEST(SmallFilesOfAFullStore, LieElsewhereLongBeforeNamesAreRefused) {
  FullVolume volume(Shapes().front());
  ASSERT_TRUE(volume.Start().ok());
  volume.harness().options_.small_file_bytes = 4096;
  ASSERT_TRUE(volume.Start().ok());
  Client client(volume.harness(), 1);
  client.features_ = v1::FEATURE_SMALL_FILES;
  client.Register();
  const auto offered = [&] {
    v1::Request renew;
    renew.mutable_renew();
    EXPECT_EQ(client.Do(renew), 0);
    return client.last_.small_file_bytes();
  };
  EXPECT_EQ(offered(), 4096u);
  int files = 0;
  const auto make = [&] {
    const int error = client.Do(Client::CreateOf(absl::StrCat("f", files++)), true);
    volume.Watch();
    return error;
  };
  while (offered() != 0 && files < 2'000) {
    ASSERT_EQ(make(), 0);
    const std::uint64_t inode = client.last_.entry().attr().inode();
    ASSERT_EQ(client.Do(SetXattr(inode, "user.waste", BinaryNoise(files, 30'000)), true), 0);
  }
  EXPECT_EQ(offered(), 0u);
  const metafs::MetaFs& fs = volume.store().fs();
  EXPECT_GT(fs.FreeBytes(), fs.ReservedBytes());
  for (int i = 0; i < 10; ++i) EXPECT_EQ(make(), 0);
}

// ---- a volume that is filled --------------------------------------------------------------------

struct Base {
  Files files;
  std::uint64_t session = 0;
  std::map<std::uint32_t, std::uint64_t> sequences;
  std::vector<std::string> content;
};

class Filling {
 public:
  explicit Filling(const PoolShape& shape) : volume_(std::make_unique<FullVolume>(shape)) {
    EXPECT_TRUE(volume_->Start().ok());
    client_ = std::make_unique<Client>(volume_->harness(), 1);
    client_->Register();
  }
  Filling(const PoolShape& shape, const Base& base)
      : files_(base.files), volume_(std::make_unique<FullVolume>(shape, &base.content)) {
    EXPECT_TRUE(volume_->Start().ok());
    client_ = std::make_unique<Client>(volume_->harness(), 1);
    client_->session_ = base.session;
    client_->sequences_ = base.sequences;
    Reconnect();
  }

  // Files of every kind, and waste until nothing but `spare_bytes` more than the reserve is left.
  void Prepare(std::uint64_t spare_bytes) {
    for (int i = 0; i < kNames; ++i) files_.names.push_back(Make(absl::StrCat("n", i)));
    files_.unwritten = Make("unwritten");
    files_.written = Make("written");
    files_.sparse = Make("sparse");
    for (const std::uint64_t inode : {files_.unwritten, files_.written, files_.sparse}) {
      EXPECT_EQ(Do(Client::LayoutOf(inode, v1::TOKEN_EXCLUSIVE)), 0);
    }
    for (const std::uint64_t inode : {files_.unwritten, files_.written}) {
      EXPECT_EQ(Do(Fallocate(inode, 0, 0, kFileBlocks * kBlock)), 0);
    }
    v1::Request commit;
    commit.mutable_layout_commit()->set_inode(files_.written);
    commit.mutable_layout_commit()->add_written()->set_length_blocks(kFileBlocks);
    EXPECT_EQ(Do(commit), 0);
    const auto room = [&] {
      return volume_->store().fs().FreeBytes() >
             volume_->store().fs().ReservedBytes() + spare_bytes;
    };
    for (bool compacted = false; !compacted;) {
      while (room()) WasteMore();
      std::atomic<bool> cancelled{false};
      ASSERT_TRUE(volume_->store().db().Compact(cancelled).ok());
      compacted = !room();
    }
  }
  // Waste until `enough`. False: the power has failed.
  bool Waste(const std::function<bool()>& enough) {
    while (!volume_->dead() && !enough()) WasteMore();
    return !volume_->dead();
  }
  // A file that takes up room, if there is any: flushes and compactions go on beside.
  void WasteMore() {
    const std::string name = absl::StrCat("w", files_.waste.size());
    const int error = Do(Client::CreateOf(name));
    if (error == ENOSPC || volume_->dead()) return;
    EXPECT_TRUE(error == 0 || error == EEXIST) << error;
    files_.waste.push_back(error == 0 ? Answered() : Make(name));
    (void)Do(SetXattr(files_.waste.back(), "user.waste", BinaryNoise(files_.waste.size(), 30'000)));
  }
  // As commits and other things that may go on would, until those wait soon.
  void UseTheReserve(std::uint64_t left_bytes) {
    const metafs::MetaFs& fs = volume_->store().fs();
    MetaDb& db = volume_->store().db();
    std::size_t next = 0;
    for (bool compacted = false; !compacted;) {
      while (fs.FreeBytes() > left_bytes) {
        ASSERT_LT(next, files_.waste.size());
        WriteBatch batch;
        batch.Put(schema::XattrKey(InodeNumber(files_.waste[next]), "user.waste"),
                  BinaryNoise(next, 65'000));
        ++next;
        ASSERT_TRUE(db.Apply(batch).ok());
        ASSERT_TRUE(db.Sync().ok());
      }
      std::atomic<bool> cancelled{false};
      const absl::Status done = db.Compact(cancelled);
      ASSERT_TRUE(done.ok() || absl::IsResourceExhausted(done)) << done;
      compacted = fs.FreeBytes() <= left_bytes;
    }
    volume_->Watch();
  }

  // The errno; -1: not answered.
  int Do(v1::Request request, std::uint32_t slot = 1) {
    const std::uint64_t id = client_->SendIn(slot, std::move(request));
    volume_->harness().Run();
    if (++operations_ % 8 == 0 && !volume_->dead()) volume_->Watch();
    return client_->Answered(id) ? client_->Answer(id).error() : -1;
  }
  int Change(const struct Change& change, int i) {
    if (change.request) return Do(change.request(files_, i));
    // A host more, with what is kept of its replies.
    auto guest = std::make_unique<Client>(volume_->harness(), static_cast<std::uint8_t>(2 + i));
    guest->Connect();
    if (const int error = guest->Hello(); error != 0) return error;
    int error = 0;
    for (std::uint32_t slot = 1; slot < 30 && error == 0 && !volume_->dead(); ++slot) {
      const std::uint64_t id = guest->SendIn(slot, Owner(files_, static_cast<int>(slot) + i * 30));
      volume_->harness().Run();
      error = guest->Answered(id) ? guest->Answer(id).error() : -1;
    }
    guests_.push_back(std::move(guest));
    volume_->Watch();
    return error;
  }
  // (A removal of which the power took the answer may be done.)
  int Remove() {
    for (;;) {
      EXPECT_FALSE(files_.waste.empty()) << "nothing is left to be removed";
      const int error = Do(Client::UnlinkOf(absl::StrCat("w", files_.waste.size() - 1)), 2);
      if (error == 0 || error == ENOENT) files_.waste.pop_back();
      if (error != ENOENT) return error;
    }
  }
  // (The power may have taken the answer to an earlier one.)
  std::uint64_t Make(const std::string& name) {
    int error = Do(Client::CreateOf(name));
    if (error == EEXIST) error = Do(Client::LookupOf(name));
    if (volume_->dead()) return 0;
    EXPECT_EQ(error, 0) << name;
    return Answered();
  }
  std::uint64_t Answered() { return client_->Answer(client_->last_id_).entry().attr().inode(); }

  absl::Status Restart() {
    guests_.clear();
    if (absl::Status started = volume_->Start(); !started.ok()) return started;
    Reconnect();
    return absl::OkStatus();
  }
  void Reconnect() {
    ASSERT_EQ(client_->Resume(), 0);
    v1::Reclaim reclaim;
    for (const std::uint64_t inode : {files_.unwritten, files_.written, files_.sparse}) {
      v1::HeldToken& token = *reclaim.add_tokens();
      token.set_inode(inode);
      token.set_mode(v1::TOKEN_EXCLUSIVE);
    }
    ASSERT_EQ(client_->Reclaim(reclaim), 0);
    // Guests that are gone hold nobody up for longer than their lease.
    for (int i = 0; i < 40 && client_->Do(Client::GetAttrOf(1)) != 0; ++i) {
      volume_->Pass(1'000, *client_);
    }
  }

  FullVolume& volume() { return *volume_; }
  Client& client() { return *client_; }
  const Files& files() const { return files_; }

 private:
  Files files_;
  std::unique_ptr<FullVolume> volume_;
  std::unique_ptr<Client> client_;
  std::vector<std::unique_ptr<Client>> guests_;
  int operations_ = 0;
};

// ---- the story ----------------------------------------------------------------------------------

class FullStoreTest : public testing::TestWithParam<PoolShape> {
 protected:
  static Base Prepared(const PoolShape& shape) {
    Filling filling(shape);
    filling.Prepare(/*spare_bytes=*/256 * kKiB);
    Base base{filling.files(), filling.client().session_, filling.client().sequences_, {}};
    base.content = filling.volume().Content();
    return base;
  }

  // Until it is refused or waits; how many were done.
  static void FillToTheEnd(Filling& filling, const Change& change, int& done) {
    if (change.end != End::kRefused) {
      filling.UseTheReserve(filling.volume().store().fs().WorkingBytes() + 256 * kKiB);
    }
    const int most = change.end == End::kNever ? (change.request ? kNames : 40) : 200'000;
    int outcome = 0;
    for (; outcome == 0 && done < most; ++done) {
      outcome = filling.Change(change, done);
      ASSERT_FALSE(filling.volume().dead()) << "after " << done << ": " << filling.volume().State();
    }
    switch (change.end) {
      case End::kRefused:
      case End::kLast:
        ASSERT_EQ(outcome, ENOSPC);
        break;
      case End::kHeld:
        ASSERT_EQ(outcome, -1);
        break;
      case End::kNever:
        ASSERT_EQ(outcome, 0);
        break;
    }
  }

  // All goes on as if the store were not full, until the power fails.
  static void WorkUntilPowerFails(Filling& filling, const Change& change, int& done) {
    for (int i = 0; i < 200 && !filling.volume().dead(); ++i) {
      (void)filling.Change(change, done++);
      if (filling.volume().dead()) return;
      if (i % 16 == 5) (void)filling.Remove();
      if (i % 64 == 63) filling.volume().Pass(2'000, filling.client());
    }
  }

  // Crashes at `writes` of each of its lives.
  static void Run(const PoolShape& shape, const Base& base, const Change& change,
                  const std::vector<std::int64_t>& writes) {
    SCOPED_TRACE(change.name);
    Filling filling(shape, base);
    int done = 0;
    ASSERT_NO_FATAL_FAILURE(FillToTheEnd(filling, change, done));
    for (const std::int64_t at : writes) {
      SCOPED_TRACE(absl::StrCat("power fails at request ", at));
      filling.volume().power().FailAfter(at);
      WorkUntilPowerFails(filling, change, done);
      filling.volume().PowerFails(static_cast<std::uint64_t>(at));
      const absl::Status started = filling.Restart();
      ASSERT_TRUE(started.ok()) << started;
      ASSERT_EQ(filling.Remove(), 0);
    }
    ASSERT_NO_FATAL_FAILURE(EmptyAndGoOn(filling, change));
  }

  static void EmptyAndGoOn(Filling& filling, const Change& change) {
    while (filling.files().waste.size() > 20) {
      ASSERT_EQ(filling.Remove(), 0) << filling.volume().State();
    }
    for (int i = 0; i < 20; ++i) filling.volume().Pass(1'000, filling.client());
    ASSERT_FALSE(filling.volume().dead()) << filling.volume().State();
    int made = filling.Do(Client::CreateOf("afterwards"), 3);
    // Few removals fill no memtable, and what they free comes back with later ones.
    for (int name = kNames - 1; made == ENOSPC && name >= 0; --name) {
      (void)filling.Do(Client::UnlinkOf(absl::StrCat("n", name)), 2);
      if (name % 250 != 0) continue;
      filling.volume().Pass(2'000, filling.client());
      made = filling.Do(Client::CreateOf("afterwards"), 3);
    }
    ASSERT_EQ(made, 0) << filling.volume().State();
    ASSERT_EQ(filling.Do(SetXattr(filling.files().names[1], "user.a", "b"), 3), 0);
    if (change.end != End::kNever) {
      const int outcome = filling.Do(change.request(filling.files(), kNames - 1), 4);
      ASSERT_EQ(outcome, 0);
    }
    const std::vector<std::string> problems = filling.volume().Problems();
    EXPECT_TRUE(problems.empty()) << absl::StrJoin(problems, "\n");
    filling.volume().Close();
    const std::vector<std::string> damage = Store::Check(filling.volume().volume());
    EXPECT_TRUE(damage.empty()) << absl::StrJoin(damage, "\n");
  }
};

TEST_P(FullStoreTest, IsRefusedInTheRightCallStartsAndDeletes) {
  const Base base = Prepared(GetParam());
  const char* wanted = std::getenv("REEL_CHANGE");
  for (const Change& change : Changes()) {
    if (wanted != nullptr && change.name != wanted) continue;
    if (IsLongRun()) {
      for (std::int64_t at = 1; at <= 200; at += 4) {
        ASSERT_NO_FATAL_FAILURE(Run(GetParam(), base, change, {at, at + 1, at + 2, at + 3}));
      }
    } else {
      std::mt19937_64 random(std::hash<std::string>{}(change.name) + GetParam().luns);
      std::vector<std::int64_t> writes;
      for (int i = 0; i < 2; ++i) writes.push_back(1 + static_cast<std::int64_t>(random() % 80));
      ASSERT_NO_FATAL_FAILURE(Run(GetParam(), base, change, writes));
    }
  }
}

// The blocks of a region that the power has taken between the allocator and the superblock are
// nobody's, which fsck.reelfs finds, and nothing else is.
TEST(GrowingStoreTest, StartsAndGrowsWhereverThePowerFails) {
  const PoolShape& shape = Shapes()[1];
  const auto room = [](Filling& filling) {
    const metafs::MetaFs& fs = filling.volume().store().fs();
    return fs.FreeBytes() - std::min(fs.FreeBytes(), 2 * fs.ReservedBytes());
  };
  Filling first(shape);
  ASSERT_TRUE(first.Waste([&] { return room(first) < 200 * kKiB; }));
  const std::uint64_t size_bytes = first.volume().store().fs().SizeBytes();
  Base base{first.files(), first.client().session_, first.client().sequences_, {}};
  base.content = first.volume().Content();
  int lost = 0;
  for (std::int64_t at = 1; at <= 60; at += IsLongRun() ? 1 : 7) {
    SCOPED_TRACE(absl::StrCat("power fails at request ", at));
    Filling filling(shape, base);
    const auto grown = [&] { return filling.volume().store().fs().SizeBytes() > size_bytes; };
    // From where it is about to grow.
    ASSERT_TRUE(filling.Waste([&] { return room(filling) < 40 * kKiB; }));
    filling.volume().power().FailAfter(at);
    (void)filling.Waste(grown);
    filling.volume().PowerFails(static_cast<std::uint64_t>(at));
    const absl::Status started = filling.Restart();
    ASSERT_TRUE(started.ok()) << started;
    const auto full = [&] {
      const metafs::MetaFs& fs = filling.volume().store().fs();
      return fs.FreeBytes() < fs.ReservedBytes() + kMiB;
    };
    ASSERT_TRUE(filling.Waste([&] { return grown() || full(); }));
    const std::vector<std::string> problems = filling.volume().Problems();
    lost += problems.empty() ? 0 : 1;
    for (const std::string& problem : problems) EXPECT_THAT(problem, HasSubstr("blocks-lost"));
    EXPECT_TRUE(grown() || !problems.empty());
  }
  EXPECT_LT(lost, 5);
}

INSTANTIATE_TEST_SUITE_P(Pools, FullStoreTest, testing::ValuesIn(Shapes()),
                         [](const auto& tested) { return absl::StrCat("Pool", tested.index); });

}  // namespace
}  // namespace reel::mdc
