#include "client/inode/recall_progress.h"

namespace reel::client {

bool RecallProgress::Begin(const Recalled& what, const TokenSpan& last_used) {
  if (stage_ == Stage::kReturning) {
    if (!next_) next_ = what;
    next_->Add(what);
    return false;
  }
  if (stage_ != Stage::kNone) {
    Recalled both = recalled_;
    both.Add(what);
    if (both != recalled_) Take(both, last_used);
    return false;
  }
  stage_ = Stage::kDraining;
  ++cycle_;
  Take(what, last_used);
  return true;
}

void RecallProgress::Take(const Recalled& what, const TokenSpan& last_used) {
  recalled_ = what;
  yielded_ = YieldFor(what.span, last_used);
  WaitForAll();
  passed_ = false;
}

bool RecallProgress::Close() {
  if (stage_ != Stage::kDraining) return false;
  stage_ = Stage::kClosed;
  return true;
}

void RecallProgress::BeginReturn(const TokenSpan& last_used) {
  stage_ = Stage::kReturning;
  // Where nobody relied on it, its place by now counts.
  if (!passed_) yielded_ = YieldFor(recalled_.span, last_used);
  recalled_.span = yielded_;
}

std::optional<RecallProgress::Recalled> RecallProgress::End() {
  stage_ = Stage::kNone;
  const std::optional<Recalled> next = std::exchange(next_, std::nullopt);
  const bool more = next && (!recalled_.span.Contains(next->span) || recalled_.mode > next->mode);
  return more ? next : std::nullopt;
}

void RecallProgress::Void() {
  gave_way_ = gave_way_ || under_way();  // somebody waited, and had to until the session was over
  stage_ = Stage::kNone;
  next_.reset();
  ++cycle_;
  WaitForAll();
}

TokenSpan RecallProgress::YieldFor(const TokenSpan& recalled, const TokenSpan& last_used) {
  TokenSpan yielded = recalled;
  if (last_used.end <= recalled.first) {
    yielded.end = kEndOfFileBlocks;
  } else if (recalled.end <= last_used.first) {
    yielded = {.first = FileBlock(0), .end = last_used.first};
  }
  return yielded;
}

}  // namespace reel::client
