// Whom reeladm asks, by arguments and files.
#include "tools/admin/admin_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace reel::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(AdminConfigTest, ArgumentsGoBeforeTheFile) {
  const auto config = ParseAdminConfig("mdc = \"mdc1:7440\"\nvolume = \"reel1\"\n", "f");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->mdc, "mdc1:7440");
  EXPECT_EQ(config->volume, "reel1");
  EXPECT_THAT(ParseAdminConfig("mcd = \"x\"", "f").status().message(),
              HasSubstr("f:1: unknown key"));
  EXPECT_THAT(CompleteAdminConfig({.mdc = "mdc1,[::1]:7", .volume = {}, .tls = {}}, "")->mdcs,
              ElementsAre("mdc1:7440", "[::1]:7"));
  EXPECT_THAT(
      CompleteAdminConfig({.mdc = "mdc1:x", .volume = {}, .tls = {}}, "").status().message(),
      HasSubstr("HOST:PORT"));
  EXPECT_TRUE(absl::IsNotFound(CompleteAdminConfig({}, "/nowhere/f").status()));
}

TEST(AdminConfigTest, WhatTheHostSharesComesLast) {
  const std::string directory = ::testing::TempDir() + "reel_admin_config/";
  std::filesystem::create_directories(directory);
  std::ofstream(directory + "reelfs.toml") << "mdc = ['mdc1', 'mdc2:7']\ntls_ca = '/ca'\n";
  const std::string own = directory + "reeladm.toml";
  std::ofstream(own) << "tls_cert = '/c'\ntls_key = '/k'\n";
  const auto config = CompleteAdminConfig({}, own);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_THAT(config->mdcs, ElementsAre("mdc1:7440", "mdc2:7"));
  EXPECT_EQ(config->tls.ca, "/ca");
  std::ofstream(own) << "mdc = 'mdc3'\n";
  const auto without_tls = CompleteAdminConfig({}, own);
  ASSERT_TRUE(without_tls.ok()) << without_tls.status();
  EXPECT_THAT(without_tls->mdcs, ElementsAre("mdc3:7440"));
  EXPECT_FALSE(without_tls->tls.any());
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace reel::tools
