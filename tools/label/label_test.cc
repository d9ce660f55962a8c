// reel-label as it is run: each test a short session at the shell.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "volume/format/label.h"
#include "volume/testing/sample_volume.h"
#include "volume/testing/temporary_image.h"

namespace reel::tools {
namespace {

using ::testing::HasSubstr;

struct Outcome {
  int exit_code = -1;
  std::string output;  // both streams
};

Outcome Shell(const std::string& arguments) {
  Outcome outcome;
  std::FILE* pipe = popen((std::string(REEL_LABEL_PATH " ") + arguments + " 2>&1").c_str(), "r");
  std::array<char, 4096> chunk;
  for (std::size_t got; (got = fread(chunk.data(), 1, chunk.size(), pipe)) > 0;) {
    outcome.output.append(chunk.data(), got);
  }
  const int wait_status = pclose(pipe);
  if (WIFEXITED(wait_status)) outcome.exit_code = WEXITSTATUS(wait_status);
  return outcome;
}

class LabelProgramTest : public ::testing::Test {
 protected:
  // Makes the LUN a part of a volume, as mkfs does.
  void JoinVolume() {
    const auto lun = OpenLun(path_, LunAccess::kReadWrite);
    ASSERT_TRUE(lun.ok()) << lun.status();
    Label label = ReadLabel(**lun)->label;
    label.volume = SampleUuid(9);
    label.generation += 1;
    ASSERT_TRUE(WriteLabel(**lun, label).ok());
  }
  TemporaryImage image_{4 << 20};
  const std::string& path_ = image_.path();
};

TEST_F(LabelProgramTest, LabelsListsAndClears) {
  EXPECT_EQ(Shell("write lun0 " + path_).exit_code, 0);
  const Outcome listed = Shell("list --json " + path_);
  EXPECT_EQ(listed.exit_code, 0);
  const nlohmann::json json = nlohmann::json::parse(listed.output);
  EXPECT_EQ(json[0]["name"], "lun0");
  EXPECT_EQ(json[0]["size_bytes"], 4 << 20);
  EXPECT_EQ(json[0]["volume"], nullptr);
  EXPECT_EQ(json[0]["copy"], "ok");
  EXPECT_THAT(Shell("list " + path_).output, HasSubstr("both ok"));
  EXPECT_EQ(Shell("clear " + path_).exit_code, 0);
  EXPECT_THAT(Shell("list " + path_).output, HasSubstr("no label"));
  EXPECT_EQ(Shell("clear " + path_).exit_code, 1);
}

TEST_F(LabelProgramTest, RefusesALunInUseUnlessForced) {
  ASSERT_EQ(Shell("write lun0 " + path_).exit_code, 0);
  EXPECT_EQ(Shell("write lun1 " + path_).exit_code, 1) << "it has a label";
  JoinVolume();
  const Outcome refused = Shell("clear " + path_);
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.output, HasSubstr("--force " + path_));
  EXPECT_EQ(Shell("clear " + path_ + " --force /dev/other").exit_code, 2);
  EXPECT_THAT(Shell("list " + path_).output, HasSubstr("lun0"));
  EXPECT_EQ(Shell("write lun1 " + path_ + " --force " + path_).exit_code, 0);
  EXPECT_THAT(Shell("list " + path_).output, HasSubstr("lun1"));
}

TEST_F(LabelProgramTest, RefusesAFileSystem) {
  std::FILE* file = std::fopen(path_.c_str(), "r+");
  std::fseek(file, 1024, SEEK_SET);
  std::fwrite("\x01\0\0\0\xff\0\0\0", 1, 8, file);
  std::fseek(file, 4086, SEEK_SET);
  std::fwrite("SWAPSPACE2", 1, 10, file);
  std::fclose(file);
  const Outcome refused = Shell("write lun0 " + path_);
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.output, HasSubstr("swap"));
  EXPECT_EQ(Shell("write lun0 " + path_ + " --force " + path_).exit_code, 0);
  EXPECT_EQ(*ProbeForeignContent(path_), "");
}

TEST_F(LabelProgramTest, MakesImageFilesButNeverOverOne) {
  const std::string made = path_ + "-new";
  EXPECT_EQ(Shell("write lun0 " + made).exit_code, 1) << "there is none";
  EXPECT_EQ(Shell("write lun0 " + made + " --size 1M").exit_code, 2) << "too small";
  EXPECT_FALSE(std::filesystem::exists(made));
  EXPECT_EQ(Shell("write lun0 " + made + " --size 8M").exit_code, 0);
  EXPECT_EQ(std::filesystem::file_size(made), 8U << 20);
  EXPECT_EQ(Shell("write lun1 " + made + " --size 8M").exit_code, 1) << "it exists";
  std::filesystem::remove(made);
}

TEST_F(LabelProgramTest, UsageErrorsHaveAnExitCodeOfTheirOwn) {
  EXPECT_EQ(Shell("").exit_code, 2);
  EXPECT_EQ(Shell("paint x").exit_code, 2);
  EXPECT_EQ(Shell("write 'a b' " + path_).exit_code, 2);
  EXPECT_EQ(Shell("--help").exit_code, 0);
  EXPECT_EQ(Shell("list /no/such/lun").exit_code, 1);
}

}  // namespace
}  // namespace reel::tools
