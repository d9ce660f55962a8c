#include "client/tokens/file_access.h"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/tokens/layout_prefetch.h"
#include "proto/convert.h"
#include "proto/status.h"

namespace reel::client {
namespace {

// Answers that do not bring what was asked for: then the controller's view is broken.
constexpr int kMaxFruitless = 16;

using Stage = RecallProgress::Stage;

// Whether the first of what was asked for is known now.
bool Begins(const FileState& f, const FetchRange& range) ABSL_EXCLUSIVE_LOCKS_REQUIRED(f.mutex) {
  const std::optional<Extent> first = f.grant.Find(FileBlock(range.offset_bytes / f.block_bytes));
  return first && !(range.allocate && first->state == ExtentState::kHole);
}

}  // namespace

struct FileAccess::Ticket {
  // Under the file's mutex.
  std::uint64_t lost_sessions = 0;
  bool waiting = true;
  bool installed = false;
  bool brought = false;  // … and what was asked for is in it
  absl::Status malformed;
};

// Who may go on while the token is on its way back.
bool FileAccess::Admitted(FileState& f, const AccessNeed& need, const Finding& finding,
                          const IoContext& io, const Attempt& attempt) {
  if (!f.recall.under_way()) return true;
  if (attempt.pinned && finding.has_token) return true;
  if (finding.uses && !io.page_cache && f.recall.Passes(*finding.uses)) return true;
  if (f.recall.stage() != Stage::kDraining) return false;
  if (need.holds_back_pages) return finding.has_token;
  // Where nothing is held there is nothing to drop: nobody waits for the pages that it locks.
  if (!need.locks_pages || !(io.write_back || f.kernel_pages.IsDropped(*need.locks_pages))) {
    return false;
  }
  if (finding.has_token) return true;
  recaller_.Bypass(f);
  return false;
}

bool FileAccess::TakePlace(FileState& f, const AccessNeed& need, const Attempt& attempt) {
  return need.exclusive ? f.EnterExclusive() : f.users.EnterShared(attempt.pinned);
}

void FileAccess::Unpin(FileState& f, Attempt& attempt) {
  if (!std::exchange(attempt.pinned, false)) return;
  f.users.Unpin();
  f.changed.NotifyAll();
}

absl::StatusOr<Entered> FileAccess::Enter(FileState& f, const AccessNeed& need, const IoContext& io,
                                          absl::FunctionRef<Finding()> look) {
  Attempt attempt;
  absl::Status status;
  while (status.ok()) {
    const Finding finding = look();
    if (finding.kind == Finding::Kind::kFail) {
      status = finding.failure;
    } else if (!Admitted(f, need, finding, io, attempt)) {
      Unpin(f, attempt);
      status = context_.Wait(f, io.interrupt);
    } else if (finding.kind == Finding::Kind::kWait) {
      status = context_.Wait(f, io.interrupt);
    } else if (MustAwaitPaths(f, need, finding)) {
      Unpin(f, attempt);
      status = AwaitPaths(f, io, attempt);
    } else if (finding.kind == Finding::Kind::kFetch) {
      const bool may_fetch =
          io.page_cache ? f.users.MayFetchPages(attempt.pinned) : f.users.MayFetch(attempt.pinned);
      // A grant that does not suffice is not held on to: its recall may stand before the next one.
      Unpin(f, attempt);
      status = may_fetch ? Fetch(f, need.mode, finding.fetch, io, attempt)
                         : context_.Wait(f, io.interrupt);
    } else if (TakePlace(f, need, attempt)) {
      Entered entered{.exclusive = need.exclusive};
      if (f.recall.under_way() && !attempt.pinned && !need.exclusive && finding.uses &&
          f.recall.Passes(*finding.uses)) {
        entered.passing_round = f.recall.EnterPassing();
      }
      Unpin(f, attempt);
      return entered;
    } else {
      if (need.exclusive) f.users.BeginAwaitExclusive();
      status = context_.Wait(f, io.interrupt);
      if (need.exclusive && f.users.EndAwaitExclusive()) f.changed.NotifyAll();
    }
  }
  Unpin(f, attempt);
  return status;
}

// A token that is asked for while it cannot be used would only be taken from who can, again and
// again.
bool FileAccess::MustAwaitPaths(FileState& f, const AccessNeed& need,
                                const Finding& finding) const {
  if (!context_.paths->AnyLost()) {
    f.recall.ForgetGaveWay();
    return false;
  }
  return finding.kind == Finding::Kind::kFetch && !finding.has_token &&
         (f.recall.gave_way() || need.keeps_token);
}

absl::Status FileAccess::AwaitPaths(FileState& f, const IoContext& io, Attempt& attempt) {
  if (attempt.awaits_since_ms == 0) attempt.awaits_since_ms = context_.clock.NowMs();
  if (absl::Status s = context_.Wait(f, io.interrupt); !s.ok()) return s;
  f.mutex.Unlock();
  absl::Status status = context_.paths->GoesOn(io.interrupt, attempt.awaits_since_ms);
  f.mutex.Lock();
  return status;
}

void FileAccess::Leave(FileState& f, const Entered& entered) {
  if (entered.gave_way && context_.paths->AnyLost()) f.recall.NoteGaveWay();
  if (entered.exclusive) {
    f.users.LeaveExclusive();
  } else {
    f.users.LeaveShared();
    f.recall.LeavePassing(entered.passing_round);
  }
  const bool moves = entered.passing_round == 0 && !entered.gave_way;
  if (moves && f.recall.under_way()) context_.recalls.Moved(f.inode);
  f.changed.NotifyAll();
}

// When it is sent, and when it is answered: a recall that was answered in between has given back
// what there was by then, and the blocks may have come after.
void FileAccess::NoteBlocks(FileState& f, const FetchRange& range) {
  if (!range.allocate) return;
  f.grant.NoteTail(true);
  committer_.NoteLateTail(f, absl::OkStatus());
}

absl::Status FileAccess::Fetch(FileState& f, v1::TokenMode mode, const FetchRange& range,
                               const IoContext& io, Attempt& attempt) {
  if (context_.stopping) return ErrnoStatus(ESHUTDOWN, "the file system is being unmounted");
  auto ticket = std::make_shared<Ticket>();
  ticket->lost_sessions = f.grant.lost_sessions();
  f.users.BeginFetch();
  NoteBlocks(f, range);
  v1::Request request = LayoutGetOf(f.inode, mode, range);
  CallOptions options;
  options.credentials = io.credentials;
  options.interrupt = io.interrupt;
  options.on_reply = [this, mode, range, file = f.shared_from_this(),
                      ticket](const v1::Reply& reply) {
    FileState& state = *file;
    MutexLock lock(state.mutex);
    NoteBlocks(state, range);
    // Nobody waits any more, or the token is on its way back: then the controller may think that
    // more is held than is, which is safe. (A repeated answer from the store brings no layout.)
    if (!ticket->waiting || ticket->lost_sessions != state.grant.lost_sessions() ||
        state.recall.stage() == Stage::kReturning || !reply.has_layout()) {
      return;
    }
    ticket->malformed = TakeIn(state, range, reply.layout());
    if (!ticket->malformed.ok()) return;
    ticket->installed = true;
    ticket->brought = state.grant.Has(range.token, mode) && Begins(state, range);
    state.users.Pin();
  };
  options.under_token = f.grant.Has(range.token, mode);
  const PageFetches::Fetch of_pages{.mode = mode, .asks_token = !options.under_token};
  if (io.page_cache) f.page_fetches.Begin(of_pages);
  f.mutex.Unlock();
  const absl::Status status = context_.session->Call(std::move(request), options).status();
  f.mutex.Lock();
  if (io.page_cache) f.page_fetches.End(of_pages);
  f.users.EndFetch();
  f.changed.NotifyAll();
  ticket->waiting = false;
  if (ticket->installed) {
    Unpin(f, attempt);  // an older one
    attempt.pinned = true;
  }
  if (!ticket->malformed.ok()) return std::move(ticket->malformed);
  const bool session_ended = ErrnoOf(status) == ESTALE;  // or the file is gone: then it stays so
  if (!status.ok() && !session_ended) return status;
  if (!ticket->installed && !session_ended) return absl::OkStatus();
  if (ticket->brought) {  // others may be quicker to use it, again and again
    attempt.fruitless = 0;
    return absl::OkStatus();
  }
  if (++attempt.fruitless <= kMaxFruitless) return absl::OkStatus();
  if (!status.ok()) return status;
  return ErrnoStatus(EIO, absl::StrCat("inode ", f.inode, ": the controller's layout never covers ",
                                       range.length_bytes, " bytes at ", range.offset_bytes));
}

absl::Status FileAccess::TakeIn(FileState& f, const FetchRange& range,
                                const v1::LayoutReply& layout) {
  absl::Status installed = f.Install(layout, context_.session->session_id());
  if (!installed.ok() || range.allocate) return installed;
  const FileBlock end = FileBlock(layout.file_block()) + layout.length_blocks();
  // Where the token ends, the answer had to; that says nothing of how much one holds.
  if (layout.token_length_blocks() != 0 &&
      layout.token_first_block() + layout.token_length_blocks() <= end.value()) {
    return installed;
  }
  f.grant.AdaptFetchBytes({range.offset_bytes, range.length_bytes}, end.value() * f.block_bytes,
                          layout.extents_size());
  return installed;
}

void FileAccess::PrefetchLayout(const FileRef& file, v1::TokenMode mode, std::uint64_t at_bytes,
                                const IoContext& io) {
  const std::uint64_t least_bytes = context_.options.least_prefetch_bytes;
  (void)Fetch(file, mode, io, [&](FileState& f) ABSL_EXCLUSIVE_LOCKS_REQUIRED(f.mutex) {
    return mode == v1::TOKEN_EXCLUSIVE ? BlocksToPrefetch(f, at_bytes, least_bytes)
                                       : LayoutToPrefetch(f, at_bytes, least_bytes);
  });
}

void FileAccess::FetchTail(const FileRef& file) {
  const auto choose = [](FileState& f)
                          ABSL_EXCLUSIVE_LOCKS_REQUIRED(f.mutex) -> std::optional<FetchRange> {
    if (f.opens.any() || !f.grant.tail_allocated()) return std::nullopt;
    const TokenSpan end = f.EndSpan();
    return FetchRange{end, end.first.value() * f.block_bytes, f.block_bytes, false};
  };
  if (Fetch(file, v1::TOKEN_EXCLUSIVE, {}, choose)) return;
  MutexLock lock(file->mutex);
  committer_.NoteLateTail(*file, absl::OkStatus());
}

bool FileAccess::Fetch(const FileRef& file, v1::TokenMode mode, const IoContext& io,
                       absl::FunctionRef<std::optional<FetchRange>(FileState&)> choose) {
  FileState& f = *file;
  std::uint64_t lost_sessions = 0, session = 0;
  bool under_token = false;
  std::optional<FetchRange> range;
  {
    MutexLock lock(f.mutex);
    // (With a recall in progress no grant is taken in.)
    if (!f.users.MayFetch(/*pinned=*/false) || f.recall.under_way() || context_.stopping) {
      return false;
    }
    range = choose(f);
    if (!range) return false;
    f.users.BeginFetch();
    NoteBlocks(f, *range);
    under_token = f.grant.Has(range->token, mode);
    lost_sessions = f.grant.lost_sessions();
    session = f.grant.session();
  }
  v1::Request request = LayoutGetOf(f.inode, mode, *range);
  request.mutable_layout_get()->set_ahead(range->allocate);
  if (io.credentials != nullptr) *request.mutable_credentials() = *io.credentials;
  context_.ahead.layouts.fetch_add(1, std::memory_order_relaxed);
  context_.session->Start(
      std::move(request),
      [this, file, lost_sessions, range = *range](const absl::StatusOr<v1::Reply>& reply) {
        FileState& state = *file;
        MutexLock lock(state.mutex);
        state.users.EndFetch();
        state.changed.NotifyAll();
        NoteBlocks(state, range);
        // What went wrong will be told to whoever comes to need it.
        const bool lost = state.grant.lost_sessions() != lost_sessions;
        if (reply.ok() && reply->has_layout() && !lost &&
            state.recall.stage() != Stage::kReturning) {
          (void)TakeIn(state, range, reply->layout());
        }
        committer_.NoteLateTail(state, lost ? absl::OkStatus() : reply.status());
      },
      session, under_token);
  return true;
}

}  // namespace reel::client
