#include "client/mount/log_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <sstream>

#include "spdlog/logger.h"

namespace reel::client {
namespace {

std::string TextOf(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

class LogFileTest : public ::testing::Test {
 protected:
  LogFileTest() {
    char name[] = "/tmp/log_file_test.XXXXXX";
    directory_ = mkdtemp(name);
    path_ = directory_ + "/log";
  }
  ~LogFileTest() override {
    for (const std::string& path : {path_, Old()}) std::remove(path.c_str());
    rmdir(directory_.c_str());
  }
  std::string Old() const { return path_ + ".1"; }

  std::string directory_, path_;
};

TEST_F(LogFileTest, GoesOnInANewFileOnceItWasRotated) {
  auto file = LogFile::Open(path_);
  ASSERT_TRUE(file.ok()) << file.status();
  spdlog::logger log("test", *file);
  log.info("one");
  ASSERT_EQ(std::rename(path_.c_str(), Old().c_str()), 0);
  log.info("two");
  ASSERT_TRUE((*file)->Reopen().ok());
  log.info("three");
  EXPECT_NE(TextOf(Old()).find("one"), std::string::npos);
  EXPECT_NE(TextOf(Old()).find("two"), std::string::npos);
  EXPECT_EQ(TextOf(Old()).find("three"), std::string::npos);
  EXPECT_NE(TextOf(path_).find("three"), std::string::npos);
}

TEST_F(LogFileTest, SaysWhereItCannotBeOpened) {
  const auto file = LogFile::Open(directory_ + "/none/log");
  EXPECT_NE(std::string(file.status().message()).find("/none/log"), std::string::npos);
}

}  // namespace
}  // namespace reel::client
