// Which LUNs a sweep takes and how it leaves them; and what it recommends of given figures.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tools/bench/sweep/sweep_advice.h"
#include "tools/bench/sweep/sweep_luns.h"
#include "tools/bench/sweep/sweep_report.h"
#include "tools/bench/sweep/sweep_run.h"
#include "tools/lib/volume_toml.h"
#include "volume/base/types.h"
#include "volume/format/label.h"

namespace reel::bench {
namespace {

class SweepLunsTest : public ::testing::Test {
 protected:
  SweepLunsTest() {
    std::string name = std::filesystem::temp_directory_path() / "reel-sweep-XXXXXX";
    directory_ = mkdtemp(name.data());
  }
  ~SweepLunsTest() override { std::filesystem::remove_all(directory_); }

  std::string MakeImage(const std::string& name, std::uint64_t mib = 64) {
    const std::string path = directory_ + "/" + name;
    std::ofstream(path).close();
    std::filesystem::resize_file(path, mib << 20);
    return path;
  }
  static void Overwrite(const std::string& path, std::uint64_t offset, const std::string& bytes) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(offset));
    file << bytes;
  }
  static std::string Content(const std::string& path) {
    std::string content(std::filesystem::file_size(path), '\xff');
    std::ifstream(path, std::ios::binary)
        .read(content.data(), static_cast<std::streamsize>(content.size()));
    return content;
  }
  // Why the LUN is refused; nothing of it changes by that.
  static std::string Refusal(const std::string& path, const std::string& beside = "") {
    const std::string before = Content(path);
    std::vector<std::string> names = {path};
    if (!beside.empty()) names.insert(names.begin(), beside);
    const auto opened = SweepLuns::Open(names, 32 * kMiB);
    EXPECT_TRUE(absl::IsFailedPrecondition(opened.status())) << opened.status();
    EXPECT_EQ(Content(path), before);
    return std::string(opened.status().message());
  }

  std::string directory_;
};

SweepOptions SmallSweep() {
  return {.block_sizes = {16 * kKiB, 64 * kKiB},
          .breadths = {64 * kKiB, 1 * kMiB},
          .io_sizes = {4 * kKiB, 256 * kKiB},
          .depths = {1, 3},
          .runs = 2,
          .seconds = 0.002,
          .area_bytes = 40 * kMiB};
}

TEST_F(SweepLunsTest, WhatHoldsAnythingIsRefused) {
  const std::string labelled = MakeImage("labelled");
  {
    const auto lun = OpenLun(labelled, LunAccess::kReadWrite);
    ASSERT_TRUE(WriteLabel(**lun, {.lun = Uuid::Random(), .name = "video1", .volume = {}}).ok());
  }
  EXPECT_NE(Refusal(labelled).find("the label of LUN video1"), std::string::npos);

  const std::string copy_only = MakeImage("copy");  // whose first label was overwritten
  std::filesystem::copy_file(labelled, copy_only,
                             std::filesystem::copy_options::overwrite_existing);
  Overwrite(copy_only, 0, std::string(4096, '\0'));
  EXPECT_NE(Refusal(copy_only).find("label"), std::string::npos);

  const std::string table = MakeImage("table");
  std::string boot(512, '\0');
  boot[450] = '\x83';  // a partition from sector 1 on
  boot[454] = 1;
  boot[458] = 16;
  boot[510] = '\x55';
  boot[511] = '\xaa';
  Overwrite(table, 0, boot);
  EXPECT_NE(Refusal(table).find("partition table"), std::string::npos);

  const std::string xfs = MakeImage("swap");
  Overwrite(xfs, 4086, "SWAPSPACE2");
  EXPECT_NE(Refusal(xfs).find("swap"), std::string::npos);
}

TEST_F(SweepLunsTest, UnknownBytesAtEitherEndAreSomebodysToo) {
  const std::string first = MakeImage("first"), last = MakeImage("last");
  Overwrite(first, 700'000, "x");
  EXPECT_NE(Refusal(first).find("first MiB"), std::string::npos);
  Overwrite(last, 64 * kMiB - 5, "x");
  EXPECT_NE(Refusal(last).find("last MiB"), std::string::npos);
}

TEST_F(SweepLunsTest, NoLunIsWrittenToWhereOneIsRefused) {
  const std::string blank = MakeImage("blank"), used = MakeImage("used");
  Overwrite(used, 0, "x");
  Refusal(used, blank);
  EXPECT_EQ(Content(blank), std::string(64 << 20, '\0'));
}

TEST_F(SweepLunsTest, TwoSweepsDoNotMeet) {
  const std::string image = MakeImage("a");
  const auto first = SweepLuns::Open({image}, 32 * kMiB);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(absl::IsFailedPrecondition(SweepLuns::Open({image}, 32 * kMiB).status()));
}

TEST_F(SweepLunsTest, EveryPointIsMeasuredAndTheLunsAreBlankAgain) {
  const std::vector<std::string> images = {MakeImage("a"), MakeImage("b", 80), MakeImage("c")};
  const SweepOptions options = SmallSweep();
  {
    const auto luns = SweepLuns::Open(images, options.area_bytes);
    ASSERT_TRUE(luns.ok()) << luns.status();
    const auto results = RunSweep(*luns, options);
    ASSERT_TRUE(results.ok()) << results.status();
    EXPECT_EQ(results->size(), 32u);
    for (const SweepResult& result : *results) {
      ASSERT_EQ(result.rates.size(), 2u);
      EXPECT_GT(result.rates[0], 0) << TextOf(result.point);
    }
    // Ended here, whatever was written: the ends were left alone.
    for (const std::string& image : images) {
      const std::string content = Content(image);
      EXPECT_EQ(content.substr(0, kMiB), std::string(kMiB, '\0'));
      EXPECT_EQ(content.substr(content.size() - kMiB), std::string(kMiB, '\0'));
      EXPECT_NE(content.find_first_not_of('\0'), std::string::npos);
    }
    luns->Discard();
  }
  for (const std::string& image : images) {
    EXPECT_EQ(Content(image).find_first_not_of('\0'), std::string::npos);
  }
  EXPECT_TRUE(SweepLuns::Open(images, options.area_bytes).ok());
}

TEST_F(SweepLunsTest, ALabelThatComesMeanwhileEndsIt) {
  const std::string image = MakeImage("a");
  const auto luns = SweepLuns::Open({image}, 40 * kMiB);
  ASSERT_TRUE(luns.ok()) << luns.status();
  EXPECT_TRUE(luns->CheckStillBlank().ok());
  {
    const auto other = OpenLun(image, LunAccess::kReadWrite);
    ASSERT_TRUE(WriteLabel(**other, {.lun = Uuid::Random(), .name = "mine", .volume = {}}).ok());
  }
  EXPECT_TRUE(absl::IsFailedPrecondition(luns->CheckStillBlank()));
  EXPECT_TRUE(absl::IsFailedPrecondition(RunSweep(*luns, SmallSweep()).status()));
}

TEST_F(SweepLunsTest, AFileSystemThatComesMeanwhileStays) {
  const std::string image = MakeImage("a");
  const auto luns = SweepLuns::Open({image}, 40 * kMiB);
  ASSERT_TRUE(luns.ok()) << luns.status();
  Overwrite(image, 1024 + 56, "\x53\xef");  // as mkfs.ext4 of another host would
  Overwrite(image, 20 * kMiB, "its data");
  EXPECT_TRUE(absl::IsFailedPrecondition(luns->CheckStillBlank()));
  luns->Discard();
  EXPECT_EQ(Content(image).substr(20 * kMiB, 8), "its data");
}

TEST_F(SweepLunsTest, APointThatDoesNotFitIsSaidBeforeAnythingIsWritten) {
  const std::string image = MakeImage("a");
  const auto luns = SweepLuns::Open({image}, 40 * kMiB);
  ASSERT_TRUE(luns.ok());
  SweepOptions options = SmallSweep();
  options.breadths = {64 * kMiB};
  EXPECT_TRUE(absl::IsInvalidArgument(RunSweep(*luns, options).status()));
  EXPECT_EQ(Content(image).find_first_not_of('\0'), std::string::npos);
}

TEST(SweepGridTest, SizesThatNoVolumeHasAreRefused) {
  EXPECT_TRUE(CheckSweep(SmallSweep()).ok());
  const auto check = [](auto change) {
    SweepOptions options = SmallSweep();
    change(options);
    return CheckSweep(options);
  };
  EXPECT_FALSE(check([](auto& o) { o.block_sizes = {12 * kKiB}; }).ok());
  EXPECT_FALSE(check([](auto& o) { o.block_sizes = {2 * kMiB}; }).ok());
  EXPECT_FALSE(check([](auto& o) { o.breadths = {5000}; }).ok());
  EXPECT_FALSE(check([](auto& o) { o.io_sizes = {0}; }).ok());
  EXPECT_FALSE(check([](auto& o) { o.depths = {}; }).ok());
  EXPECT_FALSE(check([](auto& o) { o.depths = {4, 4}; }).ok());
}

// Results of one work in each direction, with these rates by stripe breadth and by block size.
struct Rates {
  std::map<std::uint64_t, double> reads, writes;
};
void Add(std::vector<SweepResult>& results, bool scattered, const Rates& rates, double spread = 0) {
  for (const bool write : {false, true}) {
    for (const auto& [bytes, rate] : write ? rates.writes : rates.reads) {
      results.push_back({{scattered, bytes, kMiB, 4, write},
                         {rate * 1e6 * (1 - spread), rate * 1e6 * (1 + spread)}});
    }
  }
}
std::vector<SweepResult> ResultsOf(const Rates& by_breadth, double spread = 0) {
  std::vector<SweepResult> results;
  Add(results, false, by_breadth, spread);
  Add(results, true,
      {{{16 * kKiB, 100}, {256 * kKiB, 101}}, {{16 * kKiB, 100}, {256 * kKiB, 101}}});
  return results;
}

TEST(SweepAdviceTest, OfEqualsTheDefault) {
  const auto results = ResultsOf({{{64 * kKiB, 90}, {256 * kKiB, 98}, {kMiB, 100}},
                                  {{64 * kKiB, 90}, {256 * kKiB, 98}, {kMiB, 100}}});
  const Advice advice = AdviseOn(results, Purpose::kBoth, 0.25);
  EXPECT_EQ(advice.breadth.bytes, 256 * kKiB);
  EXPECT_NE(advice.breadth.why.find("(the default)"), std::string::npos) << advice.breadth.why;
  EXPECT_NE(advice.breadth.why.find("1 MiB has 100.0 %"), std::string::npos) << advice.breadth.why;
  EXPECT_EQ(advice.block.bytes, 16 * kKiB);
}

TEST(SweepAdviceTest, WhatIsBetterBeyondTheNoise) {
  const Rates rates{{{64 * kKiB, 60}, {256 * kKiB, 90}, {kMiB, 100}},
                    {{64 * kKiB, 100}, {256 * kKiB, 90}, {kMiB, 60}}};
  EXPECT_EQ(AdviseOn(ResultsOf(rates), Purpose::kReading, 0.25).breadth.bytes, kMiB);
  EXPECT_EQ(AdviseOn(ResultsOf(rates), Purpose::kWriting, 0.25).breadth.bytes, 64 * kKiB);
  EXPECT_EQ(AdviseOn(ResultsOf(rates), Purpose::kBoth, 0.25).breadth.bytes, 256 * kKiB);
  // The same figures by runs that differ by a fifth say nothing.
  const Advice noisy = AdviseOn(ResultsOf(rates, 0.1), Purpose::kReading, 0.25);
  EXPECT_NEAR(noisy.noise, 0.2, 1e-9);
  EXPECT_EQ(noisy.breadth.bytes, 256 * kKiB);
}

TEST(SweepAdviceTest, NearestToTheDefaultWhereThatIsNotAmongTheBest) {
  const Rates rates{{{256 * kKiB, 50}, {kMiB, 99}, {4 * kMiB, 100}},
                    {{256 * kKiB, 50}, {kMiB, 99}, {4 * kMiB, 100}}};
  const Advice advice = AdviseOn(ResultsOf(rates), Purpose::kBoth, 0.25);
  EXPECT_EQ(advice.breadth.bytes, kMiB);
  EXPECT_NE(advice.breadth.why.find("nearest to the default"), std::string::npos);
}

TEST(SweepAdviceTest, BlocksByTheWeightOfScatteredFilesAndWithinTheBreadth) {
  std::vector<SweepResult> results;
  const std::map<std::uint64_t, double> one = {{256 * kKiB, 1}};
  Add(results, false, {one, one});
  const std::map<std::uint64_t, double> blocks = {{16 * kKiB, 50}, {256 * kKiB, 100}, {kMiB, 400}};
  Add(results, true, {blocks, blocks});
  EXPECT_EQ(AdviseOn(results, Purpose::kBoth, 0.5).block.bytes, 256 * kKiB);  // 1 MiB: too large
  EXPECT_EQ(AdviseOn(results, Purpose::kBoth, 0.0).block.bytes, 16 * kKiB);
  const std::map<std::uint64_t, double> odd = {{12 * kKiB, 1}};
  std::vector<SweepResult> none;
  Add(none, false, {odd, odd});
  Add(none, true, {blocks, blocks});
  EXPECT_EQ(AdviseOn(none, Purpose::kBoth, 0.5).block.bytes, 4 * kKiB);
}

TEST(SweepAdviceTest, TheDescriptionIsOneThatMkfsReads) {
  const Advice advice =
      AdviseOn(ResultsOf({{{256 * kKiB, 1}}, {{256 * kKiB, 1}}}), Purpose::kBoth, 0.25);
  const std::string odd = "/dev/a \"b\"\\c\n[[pool]]";
  const auto parsed =
      tools::ParseVolumeToml(AdviceToml(advice, {.luns = {odd, "/b"}, .metadata = {"/m"}}), "test");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  ASSERT_EQ(parsed->pools.size(), 2u);
  EXPECT_EQ(parsed->pools[1].luns[0].text, odd);
  EXPECT_EQ(parsed->block_bytes, 16 * kKiB);
  EXPECT_EQ(parsed->pools[1].breadth_bytes, 256 * kKiB);
  EXPECT_EQ(tools::ParseVolumeToml(AdviceToml(advice, {.luns = {"/a"}}), "test")->pools.size(), 1u);
}

TEST(SweepReportTest, TextAndJsonSayTheSame) {
  SweepReport report{.luns = {"/dev/a"}, .options = SmallSweep()};
  for (const SweepPoint& point : PointsOf(report.options)) {
    report.results.push_back({point, {1e9, 1e9}});
  }
  report.advice.push_back(AdviseOn(report.results, Purpose::kBoth, 0.25));
  EXPECT_NE(report.ToText().find("1000 (1000-1000)"), std::string::npos) << report.ToText();
  const auto json = report.ToJson();
  EXPECT_EQ(json["points"].size(), 32u);
  EXPECT_EQ(json["advice"][0]["stripe_breadth"]["bytes"], report.advice[0].breadth.bytes);
  HtmlReport html("t", "s");
  report.ToHtml(html);
  EXPECT_NE(html.ToString().find("<svg"), std::string::npos);
}

}  // namespace
}  // namespace reel::bench
