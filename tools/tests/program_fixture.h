// The vocabulary of tests that run the tools at a shell: images in a directory of their own.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "volume/format/label.h"

namespace reel::tools {

struct Outcome {
  int exit_code = -1;
  std::string output;
};

inline Outcome Shell(const std::string& command) {
  Outcome outcome;
  std::FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  std::array<char, 4096> chunk;
  for (std::size_t got; (got = fread(chunk.data(), 1, chunk.size(), pipe)) > 0;) {
    outcome.output.append(chunk.data(), got);
  }
  const int status = pclose(pipe);
  if (WIFEXITED(status)) outcome.exit_code = WEXITSTATUS(status);
  return outcome;
}

class ProgramsTest : public ::testing::Test {
 protected:
  ProgramsTest() {
    std::string name = std::filesystem::temp_directory_path() / "reel-programs-XXXXXX";
    directory_ = mkdtemp(name.data());
  }
  ~ProgramsTest() override { std::filesystem::remove_all(directory_); }

  std::string MakeImage(const std::string& name, std::uint64_t mib = 64) {
    const std::string path = directory_ + "/" + name;
    std::ofstream(path).close();
    std::filesystem::resize_file(path, mib << 20);
    return path;
  }
  std::string WriteFile(const std::string& name, const std::string& text) {
    const std::string path = directory_ + "/" + name;
    std::ofstream(path) << text;
    return path;
  }
  Outcome Mkfs(const std::string& arguments) {
    return Shell(std::string(MKFS_PATH " ") + arguments);
  }
  Outcome Fsck(const std::string& arguments) {
    return Shell(std::string(FSCK_PATH " ") + arguments + " --luns '" + directory_ + "/*.img'");
  }
  Outcome Label(const std::string& arguments) {
    return Shell(std::string(LABEL_PATH " ") + arguments);
  }
  // What is in the images, by path.
  std::map<std::string, std::size_t> Checksums() {
    std::map<std::string, std::size_t> sums;
    for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
      if (entry.path().extension() != ".img" || !entry.is_regular_file()) continue;
      // Holes are skipped: where data begin and end is part of the sum.
      const int fd = open(entry.path().c_str(), O_RDONLY);
      std::string content;
      for (off_t at = 0, end = 0; (at = lseek(fd, end, SEEK_DATA)) >= 0;) {
        end = lseek(fd, at, SEEK_HOLE);
        std::string part(static_cast<std::size_t>(end - at), '\0');
        EXPECT_EQ(pread(fd, part.data(), part.size(), at), end - at);
        // Who has looked at the volume, or worked on it, says so in the arbitration block.
        for (std::size_t i = kArbitrationOffset; i < kLabelCopyOffset; ++i) {
          const auto place = static_cast<off_t>(i);
          if (place >= at && place < end) part[i - static_cast<std::size_t>(at)] = 0;
        }
        absl::StrAppend(&content, at, ":", part);
      }
      close(fd);
      sums[entry.path()] = std::hash<std::string>{}(content);
    }
    return sums;
  }
  void Overwrite(const std::string& path, std::uint64_t offset, const std::string& bytes) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(offset));
    file << bytes;
  }

  std::string directory_;
};

}  // namespace reel::tools
