#include "client/mount/mount_record.h"

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

#include "gtest/gtest.h"

namespace reel::client {
namespace {

class MountRecordTest : public testing::Test {
 protected:
  MountRecordTest() {
    std::string pattern = testing::TempDir() + "recordsXXXXXX";
    directory_ = std::string(mkdtemp(pattern.data())) + "/made";
  }
  ~MountRecordTest() override {
    std::filesystem::remove_all(std::filesystem::path(directory_).parent_path());
  }
  std::optional<MountRecord> Create() {
    auto record = MountRecord::Create("0:42", directory_);
    EXPECT_TRUE(record.ok()) << record.status();
    return std::optional<MountRecord>(*std::move(record));
  }
  std::optional<ClientWatch> Watch() { return ClientWatch::Open("0:42", directory_); }

  std::string directory_;
};

TEST_F(MountRecordTest, AWatchLastsAsLongAsTheClient) {
  auto record = Create();
  const auto watch = Watch();
  ASSERT_TRUE(watch);
  EXPECT_EQ(watch->Await(0).code(), absl::StatusCode::kDeadlineExceeded);
  std::thread client([&] {
    record->End(absl::OkStatus());
    record.reset();
  });
  EXPECT_TRUE(watch->Await(60'000).ok());
  client.join();
  EXPECT_FALSE(Watch());
}

TEST_F(MountRecordTest, ARecordNamesTheLosses) {
  auto record = Create();
  const auto watch = Watch();
  record->End(absl::UnavailableError("no controller"));
  record.reset();
  EXPECT_EQ(watch->Await(0).code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(watch->Await(0).message(), "what was written last is lost: no controller");
}

TEST_F(MountRecordTest, ASilentClientHasLostItsBytes) {
  auto record = Create();
  const auto watch = Watch();
  record.reset();
  EXPECT_EQ(watch->Await(0).code(), absl::StatusCode::kDataLoss);
}

TEST_F(MountRecordTest, ARecordOfAKilledClientIsUnowned) {
  Create().reset();
  std::ofstream(directory_ + "/0:42").close();
  EXPECT_FALSE(Watch());
  const auto next = Create();
  EXPECT_TRUE(Watch());
}

}  // namespace
}  // namespace reel::client
