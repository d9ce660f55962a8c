#include "client/locks/file_locks.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <functional>

#include "proto/status.h"

namespace reel::client {
namespace {

// Answers as it is told, and keeps what it was asked.
class LockSession : public Session {
 public:
  absl::StatusOr<v1::Reply> Call(v1::Request request, const CallOptions& options) override {
    requests.push_back(request);
    if (error != 0) {
      late = [options](const v1::Reply& answer) {
        options.on_reply(answer);
        options.on_done(answer);
      };
      if (error != EINTR && options.on_done) options.on_done(ErrnoStatus(error));
      return ErrnoStatus(error);
    }
    v1::Reply answer = reply;
    if (request.set_lock().take()) answer.set_lock_token(token);
    if (options.on_reply) options.on_reply(answer);
    if (options.on_done) options.on_done(answer);
    return answer;
  }
  void Post(v1::Request request) override {
    if (request.has_cancel_lock() && on_cancel) on_cancel();
    requests.push_back(std::move(request));
  }
  bool Away() const override { return !on_cancel; }  // nobody answers a call that was given up
  void Start(v1::Request request, std::function<void(const absl::StatusOr<v1::Reply>&)> on_done,
             std::uint64_t, bool) override {
    requests.push_back(std::move(request));
    start_error != 0 ? on_done(ErrnoStatus(start_error)) : on_done(reply);
  }
  bool LeaseHolds() const override { return lease_holds; }
  std::uint64_t session_id() const override { return 1; }
  const VolumeDescriptor& descriptor() const override { return descriptor_; }
  void Shutdown() override {}

  std::vector<v1::Request> requests;
  v1::Reply reply;
  int error = 0;
  int start_error = 0;
  std::uint64_t token = 0;  // granted to whoever asks for one
  bool lease_holds = true;
  std::function<void(const v1::Reply&)> late;  // the answer of a call that has ended
  std::function<void()> on_cancel;

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
  std::string Claims() {
    std::vector<v1::Reclaim> reclaims(1);
    locks_.Reclaim(reclaims);
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

  LockSession session_;
  FileLocks locks_;
};

TEST_F(FileLocksTest, HeldLocksAreReclaimed) {
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

TEST_F(FileLocksTest, AllOpenFilesOfAHostAreOneWriter) {
  const auto become = [&](std::uint64_t handle) {
    return ErrnoOf(locks_.BecomeWriter(7, handle, 100, nullptr));
  };
  EXPECT_EQ(become(1), 0);
  EXPECT_EQ(become(2), 0);
  EXPECT_EQ(Asked(), "w");
  locks_.Release(7, 1, nullptr);
  EXPECT_EQ(Asked(), "");
  locks_.Release(7, 2, nullptr);
  EXPECT_EQ(Asked(), "n");
  session_.error = EAGAIN;
  EXPECT_EQ(become(3), EBUSY);
}

TEST_F(FileLocksTest, AWriterThatGaveUpLeavesTheFileToOthers) {
  session_.error = EINTR;
  EXPECT_EQ(ErrnoOf(locks_.BecomeWriter(7, 1, 100, nullptr)), EINTR);
  const auto late = session_.late;
  session_.error = 0;
  EXPECT_TRUE(locks_.BecomeWriter(7, 2, 100, nullptr).ok());
  late({});
  EXPECT_EQ(Asked(), "ww");
  locks_.Release(7, 2, nullptr);
  EXPECT_EQ(Asked(), "n");
  late({});  // nobody wants it now
  EXPECT_EQ(Asked(), "n");
  EXPECT_EQ(Claims(), "");
}

TEST_F(FileLocksTest, LostLocksOfAClosedFileAreForgotten) {
  ASSERT_TRUE(locks_.BecomeWriter(7, 1, 100, nullptr).ok());
  session_.start_error = ESTALE;  // the unlock does not arrive
  locks_.Release(7, 1, nullptr);
  session_.start_error = 0;
  locks_.OnEvicted();
  EXPECT_TRUE(locks_.CheckWriter(7).ok());
  EXPECT_TRUE(locks_.BecomeWriter(7, 2, 100, nullptr).ok());
}

TEST_F(FileLocksTest, UnlockingManyRangesReturnsTheTokenInTime) {
  session_.token = 5;
  ASSERT_EQ(Set(Of(v1::LOCK_EXCLUSIVE, 0, 100'000)), 0);
  Asked();
  for (std::uint64_t i = 1; i < FileLocks::kMaxTokenRanges; ++i) {
    ASSERT_EQ(Set(Of(v1::LOCK_NONE, 2 * i, 2 * i)), 0);
  }
  ASSERT_EQ(session_.requests.size(), 1u);
  EXPECT_EQ(session_.requests[0].lock_return().locks_size(),
            static_cast<int>(FileLocks::kMaxTokenRanges));
}

TEST_F(FileLocksTest, AFormerWriterMayNotWrite) {
  ASSERT_TRUE(locks_.BecomeWriter(7, 1, 100, nullptr).ok());
  EXPECT_TRUE(locks_.CheckWriter(7).ok());
  locks_.OnEvicted();
  locks_.OnBroken(7);
  EXPECT_EQ(ErrnoOf(locks_.CheckWriter(7)), EIO);
  EXPECT_TRUE(locks_.CheckWriter(8).ok());
  EXPECT_EQ(ErrnoOf(locks_.BecomeWriter(7, 2, 100, nullptr)), EIO);
  locks_.Release(7, 1, nullptr);
  EXPECT_TRUE(locks_.CheckWriter(7).ok());
  EXPECT_TRUE(locks_.BecomeWriter(7, 3, 100, nullptr).ok());
}

TEST_F(FileLocksTest, TheLastCloseReleasesTheLocks) {
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

// Given back, it might take a lock along that another thread of this process set in the meantime.
TEST_F(FileLocksTest, AGrantThatCrossesTheCancelIsKept) {
  session_.error = EINTR;
  session_.on_cancel = [this] { session_.late(v1::Reply()); };
  EXPECT_EQ(Set(Of(v1::LOCK_EXCLUSIVE, 0, 9), /*wait=*/true), 0);
  EXPECT_EQ(Asked(), "wc");
  EXPECT_EQ(Claims(), "0-9w ");
}

TEST_F(FileLocksTest, LostLocksAreReported) {
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

// The token's return: what is in it.
class LockTokenTest : public FileLocksTest {
 protected:
  LockTokenTest() { session_.token = 40; }
  // "token:first-last:type …" of each return since the last call, in order; "?" where the token was
  // not known.
  std::string Returned() {
    std::string text;
    for (const v1::Request& request : session_.requests) {
      if (!request.has_lock_return()) continue;
      const v1::LockReturn& back = request.lock_return();
      text += std::to_string(back.token()) + (back.unknown() ? "?" : ":");
      for (const v1::FileLock& lock : back.locks()) {
        text += std::to_string(lock.first()) + "-" + std::to_string(lock.last()) +
                "nrw"[lock.type()] + " ";
      }
    }
    session_.requests.clear();
    return text;
  }
};

TEST_F(LockTokenTest, LocksUnderTheTokenAskNothing) {
  ASSERT_EQ(Set(Of(v1::LOCK_EXCLUSIVE)), 0);
  EXPECT_EQ(Asked(), "w");
  EXPECT_EQ(Set(Of(v1::LOCK_NONE)), 0);
  EXPECT_EQ(Set(Of(v1::LOCK_SHARED, 0, 4)), 0);
  EXPECT_EQ(Set(Of(v1::LOCK_SHARED, 0, 9, /*owner=*/6)), 0);
  EXPECT_EQ(Set(Of(v1::LOCK_EXCLUSIVE, 3, 9)), EAGAIN);
  const auto found = *locks_.Test(Of(v1::LOCK_EXCLUSIVE, 3, 9), nullptr);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->last(), 9u);
  EXPECT_EQ(found->pid(), 100u);
  locks_.Flush(7, 6, nullptr);
  EXPECT_EQ(Set(Of(v1::LOCK_EXCLUSIVE, 3, 9)), 0);
  EXPECT_EQ(Asked(), "");
  EXPECT_EQ(Claims(), "0-2r 3-9w ");
}

TEST_F(LockTokenTest, ARecallIsAnsweredWithWhatIsHeld) {
  Set(Of(v1::LOCK_EXCLUSIVE));
  Set(Of(v1::LOCK_SHARED, 5, 20));
  locks_.OnRecall(7, 40, /*contended=*/true);
  EXPECT_EQ(Returned(), "40:0-4w 5-20r ");
  session_.token = 41;
  Set(Of(v1::LOCK_NONE));
  EXPECT_FALSE(session_.requests.back().set_lock().take()) << "others wanted it";
  locks_.OnRenewed();
  Set(Of(v1::LOCK_SHARED));
  EXPECT_FALSE(session_.requests.back().set_lock().take());
  locks_.OnRenewed();
  Set(Of(v1::LOCK_SHARED));
  EXPECT_TRUE(session_.requests.back().set_lock().take());
  locks_.OnRecall(7, 40, /*contended=*/false);  // once more, late
  EXPECT_EQ(Returned(), "40?");
  Set(Of(v1::LOCK_EXCLUSIVE));
  EXPECT_EQ(Asked(), "") << "the new one is still there";
}

TEST_F(LockTokenTest, AnUnansweredCallKeepsOthersFromAskingForTheToken) {
  session_.error = EINTR;
  Set(Of(v1::LOCK_EXCLUSIVE), /*wait=*/true);
  EXPECT_TRUE(session_.requests.front().set_lock().take());
  session_.error = 0;
  Set(Of(v1::LOCK_EXCLUSIVE, 20, 29));
  EXPECT_FALSE(session_.requests.back().set_lock().take());
  session_.requests.clear();
  v1::Reply late;
  late.set_lock_token(40);
  session_.late(late);
  EXPECT_EQ(Returned(), "40:20-29w ") << "without what came too late";
  Set(Of(v1::LOCK_EXCLUSIVE, 40, 49));
  EXPECT_TRUE(session_.requests.back().set_lock().take());
}

TEST_F(LockTokenTest, NoLockWaitsUnderTheToken) {
  Set(Of(v1::LOCK_EXCLUSIVE));
  session_.requests.clear();
  EXPECT_EQ(Set(Of(v1::LOCK_EXCLUSIVE, 0, 9, /*owner=*/6), /*wait=*/true), 0);
  ASSERT_EQ(session_.requests.size(), 2u);
  EXPECT_TRUE(session_.requests[0].has_lock_return());
  EXPECT_NE(session_.requests[1].set_lock().wait(), 0u);
  EXPECT_FALSE(session_.requests[1].set_lock().take());
}

TEST_F(LockTokenTest, TheTokenGoesBackWithoutALease) {
  Set(Of(v1::LOCK_EXCLUSIVE));
  session_.requests.clear();
  session_.lease_holds = false;
  Set(Of(v1::LOCK_NONE, 0, 4));
  EXPECT_TRUE(session_.requests.empty()) << "an unlock keeps nobody out";
  Set(Of(v1::LOCK_SHARED, 20, 29));
  ASSERT_EQ(session_.requests.size(), 2u);
  EXPECT_TRUE(session_.requests[1].has_set_lock());
  EXPECT_EQ(Returned(), "40:5-9w ");
}

TEST_F(LockTokenTest, AnIdleTokenGoesBack) {
  Set(Of(v1::LOCK_EXCLUSIVE));
  for (int i = 0; i < 5; ++i) locks_.OnRenewed();
  EXPECT_EQ(Returned(), "") << "something is locked";
  Set(Of(v1::LOCK_NONE));
  for (int i = 0; i < 5; ++i) locks_.OnRenewed();
  EXPECT_EQ(Returned(), "40:");
}

TEST_F(LockTokenTest, TheTokenEndsWithTheEpochAndTheSession) {
  Set(Of(v1::LOCK_EXCLUSIVE));
  EXPECT_EQ(Claims(), "0-9w ");
  Set(Of(v1::LOCK_EXCLUSIVE, 20, 29));
  EXPECT_EQ(Asked(), "ww");
  locks_.OnEvicted();
  Set(Of(v1::LOCK_EXCLUSIVE, 20, 29, /*owner=*/6));
  EXPECT_EQ(Asked(), "w");
  locks_.OnBroken(7);
  EXPECT_EQ(Returned(), "40:");
  EXPECT_EQ(Set(Of(v1::LOCK_SHARED, 0, 9, /*owner=*/6)), EIO);
}

TEST_F(LockTokenTest, AFileWithThousandsOfLocksReturnsTheToken) {
  for (std::uint64_t i = 0; i <= FileLocks::kMaxTokenRanges; ++i) {
    ASSERT_EQ(Set(Of(v1::LOCK_EXCLUSIVE, 10 * i, 10 * i)), 0);
  }
  ASSERT_EQ(session_.requests.size(), 3u);
  EXPECT_EQ(session_.requests[1].lock_return().locks_size(),
            static_cast<int>(FileLocks::kMaxTokenRanges));
}

TEST_F(FileLocksTest, TheConflictingLockIsShown) {
  EXPECT_FALSE(locks_.Test(Of(v1::LOCK_EXCLUSIVE), nullptr)->has_value());
  session_.reply.mutable_lock()->set_type(v1::LOCK_SHARED);
  EXPECT_EQ((*locks_.Test(Of(v1::LOCK_EXCLUSIVE), nullptr))->type(), v1::LOCK_SHARED);
}

}  // namespace
}  // namespace reel::client
