// The program that is run when an owner comes to a limit.
#include "mdc/serve/beside/quota_hook.h"

#include <gmock/gmock.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"

namespace reel::mdc {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class StillClock final : public Clock {
 public:
  std::uint64_t NowMs() const override { return now_ms; }
  WallTime WallNow() const override { return {}; }
  std::atomic<std::uint64_t> now_ms{1'000};
};

class QuotaHookTest : public testing::Test {
 protected:
  QuotaHookTest() {
    char path[] = "/tmp/quota_hook_XXXXXX";
    directory_ = mkdtemp(path);
    // Tells by its file that it has ended.
    std::ofstream(Path("hook")) << "#!/bin/sh\n{ echo \"$1\"; env; } >>\"$2.part\"\n"
                                << "cp \"$2.part\" \"$2.next\"; mv \"$2.next\" \"$2\"\n";
    chmod(Path("hook").c_str(), 0755);
  }
  ~QuotaHookTest() override { (void)system(absl::StrCat("rm -rf ", directory_).c_str()); }

  std::string Path(const std::string& name) const { return absl::StrCat(directory_, "/", name); }
  std::vector<std::string> Command() const {
    return {Path("hook"), "$(touch /tmp/not-a-shell); it's one word", Path("told")};
  }
  // When the file is there.
  std::string Await(const std::string& name) const {
    for (;;) {
      std::ifstream file(Path(name));
      if (!file) continue;
      std::ostringstream text;
      text << file.rdbuf();
      return text.str();
    }
  }
  static QuotaNotice Notice(std::uint32_t id = 1000) {
    return {.event = "soft",
            .kind = "user",
            .id = id,
            .name = "",
            .of = "space",
            .used = 5'000,
            .soft = 4'096,
            .hard = 8'192,
            .grace_seconds = 60,
            .text = "user is above; $(touch /tmp/not-a-shell)"};
  }

  std::string directory_;
  StillClock clock_;
};

TEST_F(QuotaHookTest, IsToldWhoAndHowMuch) {
  QuotaHook hook("reel", Command(), clock_);
  hook.Tell(Notice());
  EXPECT_THAT(Await("told"),
              AllOf(HasSubstr("$(touch /tmp/not-a-shell); it's one word\n"),
                    HasSubstr("REELFS_QUOTA_VOLUME=reel\n"), HasSubstr("REELFS_QUOTA_EVENT=soft\n"),
                    HasSubstr("REELFS_QUOTA_KIND=user\n"), HasSubstr("REELFS_QUOTA_ID=1000\n"),
                    HasSubstr("REELFS_QUOTA_OF=space\n"), HasSubstr("REELFS_QUOTA_USED=5000\n"),
                    HasSubstr("REELFS_QUOTA_SOFT=4096\n"), HasSubstr("REELFS_QUOTA_HARD=8192\n"),
                    HasSubstr("REELFS_QUOTA_TEXT=user is above; $(touch")));
  EXPECT_NE(access("/tmp/not-a-shell", F_OK), 0);
}

TEST_F(QuotaHookTest, OneOwnerAndLimitIsToldOfOnceInAWhile) {
  QuotaHook hook("reel", Command(), clock_);
  for (int i = 0; i < 10; ++i) hook.Tell(Notice());
  clock_.now_ms += QuotaHook::kQuietMs;
  std::vector<std::string> other = Command();
  hook.Tell(Notice(1001));
  // They run one after the other: what is told of last is seen last.
  std::string told;
  while (told.find("REELFS_QUOTA_ID=1001") == std::string::npos) told = Await("told");
  std::size_t times = 0;
  for (std::size_t at = told.find("REELFS_QUOTA_ID=1000"); at != std::string::npos;
       at = told.find("REELFS_QUOTA_ID=1000", at + 1)) {
    ++times;
  }
  EXPECT_EQ(times, 1u);
}

TEST_F(QuotaHookTest, AProgramThatIsNotThereIsNoHarm) {
  QuotaHook hook("reel", {Path("nothing")}, clock_);
  hook.Tell(Notice());
  hook.Stop();
}

}  // namespace
}  // namespace reel::mdc
