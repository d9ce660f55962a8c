// Each mistake that LUNs and descriptions can hold: one clear line, the documented exit code, and
// no byte of any LUN changed.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>

#include "tools/tests/program_fixture.h"
#include "volume/format/label.h"

namespace reel::tools {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class BadInputTest : public ProgramsTest {
 protected:
  // Runs a tool that must refuse.
  void Refused(const std::function<Outcome()>& run, int exit_code, const std::string& what) {
    const auto before = Checksums();
    const Outcome outcome = run();
    EXPECT_EQ(outcome.exit_code, exit_code) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr(what));
    EXPECT_EQ(std::count(outcome.output.begin(), outcome.output.end(), '\n'), 1) << outcome.output;
    EXPECT_EQ(Checksums(), before) << "nothing may change";
  }
  void MkfsRefuses(const std::string& arguments, int exit_code, const std::string& what) {
    SCOPED_TRACE("mkfs.reelfs " + arguments);
    Refused([&] { return Mkfs(arguments); }, exit_code, what);
  }
  void FsckRefuses(const std::string& arguments, int exit_code, const std::string& what) {
    SCOPED_TRACE("fsck.reelfs " + arguments);
    Refused([&] { return Fsck(arguments); }, exit_code, what);
  }
  void LabelRefuses(const std::string& arguments, int exit_code, const std::string& what) {
    SCOPED_TRACE("reel-label " + arguments);
    Refused([&] { return Label(arguments); }, exit_code, what);
  }
  std::string Config(const std::string& pool) {
    return WriteFile("v.toml",
                     "name = \"reel1\"\n[[pool]]\nname = \"p\"\n"
                     "flags = [\"metadata\", \"data\"]\n" +
                         pool);
  }
};

TEST_F(BadInputTest, ALunThatIsMissing) {
  MakeImage("a.img");
  MkfsRefuses("reel1 " + directory_ + "/gone.img", 1, "gone.img");
  MkfsRefuses("reel1 gone --luns '" + directory_ + "/*.img'", 1, "no LUN is named \"gone\"");
  MkfsRefuses("-c " + Config("luns = [\"" + directory_ + "/gone.img\"]\n"), 1,
              "v.toml:5: " + directory_ + "/gone.img");
  MkfsRefuses("-c " + directory_ + "/none.toml", 1, "none.toml");
  LabelRefuses("write x " + directory_ + "/gone.img", 1, "gone.img");
  LabelRefuses("clear " + directory_ + "/gone.img", 1, "gone.img");
}

TEST_F(BadInputTest, ALunOfAVolumeThatIsMissing) {
  const std::string a = MakeImage("a.img"), b = MakeImage("b.img");
  ASSERT_EQ(Mkfs("reel1 " + a + " " + b).exit_code, 0);
  std::filesystem::rename(b, directory_ + "/b.away");
  for (const char* how : {"reel1", "-y reel1"}) FsckRefuses(how, 8, "LUN b.img");
  std::filesystem::rename(directory_ + "/b.away", b);
  std::filesystem::rename(a, directory_ + "/a.away");
  for (const char* how : {"reel1", "-y reel1"}) FsckRefuses(how, 8, "its seat LUN");
  FsckRefuses("reel2", 8, "no volume is named reel2");
}

TEST_F(BadInputTest, ALunTwice) {
  const std::string a = MakeImage("a.img"), b = MakeImage("b.img");
  MkfsRefuses("reel1 " + a + " " + a, 2, "is given twice");
  MkfsRefuses("reel1 " + a + " --metadata " + a, 2, "is given twice");
  std::filesystem::create_symlink(a, directory_ + "/same");
  MkfsRefuses("reel1 " + a + " " + directory_ + "/same", 1, "is given twice");
  ASSERT_EQ(Label("write one " + a).exit_code, 0);
  std::filesystem::copy_file(a, b, std::filesystem::copy_options::overwrite_existing);
  MkfsRefuses("reel1 " + a + " " + b, 1, "is a copy of another one");
  MkfsRefuses("reel1 one --luns '" + directory_ + "/*.img'", 1, "two LUNs are named \"one\"");
}

TEST_F(BadInputTest, ACopyOfALun) {
  const std::string a = MakeImage("a.img");
  ASSERT_EQ(Mkfs("reel1 " + a).exit_code, 0);
  std::filesystem::copy_file(a, directory_ + "/clone.img");
  for (const char* how : {"reel1", "-y reel1"}) FsckRefuses(how, 8, "is claimed by both");
}

TEST_F(BadInputTest, UnequalLunsReportUnusedSpace) {
  const std::string a = MakeImage("a.img", 64), b = MakeImage("b.img", 96);
  const auto before = Checksums();
  const Outcome shown = Mkfs("--dry-run reel1 " + a + " " + b);
  EXPECT_EQ(shown.exit_code, 0);
  EXPECT_THAT(shown.output, HasSubstr("the smallest counts, 32 MiB stay unused"));
  EXPECT_EQ(Checksums(), before);
}

TEST_F(BadInputTest, BlockSizeAndBreadth) {
  const std::string a = MakeImage("a.img");
  for (const char* size : {"2KiB", "2MiB", "12KiB", "0"}) {
    MkfsRefuses(absl::StrCat("--block-size ", size, " reel1 ", a), 2,
                "it must be a power of two from 4 KiB to 1 MiB");
  }
  for (const char* size : {"20KiB", "1TiB", "0"}) {
    MkfsRefuses(absl::StrCat("--stripe-breadth ", size, " reel1 ", a), 2,
                "it must be a multiple of the block size (16 KiB) and at most");
  }
  MkfsRefuses("--stripe-breadth much reel1 " + a, 2, "much");
  MkfsRefuses("--stripe-breadth 64MiB reel1 " + a, 1, "too small for a stripe breadth of 64 MiB");
  MkfsRefuses("--strategy best reel1 " + a, 2, "it is round, fill or balance");
}

TEST_F(BadInputTest, DescriptionsThatMakeNoSense) {
  const std::string a = MakeImage("a.img");
  const std::string luns = "luns = [\"" + a + "\"]\n";
  MkfsRefuses("-c " + Config(luns + "colour = 1\n"), 2, "v.toml:6: ");
  MkfsRefuses("-c " + Config("luns = 7\n"), 2, "v.toml:5: ");
  MkfsRefuses("-c " + Config(luns + "stripe_breadth = true\n"), 2, "v.toml:6: ");
  MkfsRefuses("-c " + Config(""), 2, "has no luns");
  MkfsRefuses("-c " + WriteFile("w.toml", "name = \"x\n"), 2, "w.toml:1");
}

TEST_F(BadInputTest, ALunTooSmall) {
  const std::string small = MakeImage("small.img", 8);
  MkfsRefuses("reel1 " + small, 1, "is too small: 8 MiB, at least 32 MiB are needed");
  const std::string tiny = MakeImage("tiny.img", 0);
  MkfsRefuses("reel1 " + tiny, 1, tiny);
  LabelRefuses("write x " + tiny, 1, "at least");
}

TEST_F(BadInputTest, APathThatIsNoLun) {
  MkfsRefuses("reel1 " + directory_ + "/.", 1, directory_);
  LabelRefuses("write x " + directory_, 1, directory_);
  MkfsRefuses("reel1 /dev/null", 1, "/dev/null");
}

TEST_F(BadInputTest, ALunThatIsBusy) {
  const std::string a = MakeImage("a.img");
  ASSERT_EQ(Mkfs("reel1 " + a).exit_code, 0);
  const int fd = open(a.c_str(), O_RDONLY);
  ASSERT_EQ(flock(fd, LOCK_EX), 0);
  const std::string force = " --force " + a;
  MkfsRefuses("reel2 " + a + force, 1, "in use");
  LabelRefuses("write x " + a + force, 1, "in use");
  LabelRefuses("clear " + a + force, 1, "in use");
  for (const char* how : {"-n reel1", "-y reel1"}) FsckRefuses(how, 8, "in use");
  close(fd);
}

TEST_F(BadInputTest, ALunOfAnotherVolume) {
  const std::string a = MakeImage("a.img"), b = MakeImage("b.img");
  ASSERT_EQ(Mkfs("reel1 " + a + " " + b).exit_code, 0);
  MkfsRefuses("reel2 " + a, 1, "holds LUN \"a.img\" of the volume reel1");
  MkfsRefuses("reel2 " + b, 1, "holds LUN \"b.img\" of the volume reel1");
  MkfsRefuses("reel2 " + a + " --force " + b, 1, "--force");
  LabelRefuses("write x " + a, 1, "--force " + a);
  LabelRefuses("clear " + a, 1, "--force " + a);
  EXPECT_EQ(Fsck("reel1").exit_code, 0);
}

TEST_F(BadInputTest, APartitionTableOrAFileSystem) {
  const std::string table = MakeImage("table.img"), swap = MakeImage("swap.img");
  Overwrite(table, 446,
            std::string("\x00\x20\x21\x00\x83\xff\xff\x00\x00\x08\x00\x00\x00\xe8\x01\x00", 16));
  Overwrite(table, 510, "\x55\xaa");
  Overwrite(swap, 1024, std::string("\x01\0\0\0\xff\0\0\0", 8));
  Overwrite(swap, 4086, "SWAPSPACE2");
  MkfsRefuses("reel1 " + table, 1, "partition table; to overwrite it, give --force");
  MkfsRefuses("reel1 " + swap, 1, "swap; to overwrite it, give --force");
  LabelRefuses("write x " + table, 1, "partition table");
  LabelRefuses("write x " + swap, 1, "swap");
  LabelRefuses("clear " + swap, 1, "swap");
  EXPECT_EQ(Mkfs("reel1 " + swap + " --force " + swap).exit_code, 0) << "named, it may";
}

TEST_F(BadInputTest, OneFlippedBit) {
  const std::string a = MakeImage("a.img"), b = MakeImage("b.img");
  ASSERT_EQ(Mkfs("reel1 " + a + " " + b).exit_code, 0);
  const auto flip = [&](const std::string& path, std::uint64_t offset) {
    std::ifstream file(path, std::ios::binary);
    file.seekg(static_cast<std::streamoff>(offset));
    Overwrite(path, offset, std::string(1, static_cast<char>(file.get() ^ 16)));
  };
  struct Case {
    std::string path;
    std::uint64_t offset;
    const char* said;
  };
  for (const Case& at : {Case{a, kLabelOffset + 17, "label at its start"},
                         Case{a, kLabelCopyOffset + 17, "copy of the label"},
                         Case{b, kLabelOffset + 140, "label at its start"},
                         Case{b, kDescriptorSlotOffsets[0] + 99, "the volume descriptor"}}) {
    flip(at.path, at.offset);
    const auto before = Checksums();
    const Outcome checked = Fsck("reel1");
    EXPECT_EQ(checked.exit_code, 4) << checked.output;
    EXPECT_THAT(checked.output, AllOf(HasSubstr(at.said), HasSubstr("1 problem found")));
    EXPECT_EQ(Checksums(), before);
    flip(at.path, at.offset);
  }
  EXPECT_EQ(Fsck("reel1").exit_code, 0);
  flip(a, kDescriptorSlotOffsets[0] + 99);  // the seat's only one
  FsckRefuses("reel1", 4, "has no valid descriptor, but a copy is on");
  const Outcome repaired = Fsck("-y reel1");
  EXPECT_EQ(repaired.exit_code, 1) << repaired.output;
  EXPECT_EQ(Fsck("reel1").exit_code, 0);
}

// Needs loop devices, which not every machine gives.
class LoopDeviceTest : public BadInputTest {
 protected:
  ~LoopDeviceTest() override {
    if (!device_.empty()) Shell("losetup -d " + device_);
  }
  bool Attach(const std::string& image, const std::string& how) {
    const Outcome made = Shell("losetup " + how + " -f --show " + image);
    if (made.exit_code != 0) return false;
    device_ = made.output.substr(0, made.output.find('\n'));
    return true;
  }
  std::string device_;
};

TEST_F(LoopDeviceTest, AReadOnlyLun) {
  if (!Attach(MakeImage("a.img"), "-r")) GTEST_SKIP() << "no loop devices";
  MkfsRefuses("reel1 " + device_, 1, device_);
  LabelRefuses("write x " + device_, 1, device_);
}

TEST_F(LoopDeviceTest, AMountedLun) {
  const std::string a = MakeImage("a.img");
  if (!Attach(a, "")) GTEST_SKIP() << "no loop devices";
  const std::string mount = directory_ + "/mnt";
  std::filesystem::create_directory(mount);
  if (Shell("mkfs.ext4 -q " + device_).exit_code != 0 ||
      Shell("mount " + device_ + " " + mount).exit_code != 0) {
    GTEST_SKIP() << "no ext4";
  }
  MkfsRefuses("reel1 " + device_ + " --force " + device_, 1, "in use on this host");
  LabelRefuses("write x " + device_ + " --force " + device_, 1, "in use on this host");
  EXPECT_EQ(Shell("umount " + mount).exit_code, 0);
}

}  // namespace
}  // namespace reel::tools
