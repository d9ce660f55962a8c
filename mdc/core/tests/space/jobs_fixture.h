// Fixtures for tests of jobs: a client whose files lie in pieces, and a volume with two pools.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "mdc/check/checker.h"
#include "mdc/metadb/schema.h"
#include "mdc/testing/core_harness.h"
#include "proto/records.pb.h"

namespace reel::mdc {

class CoreJobsTest : public testing::Test {
 protected:
  CoreJobsTest() { a_.Register(); }

  std::vector<v1::ExtentRecord> ExtentsOf(std::uint64_t inode) {
    std::vector<v1::ExtentRecord> extents;
    const std::string prefix = schema::ExtentPrefix(InodeNumber(inode));
    for (auto c = harness_.db().Scan(prefix, prefix, Tier::kAll); c->Valid(); c->Next()) {
      v1::ExtentRecord record;
      EXPECT_TRUE(record.ParseFromString(std::string(c->value())));
      extents.push_back(std::move(record));
    }
    return extents;
  }
  int Fill(std::uint64_t inode, std::uint64_t from, std::uint64_t blocks) {
    return a_.Do(Client::LayoutOf(inode, v1::TOKEN_EXCLUSIVE, /*allocate=*/true, from * kBlock,
                                  blocks * kBlock),
                 true);
  }
  int Commit(std::uint64_t inode, std::uint64_t from, std::uint64_t blocks) {
    v1::Request request;
    v1::LayoutCommit& commit = *request.mutable_layout_commit();
    commit.set_inode(inode);
    v1::BlockRange& range = *commit.add_written();
    range.set_file_block(from);
    range.set_length_blocks(blocks);
    commit.set_size_bytes(std::max((from + blocks) * kBlock, sizes_[inode]));
    sizes_[inode] = commit.size_bytes();
    return a_.Do(request, true);
  }
  int GiveBack(std::uint64_t inode) { return a_.Do(Client::ReturnOf(inode), true); }

  // Two files that are filled from the back, in turns: each lies in `pieces` of `blocks`.
  std::uint64_t MakeFragmented(std::uint64_t pieces, std::uint64_t blocks) {
    const std::uint64_t inode = a_.Create("fragmented", /*open=*/true);
    const std::uint64_t other = a_.Create("between", /*open=*/true);
    for (std::uint64_t i = pieces; i-- > 0;) {
      EXPECT_EQ(Fill(inode, i * blocks, blocks), 0);
      EXPECT_EQ(Commit(inode, i * blocks, blocks), 0);
      EXPECT_EQ(Fill(other, i * blocks, blocks), 0);
    }
    other_ = other;
    EXPECT_EQ(ExtentsOf(inode).size(), pieces);
    return inode;
  }
  JobId Start(std::uint64_t inode = 0) {
    v1::StartJobRequest request;
    request.set_kind(v1::JOB_DEFRAGMENT);
    request.set_inode(inode);
    const auto job = harness_.core_->StartJob(request);
    EXPECT_TRUE(job.ok()) << job.status();
    return job.ok() ? job->job : JobId(0);
  }
  // The same; its first copy is ordered, and not done.
  JobId StartHeld(std::uint64_t inode) {
    harness_.hold_copies_ = true;
    const JobId job = Start(inode);
    Settle();
    EXPECT_EQ(harness_.copies_.size(), 1u);
    if (harness_.copies_.empty()) harness_.copies_.emplace_back();  // the test has failed
    return job;
  }
  v1::JobRecord Job(JobId id) const {
    v1::JobsReply reply;
    harness_.core_->Describe(reply);
    for (const auto& job : reply.jobs()) {
      if (job.job() == id.value()) return job.record();
    }
    return {};
  }
  void Settle() { harness_.Pass(2'000, {&a_}); }

  CoreHarness harness_;
  Client a_{harness_, 1};
  std::uint64_t other_ = 0;
  std::map<std::uint64_t, std::uint64_t> sizes_;  // in bytes, by inode
};

// Two pools: what lies in one goes to the other.
class CoreDrainTest : public CoreJobsTest {
 protected:
  CoreDrainTest() {
    LunEntry lun;
    lun.lun.bytes[0] = 2;
    lun.name = "lun1";
    lun.data_start_bytes = kMiB;
    Pool pool;
    pool.name = "more";
    pool.flags = Pool::kData;
    pool.breadth_blocks = 16;
    pool.sets = {StripeSet{{lun}, 1 << 12}};
    harness_.volume_.pools.push_back(pool);
    Restart();
  }
  // The next controller, with what the map has become.
  void Restart() {
    ++harness_.volume_.generation;
    harness_.Restart();
    a_.map_generation_ = harness_.volume_.generation;
    EXPECT_EQ(a_.Resume(), 0);
    EXPECT_EQ(a_.Reclaim(), 0);
    harness_.Tick();
  }
  absl::StatusOr<Core::ChangedJob> Start(v1::JobKind kind, const std::string& pool,
                                         const std::string& lun = "") {
    v1::StartJobRequest request;
    request.set_kind(kind);
    request.set_pool(pool);
    request.set_lun(lun);
    return harness_.core_->StartJob(request);
  }
  // As the store says.
  std::uint64_t FreeIn(std::uint32_t pool) {
    std::uint64_t blocks = 0;
    const std::string prefix = schema::Prefix(schema::Family::kFree);
    for (auto c = harness_.db().Scan(prefix, prefix, Tier::kAll); c->Valid(); c->Next()) {
      v1::FreeRecord record;
      EXPECT_TRUE(record.ParseFromString(std::string(c->value())));
      if (schema::Parse(c->key())->first == pool) blocks += record.length_blocks();
    }
    return blocks;
  }
  // What a check of the volume finds.
  std::vector<std::string> Problems() {
    std::vector<std::string> problems;
    const CheckSink sink{.on_phase = {}, .on_problem = [&](const Problem& problem) {
                           problems.push_back(problem.code + ": " + problem.where);
                         }};
    CheckVolume({harness_.db(), harness_.volume_, {}}, sink);
    return problems;
  }
  static constexpr std::uint64_t kMoreBlocks = std::uint64_t{16} << 12;
};

}  // namespace reel::mdc
