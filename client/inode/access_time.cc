#include "client/inode/access_time.h"

#include "proto/times.h"

namespace reel::client {

bool AccessTime::Note(AtimePolicy policy, const v1::Attr& attr, const v1::Time& now) {
  const v1::Time& last = accessed_ && Later(*accessed_, attr.atime()) ? *accessed_ : attr.atime();
  const bool due = policy == AtimePolicy::kStrict ? Later(now, last)
                                                  : AtimeDue(last, attr.mtime(), attr.ctime(), now);
  if (due) accessed_ = now;
  return due;
}

void AccessTime::Show(v1::Attr& attributes) const {
  if (accessed_ && Later(*accessed_, attributes.atime())) *attributes.mutable_atime() = *accessed_;
}

bool AccessTime::BeginWaiting() {
  if (!accessed_ || stage_ != Stage::kNone) return false;
  stage_ = Stage::kWaiting;
  return true;
}

std::optional<v1::Time> AccessTime::BeginSending() {
  stage_ = accessed_ ? Stage::kSent : Stage::kNone;
  return accessed_;
}

void AccessTime::Sent(const v1::Time& time) {
  stage_ = Stage::kNone;
  if (accessed_ && !Later(*accessed_, time)) accessed_.reset();
}

}  // namespace reel::client
