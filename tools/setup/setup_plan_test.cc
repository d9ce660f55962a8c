// What a set is made from: what the options may say, and how a set grows.
#include "tools/setup/setup_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "tools/setup/setup_questions.h"

namespace reel::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

SetupPlan SomePlan() {
  return {.volume = "reel",
          .controllers = {*ParseController("mdc1.lan,10.0.0.1"), *ParseController("mdc2.lan:7441")},
          .clients = {"edit-1"},
          .admins = {},
          .luns = {"/dev/disk/by-id/wwn-*"},
          .metadata_luns = {"meta1"},
          .data_luns = {"data1", "data2"},
          .etc = kEtc};
}

std::string ErrorOf(const absl::Status& status) {
  return std::string(status.message());
}

TEST(SetupPlanTest, AControllerHasAPortAndMoreNames) {
  const auto controller = ParseController("mdc1.lan,10.0.0.1,0:0::1");
  ASSERT_TRUE(controller.ok()) << controller.status();
  EXPECT_EQ(controller->host, "mdc1.lan");
  EXPECT_EQ(controller->address, "mdc1.lan:7440");
  EXPECT_THAT(controller->names, ElementsAre("10.0.0.1", "::1"));
  EXPECT_THAT(ErrorOf(ParseController("[::1]:7440").status()), HasSubstr("needs a name"));
  EXPECT_THAT(ErrorOf(ParseController("mdc1,a b").status()), HasSubstr("\"a b\" is no host name"));
  EXPECT_FALSE(ParseController("mdc1:0x").ok());
  EXPECT_FALSE(ParseController("../x").ok());
}

TEST(SetupPlanTest, IsKeptAsItsOwnText) {
  SetupPlan plan = SomePlan();
  plan.luns.push_back("iscsi://h/t/\"1\"");
  const auto read = ParseSetupPlan(SetupPlanText(plan), "setup.toml");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, plan);
  EXPECT_THAT(ErrorOf(ParseSetupPlan("volume = 'x'\nmdcs = ['a']\n", "s").status()),
              HasSubstr("s:2: unknown key \"mdcs\""));
}

TEST(SetupPlanTest, GrowsByHosts) {
  SetupPlan wished;
  wished.clients = {"edit-1", "edit-2"};
  wished.controllers = {*ParseController("mdc1.lan"), *ParseController("mdc3.lan")};
  const auto grown = ExtendPlan(SomePlan(), wished, /*force=*/false);
  ASSERT_TRUE(grown.ok()) << grown.status();
  EXPECT_THAT(grown->clients, ElementsAre("edit-1", "edit-2"));
  ASSERT_EQ(grown->controllers.size(), 3u);
  EXPECT_THAT(grown->controllers[0].names, ElementsAre("10.0.0.1"))
      << "a controller that is there already stays as it is";
}

TEST(SetupPlanTest, ChangesNothingWithoutForce) {
  SetupPlan wished;
  wished.volume = "other";
  EXPECT_THAT(ErrorOf(ExtendPlan(SomePlan(), wished, false).status()),
              HasSubstr("the set has volume = \"reel\", and not \"other\""));
  EXPECT_EQ(ExtendPlan(SomePlan(), wished, true)->volume, "other");
  SetupPlan moved;
  moved.controllers = {*ParseController("mdc1.lan:9")};
  EXPECT_THAT(ErrorOf(ExtendPlan(SomePlan(), moved, false).status()),
              HasSubstr("the set has the controller mdc1.lan:7440,10.0.0.1, and not mdc1.lan:9"));
  EXPECT_EQ(ExtendPlan(SomePlan(), moved, true)->controllers[0].address, "mdc1.lan:9");
}

TEST(SetupPlanTest, WhatIsMissingIsNamed) {
  EXPECT_TRUE(CheckPlan(SomePlan()).ok());
  const auto without = [](auto change) {
    SetupPlan plan = SomePlan();
    change(plan);
    return ErrorOf(CheckPlan(plan));
  };
  EXPECT_THAT(without([](SetupPlan& p) { p.volume = ""; }), HasSubstr("--volume is missing"));
  EXPECT_THAT(without([](SetupPlan& p) { p.volume = "a b"; }), HasSubstr("--volume: "));
  EXPECT_THAT(without([](SetupPlan& p) { p.controllers.clear(); }), HasSubstr("--mdc is missing"));
  EXPECT_THAT(without([](SetupPlan& p) { p.luns.clear(); }), HasSubstr("--luns is missing"));
  EXPECT_THAT(without([](SetupPlan& p) { p.data_luns.clear(); }), HasSubstr("--data is missing"));
  EXPECT_THAT(without([](SetupPlan& p) {
                p.clients = {"a", "a"};
              }),
              HasSubstr("--client: a is given twice"));
  EXPECT_THAT(without([](SetupPlan& p) { p.clients = {"../a"}; }), HasSubstr("no host name"));
  EXPECT_THAT(without([](SetupPlan& p) { p.clients = {"ca"}; }), HasSubstr("the authority's"));
  EXPECT_THAT(without([](SetupPlan& p) { p.etc = "etc"; }), HasSubstr("must begin with a '/'"));
}

TEST(SetupQuestionsTest, AskForWhatIsMissingAndAgainWhereItCannotBe) {
  SetupPlan plan;
  plan.luns = {"/dev/x"};
  std::istringstream in("two words\nreel\nmdc1 mdc2,10.0.0.2\n\ndata1 data2\n\n");
  std::ostringstream out;
  const absl::Status status = AskForPlan(plan, in, out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(plan.volume, "reel");
  ASSERT_EQ(plan.controllers.size(), 2u);
  EXPECT_THAT(plan.clients, IsEmpty());
  EXPECT_THAT(plan.data_luns, ElementsAre("data1", "data2"));
  EXPECT_THAT(plan.metadata_luns, IsEmpty());
  EXPECT_THAT(out.str(), HasSubstr("one name is wanted"));
  EXPECT_THAT(out.str(), Not(HasSubstr("Where hosts find the LUNs"))) << "it was given";

  std::istringstream end("reel\n");
  SetupPlan empty;
  EXPECT_TRUE(absl::IsCancelled(AskForPlan(empty, end, out)));
}

}  // namespace
}  // namespace reel::tools
