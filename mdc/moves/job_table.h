// The jobs of a volume, which move data while it is in use, or check its metadata (scrub): what
// each is to do, and how far it is.
//
// Jobs that move data run one after the other, by their numbers; a scrub runs beside them. Their
// records are in the store (family 'J'), so a
// job goes on after a failover. Invariants:
//   1. A record that changes here is stored with what it tells of, or later: never before. A job
//      looks at something twice rather than not at all.
//   2. Of those that are over, the last kKeptJobs stay for people to look at, and the last scrub
//      that came to its end.
//   3. At most one scrub is not over.
// Threads: the core thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mdc/base/ids.h"
#include "mdc/metadb/meta_db.h"
#include "proto/records.pb.h"

namespace reel::mdc {

class JobTable {
 public:
  static constexpr std::size_t kKeptJobs = 32;
  // That are not over.
  static constexpr std::size_t kMaxJobs = 64;

  // Reads family 'J'. DATA_LOSS names a damaged record.
  absl::Status Load(const MetaDb& db);

  const std::map<JobId, v1::JobRecord>& all() const { return jobs_; }
  v1::JobRecord* Find(JobId job);
  // The restripe that is not over, of which there is one at most; nullopt: none is.
  std::optional<JobId> Restriping() const;
  // The one that moves data now; nullopt: none is to.
  std::optional<JobId> Current() const;
  // The scrub that is not over.
  std::optional<JobId> Scrub() const;
  // The last one that came to its end: what is known of the metadata.
  const v1::JobRecord* LastScrub() const;

  // A new job; stages its record and drops old ones, but for `kept`. FAILED_PRECONDITION: there are
  // kMaxJobs.
  absl::StatusOr<JobId> Add(v1::JobRecord record, JobId kept, WriteBatch& batch);
  // Pauses, resumes, cancels; one that has failed begins anew. NOT_FOUND; FAILED_PRECONDITION: it
  // is over, or was not paused.
  absl::Status Change(JobId job, v1::JobState state, const v1::Time& now, WriteBatch& batch);
  // It is over, in that state.
  void End(JobId job, v1::JobState state, std::string problem, const v1::Time& now,
           WriteBatch& batch);

  static bool IsOver(const v1::JobRecord& record) {
    return record.state() != v1::JOB_RUNNING && record.state() != v1::JOB_PAUSED;
  }
  // For the log.
  static std::string_view KindWord(v1::JobKind kind);
  static void Store(JobId job, const v1::JobRecord& record, WriteBatch& batch);

 private:
  std::map<JobId, v1::JobRecord> jobs_;
};

}  // namespace reel::mdc
