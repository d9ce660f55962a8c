#include "mdc/web/volume_metrics.h"

#include <array>
#include <map>
#include <set>
#include <string_view>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "mdc/moves/job_table.h"
#include "mdc/web/counter_metrics.h"

namespace reel::mdc {
namespace {

using Labels = MetricWriter::Labels;

// "space_low".
std::string WordOf(v1::AlarmKind kind) {
  constexpr std::string_view kPrefix = "ALARM_";
  return absl::AsciiStrToLower(v1::AlarmKind_Name(kind).substr(kPrefix.size()));
}

void WriteAlarms(const std::string& volume, const v1::ShowReply& show, MetricWriter& metrics) {
  std::map<int, int> counts;
  for (int kind = v1::AlarmKind_MIN + 1; kind <= v1::AlarmKind_MAX; ++kind) counts[kind] = 0;
  for (const int kind : show.alarm_kinds()) ++counts[kind];
  for (const auto& [kind, count] : counts) {
    metrics.Gauge("reelfs_alarms", "Alarms that are shown now, by what they are about.",
                  {{"volume", volume}, {"kind", WordOf(static_cast<v1::AlarmKind>(kind))}}, count);
  }
}

void WritePools(const std::string& volume, const v1::ShowReply& show, MetricWriter& metrics) {
  for (const v1::ShowReply::Pool& pool : show.pools()) {
    const Labels labels{{"volume", volume}, {"pool", pool.name()}};
    metrics.Gauge("reelfs_pool_size_bytes", "Size of a storage pool.", labels,
                  static_cast<double>(pool.total_bytes()));
    metrics.Gauge("reelfs_pool_free_bytes", "Free space of a storage pool.", labels,
                  static_cast<double>(pool.free_bytes()));
    for (const v1::ShowReply::Lun& lun : pool.luns()) {
      const Labels of_lun{{"volume", volume}, {"pool", pool.name()}, {"lun", lun.name()}};
      metrics.Gauge("reelfs_lun_size_bytes", "Size of a LUN.", of_lun,
                    static_cast<double>(lun.size_bytes()));
      metrics.Gauge("reelfs_lun_closed", "1 where nothing new is allocated on a LUN.", of_lun,
                    lun.closed() ? 1 : 0);
      metrics.Gauge("reelfs_lun_reservations", "1 where a LUN can cut a host off.", of_lun,
                    lun.reservations() ? 1 : 0);
    }
  }
}

void WriteStore(const std::string& volume, const VolumeFacts& facts, MetricWriter& metrics) {
  const v1::ShowReply& show = facts.show;
  const Labels labels{{"volume", volume}};
  metrics.Gauge("reelfs_store_size_bytes", "Size of the metadata store.", labels,
                static_cast<double>(show.store_bytes()));
  metrics.Gauge("reelfs_store_free_bytes", "Free space of the metadata store.", labels,
                static_cast<double>(show.store_free_bytes()));
  metrics.Gauge("reelfs_maintenance", "1 while a volume is in maintenance.", labels,
                show.maintenance() ? 1 : 0);
  metrics.Gauge("reelfs_map_generation", "Generation of the volume's map.", labels,
                static_cast<double>(show.map_generation()));
  metrics.Gauge("reelfs_dump_waiting_bytes", "Freed space that a dump of the metadata keeps.",
                labels, static_cast<double>(show.waiting_bytes()));
  if (show.has_kept_dump()) {
    metrics.Gauge("reelfs_dump_kept_timestamp_seconds",
                  "When the dump of the metadata that is kept was taken.", labels,
                  static_cast<double>(show.kept_dump().taken().seconds()));
  }
}

void WriteFree(const std::string& volume, const v1::FreeReply& free, MetricWriter& metrics) {
  const auto number = [](std::uint64_t value) { return static_cast<double>(value); };
  for (const v1::FreeReply::Pool& pool : free.pools()) {
    const Labels labels{{"volume", volume}, {"pool", pool.name()}};
    metrics.Gauge("reelfs_pool_free_runs", "Pieces that the free space of a pool is in.", labels,
                  number(pool.runs()));
    metrics.Gauge("reelfs_pool_largest_free_run_bytes", "The largest piece of free space.", labels,
                  number(pool.largest_run_bytes()));
    metrics.Gauge("reelfs_pool_closed_bytes", "Space in which nothing new is allocated.", labels,
                  number(pool.closed_bytes()));
  }
  const Labels labels{{"volume", volume}};
  metrics.Gauge("reelfs_removed_open_files", "Files that are removed and still open.", labels,
                number(free.open_files()));
  metrics.Gauge("reelfs_removed_open_bytes", "Space of files that are removed and still open.",
                labels, number(free.open_bytes()));
  metrics.Gauge("reelfs_reserved_bytes", "Space reserved for clients' new files and for moves.",
                labels, number(free.reserved_bytes()));
  if (!free.has_files()) return;
  metrics.Gauge("reelfs_scrubbed_files", "Files that the last scrub has seen.", labels,
                number(free.files().files()));
  metrics.Gauge("reelfs_scrubbed_pieces", "Pieces that these files lie in.", labels,
                number(free.files().pieces()));
}

void WriteLuns(const std::string& volume, const v1::WhoReply::Session& session,
               MetricWriter& metrics) {
  std::set<std::string_view> told;  // a client may say anything, and no sample may come twice
  for (const v1::WhoReply::LunTraffic& lun : session.luns()) {
    if (!told.insert(lun.name()).second) continue;
    const auto count = [&](std::string_view name, std::string_view help, std::string direction,
                           std::uint64_t value) {
      metrics.Counter(name, help,
                      {{"volume", volume},
                       {"host", session.host()},
                       {"mount_point", session.mount_point()},
                       {"lun", lun.name()},
                       {"direction", std::move(direction)}},
                      static_cast<double>(value));
    };
    constexpr std::string_view kRequests = "reelfs_client_lun_requests_total";
    constexpr std::string_view kRequestsHelp = "Requests of a client to a LUN since it mounted.";
    constexpr std::string_view kBytes = "reelfs_client_lun_bytes_total";
    constexpr std::string_view kBytesHelp = "Bytes between a client and a LUN since it mounted.";
    count(kRequests, kRequestsHelp, "read", lun.reads());
    count(kRequests, kRequestsHelp, "write", lun.writes());
    count(kBytes, kBytesHelp, "read", lun.read_bytes());
    count(kBytes, kBytesHelp, "write", lun.written_bytes());
    metrics.Gauge("reelfs_client_lun_lost", "1 where a client does not reach a LUN.",
                  {{"volume", volume},
                   {"host", session.host()},
                   {"mount_point", session.mount_point()},
                   {"lun", lun.name()}},
                  lun.problem().empty() ? 0 : 1);
  }
}

// (One host may have mounted a volume at one place twice, while the first session ends: the
// younger one counts.)
void WriteSessions(const std::string& volume, const v1::WhoReply& who, MetricWriter& metrics) {
  std::map<std::pair<std::string, std::string>, const v1::WhoReply::Session*> youngest;
  for (const v1::WhoReply::Session& session : who.sessions()) {
    const v1::WhoReply::Session*& known = youngest[{session.host(), session.mount_point()}];
    if (known == nullptr || known->session() < session.session()) known = &session;
  }
  for (const auto& [where, session] : youngest) {
    const Labels labels{{"volume", volume}, {"host", where.first}, {"mount_point", where.second}};
    metrics.Gauge("reelfs_client_connected", "1 while a client has a connection.", labels,
                  session->connected() ? 1 : 0);
    metrics.Gauge("reelfs_client_lease_left_seconds",
                  "How long a client may go on without renewing its lease.", labels,
                  static_cast<double>(session->lease_left_ms()) / 1000);
    metrics.Gauge("reelfs_client_open_files", "Files that a client has open.", labels,
                  static_cast<double>(session->opens()));
    metrics.Gauge("reelfs_client_tokens", "Tokens that a client holds.", labels,
                  static_cast<double>(session->tokens()));
    metrics.Counter("reelfs_client_operations_total",
                    "Operations of a client since this controller took the volume over.", labels,
                    static_cast<double>(session->operations()));
    WriteLuns(volume, *session, metrics);
  }
}

std::vector<double> BoundsOf(const v1::StatReply& stat) {
  std::vector<double> bounds;
  for (const std::uint64_t us : stat.bounds_us()) bounds.push_back(static_cast<double>(us) / 1e6);
  return bounds;
}

// How the controller took the volume over, and how its beats on the seat LUN do.
void WriteSeat(const std::string& volume, const v1::StatReply& stat, MetricWriter& metrics) {
  const Labels labels{{"volume", volume}};
  metrics.Gauge("reelfs_takeover_timestamp_seconds",
                "When this controller began to take the volume over.", labels,
                static_cast<double>(stat.taken_over().seconds()));
  for (const v1::StatReply::Phase& phase : stat.takeover()) {
    metrics.Gauge("reelfs_takeover_phase_seconds", "How long the parts of the takeover took.",
                  {{"volume", volume}, {"phase", phase.name()}},
                  static_cast<double>(phase.ms()) / 1000);
  }
  const std::vector<std::uint64_t> counts(stat.beats().counts().begin(),
                                          stat.beats().counts().end());
  metrics.Histogram("reelfs_seat_beat_duration_seconds", "How long beats on the seat LUN took.",
                    labels, BoundsOf(stat), counts,
                    static_cast<double>(stat.beats().sum_us()) / 1e6);
}

void WriteTimes(const std::string& volume, const v1::StatReply& stat, MetricWriter& metrics) {
  const std::vector<double> bounds = BoundsOf(stat);
  for (const v1::StatReply::Times& times : stat.times()) {
    const std::vector<std::uint64_t> counts(times.counts().begin(), times.counts().end());
    metrics.Histogram("reelfs_request_duration_seconds",
                      "How long the controller took for a request, until its reply left.",
                      {{"volume", volume}, {"operation", times.operation()}}, bounds, counts,
                      static_cast<double>(times.sum_us()) / 1e6);
  }
}

void WriteJobs(const std::string& volume, const VolumeFacts& facts, MetricWriter& metrics) {
  for (const v1::JobsReply::Job& job : facts.jobs.jobs()) {
    const v1::JobRecord& record = job.record();
    const Labels labels{{"volume", volume},
                        {"number", absl::StrCat(job.job())},
                        {"kind", std::string(JobTable::KindWord(record.kind()))}};
    metrics.Gauge("reelfs_job_running", "1 while a job runs.", labels,
                  record.state() == v1::JOB_RUNNING ? 1 : 0);
    metrics.Gauge("reelfs_job_failed", "1 where a job has failed.", labels,
                  record.state() == v1::JOB_FAILED ? 1 : 0);
    metrics.Gauge("reelfs_job_moved_bytes", "What a job has moved.", labels,
                  static_cast<double>(record.moved_blocks()) * facts.show.block_bytes());
  }
}

void WriteQuotas(const std::string& volume, const VolumeFacts& facts, MetricWriter& metrics) {
  for (const auto& [kind, reply] : facts.quotas) {
    for (const v1::QuotasReply::Quota& quota : reply.quotas()) {
      const Labels labels{{"volume", volume},
                          {"kind", kind},
                          {"id", quota.tree().empty() ? absl::StrCat(quota.id()) : quota.tree()}};
      metrics.Gauge("reelfs_quota_used_bytes", "Space that an owner uses.", labels,
                    static_cast<double>(quota.bytes()));
      metrics.Gauge("reelfs_quota_used_files", "Files that an owner has.", labels,
                    static_cast<double>(quota.files()));
      const auto limit = [&](std::string_view name, std::string_view help, std::string_view which,
                             std::uint64_t value) {
        if (value == 0) return;
        Labels limited = labels;
        limited.emplace_back("limit", which);
        metrics.Gauge(name, help, limited, static_cast<double>(value));
      };
      constexpr std::string_view kBytesHelp = "A limit of an owner's space.";
      constexpr std::string_view kFilesHelp = "A limit of an owner's files.";
      limit("reelfs_quota_limit_bytes", kBytesHelp, "soft", quota.limits().soft_bytes());
      limit("reelfs_quota_limit_bytes", kBytesHelp, "hard", quota.limits().hard_bytes());
      limit("reelfs_quota_limit_files", kFilesHelp, "soft", quota.limits().soft_files());
      limit("reelfs_quota_limit_files", kFilesHelp, "hard", quota.limits().hard_files());
    }
  }
}

void WriteBandwidth(const std::string& volume, const v1::BandwidthReply& bandwidth,
                    MetricWriter& metrics) {
  for (const v1::BandwidthReply::Set& set : bandwidth.sets()) {
    if (set.rate_bytes() == 0) continue;  // it is not known
    const Labels labels{
        {"volume", volume}, {"pool", set.pool()}, {"stripe_set", absl::StrCat(set.stripe_set())}};
    metrics.Gauge("reelfs_bandwidth_capacity_bytes_per_second", "What a stripe set can do.", labels,
                  static_cast<double>(set.rate_bytes()));
    metrics.Gauge("reelfs_bandwidth_reserved_bytes_per_second", "What is guaranteed on it.", labels,
                  static_cast<double>(set.reserved_bytes()));
    if (!set.dealt()) continue;
    metrics.Gauge("reelfs_bandwidth_used_bytes_per_second", "What all use of it now.", labels,
                  static_cast<double>(set.used_bytes()));
  }
}

}  // namespace

void WriteVolume(const std::string& volume, const VolumeFacts& facts, MetricWriter& metrics) {
  const Labels labels{{"volume", volume}};
  metrics.Counter("reelfs_changes_total", "Number of the volume's last durable change.", labels,
                  static_cast<double>(facts.stat.sequence()));
  metrics.Gauge("reelfs_controller_uptime_seconds",
                "How long this controller has been the volume's active one.", labels,
                static_cast<double>(facts.stat.uptime_ms()) / 1000);
  WriteAlarms(volume, facts.show, metrics);
  WritePools(volume, facts.show, metrics);
  WriteStore(volume, facts, metrics);
  WriteFree(volume, facts.free, metrics);
  WriteSessions(volume, facts.who, metrics);
  WriteCounters(volume, facts.stat, metrics);
  WriteSeat(volume, facts.stat, metrics);
  WriteTimes(volume, facts.stat, metrics);
  WriteJobs(volume, facts, metrics);
  WriteQuotas(volume, facts, metrics);
  WriteBandwidth(volume, facts.bandwidth, metrics);
}

}  // namespace reel::mdc
