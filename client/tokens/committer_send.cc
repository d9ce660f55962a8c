// How a plan is told: one message, or two, and what their answers mean.
#include <optional>
#include <utility>

#include "client/tokens/committer.h"
#include "proto/status.h"

namespace reel::client {

// Delayed attributes do not depend on what the LUNs have taken.
void Committer::Send(const PlanRef& plan, const absl::Status& flushed) {
  const bool commits = flushed.ok() && !plan->empty;
  std::optional<v1::SetAttr> delayed;
  {
    MutexLock lock(plan->file->mutex);
    delayed = plan->file->uncommitted.delayed_on_its_way();
    if (flushed.ok()) plan->file->uncommitted.NoteFlushed();
    plan->sent = flushed.ok();
    plan->outcome = flushed;
    plan->brings_attributes = commits && delayed && context_.session->commits_attributes();
    plan->unanswered = (commits ? 1 : 0) + (delayed && !plan->brings_attributes ? 1 : 0);
  }
  if (!commits && !delayed) return Finish(plan, flushed);  // lost with the session meanwhile
  if (plan->brings_attributes) *plan->message.mutable_attributes() = *std::exchange(delayed, {});
  if (commits) SendCommit(plan);
  if (delayed) SendAttributes(plan, *delayed);
}

void Committer::SendCommit(const PlanRef& plan) {
  v1::Request request;
  *request.mutable_layout_commit() = std::move(plan->message);
  context_.session->Start(
      std::move(request),
      [this, plan](const absl::StatusOr<v1::Reply>& reply) { CommitAnswered(plan, reply); },
      plan->session);
}

void Committer::SendAttributes(const PlanRef& plan, const v1::SetAttr& delayed) {
  v1::Request request;
  *request.mutable_set_attr() = delayed;
  context_.session->Start(
      std::move(request),
      [this, plan](const absl::StatusOr<v1::Reply>& reply) {
        reply.ok() ? Answered(plan, reply) : AttributesRefused(plan, reply.status());
      },
      plan->session);
}

// Attributes that a refused commit was to bring go by themselves; so do those that a controller of
// before, to which it was sent again, has not seen.
void Committer::CommitAnswered(const PlanRef& plan, const absl::StatusOr<v1::Reply>& reply) {
  if (!plan->brings_attributes) return Answered(plan, reply);
  if (reply.ok() && reply->attr().has_refused()) {
    const int refused = reply->attr().refused();
    if (refused == 0) return Answered(plan, reply);
    return AttributesRefused(plan, ErrnoStatus(refused, "they came with a commit"));
  }
  std::optional<v1::SetAttr> delayed;
  {
    MutexLock lock(plan->file->mutex);
    plan->outcome.Update(reply.status());
    delayed = plan->file->uncommitted.delayed_on_its_way();
  }
  if (!delayed) return Answered(plan, reply);
  SendAttributes(plan, *delayed);
}

void Committer::Answered(const PlanRef& plan, const absl::StatusOr<v1::Reply>& reply) {
  {
    MutexLock lock(plan->file->mutex);
    if (reply.ok() && reply->has_attr() &&
        plan->file->grant.lost_sessions() == plan->lost_sessions) {
      plan->file->Learn(reply->attr().attr());
    }
    plan->outcome.Update(reply.status());
    if (--plan->unanswered > 0) return;
  }
  Finish(plan, plan->outcome);
}

// The file looks here as if they had been set: the controller says how it looks.
void Committer::AttributesRefused(const PlanRef& plan, const absl::Status& why) {
  {
    MutexLock lock(plan->file->mutex);
    plan->delayed_outcome = why;
    plan->file->uncommitted.NoteDelayedRefused();
  }
  v1::Request request;
  request.mutable_get_attr()->set_inode(plan->file->inode);
  context_.session->Start(
      std::move(request),
      [this, plan](const absl::StatusOr<v1::Reply>& now) {
        {
          MutexLock lock(plan->file->mutex);
          if (now.ok() && now->has_attr() &&
              plan->file->grant.lost_sessions() == plan->lost_sessions) {
            plan->file->ShowAgain(now->attr().attr());
          }
        }
        if (context_.forget_attributes) context_.forget_attributes(plan->file->inode);
        Answered(plan, v1::Reply());
      },
      plan->session);
}

}  // namespace reel::client
