// Dumps of a volume that is served, with its marks on image files.
#include "mdc/serve/dump_keeper.h"

#include <future>
#include <sstream>

#include "gmock/gmock.h"
#include "mdc/backup/dump_reader.h"
#include "mdc/serve/candidate.h"
#include "mdc/testing/test_volume.h"

namespace reel::mdc {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

class DumpKeeperTest : public testing::Test {
 protected:
  explicit DumpKeeperTest(TestVolumeOnImages::Pools pools = TestVolumeOnImages::Pools::kApart)
      : volume_(pools) {
    Start();
  }
  void Start() {
    VolumeServerOptions options;
    options.volume = "reel";
    options.luns = volume_.paths();
    options.on_failure = [](const absl::Status& status) { ADD_FAILURE() << status; };
    auto server = TakeAndServe(options, SeatOptions(), SystemClock());
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  void Stop() {
    ASSERT_TRUE(server_->Stop().ok());
    server_.reset();
  }

  absl::StatusOr<Uuid> Begin() {
    std::promise<absl::StatusOr<Uuid>> promise;
    server_->dumps().Begin([&](const absl::StatusOr<Uuid>& dump) { promise.set_value(dump); });
    return promise.get_future().get();
  }
  absl::StatusOr<DumpKeeper::Block> Read(const Uuid& dump, std::uint64_t index) {
    std::promise<absl::StatusOr<DumpKeeper::Block>> promise;
    server_->dumps().Read(dump, index, [&](absl::StatusOr<DumpKeeper::Block> block) {
      promise.set_value(std::move(block));
    });
    return promise.get_future().get();
  }
  absl::Status Keep(const Uuid& dump) {
    std::promise<absl::Status> promise;
    server_->dumps().Keep(dump, [&](const absl::Status& status) { promise.set_value(status); });
    return promise.get_future().get();
  }
  absl::Status Release() {
    std::promise<absl::Status> promise;
    server_->dumps().Release([&](const absl::Status& status) { promise.set_value(status); });
    return promise.get_future().get();
  }
  // The whole file.
  std::string ReadAll(const Uuid& dump) {
    std::string file;
    for (std::uint64_t index = 0;; ++index) {
      const auto block = Read(dump, index);
      EXPECT_TRUE(block.ok()) << block.status();
      if (!block.ok()) return file;
      file += block->bytes;
      if (block->last) return file;
    }
  }
  Uuid Take() {
    const auto dump = Begin();
    EXPECT_TRUE(dump.ok()) << dump.status();
    ReadAll(*dump);
    EXPECT_TRUE(Keep(*dump).ok());
    return *dump;
  }
  // On the LUN of files.
  DumpMark MarkNow() {
    const auto lun = OpenLun(volume_.paths()[1], LunAccess::kReadOnly);
    const auto mark = ReadDumpMark(**lun, volume_.descriptor().volume);
    return mark.value_or(DumpMark());
  }
  Core::ValidDumps Valid() {
    std::promise<Core::ValidDumps> promise;
    server_->RunOnCore([&](Core& core) { promise.set_value(core.valid_dumps()); });
    return promise.get_future().get();
  }

  TestVolumeOnImages volume_;
  std::unique_ptr<VolumeServer> server_;
};

TEST_F(DumpKeeperTest, ADumpIsWholeAndMarked) {
  const auto dump = Begin();
  ASSERT_TRUE(dump.ok()) << dump.status();
  std::istringstream file(ReadAll(*dump));
  DumpReader reader(file);
  const auto head = reader.ReadHead();
  ASSERT_TRUE(head.ok()) << head.status();
  EXPECT_EQ(head->dump, *dump);
  EXPECT_EQ(head->volume, volume_.descriptor().volume);
  EXPECT_EQ(head->epoch, server_->epoch());
  const auto end = reader.ReadRecords([](const schema::ParsedKey&, std::string_view,
                                         std::string_view) { return absl::OkStatus(); });
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_EQ(end->records, 2u) << "the volume and its root";
  ASSERT_TRUE(Keep(*dump).ok());
  EXPECT_THAT(MarkNow().dumps, ElementsAre(*dump));
  EXPECT_EQ(Valid().kept, *dump);
  EXPECT_TRUE(Keep(*dump).ok()) << "said twice";
}

// Until the second is safe, the first one is valid: whatever happens, one of them can be restored.
TEST_F(DumpKeeperTest, BothAreMarkedBeforeTheEndLeaves) {
  const Uuid first = Take();
  const auto second = Begin();
  ASSERT_TRUE(second.ok());
  EXPECT_THAT(MarkNow().dumps, ElementsAre(first));
  ReadAll(*second);
  EXPECT_THAT(MarkNow().dumps, UnorderedElementsAre(first, *second));
  ASSERT_TRUE(Keep(*second).ok());
  EXPECT_THAT(MarkNow().dumps, ElementsAre(*second));
}

TEST_F(DumpKeeperTest, OneThatIsNotReadToItsEndIsNotKept) {
  const Uuid first = Take();
  const auto second = Begin();
  ASSERT_TRUE(Read(*second, 0).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(Keep(*second)));
  EXPECT_TRUE(absl::IsNotFound(Keep(Uuid::Random())));
  const auto third = Begin();  // which gives the second up
  EXPECT_TRUE(absl::IsNotFound(Read(*second, 1).status()));
  EXPECT_TRUE(absl::IsNotFound(Keep(*second)));
  EXPECT_THAT(MarkNow().dumps, ElementsAre(first));
  EXPECT_EQ(Valid().kept, first);
  EXPECT_EQ(Valid().begun, *third);
}

TEST_F(DumpKeeperTest, ABlockMayBeAskedForAgain) {
  const auto dump = Begin();
  const auto block = Read(*dump, 0);
  ASSERT_TRUE(block.ok());
  EXPECT_EQ(Read(*dump, 0)->bytes, block->bytes);
  EXPECT_TRUE(absl::IsInvalidArgument(Read(*dump, 5).status()));
}

TEST_F(DumpKeeperTest, AReleasedDumpIsNamedByNoMark) {
  Take();
  const auto second = Begin();
  ASSERT_TRUE(Release().ok());
  EXPECT_THAT(MarkNow().dumps, IsEmpty());
  EXPECT_FALSE(Valid().any());
  EXPECT_TRUE(absl::IsNotFound(Read(*second, 0).status()));
}

// The controller in whose hands a dump was taken died: the next one holds its blocks, too.
TEST_F(DumpKeeperTest, TheNextControllerKeepsWhatThisOneHasRead) {
  const Uuid first = Take();
  const auto second = Begin();
  ReadAll(*second);
  Stop();
  Start();
  EXPECT_EQ(Valid().kept, first);
  EXPECT_EQ(Valid().begun, *second);
  EXPECT_TRUE(absl::IsNotFound(Read(*second, 0).status()));
  ASSERT_TRUE(Keep(*second).ok());
  EXPECT_THAT(MarkNow().dumps, ElementsAre(*second));
}

// It died between the marks and its own record of it: as nothing was let go of, the dump is as
// valid as before, and the marks have to say so.
TEST_F(DumpKeeperTest, TheNextControllerMakesTheMarksRight) {
  const Uuid dump = Take();
  const Epoch epoch = server_->epoch();
  Stop();
  {
    const auto lun = OpenLun(volume_.paths()[1], LunAccess::kReadWrite);
    ASSERT_TRUE(WriteDumpMark(**lun, {volume_.descriptor().volume, epoch, 1000, {}}, [] {
                  return absl::OkStatus();
                }).ok());
  }
  Start();
  ASSERT_TRUE(absl::IsNotFound(Keep(Uuid::Random()))) << "which comes behind that";
  EXPECT_THAT(MarkNow().dumps, ElementsAre(dump));
  EXPECT_EQ(MarkNow().epoch, server_->epoch());
}

class SharedPoolTest : public DumpKeeperTest {
 protected:
  SharedPoolTest() : DumpKeeperTest(TestVolumeOnImages::Pools::kShared) {}
};

TEST_F(SharedPoolTest, IsNotDumped) {
  const auto dump = Begin();
  EXPECT_TRUE(absl::IsFailedPrecondition(dump.status())) << dump.status();
  EXPECT_THAT(std::string(dump.status().message()), HasSubstr("back up the files"));
}

}  // namespace
}  // namespace reel::mdc
