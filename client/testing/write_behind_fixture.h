// What tests of writing behind share: a cluster whose clients flush and commit nothing for its age.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <thread>

#include "client/testing/data_cluster.h"
#include "proto/status.h"

namespace reel::client {

class WriteBehindTest : public testing::Test {
 protected:
  static constexpr std::uint64_t kBlock = 4'096;
  static constexpr std::uint32_t kNeverMs = 3'600'000;

  WriteBehindTest() { shape_.data = {.commit_age_ms = kNeverMs, .write_behind_age_ms = kNeverMs}; }

  DataCluster& cluster() {
    if (cluster_ == nullptr) {
      cluster_ = std::make_unique<DataCluster>(shape_);
      inode_ = cluster_->mdc().CreateFile();
    }
    return *cluster_;
  }
  std::unique_ptr<TestClient> Mount() { return cluster().Mount(); }
  std::uint64_t Writes() {
    std::uint64_t writes = 0;
    for (std::size_t i = 0; i < 3; ++i) writes += cluster().lun(i).counters().writes;
    return writes;
  }
  void Evict(TestClient& client) {
    const std::uint64_t session = client.session().session_id();
    cluster().mdc().Evict(session);
    while (client.session().session_id() == session || client.session().session_id() == 0) {
      std::this_thread::yield();
    }
  }
  int FsyncOf(TestClient& client, std::uint64_t handle) {
    return ErrnoOf(client.data().Fsync(inode_, {.handle = handle}));
  }

  ClusterShape shape_;
  std::unique_ptr<DataCluster> cluster_;
  std::uint64_t inode_ = 0;
};

// The same with commits by age, as a clock says that stands still.
class CommitByAgeTest : public WriteBehindTest {
 protected:
  static constexpr std::uint32_t kCommitAgeMs = 1'000;

  CommitByAgeTest() {
    shape_.data.commit_age_ms = kCommitAgeMs;
    shape_.clock = &clock_;
  }
  // A client with the file's first block written, and not committed.
  std::unique_ptr<TestClient> MountUncommitted() {
    auto client = Mount();
    EXPECT_TRUE(client->data().Open(inode_, true, {.handle = 1}).ok());
    client->Write(inode_, 0, std::string(kBlock, 'a'), {.direct = true, .handle = 1});
    return client;
  }

  ManualClock clock_;
};

}  // namespace reel::client
