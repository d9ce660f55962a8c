// mkfs.reelfs and fsck.reelfs as they are run: each test a short session at the shell.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "nlohmann/json.hpp"
#include "tools/tests/program_fixture.h"
#include "volume/base/env.h"
#include "volume/format/arbitration_block.h"
#include "volume/format/label.h"
#include "volume/lun/lun.h"

namespace reel::tools {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(ProgramsTest, OneLunIsAVolume) {
  const std::string a = MakeImage("a.img");
  const Outcome made = Mkfs("reel1 " + a);
  EXPECT_EQ(made.exit_code, 0) << made.output;
  EXPECT_THAT(made.output, HasSubstr("The volume is ready."));
  const Outcome checked = Fsck("reel1");
  EXPECT_EQ(checked.exit_code, 0) << checked.output;
  EXPECT_THAT(checked.output, HasSubstr("reel1: clean, 0 files, 1536/4032 blocks"));
}

TEST_F(ProgramsTest, ALunStandsForItsVolume) {
  const std::string a = MakeImage("a.img");
  ASSERT_EQ(Mkfs("reel1 " + a).exit_code, 0);
  const Outcome checked = Fsck(a);
  EXPECT_EQ(checked.exit_code, 0) << checked.output;
  EXPECT_THAT(checked.output, HasSubstr("reel1: clean"));
  EXPECT_EQ(Fsck(directory_ + "/none").exit_code, 8);
}

TEST_F(ProgramsTest, ANameIsGivenOnce) {
  const std::string a = MakeImage("a.img"), b = MakeImage("b.img");
  ASSERT_EQ(Label("write one " + a).exit_code, 0);
  const Outcome refused = Label("write one " + b);
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.output, HasSubstr("a.img has the name one already"));
  EXPECT_EQ(Label("write two " + b).exit_code, 0);
  EXPECT_EQ(Label("write one " + b + " --force " + b).exit_code, 0);
  EXPECT_EQ(Label("write one " + a + " --force " + a).exit_code, 0);
}

TEST_F(ProgramsTest, AnEmptyListSaysSo) {
  const Outcome listed = Label("list");
  EXPECT_EQ(listed.exit_code, 0);
  EXPECT_NE(listed.output, "") << "neither a LUN nor a word";
}

TEST_F(ProgramsTest, TheUdevCommandDescribesALabel) {
  const std::string a = MakeImage("a.img");
  EXPECT_EQ(Label("udev " + a).exit_code, 1);
  EXPECT_EQ(Label("udev " + a).output, "");
  ASSERT_EQ(Label("write one " + a).exit_code, 0);
  const Outcome outcome = Label("udev " + a);
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.output, HasSubstr("ID_FS_TYPE=reelfs_member\nID_FS_LABEL=one\n"));
}

TEST_F(ProgramsTest, ADescriptionBecomesAVolume) {
  MakeImage("m0.img");
  MakeImage("d0.img", 128);
  MakeImage("d1.img", 130);
  const std::string config = WriteFile(
      "v.toml", "name = \"reel1\"\nluns = [\"" + directory_ +
                    "/*.img\"]\n[[pool]]\nname = \"meta\"\n" +
                    "flags = [\"metadata\"]\nluns = [\"" + directory_ + "/m0.img\"]\n[[pool]]\n" +
                    "name = \"data\"\nflags = [\"data\"]\nstripe_breadth = \"1M\"\nluns = [\"" +
                    directory_ + "/d0.img\", \"" + directory_ + "/d1.img\"]\n");
  const Outcome made = Mkfs("--json --config " + config);
  ASSERT_EQ(made.exit_code, 0) << made.output;
  const auto json = nlohmann::json::parse(made.output);
  EXPECT_EQ(json["seat"], "m0.img");
  EXPECT_EQ(json["pools"][1]["lost_bytes"], 2u << 20);
  EXPECT_EQ(json["data_bytes"], 2 * (127u << 20));
  const Outcome checked = Fsck("reel1 --json");
  EXPECT_EQ(checked.exit_code, 0) << checked.output;
  EXPECT_TRUE(nlohmann::json::parse(checked.output)["clean"]);
}

TEST_F(ProgramsTest, AVolumeIsNotOverwrittenUnlessNamed) {
  const std::string a = MakeImage("a.img");
  ASSERT_EQ(Mkfs("reel1 " + a).exit_code, 0);
  const Outcome refused = Mkfs("reel2 " + a);
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.output, HasSubstr("holds LUN \"a.img\" of the volume"));
  EXPECT_EQ(Mkfs("reel2 " + a + " --force " + directory_ + "/other").exit_code, 1);
  EXPECT_EQ(Fsck("reel1").exit_code, 0);
  const Outcome forced = Mkfs("reel2 " + a + " --force " + a);
  EXPECT_EQ(forced.exit_code, 0) << forced.output;
  EXPECT_EQ(Fsck("reel1").exit_code, 8);
  EXPECT_EQ(Fsck("reel2").exit_code, 0);
}

TEST_F(ProgramsTest, ForeignContentIsNotOverwritten) {
  const std::string a = MakeImage("a.img");
  // A DOS partition table with one Linux partition.
  Overwrite(a, 446,
            std::string("\x00\x20\x21\x00\x83\xff\xff\x00\x00\x08\x00\x00\x00\xe8\x01\x00", 16));
  Overwrite(a, 510, "\x55\xaa");
  const Outcome refused = Mkfs("reel1 " + a);
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.output, HasSubstr("dos partition table; to overwrite it, give --force"));
}

TEST_F(ProgramsTest, NothingChangesOnErrorOrDryRun) {
  const std::string a = MakeImage("a.img"), b = MakeImage("b.img", 8);
  const std::string config =
      WriteFile("v.toml",
                "name = \"reel1\"\n[[pool]]\nname = \"p\"\nflags = [\"metadata\", \"data\"]\n"
                "luns = [\"" +
                    a + "\", \"" + b + "\"]\n");
  const Outcome small = Mkfs("-c " + config);
  EXPECT_EQ(small.exit_code, 1);
  EXPECT_THAT(small.output, HasSubstr("v.toml:2: LUN " + b + " is too small: 8 MiB"));
  const Outcome dry = Mkfs("--dry-run reel1 " + a);
  EXPECT_EQ(dry.exit_code, 0);
  EXPECT_THAT(dry.output, HasSubstr("Nothing was changed"));
  const auto lun = OpenLun(a, LunAccess::kReadOnly);
  EXPECT_TRUE(absl::IsNotFound(ReadLabel(**lun).status()));
}

TEST_F(ProgramsTest, UsageErrorsAreReported) {
  const std::string a = MakeImage("a.img");
  EXPECT_EQ(Mkfs("").exit_code, 2);
  EXPECT_EQ(Mkfs("reel1").exit_code, 2);
  EXPECT_EQ(Mkfs("--frobnicate").exit_code, 2);
  EXPECT_EQ(Mkfs("'bad name' " + a).exit_code, 2);
  EXPECT_THAT(Mkfs("reel1 " + a + " " + a).output, HasSubstr("is given twice"));
  EXPECT_THAT(Mkfs("reel1 nolabel --luns '" + directory_ + "/*'").output,
              HasSubstr("no LUN is named \"nolabel\""));
  EXPECT_THAT(Mkfs("reel1 /nowhere/x").output, HasSubstr("/nowhere/x"));
  EXPECT_EQ(Fsck("").exit_code, 16);
  EXPECT_EQ(Fsck("-n -y reel1").exit_code, 16);
  EXPECT_EQ(Fsck("reel1").exit_code, 8);
}

TEST_F(ProgramsTest, ALunInUseIsNotLabelled) {
  const std::string a = MakeImage("a.img");
  ASSERT_EQ(Mkfs("reel1 " + a).exit_code, 0);
  const int fd = open(a.c_str(), O_RDONLY);
  ASSERT_EQ(flock(fd, LOCK_EX), 0);
  EXPECT_EQ(Fsck("-n reel1").exit_code, 8);
  const Outcome refused = Mkfs("reel2 " + a + " --force " + a);
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.output, HasSubstr("in use"));
  close(fd);
  EXPECT_EQ(Fsck("-n reel1").exit_code, 0);
}

TEST_F(ProgramsTest, DamageIsReported) {
  const std::string a = MakeImage("a.img");
  ASSERT_EQ(Mkfs("reel1 " + a).exit_code, 0);
  Overwrite(a, kLabelCopyOffset + 100, "x");
  const Outcome label = Fsck("reel1");
  EXPECT_EQ(label.exit_code, 4);
  EXPECT_THAT(label.output, HasSubstr("copy of the label"));
  EXPECT_THAT(label.output, HasSubstr("1 problem found, nothing was changed"));
  Overwrite(a, kReservedBytes + 20, "xxxx");  // a superblock of the metadata store
  const Outcome store = Fsck("reel1");
  EXPECT_EQ(store.exit_code, 4);
  EXPECT_THAT(store.output, HasSubstr("superblock"));
  EXPECT_THAT(store.output, Not(HasSubstr("clean")));
}

TEST_F(ProgramsTest, DamageIsRepaired) {
  const std::string a = MakeImage("a.img");
  ASSERT_EQ(Mkfs("reel1 " + a).exit_code, 0);
  ASSERT_EQ(Fsck("-y reel1").exit_code, 0);
  const auto sound = Checksums();
  const Outcome nothing = Fsck("-y reel1");
  EXPECT_EQ(nothing.exit_code, 0) << nothing.output;
  EXPECT_EQ(Checksums(), sound) << "nothing to do, nothing written";

  Overwrite(a, kLabelCopyOffset + 100, "x");
  Overwrite(a, kDescriptorSlotOffsets[0] + 40, "x");
  const Outcome lost = Fsck("reel1");
  EXPECT_EQ(lost.exit_code, 4) << "its only descriptor: " << lost.output;
  Overwrite(a, kDescriptorSlotOffsets[0] + 40, std::string(1, '\0'));
  const Outcome label = Fsck("-p reel1");
  EXPECT_EQ(label.exit_code, 1) << label.output;
  EXPECT_THAT(label.output, HasSubstr("copy of the label rewritten"));
  EXPECT_EQ(Fsck("reel1").exit_code, 0);

  Overwrite(a, kReservedBytes + 20, "xxxx");  // a superblock of the metadata store
  const Outcome store = Fsck("--repair --json reel1");
  EXPECT_EQ(store.exit_code, 1) << store.output;
  const auto json = nlohmann::json::parse(store.output);
  EXPECT_EQ(json["problem_count"], 1);
  EXPECT_EQ(json["repair_count"], 1);
  EXPECT_EQ(json["left_count"], 0);
  EXPECT_EQ(json["repairs"][0]["where"], "metadata superblock slot 0");
  EXPECT_EQ(Fsck("reel1").exit_code, 0);
}

TEST_F(ProgramsTest, TheHeadOfTheStoreIsMadeAnew) {
  const std::string a = MakeImage("a.img");
  ASSERT_EQ(Mkfs("reel1 " + a).exit_code, 0);
  Overwrite(a, kReservedBytes, std::string(std::size_t{64} << 10, '\0'));
  const Outcome found = Fsck("reel1");
  EXPECT_EQ(found.exit_code, 4) << found.output;
  const Outcome repaired = Fsck("-p reel1");
  EXPECT_EQ(repaired.exit_code, 1) << "nothing is lost by it: " << repaired.output;
  EXPECT_THAT(repaired.output, HasSubstr("both slots made anew"));
  const Outcome again = Fsck("-y reel1");
  EXPECT_EQ(again.exit_code, 0) << again.output;
}

// As the controller of another host would serve it: no claim of this machine, but a seat that
// beats.
TEST_F(ProgramsTest, AServedVolumeIsNotRepaired) {
  const std::string a = MakeImage("a.img"), b = MakeImage("b.img");
  ASSERT_EQ(Mkfs("reel1 " + a + " " + b).exit_code, 0);
  Overwrite(a, kLabelCopyOffset + 100, "x");
  auto lun = OpenLun(a, LunAccess::kReadWrite);
  ASSERT_TRUE(lun.ok()) << lun.status();
  ArbitrationBlock block;
  block.state = ArbitrationBlock::State::kHeld;
  block.volume = ReadLabel(**lun)->label.volume;
  block.seat_ms = 1500;
  block.host = "mdc2";
  block.address = "mdc2:7440";
  ASSERT_TRUE(WriteArbitration(**lun, block).ok());
  const auto before = Checksums();
  std::atomic<bool> ended = false;
  std::thread beats([&] {
    for (; !ended; ++block.beat) EXPECT_TRUE(WriteArbitration(**lun, block).ok());
  });
  const std::string luns = " --luns '" + directory_ + "/*.img'";
  // Also of a LUN that is not its seat's.
  const Outcome outcomes[] = {Fsck("-y reel1"), Fsck("-n reel1"),
                              Mkfs("reel2 " + a + " --force " + a + luns),
                              Mkfs("reel2 " + b + " --force " + b + luns)};
  ended = true;
  beats.join();
  for (const Outcome& refused : outcomes) {
    EXPECT_NE(refused.exit_code, 0);
    EXPECT_THAT(refused.output, HasSubstr("mdc2:7440"));
  }
  EXPECT_EQ(Checksums(), before);
}

TEST_F(ProgramsTest, AVolumeInUseIsNotRepaired) {
  const std::string a = MakeImage("a.img");
  ASSERT_EQ(Mkfs("reel1 " + a).exit_code, 0);
  Overwrite(a, kLabelCopyOffset + 100, "x");
  const auto before = Checksums();
  const int fd = open(a.c_str(), O_RDONLY);
  ASSERT_EQ(flock(fd, LOCK_EX), 0);
  EXPECT_EQ(Fsck("-y reel1").exit_code, 8);
  EXPECT_EQ(Checksums(), before);
  close(fd);
}

}  // namespace
}  // namespace reel::tools
