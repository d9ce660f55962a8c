// What is told of the paths to LUNs: to the controller, and to people.
#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/luns/lun_paths.h"

namespace reel::client {
namespace {

// Of the texts in a report; the controller takes no more.
constexpr std::size_t kMaxReportBytes = 256;

}  // namespace

std::optional<LunPaths::Lost> LunPaths::LongestLost() const {
  MutexLock lock(mutex_);
  const Path* longest = nullptr;
  for (const std::unique_ptr<Path>& path : paths_) {
    if (path->lost_ms == 0) continue;
    // Others get what this host gives up, and no key keeps its lost write out: not before that is
    // over.
    const bool keyed = granted_key_ != 0 && path->may_write;
    if (!keyed && clock_.NowMs() < path->quiet_ms) continue;
    if (longest == nullptr || path->lost_ms < longest->lost_ms) longest = path.get();
  }
  if (longest == nullptr) return std::nullopt;
  const std::string why(longest->problem.message());
  const std::string& name = longest->lun->name();  // most messages begin with it
  return Lost{.problem = absl::StartsWith(why, name) ? why : absl::StrCat(name, ": ", why),
              .lun = longest->uuid,
              .since_ms = longest->lost_ms};
}

void LunPaths::Count(std::uint32_t lun, bool writes, std::uint64_t requests, std::uint64_t bytes) {
  Path& path = *paths_[lun];
  (writes ? path.writes : path.reads).fetch_add(requests, std::memory_order_relaxed);
  (writes ? path.written_bytes : path.read_bytes).fetch_add(bytes, std::memory_order_relaxed);
}

void LunPaths::NoteTook(std::uint32_t lun, bool writes, std::uint64_t us) {
  Path& path = *paths_[lun];
  (writes ? path.write_times : path.read_times).Add(us);
}

std::vector<LunPaths::LunTimes> LunPaths::Times() const {
  std::vector<LunTimes> all;
  if (!notes_times_) return all;
  MutexLock lock(mutex_);
  for (const std::unique_ptr<Path>& path : paths_) {
    if (path->gone) continue;
    LunTimes& times = all.emplace_back(LunTimes{.lun = path->uuid, .reads = {}, .writes = {}});
    path->read_times.AddTo(times.reads);
    path->write_times.AddTo(times.writes);
  }
  return all;
}

std::vector<v1::LunReport> LunPaths::Report() const {
  std::vector<v1::LunReport> reports;
  MutexLock lock(mutex_);
  for (const std::unique_ptr<Path>& path : paths_) {
    if (path->gone) continue;
    v1::LunReport& report = reports.emplace_back();
    report.set_lun(path->uuid.ToBytes());
    report.set_path(path->lun->name().substr(0, kMaxReportBytes));
    if (path->lost_ms != 0) {
      report.set_problem(std::string(path->problem.message().substr(0, kMaxReportBytes)));
    }
    report.set_reads(path->reads);
    report.set_read_bytes(path->read_bytes);
    report.set_writes(path->writes);
    report.set_written_bytes(path->written_bytes);
  }
  return reports;
}

}  // namespace reel::client
