#include "client/file_access.h"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/convert.h"
#include "proto/status.h"

namespace reel::client {
namespace {

// Answers that do not bring what was asked for: then the controller's view is broken.
constexpr int kMaxFruitless = 16;

// How far a stream looks ahead: what a fast one moves in some 50 ms at least …
constexpr std::uint64_t kMinAheadBytes = 8 * kMiB;
// … and far enough to go on without a controller for as long as its successor takes.
constexpr std::uint64_t kMaxAheadBytes = 512 * kMiB;
// Extents looked at for where the known part ends.
constexpr int kMaxAheadExtents = 256;

using Recall = FileState::Recall;

v1::Request RequestFor(std::uint64_t inode, v1::TokenMode mode, const FetchRange& range) {
  v1::Request request;
  v1::LayoutGet& get = *request.mutable_layout_get();
  get.set_inode(inode);
  get.set_mode(mode);
  get.set_offset_bytes(range.offset_bytes);
  get.set_length_bytes(range.length_bytes);
  get.set_allocate(range.allocate);
  get.set_token_first_block(range.token.first.value());
  get.set_token_length_blocks(LengthForMessage(range.token));
  return request;
}

}  // namespace

struct FileAccess::Ticket {
  // Under the file's mutex.
  std::uint64_t era = 0;
  bool waiting = true;
  bool installed = false;
  absl::Status malformed;
};

// Who may go on while the token is on its way back.
bool FileAccess::Admitted(FileState& f, const Finding& finding, const FileData::IoContext& io,
                          const Attempt& attempt) {
  if (f.recall == Recall::kNone) return true;
  if (attempt.pinned && finding.has_token) return true;
  if (f.recall != Recall::kDraining || !io.page_cache) return false;
  if (finding.has_token) return true;
  recaller_.Bypass(f);
  return false;
}

bool FileAccess::TakePlace(FileState& f, const AccessNeed& need, const Attempt& attempt) {
  if (need.exclusive) {
    if (f.shared_users > 0 || f.exclusive_user || f.fetching || f.commit_running) return false;
    f.exclusive_user = true;
    ++f.data_changes;  // what it is about to do
    return true;
  }
  if (f.exclusive_user || (f.exclusive_waiters > 0 && !attempt.pinned)) return false;
  ++f.shared_users;
  return true;
}

void FileAccess::Unpin(FileState& f, Attempt& attempt) {
  if (!std::exchange(attempt.pinned, false)) return;
  --f.pins;
  f.changed.NotifyAll();
}

absl::Status FileAccess::Enter(FileState& f, const AccessNeed& need, const FileData::IoContext& io,
                               absl::FunctionRef<Finding()> look) {
  Attempt attempt;
  absl::Status status;
  while (status.ok()) {
    const Finding finding = look();
    if (finding.kind == Finding::Kind::kFail) {
      status = finding.failure;
    } else if (!Admitted(f, finding, io, attempt)) {
      Unpin(f, attempt);
      status = context_.Wait(f, io.interrupt);
    } else if (finding.kind == Finding::Kind::kWait) {
      status = context_.Wait(f, io.interrupt);
    } else if (finding.kind == Finding::Kind::kFetch) {
      const bool busy = f.fetching || f.exclusive_user ||
                        (f.exclusive_waiters > 0 && !attempt.pinned && !io.page_cache);
      // A grant that does not suffice is not held on to: its recall may stand before the next one.
      Unpin(f, attempt);
      status =
          busy ? context_.Wait(f, io.interrupt) : Fetch(f, need.mode, finding.fetch, io, attempt);
    } else if (TakePlace(f, need, attempt)) {
      Unpin(f, attempt);
      return absl::OkStatus();
    } else {
      if (need.exclusive) ++f.exclusive_waiters;
      status = context_.Wait(f, io.interrupt);
      if (need.exclusive && --f.exclusive_waiters == 0) f.changed.NotifyAll();
    }
  }
  Unpin(f, attempt);
  return status;
}

void FileAccess::Leave(FileState& f, bool exclusive) {
  if (exclusive) {
    f.exclusive_user = false;
  } else {
    --f.shared_users;
  }
  f.changed.NotifyAll();
}

absl::Status FileAccess::Fetch(FileState& f, v1::TokenMode mode, const FetchRange& range,
                               const FileData::IoContext& io, Attempt& attempt) {
  if (context_.stopping) return ErrnoStatus(ESHUTDOWN, "the file system is being unmounted");
  auto ticket = std::make_shared<Ticket>();
  ticket->era = f.era;
  f.fetching = true;
  if (range.allocate) f.tail_allocated = true;
  v1::Request request = RequestFor(f.inode, mode, range);
  CallOptions options;
  options.credentials = io.credentials;
  options.interrupt = io.interrupt;
  options.on_reply = [this, range, file = f.shared_from_this(), ticket](const v1::Reply& reply) {
    FileState& state = *file;
    MutexLock lock(state.mutex);
    // Nobody waits any more, or the token is on its way back: then the controller may think that
    // more is held than is, which is safe. (A repeated answer from the store brings no layout.)
    if (!ticket->waiting || ticket->era != state.era || state.recall == Recall::kReturning ||
        !reply.has_layout()) {
      return;
    }
    ticket->malformed = TakeIn(state, range, reply.layout());
    if (!ticket->malformed.ok()) return;
    ticket->installed = true;
    ++state.pins;
  };
  if (io.page_cache) ++f.page_fetches[mode];
  f.mutex.Unlock();
  const absl::Status status = context_.session->Call(std::move(request), options).status();
  f.mutex.Lock();
  if (io.page_cache) --f.page_fetches[mode];
  f.fetching = false;
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
  if (++attempt.fruitless <= kMaxFruitless) return absl::OkStatus();
  if (!status.ok()) return status;
  return ErrnoStatus(EIO, absl::StrCat("inode ", f.inode, ": the controller's layout never covers ",
                                       range.length_bytes, " bytes at ", range.offset_bytes));
}

absl::Status FileAccess::TakeIn(FileState& f, const FetchRange& range,
                                const v1::LayoutReply& layout) {
  absl::Status installed = f.Install(layout, context_.session->session_id());
  if (!installed.ok() || range.allocate) return installed;
  const std::uint64_t end = layout.file_block() + layout.length_blocks();
  f.AdaptWindow({range.offset_bytes, range.length_bytes}, end * f.block_bytes,
                layout.extents_size());
  return installed;
}

std::optional<FetchRange> FileAccess::LackedAhead(const FileState& f, v1::TokenMode mode,
                                                  std::uint64_t at_bytes) const {
  if (f.fetching || f.recall != Recall::kNone || f.exclusive_user || f.exclusive_waiters > 0) {
    return std::nullopt;
  }
  const bool writes = mode == v1::TOKEN_EXCLUSIVE;
  const auto usable = [&](const std::optional<Extent>& extent) {
    return extent && !(writes && extent->state == ExtentState::kHole);
  };
  const std::uint64_t ahead_bytes = std::clamp(at_bytes / 4, kMinAheadBytes, kMaxAheadBytes);
  // Beyond its end nobody reads.
  const std::uint64_t end_bytes = writes ? kMaxFileBytes : f.attr.size_bytes();
  if (at_bytes >= end_bytes) return std::nullopt;
  const FileBlock last((std::min(at_bytes + ahead_bytes, end_bytes) - 1) / f.block_bytes);
  const TokenSpan span{.first = FileBlock(at_bytes / f.block_bytes), .end = last + 1};
  if (usable(f.extents.Find(last)) || !f.token.Has(span, mode)) return std::nullopt;
  FileBlock known = span.first;
  for (int i = 0; i < kMaxAheadExtents && known <= last; ++i) {
    const std::optional<Extent> extent = f.extents.Find(known);
    if (!usable(extent)) break;
    known = extent->end();
  }
  if (known > last) return std::nullopt;
  const std::uint64_t from_bytes = known.value() * f.block_bytes;
  if (writes && from_bytes >= f.attr.size_bytes()) {  // the controller adds to it as the file grows
    return FetchRange{span, from_bytes, f.block_bytes, true};
  }
  if (f.extents.Find(known)) return std::nullopt;  // a hole, which may be meant to stay one
  const FileState::Window window = f.WindowAround(from_bytes, from_bytes + f.block_bytes);
  return FetchRange{span, window.offset_bytes, window.length_bytes, false};
}

void FileAccess::FetchAhead(const FileRef& file, v1::TokenMode mode, std::uint64_t at_bytes,
                            const FileData::IoContext& io) {
  FileState& f = *file;
  std::uint64_t era = 0, session = 0;
  std::optional<FetchRange> range;
  {
    MutexLock lock(f.mutex);
    range = LackedAhead(f, mode, at_bytes);
    if (!range || context_.stopping) return;
    f.fetching = true;
    if (range->allocate) f.tail_allocated = true;
    era = f.era;
    session = f.session;
  }
  v1::Request request = RequestFor(f.inode, mode, *range);
  if (io.credentials != nullptr) *request.mutable_credentials() = *io.credentials;
  context_.session->Start(
      std::move(request),
      [this, file, era, range = *range](const absl::StatusOr<v1::Reply>& reply) {
        FileState& state = *file;
        MutexLock lock(state.mutex);
        state.fetching = false;
        state.changed.NotifyAll();
        // What went wrong will be told to whoever comes to need it.
        if (!reply.ok() || !reply->has_layout() || state.era != era) return;
        if (state.recall != Recall::kReturning) (void)TakeIn(state, range, reply->layout());
      },
      session);
}

absl::Status FileAccess::AwaitLease(const FileData::IoContext& io) {
  while (!context_.session->LeaseHolds()) {
    v1::Request request;
    request.mutable_renew();
    CallOptions options;
    options.interrupt = io.interrupt;
    absl::Status status = context_.session->Call(std::move(request), options).status();
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace reel::client
