#include "client/tokens/access_times.h"

#include <optional>
#include <utility>

#include "proto/convert.h"
#include "proto/protocol.h"

namespace reel::client {

void AccessTimes::Note(const FileRef& file, AtimePolicy policy) {
  if (policy == AtimePolicy::kNone) return;
  const v1::Time now = ToProto(context_.clock.WallNow());
  {
    MutexLock lock(file->mutex);
    if (!file->NoteRead(policy, now) || !file->access.BeginWaiting()) return;
  }
  if (const std::vector<FileRef> due = Add(file); !due.empty()) Tell(due);
}

std::vector<FileRef> AccessTimes::Add(const FileRef& file) {
  const bool together = context_.session->takes_reads_together();
  MutexLock lock(mutex_);
  waiting_.push_back(file);
  if (together && waiting_.size() < kMaxReads) return {};
  seconds_ = 0;
  return std::exchange(waiting_, {});
}

void AccessTimes::TellOld() {
  {
    MutexLock lock(mutex_);
    if (waiting_.empty() || ++seconds_ < kPatienceSeconds) return;
  }
  TellAll();
}

void AccessTimes::TellAll() {
  std::vector<FileRef> due;
  {
    MutexLock lock(mutex_);
    seconds_ = 0;
    due = std::exchange(waiting_, {});
  }
  if (!due.empty()) Tell(due);
}

void AccessTimes::Tell(const std::vector<FileRef>& files) {
  const std::size_t most = context_.session->takes_reads_together() ? kMaxReads : 1;
  std::vector<Told> reads;
  const auto send = [&] {
    if (most > 1) {
      TellTogether(reads);
    } else {
      TellOne(reads.front());
    }
    reads.clear();
  };
  for (const FileRef& file : files) {
    {
      MutexLock lock(file->mutex);
      const std::optional<v1::Time> time = file->access.BeginSending();
      if (!time) continue;
      reads.push_back({file, *time});
    }
    if (reads.size() == most) send();
  }
  if (!reads.empty()) send();
}

void AccessTimes::TellTogether(const std::vector<Told>& reads) {
  v1::Request request;
  v1::Accessed& accessed = *request.mutable_accessed();
  accessed.set_only_if_due(context_.atime.load() != AtimePolicy::kStrict);
  for (const Told& read : reads) {
    v1::Accessed::Read& one = *accessed.add_reads();
    one.set_inode(read.file->inode);
    *one.mutable_time() = read.time;
  }
  context_.session->Start(std::move(request),
                          [this, reads](const absl::StatusOr<v1::Reply>&) { Done(reads); });
}

void AccessTimes::TellOne(const Told& read) {
  v1::Request request;
  v1::SetAttr& set = *request.mutable_set_attr();
  set.set_inode(read.file->inode);
  set.set_fields(v1::SetAttr::ACCESSED);
  *set.mutable_atime() = read.time;
  set.set_only_if_due(context_.atime.load() != AtimePolicy::kStrict);
  context_.session->Start(std::move(request),
                          [this, read](const absl::StatusOr<v1::Reply>&) { Done({read}); });
}

// (What was read again meanwhile waits, and is not told here: the session may be over.)
void AccessTimes::Done(const std::vector<Told>& reads) {
  for (const auto& [file, time] : reads) {
    bool waits = false;
    {
      MutexLock lock(file->mutex);
      file->AccessSent(time);
      waits = file->access.BeginWaiting();
    }
    if (!waits) continue;
    MutexLock lock(mutex_);
    waiting_.push_back(file);
  }
}

}  // namespace reel::client
