// Commits that carry all bytes of a small file (docs/internals/small-files.md).
#include <cerrno>
#include <string>
#include <utility>

#include "client/tokens/committer.h"
#include "proto/protocol.h"
#include "proto/status.h"
#include "spdlog/spdlog.h"

namespace reel::client {

bool Committer::IsSmall(const FileState& f) const {
  // (Without blocks it can go nowhere else, whatever is true of other files by now.)
  if (f.FirstWithoutBlock() && f.IsSmall(kMaxSmallFileBytes)) return true;
  return !context_.session->commits_wait() && f.IsSmall(context_.session->small_file_bytes());
}

bool Committer::TakeSmall(FileState& f, Plan& plan, bool release_tail) {
  if (IsSmall(f)) {
    plan.whole = WriteBehind::TakeWhole(f);
    plan.message.set_size_bytes(f.attr.size_bytes());
    plan.message.set_content(plan.whole->bytes);
  }
  // (Of the token a part may be given back already, which leaves the end's.)
  const bool told_again = release_tail && f.grant.Has(kWholeFile, v1::TOKEN_EXCLUSIVE) &&
                          f.grant.small().known() &&
                          f.grant.small().size_bytes() == f.attr.size_bytes();
  if (!release_tail || (!plan.whole && !told_again)) return release_tail;
  plan.frees_blocks = plan.holds_file = f.users.EnterExclusive();
  if (plan.frees_blocks && plan.whole) WriteBehind::Hold(f, *plan.whole);
  if (plan.frees_blocks && !plan.whole) plan.message.set_content(f.grant.small().bytes());
  return plan.frees_blocks;
}

bool Committer::FinishSmall(Plan& plan, FileState& f, const absl::Status& status, bool denied) {
  const bool committed = plan.sent && status.ok();
  if (plan.frees_blocks && committed) f.grant.ForgetFrom(FileBlock(0));
  if (plan.replaces_content && committed) f.grant.small().Forget();
  if (!plan.whole) return false;
  WriteBehind::Land(f, *std::move(plan.whole), committed);
  const bool given_up = !plan.sent && ErrnoOf(status) == EINTR;  // all of it is put back
  if (status.ok() || given_up || denied) return false;
  spdlog::warn("inode {}: its bytes go to the LUNs, as the controller does not take them: {}",
               f.inode, std::string(status.message()));
  f.grant.small().SetKeepsBlocks(true);
  PutBackAttributes(plan, f);
  NoteDirty(f);
  return true;
}

absl::Status Committer::EmptyMemory(const FileRef& file, const Interrupt* interrupt, What what) {
  FileState& f = *file;
  PlanRef plan;
  std::uint64_t through = 0;
  {
    MutexLock lock(f.mutex);
    while (f.uncommitted.running() && IsSmall(f)) {
      if (absl::Status status = context_.Wait(f, interrupt); !status.ok()) return status;
    }
    through = f.memory.last_id();
    if (IsSmall(f)) plan = Begin(f, what);
  }
  if (plan != nullptr) {
    Execute({&plan, 1}, interrupt);
    MutexLock lock(f.mutex);
    while (!plan->done) {
      if (absl::Status status = context_.Wait(f, interrupt); !status.ok()) return status;
    }
    // What is there now was written since.
    if (plan->sent && plan->outcome.ok() && IsSmall(f)) return absl::OkStatus();
    through = f.memory.last_id();
  }
  return write_behind_.Flush(file, WriteBehind::kAllBytes, through, interrupt);
}

}  // namespace reel::client
