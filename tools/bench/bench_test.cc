// The arithmetic of reports, and every load once on a local directory.
#include <filesystem>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tools/bench/lun_capacity.h"
#include "tools/bench/report.h"
#include "tools/bench/runner.h"
#include "tools/bench/side.h"

namespace reel::bench {
namespace {

Row RowOf(const std::vector<std::vector<double>>& rates) {
  Row row{"work", {}};
  for (const std::vector<double>& side : rates) {
    row.measures.emplace_back();
    for (const double rate : side) row.measures.back().push_back({2, 1, rate * 2, 0.5});
  }
  return row;
}

TEST(SpreadTest, MedianAndEnds) {
  EXPECT_EQ(SpreadOf({3, 1, 2}).median, 2);
  EXPECT_EQ(SpreadOf({4, 1, 2, 3}).median, 2.5);
  EXPECT_EQ(SpreadOf({5, 1, 3}).least, 1);
  EXPECT_EQ(SpreadOf({5, 1, 3}).most, 5);
}

TEST(ReportTest, SharesAreTakenRunByRun) {
  // The machine halves its speed after the first run: the share stays.
  const Row row = RowOf({{50, 25}, {100, 50}});
  EXPECT_EQ(row.ShareOf(1).least, 0.5);
  EXPECT_EQ(row.ShareOf(1).most, 0.5);
}

TEST(ReportTest, TheBoundAddsTheCosts) {
  Report report{{"mount", "raw", "fuse"}, {RowOf({{4}, {10}, {10}})}};
  ASSERT_TRUE(report.has_bound());
  EXPECT_DOUBLE_EQ(report.ShareOfBound(report.rows[0]).median, 0.8);
  EXPECT_FALSE((Report{{"raw", "fuse"}, {}}).has_bound());  // the first side is what is measured
}

TEST(ReportTest, TextAndJsonSayTheSame) {
  const Report report{{"mount", "disk"}, {RowOf({{2e6}, {4e6}})}};
  EXPECT_NE(report.ToText().find("0.50"), std::string::npos);
  const auto json = report.ToJson();
  EXPECT_EQ(json["rows"][0]["sides"]["disk"]["share"]["median"], 0.5);
  EXPECT_EQ(json["rows"][0]["sides"]["mount"]["rate"]["median"], 2e6);
  EXPECT_EQ(json["rows"][0]["unit"], "bytes/s");
}

TEST(SideTest, NamesAreTakenFromThePathOrGiven) {
  const auto sides = ParseSides({"a=/tmp", "/tmp/"});
  ASSERT_TRUE(sides.ok()) << sides.status();
  EXPECT_EQ((*sides)[0].name, "a");
  EXPECT_EQ((*sides)[1].name, "tmp");
  EXPECT_TRUE(absl::IsInvalidArgument(ParseSides({"/tmp", "tmp=/"}).status()));
  EXPECT_TRUE(absl::IsNotFound(ParseSides({"x=/does/not/exist"}).status()));
}

TEST(RunTest, EveryLoadOnALocalDirectory) {
  const auto root = ScratchDirectory::Make({"here", testing::TempDir()});
  ASSERT_TRUE(root.ok()) << root.status();
  const std::vector<Side> sides = {{"one", root->path()}, {"two", root->path()}};
  const auto meta = RunMeta(sides, 2, {10}, {2, false});
  ASSERT_TRUE(meta.ok()) << meta.status();
  for (const Row& row : meta->rows) {
    EXPECT_GE(row.measures[1][1].operations, 10) << row.name;
  }
  EXPECT_EQ(meta->rows.size(), 10u);
  EXPECT_TRUE(std::filesystem::is_empty(root->path()));  // everything is removed again
  const auto io = RunIo(sides, {64 << 20, 0.02}, {1, false});
  ASSERT_TRUE(io.ok()) << io.status();
  for (const Row& row : io->rows) EXPECT_GT(row.measures[0][0].bytes, 0) << row.name;
}

TEST(SideTest, SeveralClientsOfOneSide) {
  const auto root = ScratchDirectory::Make({"here", testing::TempDir()});
  ASSERT_TRUE(root.ok()) << root.status();
  const std::string comma = root->path() + "/a,b";
  std::filesystem::create_directory(comma);
  EXPECT_TRUE((*ParseSides({comma}))[0].more_clients.empty());
  const auto sides = ParseSides({"reel=" + root->path() + "," + testing::TempDir()});
  ASSERT_TRUE(sides.ok()) << sides.status();
  EXPECT_EQ((*sides)[0].directory, root->path());
  EXPECT_EQ((*sides)[0].more_clients, std::vector<std::string>{testing::TempDir()});
  EXPECT_TRUE(absl::IsNotFound(ParseSides({root->path() + ",/does/not/exist"}).status()));
}

TEST(RunTest, ClientsOfASideWorkAtTheSameTime) {
  const auto root = ScratchDirectory::Make({"here", testing::TempDir()});
  ASSERT_TRUE(root.ok()) << root.status();
  for (const bool shared : {false, true}) {
    const std::vector<Side> sides = {{"one", root->path(), {root->path(), root->path()}}};
    const auto meta = RunMeta(sides, 2, {10, shared}, {1, false});
    ASSERT_TRUE(meta.ok()) << meta.status();
    EXPECT_EQ(meta->rows[0].measures[0][0].operations, 30);  // one thread of each client
    EXPECT_EQ(meta->rows[5].measures[0][0].operations, 60);
    // Each of six threads lists its own ten files with two dots; or all sixty, shared.
    EXPECT_EQ(meta->rows[8].measures[0][0].operations, shared ? 6 * 62 : 6 * 12);
    EXPECT_NE(meta->ToText().find("one (3 clients)"), std::string::npos);
    EXPECT_EQ(meta->ToJson()["clients"][0], 3);
    EXPECT_TRUE(std::filesystem::is_empty(root->path()));
  }
}

TEST(RunTest, AMeasurementThatWouldBeginTooLateEndsTheRun) {
  const auto root = ScratchDirectory::Make({"here", testing::TempDir()});
  ASSERT_TRUE(root.ok()) << root.status();
  const StartTimes past(0, 1);
  const auto meta = RunMeta({{"one", root->path()}}, 1, {10}, {.runs = 1, .start = &past});
  EXPECT_TRUE(absl::IsDeadlineExceeded(meta.status())) << meta.status();
}

TEST(LunCapacityTest, TheSlowerOfReadingAndWritingCounts) {
  const auto root = ScratchDirectory::Make({"here", testing::TempDir()});
  ASSERT_TRUE(root.ok()) << root.status();
  const auto measured = MeasureLuns({"one", root->path()}, {64 << 20, 0.02}, false);
  ASSERT_TRUE(measured.ok()) << measured.status();
  EXPECT_GT(measured->rate_requests(), 0u);
  EXPECT_TRUE(std::filesystem::is_empty(root->path()));
  const LunCapacity capacity{
      .read_bytes = 900.7 * (1 << 20), .written_bytes = 1000e6, .reads = 7000.9, .writes = 8000};
  EXPECT_NE(CapacityText(capacity).find("reeladm qos capacity POOL 900M 7000\n"),
            std::string::npos);
}

}  // namespace
}  // namespace reel::bench
