#include "tools/shell/completion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/commands/testing/fake_api.h"

namespace reel::tools {
namespace {

using ::testing::Contains;
using ::testing::IsSupersetOf;
using ::testing::Not;

class CompletionTest : public ::testing::Test {
 protected:
  CompletionTest() {
    api_.AddVolume("reel");
    auto* pool = api_.show.add_pools();
    pool->set_name("data");
    pool->add_luns()->set_name("data1");
    auto* session = api_.who.add_sessions();
    session->set_session(17);
    session->set_host("edit-1");
  }
  std::vector<std::string> After(const Words& before) {
    return CompletionAfter(context_, before, {"quit", "doctor"}).words;
  }
  FakeApi api_;
  AdminContext context_{.api = api_, .volume = {}};
};

TEST_F(CompletionTest, CommandsComeFirst) {
  EXPECT_THAT(After({}), IsSupersetOf({"show", "sessions", "quit", "doctor", "maintenance"}));
  EXPECT_THAT(After({"help"}), Contains("show"));
}

TEST_F(CompletionTest, NamesAreTheControllers) {
  EXPECT_THAT(After({"select"}), Contains("reel"));
  EXPECT_THAT(After({"show"}), IsSupersetOf({"data", "long"}));
  EXPECT_THAT(After({"show", "data"}), Contains("long"));
  EXPECT_THAT(After({"evict"}), Contains("17"));
  EXPECT_THAT(After({"evict"}), Not(Contains("edit-1")));
  EXPECT_THAT(After({"trace"}), IsSupersetOf({"17", "edit-1", "all"}));
  EXPECT_THAT(After({"activate"}), Contains("mdc2:7440"));
}

TEST_F(CompletionTest, PathsAreFiles) {
  EXPECT_TRUE(CompletionAfter(context_, {"extents"}, {}).paths);
  EXPECT_TRUE(CompletionAfter(context_, {"affinity", "set", "audio", "a"}, {}).paths);
  EXPECT_FALSE(CompletionAfter(context_, {"show"}, {}).paths);
}

TEST_F(CompletionTest, OptionsFollowTheCommand) {
  EXPECT_THAT(After({"stat"}), IsSupersetOf({"--json", "--watch"}));
  EXPECT_THAT(After({"fail"}), Not(Contains("--watch")));
}

TEST_F(CompletionTest, ASilentControllerOffersNothing) {
  api_.status = absl::UnavailableError("no answer");
  EXPECT_THAT(After({"select"}), Not(Contains("reel")));
}

}  // namespace
}  // namespace reel::tools
