#include "client/file_locks.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <functional>

#include "proto/status.h"

namespace reel::client {
namespace {

// Answers as it is told, and keeps what it was asked.
class FakeSession : public Session {
 public:
  absl::StatusOr<v1::Reply> Call(v1::Request request, const CallOptions& options) override {
    requests.push_back(request);
    if (error != 0) {
      late = options.on_reply;
      return ErrnoStatus(error);
    }
    if (options.on_reply) options.on_reply(reply);
    return reply;
  }
  void Post(v1::Request request) override { requests.push_back(std::move(request)); }
  bool LeaseHolds() const override { return true; }
  std::uint64_t session_id() const override { return 1; }
  const VolumeDescriptor& descriptor() const override { return descriptor_; }
  void Shutdown() override {}

  std::vector<v1::Request> requests;
  v1::Reply reply;
  int error = 0;
  std::function<void(const v1::Reply&)> late;  // the answer of a call that has ended

 private:
  VolumeDescriptor descriptor_;
};

class FileLocksTest : public testing::Test {
 protected:
  FileLocksTest() { locks_.Start(session_); }

  static FileLocks::Lock Of(v1::LockType type, std::uint64_t first = 0, std::uint64_t last = 9,
                            std::uint64_t owner = 5, std::uint64_t handle = 1) {
    return {.inode = 7,
            .kind = v1::LOCK_RANGES,
            .owner = owner,
            .handle = handle,
            .range = {first, last},
            .type = type,
            .pid = 100};
  }
  int Set(const FileLocks::Lock& lock, bool wait = false) {
    return ErrnoOf(locks_.Set(lock, wait, nullptr));
  }
  // What would be claimed: "first-last:type" of each.
  std::string Claims() const {
    std::vector<v1::Reclaim> reclaims(1);
    locks_.AddTo(reclaims);
    std::string text;
    for (const v1::FileLock& lock : reclaims[0].locks()) {
      text += std::to_string(lock.first()) + "-" + std::to_string(lock.last()) +
              (lock.type() == v1::LOCK_EXCLUSIVE ? "w " : "r ");
    }
    return text;
  }
  // The types of the locks asked for since the last call: n, r, w; c for the end of a wait.
  std::string Asked() {
    std::string text;
    for (const v1::Request& request : session_.requests) {
      text += request.has_set_lock() ? "nrw"[request.set_lock().lock().type()] : 'c';
    }
    session_.requests.clear();
    return text;
  }

  FakeSession session_;
  FileLocks locks_;
};

TEST_F(FileLocksTest, WhatIsHeldIsClaimedAgain) {
  EXPECT_EQ(Set(Of(v1::LOCK_EXCLUSIVE)), 0);
  EXPECT_EQ(Set(Of(v1::LOCK_SHARED, 5, 20)), 0);
  EXPECT_EQ(Claims(), "0-4w 5-20r ");
  EXPECT_EQ(Set(Of(v1::LOCK_NONE, 0, 6)), 0);
  EXPECT_EQ(Claims(), "7-20r ");
  session_.error = EAGAIN;
  EXPECT_EQ(Set(Of(v1::LOCK_EXCLUSIVE, 100, 200)), EAGAIN);
  EXPECT_EQ(Claims(), "7-20r ");
}

TEST_F(FileLocksTest, ClosingAsksForNothingUnlessSomethingIsHeld) {
  locks_.Flush(7, 5, nullptr);
  locks_.Release(7, 1, nullptr);
  EXPECT_EQ(Asked(), "");
  Set(Of(v1::LOCK_EXCLUSIVE));
  locks_.Flush(7, 6, nullptr);  // another process
  EXPECT_EQ(Asked(), "w");
  locks_.Flush(7, 5, nullptr);
  EXPECT_EQ(Asked(), "n");
  EXPECT_EQ(Claims(), "");
}

TEST_F(FileLocksTest, TheLastUserOfAnOpenFileLetsGo) {
  Set(Of(v1::LOCK_EXCLUSIVE, 0, 9, /*owner=*/5, /*handle=*/1));
  Set(Of(v1::LOCK_EXCLUSIVE, 20, 29, /*owner=*/6, /*handle=*/2));
  locks_.Release(7, 1, nullptr);
  EXPECT_EQ(Claims(), "20-29w ");
}

TEST_F(FileLocksTest, AGrantThatComesTooLateIsGivenBack) {
  Set(Of(v1::LOCK_SHARED, 0, 4));
  session_.error = EINTR;
  EXPECT_EQ(Set(Of(v1::LOCK_EXCLUSIVE, 0, 9), /*wait=*/true), EINTR);
  EXPECT_EQ(Asked(), "rwc");
  session_.late(v1::Reply());
  EXPECT_EQ(Asked(), "rn");  // what it had before
  EXPECT_EQ(Claims(), "0-4r ");
}

TEST_F(FileLocksTest, WhoeverLostLocksIsTold) {
  Set(Of(v1::LOCK_EXCLUSIVE));
  locks_.OnBroken(8);
  EXPECT_EQ(Set(Of(v1::LOCK_SHARED)), 0);
  locks_.OnBroken(7);
  EXPECT_EQ(Claims(), "");
  EXPECT_EQ(Set(Of(v1::LOCK_SHARED)), EIO);
  EXPECT_EQ(Set(Of(v1::LOCK_NONE)), EIO);
  EXPECT_EQ(ErrnoOf(locks_.Test(Of(v1::LOCK_SHARED), nullptr).status()), EIO);
  EXPECT_EQ(Set(Of(v1::LOCK_SHARED, 0, 9, /*owner=*/6)), 0);
  locks_.Flush(7, 5, nullptr);
  EXPECT_EQ(Set(Of(v1::LOCK_SHARED)), 0);
  locks_.OnEvicted();
  EXPECT_EQ(Set(Of(v1::LOCK_SHARED)), EIO);
}

TEST_F(FileLocksTest, TheOneInTheWayIsShown) {
  EXPECT_FALSE(locks_.Test(Of(v1::LOCK_EXCLUSIVE), nullptr)->has_value());
  session_.reply.mutable_lock()->set_type(v1::LOCK_SHARED);
  EXPECT_EQ((*locks_.Test(Of(v1::LOCK_EXCLUSIVE), nullptr))->type(), v1::LOCK_SHARED);
}

}  // namespace
}  // namespace reel::client
