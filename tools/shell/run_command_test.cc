#include "tools/shell/run_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "tools/commands/testing/fake_api.h"

namespace reel::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class RunCommandTest : public ::testing::Test {
 protected:
  RunCommandTest() {
    api_.AddVolume("reel");
    auto* counter = api_.stat.add_counters();
    counter->set_name("op.create");
    counter->set_value(10);
    api_.stat.set_uptime_ms(60'000);
  }
  absl::Status Run(Words words) {
    RunOptions options = options_;
    if (absl::Status s = TakeOptions(words, options); !s.ok()) return s;
    return RunAndPrint(context_, words, options, out_);
  }
  FakeApi api_;
  AdminContext context_{.api = api_, .volume = {}};
  RunOptions options_;
  std::ostringstream out_;
};

TEST_F(RunCommandTest, OptionsStandAnywhere) {
  Words words = {"--watch", "5", "stat", "--json", "op.", "-y"};
  RunOptions options;
  ASSERT_TRUE(TakeOptions(words, options).ok());
  EXPECT_THAT(words, ElementsAre("stat", "op."));
  EXPECT_EQ(options.watch_seconds, 5u);
  EXPECT_TRUE(options.json && options.yes);
  words = {"stat", "--watch", "op."};
  ASSERT_TRUE(TakeOptions(words, options).ok());
  EXPECT_EQ(options.watch_seconds, kWatchSeconds);
  EXPECT_THAT(words, ElementsAre("stat", "op."));
  words = {"stat", "--wtach"};
  EXPECT_TRUE(absl::IsInvalidArgument(TakeOptions(words, options)));
}

TEST_F(RunCommandTest, WatchShowsRatesUntilInterrupted) {
  int looks = 0;
  context_.wait = [&](std::uint64_t seconds) {
    EXPECT_EQ(seconds, 2u);
    api_.stat.mutable_counters(0)->set_value(30);
    api_.stat.set_uptime_ms(62'000);
    return ++looks == 2 ? absl::CancelledError("") : absl::OkStatus();
  };
  EXPECT_TRUE(Run({"stat", "--watch"}).ok());
  EXPECT_THAT(out_.str(), HasSubstr("op.create     10\n"));
  EXPECT_THAT(out_.str(), HasSubstr("op.create     30        10\n"));
}

TEST_F(RunCommandTest, WatchOutlastsAControllerThatIsAway) {
  int looks = 0;
  context_.wait = [&](std::uint64_t) {
    ++looks;
    api_.status = looks == 1 ? absl::UnavailableError("nobody is there") : absl::OkStatus();
    return looks == 3 ? absl::CancelledError("") : absl::OkStatus();
  };
  EXPECT_TRUE(Run({"stat", "--watch", "1"}).ok());
  EXPECT_THAT(out_.str(), HasSubstr("nobody is there\n"));
  api_.status = absl::UnavailableError("nobody is there");
  EXPECT_TRUE(absl::IsUnavailable(Run({"stat", "--watch", "1"}))) << "the first look fails";
}

TEST_F(RunCommandTest, OnlyWhatShowsIsWatched) {
  EXPECT_TRUE(absl::IsInvalidArgument(Run({"stop", "--watch"})));
  EXPECT_THAT(api_.orders, ElementsAre());
}

TEST_F(RunCommandTest, YesAsksNobody) {
  context_.confirm = [](const std::string&) { return false; };
  EXPECT_TRUE(absl::IsCancelled(Run({"evict", "17"})));
  EXPECT_TRUE(Run({"evict", "17", "--yes"}).ok());
  EXPECT_EQ(api_.Asked<v1::EvictRequest>().session(), 17u);
}

TEST_F(RunCommandTest, AlarmsAreRedWhereColoursMayBe) {
  api_.show.add_alarms("lun7 does not answer");
  EXPECT_TRUE(Run({"show"}).ok());
  EXPECT_THAT(out_.str(), ::testing::Not(HasSubstr("\033[")));
  options_.colours = true;
  EXPECT_TRUE(Run({"show"}).ok());
  EXPECT_THAT(out_.str(), HasSubstr("\033[1;31mALARM: lun7 does not answer\033[0m\n"));
}

}  // namespace
}  // namespace reel::tools
