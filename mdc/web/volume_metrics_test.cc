#include "mdc/web/volume_metrics.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace reel::mdc {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string TextOf(const VolumeFacts& facts) {
  MetricWriter metrics;
  WriteVolume("reel", facts, metrics);
  return metrics.Text();
}

TEST(VolumeMetricsTest, EachKindOfAlarmHasANumberAlsoWhereThereIsNone) {
  VolumeFacts facts;
  for (const auto kind : {v1::ALARM_SPACE_LOW, v1::ALARM_SPACE_LOW, v1::ALARM_SLOW_BEAT})
    facts.show.add_alarm_kinds(kind);
  EXPECT_THAT(TextOf(facts), AllOf(HasSubstr("reelfs_alarms{volume=\"reel\",kind=\"space_low\"} 2"),
                                   HasSubstr("reelfs_alarms{volume=\"reel\",kind=\"slow_beat\"} 1"),
                                   HasSubstr("reelfs_alarms{volume=\"reel\",kind=\"lun_cut\"} 0"),
                                   Not(HasSubstr("kind=\"none\""))));
}

TEST(VolumeMetricsTest, NamesOfHostsAreNothingButText) {
  VolumeFacts facts;
  v1::WhoReply::Session& session = *facts.who.add_sessions();
  session.set_host("a\"} 1\nreelfs_alarms{kind=\"x");
  session.set_mount_point("/mnt\\reel");
  EXPECT_THAT(TextOf(facts), AllOf(HasSubstr("host=\"a\\\"} 1\\nreelfs_alarms{kind=\\\"x\""),
                                   HasSubstr("mount_point=\"/mnt\\\\reel\"")));
}

TEST(VolumeMetricsTest, OfAHostsSessionsTheYoungestCounts) {
  VolumeFacts facts;
  for (const std::uint64_t number : {7, 9, 8}) {
    v1::WhoReply::Session& session = *facts.who.add_sessions();
    session.set_session(number);
    session.set_host("ws1");
    session.set_mount_point("/mnt");
    session.set_opens(number);
  }
  const std::string text = TextOf(facts);
  constexpr char kOpens[] =
      "reelfs_client_open_files{volume=\"reel\",host=\"ws1\",mount_point=\"/mnt\"} ";
  EXPECT_THAT(text,
              AllOf(HasSubstr(std::string(kOpens) + "9"), Not(HasSubstr(std::string(kOpens) + "7")),
                    Not(HasSubstr(std::string(kOpens) + "8"))));
}

TEST(VolumeMetricsTest, ATakeoverIsToldByItsParts) {
  VolumeFacts facts;
  facts.stat.mutable_taken_over()->set_seconds(1'700'000'000);
  v1::StatReply::Phase& phase = *facts.stat.add_takeover();
  phase.set_name("fences");
  phase.set_ms(250);
  facts.stat.add_bounds_us(1000);
  for (const std::uint64_t count : {4, 1}) facts.stat.mutable_beats()->add_counts(count);
  EXPECT_THAT(
      TextOf(facts),
      AllOf(HasSubstr("reelfs_takeover_timestamp_seconds{volume=\"reel\"} 1700000000"),
            HasSubstr("reelfs_takeover_phase_seconds{volume=\"reel\",phase=\"fences\"} 0.25"),
            HasSubstr("reelfs_seat_beat_duration_seconds_count{volume=\"reel\"} 5")));
}

TEST(VolumeMetricsTest, BucketsCountAllThatWasNoLonger) {
  VolumeFacts facts;
  for (const std::uint64_t bound : {100, 1000}) facts.stat.add_bounds_us(bound);
  v1::StatReply::Times& times = *facts.stat.add_times();
  times.set_operation("create");
  times.set_sum_us(2'500'000);
  for (const std::uint64_t count : {3, 2, 1}) times.add_counts(count);
  const std::string text = TextOf(facts);
  constexpr char kName[] = "reelfs_request_duration_seconds";
  const auto bucket = [&](const char* bound, const char* count) {
    return HasSubstr(std::string(kName) + "_bucket{volume=\"reel\",operation=\"create\",le=\"" +
                     bound + "\"} " + count);
  };
  EXPECT_THAT(
      text,
      AllOf(bucket("0.0001", "3"), bucket("0.001", "5"), bucket("+Inf", "6"),
            HasSubstr(std::string(kName) + "_sum{volume=\"reel\",operation=\"create\"} 2.5"),
            HasSubstr(std::string(kName) + "_count{volume=\"reel\",operation=\"create\"} 6")));
}

TEST(VolumeMetricsTest, CountersBecomeMetricsInBaseUnits) {
  VolumeFacts facts;
  const auto count = [&](const char* name, std::uint64_t value) {
    v1::StatReply::Counter& counter = *facts.stat.add_counters();
    counter.set_name(name);
    counter.set_value(value);
  };
  count("op.create", 4);
  count("store.stall_us", 1'500'000);
  count("of.no.kind", 1);
  count("job.moved_blocks.drain", 9);
  EXPECT_THAT(TextOf(facts),
              AllOf(HasSubstr("reelfs_operations_total{volume=\"reel\",operation=\"create\"} 4"),
                    HasSubstr("reelfs_store_stalled_seconds_total{volume=\"reel\"} 1.5"),
                    HasSubstr("reelfs_moved_blocks_total{volume=\"reel\",kind=\"drain\"} 9"),
                    Not(HasSubstr("of_no"))));
}

TEST(VolumeMetricsTest, OnlyLimitsThatThereAreAreShown) {
  VolumeFacts facts;
  VolumeFacts::Quotas& users = facts.quotas.emplace_back();
  users.kind = "user";
  v1::QuotasReply::Quota& quota = *users.reply.add_quotas();
  quota.set_id(1000);
  quota.set_bytes(5);
  quota.mutable_limits()->set_hard_bytes(10);
  const std::string labels = "volume=\"reel\",kind=\"user\",id=\"1000\"";
  EXPECT_THAT(TextOf(facts),
              AllOf(HasSubstr("reelfs_quota_used_bytes{" + labels + "} 5"),
                    HasSubstr("reelfs_quota_limit_bytes{" + labels + ",limit=\"hard\"} 10"),
                    Not(HasSubstr("limit=\"soft\"")), Not(HasSubstr("limit_files"))));
}

}  // namespace
}  // namespace reel::mdc
