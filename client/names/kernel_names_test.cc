#include "client/names/kernel_names.h"

#include <sys/stat.h>

#include <cerrno>
#include <functional>

#include "client/testing/test_clocks.h"
#include "gtest/gtest.h"

namespace reel::client {
namespace {

constexpr std::uint64_t kChanging = 1;

class KernelNamesTest : public testing::Test {
 protected:
  void Start() {
    EXPECT_TRUE(kernel_names_.Start({.forget =
                                         [this] {
                                           if (on_forget_) on_forget_();
                                           ++forgotten_;
                                           return true;
                                         },
                                     .is_mounted_upon = [this] { return mounted_upon_; }}));
    forgotten_ = 0;
  }
  // The token of `directory` comes, with `name` in it.
  void Learn(const std::string& name, std::uint64_t directory = kChanging) {
    v1::Request request;
    request.mutable_lookup()->set_parent(directory);
    request.mutable_lookup()->set_name(name);
    v1::Reply reply;
    reply.add_cacheable(directory);
    reply.set_error(ENOENT);
    names_.OnReply(request, reply);
  }
  bool Show(const std::string& name, std::uint64_t directory = kChanging) {
    return kernel_names_.Keeps() &&
           names_.ShowName(directory, name, 0, kernel_names_.IsQuiet(directory));
  }

  LookedAtClock clock_;
  NameCache names_;
  KernelNames kernel_names_{names_, clock_};
  std::function<void()> on_forget_;
  int forgotten_ = 0;
  bool mounted_upon_ = false;
};

TEST_F(KernelNamesTest, AKernelThatCannotForgetKeepsNothing) {
  Learn("a");
  EXPECT_FALSE(Show("a")) << "before Start";
  EXPECT_FALSE(kernel_names_.Start(
      {.forget = [] { return false; }, .is_mounted_upon = [] { return false; }}));
  EXPECT_FALSE(Show("a"));
}

TEST_F(KernelNamesTest, TheKernelForgetsOnlyWhatItKeeps) {
  Start();
  Learn("a");
  kernel_names_.Forget();
  EXPECT_EQ(forgotten_, 0) << "it keeps nothing";
  EXPECT_TRUE(Show("a"));
  on_forget_ = [&] { EXPECT_FALSE(Show("a")) << "it might be forgotten with the rest, or not"; };
  kernel_names_.Forget();
  EXPECT_EQ(forgotten_, 1);
  kernel_names_.Forget();
  EXPECT_EQ(forgotten_, 1);
  on_forget_ = nullptr;
  EXPECT_TRUE(Show("a"));
  kernel_names_.Forget();
  EXPECT_EQ(forgotten_, 2);
}

TEST_F(KernelNamesTest, ADirectoryThatChangesIsLeftOutForAWhile) {
  Start();
  Learn("a");
  Learn("a", 7);
  kernel_names_.Leave(kChanging);
  EXPECT_FALSE(Show("a"));
  EXPECT_TRUE(Show("a", 7));
  clock_.GoOn(3'000);
  EXPECT_TRUE(Show("a"));
}

// The kernel would unmount it.
TEST_F(KernelNamesTest, NamesUnderAMountPointAreWaitedOut) {
  Start();
  Learn("a");
  ASSERT_TRUE(Show("a"));
  mounted_upon_ = true;
  clock_.GoOn(100);
  const std::uint64_t before_ms = clock_.NowMs();
  kernel_names_.Forget();
  EXPECT_EQ(forgotten_, 0);
  EXPECT_GT(clock_.NowMs() - before_ms, KernelNames::kKeptMs);
  EXPECT_FALSE(Show("a"));
  clock_.GoOn(20'000);
  EXPECT_FALSE(Show("a")) << "still";
  mounted_upon_ = false;
  EXPECT_TRUE(Show("a"));
}

TEST_F(KernelNamesTest, ANonblockingCallerLearnsThatItWouldWait) {
  Start();
  Learn("a");
  ASSERT_TRUE(Show("a"));
  mounted_upon_ = true;  // (The clock stands still: a wait would have no end.)
  EXPECT_FALSE(kernel_names_.TryForget());
  EXPECT_EQ(forgotten_, 0);
  EXPECT_TRUE(names_.keeps());
  mounted_upon_ = false;
  on_forget_ = [&] { EXPECT_FALSE(kernel_names_.TryForget()) << "another thread is at it"; };
  EXPECT_TRUE(kernel_names_.TryForget());
  EXPECT_EQ(forgotten_, 1);
  EXPECT_FALSE(names_.keeps());
  EXPECT_TRUE(kernel_names_.TryForget()) << "there is nothing to forget";
  EXPECT_EQ(forgotten_, 1);
}

}  // namespace
}  // namespace reel::client
