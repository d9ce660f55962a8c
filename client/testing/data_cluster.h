// A small cluster for tests of the data path: LUNs in memory, a fake controller, and clients.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/data/file_data.h"
#include "client/session/session.h"
#include "client/testing/fake_mdc.h"
#include "client/testing/test_clocks.h"
#include "proto/status.h"
#include "volume/base/aligned_buffer.h"
#include "volume/base/env.h"
#include "volume/lun/borrowed_lun.h"
#include "volume/testing/faulty_lun.h"
#include "volume/testing/sample_volume.h"

namespace reel::client {

// One mount: a session and the file data on it.
class TestClient {
 public:
  TestClient(FakeMdc& mdc, const VolumeDescriptor& descriptor,
             const std::vector<std::unique_ptr<FaultyLun>>& luns, FileDataOptions options,
             const Clock& clock) {
    volume_.descriptor = descriptor;
    for (const auto& lun : luns) volume_.luns.push_back(std::make_unique<BorrowedLun>(*lun));
    data_ = FileData::Create(
        options, clock,
        [this](std::uint64_t inode, const ByteRange& range) {
          const auto& callback = range.to == 0 ? on_recall : on_invalidate;
          if (callback) callback(inode);
        },
        [this](std::uint64_t inode) {
          if (on_forget) on_forget(inode);
        });
    Session::Options session;
    session.volume = descriptor.name;
    session.mdcs = {"mdc:1"};
    auto connected = Session::Connect(session, mdc, *data_, clock);
    EXPECT_TRUE(connected.ok()) << connected.status();
    session_ = *std::move(connected);
    const absl::Status started = data_->Start(*session_, volume_);
    EXPECT_TRUE(started.ok()) << started;
  }
  ~TestClient() {
    (void)data_->Stop();
    session_->Shutdown();
    session_.reset();
  }

  FileData& data() { return *data_; }
  Session& session() { return *session_; }

  std::string Read(std::uint64_t inode, std::uint64_t offset, std::size_t length,
                   IoContext io = {}) {
    AlignedBuffer buffer(RoundUp(length, kIoAlignment));
    const auto got = data_->Read(inode, offset, buffer.span().first(length), io);
    EXPECT_TRUE(got.ok()) << got.status();
    return {reinterpret_cast<const char*>(buffer.data()), got.ok() ? *got : 0};
  }
  absl::StatusOr<ByteRange> TryWrite(std::uint64_t inode, std::uint64_t offset,
                                     const std::string& bytes, IoContext io = {}) {
    return data_->Write(inode, offset, std::as_bytes(std::span(bytes)), io);
  }
  std::uint64_t Write(std::uint64_t inode, std::uint64_t offset, const std::string& bytes,
                      IoContext io = {}) {
    const auto written = TryWrite(inode, offset, bytes, io);
    EXPECT_TRUE(written.ok()) << written.status();
    if (!written.ok()) return 0;
    EXPECT_EQ(written->to - written->from, bytes.size());
    return written->from;
  }
  absl::Status Truncate(std::uint64_t inode, std::uint64_t size) {
    v1::SetAttr set;
    set.set_inode(inode);
    set.set_fields(v1::SetAttr::SIZE);
    set.set_size_bytes(size);
    return data_->SetAttr(set, {}).status();
  }
  absl::Status Fsync(std::uint64_t inode) { return data_->Fsync(inode, {}); }

  // A data token is recalled; some pages are to be dropped. Set before any recall.
  std::function<void(std::uint64_t inode)> on_recall, on_invalidate;
  std::function<void(std::uint64_t inode)> on_forget;  // set before any write

 private:
  OpenVolume volume_;
  std::unique_ptr<FileData> data_;
  std::unique_ptr<Session> session_;
};

struct ClusterShape {
  std::uint32_t block_bytes = 4096;
  std::uint32_t logical_block_bytes = 512;
  std::uint64_t rows = 64;
  int lun_threads = 2;
  FakeMdcOptions mdc{};
  FileDataOptions data{.commit_age_ms = 20};
  const Clock* clock = &SystemClock();
};

class DataCluster {
 public:
  explicit DataCluster(ClusterShape shape) : shape_(std::move(shape)) {
    descriptor_ = SampleVolume({{3, {{shape_.rows, 3}}}}, shape_.block_bytes);
    const std::uint64_t data_bytes = shape_.rows * 3 * shape_.block_bytes;
    for (int i = 0; i < 3; ++i) {
      FaultyLun::Options options;
      options.name = "lun" + std::to_string(i);
      options.size_bytes = kReservedBytes + data_bytes;
      options.logical_block_bytes = shape_.logical_block_bytes;
      options.threads = shape_.lun_threads;
      luns_.push_back(std::make_unique<FaultyLun>(options));
      // Old bytes everywhere: nobody may ever see them.
      EXPECT_TRUE(luns_.back()->Discard(kReservedBytes, data_bytes).ok());
      EXPECT_TRUE(luns_.back()->Flush().ok());
    }
    shape_.mdc.descriptor = descriptor_;
    mdc_ = std::make_unique<FakeMdc>(shape_.mdc);
  }
  ~DataCluster() { EXPECT_EQ(mdc_->wrongs(), std::vector<std::string>()); }

  std::unique_ptr<TestClient> Mount() {
    return std::make_unique<TestClient>(*mdc_, descriptor_, luns_, shape_.data, *shape_.clock);
  }
  FakeMdc& mdc() { return *mdc_; }
  FaultyLun& lun(std::size_t i) { return *luns_[i]; }
  static constexpr std::uint64_t kReservedBytes = 1 << 20;

 private:
  ClusterShape shape_;
  VolumeDescriptor descriptor_;
  std::vector<std::unique_ptr<FaultyLun>> luns_;
  std::unique_ptr<FakeMdc> mdc_;
};

}  // namespace reel::client
