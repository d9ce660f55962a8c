#include "client/tokens/access_times.h"

#include <optional>
#include <utility>
#include <vector>

#include "proto/convert.h"

namespace reel::client {

void AccessTimes::Note(const FileRef& file, AtimePolicy policy) {
  if (policy == AtimePolicy::kNone) return;
  const v1::Time now = ToProto(context_.clock.WallNow());
  {
    MutexLock lock(file->mutex);
    const std::uint32_t tick = context_.table.tick();
    if (!file->NoteRead(policy, now) || file->access.WasSent(tick)) return;
    if (file->grant.holds_to_write() || !file->access.BeginSending(tick)) return;
  }
  ReportOf(file, now);
}

void AccessTimes::Report(const std::vector<FileRef>& files, std::size_t most) {
  std::vector<std::pair<FileRef, v1::Time>> due;
  for (const FileRef& file : files) {
    if (due.size() >= most) break;
    MutexLock lock(file->mutex);
    const std::optional<v1::Time> time = file->access.BeginSending(context_.table.tick());
    if (time) due.emplace_back(file, *time);
  }
  for (const auto& [file, time] : due) ReportOf(file, time);
}

// One message of an inode is under way at a time.
void AccessTimes::ReportOf(const FileRef& file, const v1::Time& time) {
  v1::Request request;
  v1::SetAttr& set = *request.mutable_set_attr();
  set.set_inode(file->inode);
  set.set_fields(v1::SetAttr::ACCESSED);
  *set.mutable_atime() = time;
  set.set_only_if_due(context_.atime.load() != AtimePolicy::kStrict);
  context_.session->Start(std::move(request), [file, time](const absl::StatusOr<v1::Reply>&) {
    MutexLock lock(file->mutex);
    file->AccessSent(time);
  });
}

}  // namespace reel::client
