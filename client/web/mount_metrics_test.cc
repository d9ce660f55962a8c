#include "client/web/mount_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <string>

#include "volume/testing/sample_volume.h"

namespace reel::client {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class MountMetricsTest : public testing::Test {
 protected:
  std::string Text() const {
    MetricWriter metrics;
    WriteMount(facts_, descriptor_, metrics);
    return metrics.Text();
  }
  static std::string Line(const std::string& name, const std::string& labels,
                          const std::string& value) {
    return "\n" + name + "{volume=\"reel\",mount_point=\"/mnt/reel\"" + labels + "} " + value +
           "\n";
  }
  const VolumeDescriptor descriptor_ = SampleVolume({{4, {{16, 1}}}});
  MountFacts facts_{.volume = "reel",
                    .mount_point = "/mnt/reel",
                    .session = {},
                    .data = {},
                    .prefetched = {},
                    .told = {},
                    .requests = {}};
};

TEST_F(MountMetricsTest, ASessionAndItsMemoryAreTold) {
  facts_.connected = true;
  facts_.lease_left_ms = 8'500;
  facts_.session = {.slots = 256, .free_slots = 250, .unconfirmed = 6};
  facts_.data.write_behind = {1 << 20, 64 << 20};
  EXPECT_THAT(
      Text(),
      AllOf(HasSubstr(Line("reelfs_mount_connected", "", "1")),
            HasSubstr(Line("reelfs_mount_lease_left_seconds", "", "8.5")),
            HasSubstr(Line("reelfs_mount_slots_free", "", "250")),
            HasSubstr(Line("reelfs_mount_changes_unconfirmed", "", "6")),
            HasSubstr(Line("reelfs_mount_memory_bytes", ",use=\"write_behind\"", "1048576")),
            HasSubstr(Line("reelfs_mount_memory_bytes", ",use=\"read_ahead\"", "0"))));
}

TEST_F(MountMetricsTest, RequestsAreToldWithTheirErrors) {
  RequestTimes::Kind kind{.name = "lookup", .times = {}, .errors = {{ENOENT, 1}}};
  kind.times.Add(90);
  kind.times.Add(70);
  facts_.requests = {kind};
  EXPECT_THAT(Text(), AllOf(HasSubstr(Line("reelfs_mount_request_duration_seconds_count",
                                           ",operation=\"lookup\"", "2")),
                            HasSubstr(Line("reelfs_mount_request_errors_total",
                                           ",operation=\"lookup\",error=\"ENOENT\"", "1"))));
}

TEST_F(MountMetricsTest, LunsGoByTheirNamesAndPathsWithoutSecrets) {
  const LunEntry& entry = descriptor_.pools[0].sets[0].luns[0];
  v1::LunReport& lun = *facts_.told.add_luns();
  lun.set_lun(entry.lun.ToBytes());
  lun.set_path("iscsi://user%secret@10.0.0.1/iqn.2026-11.a:b/1");
  lun.set_written_bytes(4096);
  facts_.data.luns.push_back({.lun = entry.lun, .reads = {}, .writes = {}});
  facts_.data.luns[0].writes.Add(300);
  const std::string text = Text();
  EXPECT_EQ(text.find("secret"), std::string::npos);
  EXPECT_THAT(text, AllOf(HasSubstr("reelfs_mount_lun_bytes_total{volume=\"reel\",mount_point=\""
                                    "/mnt/reel\",lun=\"" +
                                    entry.name + "\""),
                          HasSubstr("direction=\"write\",le=\"0.0002\"} 0"),
                          HasSubstr("direction=\"write\",le=\"0.0005\"} 1")));
}

}  // namespace
}  // namespace reel::client
