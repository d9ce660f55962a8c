// Whose session a Hello is of: hosts that have mounted another volume of the same name get none.
#include "mdc/metadb/schema.h"
#include "mdc/testing/core_harness.h"
#include "proto/records.pb.h"

namespace reel::mdc {
namespace {

class CoreIdentityTest : public testing::Test {
 protected:
  int SayHello(const std::string& mounted, std::uint64_t resume = 0) {
    a_.mounted_volume_ = mounted;
    a_.Connect();
    return a_.Hello(resume);
  }
  std::string Own() const { return harness_.volume_.volume.ToBytes(); }
  // As mkfs of an earlier release left it.
  void MakeVolumeOld() {
    std::string bytes;
    v1::VolumeRecord record;
    ASSERT_TRUE(harness_.db().Get(schema::VolumeKey(), &bytes, Tier::kAll).ok());
    ASSERT_TRUE(record.ParseFromString(bytes));
    record.set_hosts_name_volume(false);
    WriteBatch batch;
    batch.Put(schema::VolumeKey(), record.SerializeAsString());
    ASSERT_TRUE(harness_.db().Apply(batch).ok());
    harness_.Restart();
  }

  CoreHarness harness_;
  Client a_{harness_, 1};
};

TEST_F(CoreIdentityTest, AClientOfAnotherVolumeGetsNoSession) {
  const std::string other = Uuid::Random().ToBytes();
  EXPECT_EQ(SayHello(other), ENODEV);
  EXPECT_TRUE(a_.ended_);
  EXPECT_EQ(SayHello("no UUID"), ENODEV);
  EXPECT_EQ(harness_.Sessions(), 0u);
  ASSERT_EQ(SayHello(""), 0) << "it mounts now";
  EXPECT_EQ(SayHello(other, a_.session_), ENODEV);
  EXPECT_EQ(SayHello(Own(), a_.session_), 0);
}

TEST_F(CoreIdentityTest, AClientThatNamesNoVolumeIsResumedByItsRecord) {
  ASSERT_EQ(SayHello(""), 0);
  a_.map_generation_ = harness_.volume_.generation;
  harness_.Restart();
  EXPECT_EQ(SayHello("", a_.session_), 0);
}

// A client of an earlier release, which came to a volume that may have been made over its own.
TEST_F(CoreIdentityTest, AnOldClientResumesOnlyAnOldSession) {
  a_.map_generation_ = harness_.volume_.generation;
  EXPECT_EQ(SayHello(""), EPROTONOSUPPORT);
  EXPECT_EQ(SayHello(Own()), 0);
  a_.map_generation_ = 0;
  EXPECT_EQ(SayHello(""), 0) << "it mounts now";
  MakeVolumeOld();
  a_.map_generation_ = harness_.volume_.generation;
  EXPECT_EQ(SayHello(""), 0);
}

}  // namespace
}  // namespace reel::mdc
