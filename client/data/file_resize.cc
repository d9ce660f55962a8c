#include "client/data/file_resize.h"

#include <linux/falloc.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/inode/delayed_attributes.h"
#include "proto/convert.h"
#include "proto/status.h"

namespace reel::client {
namespace {

// What one Allocate asks for; the controller takes twice that.
constexpr std::uint64_t kMaxAllocateBlocks = std::uint64_t{1} << 27;

absl::StatusOr<v1::Attr> AttrOf(const absl::StatusOr<v1::Reply>& reply) {
  if (!reply.ok()) return reply.status();
  if (!reply->has_attr()) return ErrnoStatus(EIO, "the controller's reply lacks attributes");
  return reply->attr().attr();
}

// The inode flags with which the controller will refuse it: by then it is too late to leave the
// bytes as they were.
std::uint32_t ForbiddingFlags(const v1::Request& request) {
  const bool allocates =
      request.has_allocate() && (request.allocate().mode() & ~FALLOC_FL_KEEP_SIZE) == 0;
  return v1::INODE_FLAG_IMMUTABLE | (allocates ? 0 : v1::INODE_FLAG_APPEND);
}

bool Clears(std::uint32_t mode) {
  return mode == (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE) ||
         (mode & ~FALLOC_FL_KEEP_SIZE) == FALLOC_FL_ZERO_RANGE;
}

// What it makes zeros past the kernel's pages. (Of what it cuts off the kernel drops them itself,
// and writes none back until that is done.)
ByteRange PagesCleared(const v1::Request& request) {
  if (!request.has_allocate() || !Clears(request.allocate().mode())) return {};
  const std::uint64_t from = request.allocate().offset_bytes();
  return {from, from + request.allocate().length_bytes()};
}

Finding FetchWhole(const FileState& f) {
  return Finding::FetchToken({kWholeFile, 0, f.block_bytes, false});
}

}  // namespace

// The file is held exclusively until the reply is here, whoever still waits for it.
absl::StatusOr<v1::Attr> FileResize::CallHeld(const FileRef& file, std::uint64_t session,
                                              v1::Request request, Apply apply,
                                              const IoContext& io) {
  std::uint64_t lost_sessions = 0;
  {
    MutexLock lock(file->mutex);
    lost_sessions = file->grant.lost_sessions();
  }
  CallOptions options;
  options.credentials = io.credentials;
  options.interrupt = io.interrupt;
  options.session = session;
  options.under_token = true;
  options.on_done = [this, file, lost_sessions, apply](const absl::StatusOr<v1::Reply>& reply) {
    FileState& f = *file;
    MutexLock lock(f.mutex);
    const bool done = reply.ok() && reply->has_attr();
    if (f.grant.lost_sessions() == lost_sessions) apply(f, done ? &reply->attr().attr() : nullptr);
    access_.Leave(f, {.exclusive = true});
  };
  absl::StatusOr<v1::Attr> attr = AttrOf(context_.session->Call(std::move(request), options));
  const bool session_ended = session != 0 && session != context_.session->session_id();
  if (!session_ended || ErrnoOf(attr.status()) != ESTALE) return attr;
  return ErrnoStatus(EIO, "the session with the controller ended meanwhile");
}

absl::Status FileResize::ZeroEdges(const FileRef& file, const std::vector<Bytes>& edges,
                                   const std::vector<ExtentList>& extents, const IoPermit& permit) {
  LunMarks marks;
  absl::Status status;
  for (std::size_t i = 0; i < edges.size() && status.ok(); ++i) {
    status = file_io_.Zero(extents[i], edges[i].from, edges[i].to, marks, permit);
  }
  if (marks.empty()) return status;
  // A size that is durable before these zeros are would show what they hide.
  if (status.ok()) status = file_io_.FlushMarks(marks, permit);
  if (status.ok()) return status;
  FileState& f = *file;
  MutexLock lock(f.mutex);
  context_.NoteUnflushed(f, marks);
  committer_.NoteDirty(f);
  return status;
}

std::optional<std::uint64_t> FileResize::CoverEdges(const FileState& f,
                                                    const std::vector<Bytes>& edges,
                                                    std::vector<ExtentList>& extents) {
  extents.assign(edges.size(), {});
  for (std::size_t i = 0; i < edges.size(); ++i) {
    const auto unknown = f.grant.Cover(edges[i].from, edges[i].to - edges[i].from, extents[i]);
    if (unknown) return unknown;
  }
  return std::nullopt;
}

// Once more where a flush has failed: it leaves the size to be told, which the reply would take
// back.
absl::Status FileResize::CleanSize(const FileRef& file, const Interrupt* interrupt) {
  absl::Status status = committer_.Clean(file, interrupt);
  if (!status.ok()) return status;
  bool size_sent = false;
  {
    MutexLock lock(file->mutex);
    size_sent = !file->uncommitted.size();
  }
  return size_sent ? status : committer_.Clean(file, interrupt);
}

absl::StatusOr<v1::Attr> FileResize::Reshape(const FileRef& file, v1::Request request,
                                             EdgesOf edges_of, Apply apply, const IoContext& io) {
  FileState& f = *file;
  std::vector<Bytes> edges;
  std::vector<ExtentList> extents;
  const std::uint32_t forbidding = ForbiddingFlags(request);
  const ByteRange pages = PagesCleared(request);
  bool pages_held = false;
  std::optional<std::uint64_t> lost_sessions_when_sent;  // in which edges may have been zeroed
  const auto look = [&]() -> Finding {
    f.mutex.AssertHeld();
    // Others may have seen that and written there since: not a second time.
    if (lost_sessions_when_sent && *lost_sessions_when_sent != f.grant.lost_sessions()) {
      return Finding::Fail(ErrnoStatus(EIO, "the session with the controller ended meanwhile"));
    }
    if (!f.grant.Has(kWholeFile, v1::TOKEN_EXCLUSIVE)) return FetchWhole(f);
    if ((f.attr.flags() & forbidding) != 0) {
      return Finding::Fail(ErrnoStatus(EPERM, "the file is immutable or append-only"));
    }
    edges = edges_of(f.attr.size_bytes());
    std::erase_if(edges, [](const Bytes& edge) { return edge.from >= edge.to; });
    if (const auto unknown = CoverEdges(f, edges, extents)) {
      return Finding::Fetch({kWholeFile, *unknown, f.block_bytes, false});
    }
    pages_held = f.kernel_pages.MayHold(pages);
    if (pages_held) return Finding::Fail(absl::AbortedError("the kernel holds pages of it"));
    return Finding::Go();
  };
  const AccessNeed need{
      .mode = v1::TOKEN_EXCLUSIVE, .exclusive = true, .holds_back_pages = request.has_set_attr()};
  for (;;) {
    if (std::exchange(pages_held, false)) {
      if (absl::Status status = access_.DropPages(file, pages, io); !status.ok()) return status;
    }
    if (absl::Status status = access_.AwaitLease(io); !status.ok()) return status;
    std::uint64_t lost_sessions = 0;
    IoPermit permit{.interrupt = io.interrupt};
    Entered entered;
    {
      MutexLock lock(f.mutex);
      const absl::StatusOr<Entered> place = access_.Enter(f, need, io, look);
      if (pages_held) continue;
      if (!place.ok()) return place.status();
      entered = *place;
      lost_sessions = f.grant.lost_sessions();
      permit.session = f.grant.session();
      permit.inode = f.inode;
      permit.tree = f.attr.project();
      // (A truncation begins anew before the recall where the kernel has pages to drop.)
      if (f.kernel_pages.empty()) permit = access_.YieldingPermit(f, entered, io.interrupt);
    }
    absl::Status status = CleanSize(file, io.interrupt);
    bool submitted = access_.LeaseHolds();
    {
      MutexLock lock(f.mutex);  // what was in memory has made unwritten blocks written ones
      submitted =
          submitted && f.grant.lost_sessions() == lost_sessions && !CoverEdges(f, edges, extents);
    }
    if (status.ok() && submitted) {
      if (!edges.empty()) lost_sessions_when_sent = lost_sessions;
      status = ZeroEdges(file, edges, extents, permit);
      if (IsPermitOver(status)) {  // once more, under the next one
        submitted = false;
        entered.gave_way = true;
        status = absl::OkStatus();
      }
    }
    bool valid = false;
    {
      MutexLock lock(f.mutex);
      // (What a flush has lost meanwhile may be on its way to blocks that are about to go.)
      while (status.ok() && f.memory.landing() > 0) status = context_.Wait(f, io.interrupt);
      valid = submitted && f.grant.lost_sessions() == lost_sessions &&
              f.grant.Has(kWholeFile, v1::TOKEN_EXCLUSIVE);
      f.ForgetContents();  // and the end will be elsewhere
    }
    if (status.ok() && valid) {
      return CallHeld(file, permit.session, request, std::move(apply), io);
    }
    {
      MutexLock lock(f.mutex);
      access_.Leave(f, entered);
    }
    if (!status.ok()) return status;
  }
}

// ---- attributes -------------------------------------------------------------------------------

// Explicit times replace what a write left to be told; nothing needs to be flushed for that.
absl::StatusOr<v1::Attr> FileResize::SetTimes(const FileRef& file, v1::SetAttr set,
                                              const IoContext& io) {
  FileState& f = *file;
  v1::Request request;
  *request.mutable_set_attr() = std::move(set);
  bool was_dirty = false;
  {
    MutexLock lock(f.mutex);
    const AccessNeed need{.mode = v1::TOKEN_EXCLUSIVE, .exclusive = true};
    const auto look = [&f] {
      f.mutex.AssertHeld();
      return f.grant.Has(kWholeFile, v1::TOKEN_EXCLUSIVE) ? Finding::Go() : FetchWhole(f);
    };
    const absl::Status status = access_.Enter(f, need, io, look).status();
    if (!status.ok()) return status;
    was_dirty = f.uncommitted.ForgetMtime();
  }
  const auto apply = [](FileState& state, const v1::Attr* attr) {
    state.mutex.AssertHeld();
    if (attr != nullptr) state.TakeTimes(*attr);
  };
  absl::StatusOr<v1::Attr> attr = CallHeld(file, 0, std::move(request), apply, io);
  if (attr.ok() || !was_dirty) return attr;
  MutexLock lock(f.mutex);
  if (f.grant.holds_to_write()) {
    f.uncommitted.CountMtime();
    committer_.NoteDirty(f);
  }
  return attr;
}

std::optional<v1::Attr> FileResize::DelayAttributes(const v1::SetAttr& set, const v1::Attr& known) {
  const FileRef file = context_.table.Find(set.inode());
  if (file == nullptr) return std::nullopt;
  FileState& f = *file;
  MutexLock lock(f.mutex);
  const bool held = f.grant.Has(kWholeFile, v1::TOKEN_EXCLUSIVE) && !f.users.exclusive() &&
                    !f.recall.under_way() && !f.uncommitted.takes_set_id();
  if (!held || !context_.session->LeaseHolds() || !MayBeDelayed(set, known)) return std::nullopt;
  const v1::SetAttr delayed = DelayedPart(set, known, context_.clock.WallNow());
  if ((delayed.fields() & v1::SetAttr::ATIME) != 0) f.access.Forget();
  f.uncommitted.CountDelayed(delayed);
  f.uncommitted.ShowDelayed(f.attr);
  committer_.NoteDirty(f);
  v1::Attr attr = known;
  f.OverlayOn(attr);
  return attr;
}

absl::Status FileResize::SendDelayed(std::uint64_t inode, const IoContext& io) {
  const FileRef file = context_.table.Find(inode);
  if (file == nullptr) return absl::OkStatus();
  {
    const FileState& f = *file;
    MutexLock lock(f.mutex);
    // Told after a mode that is set now, they would take its bits.
    if (!f.uncommitted.delayed() && !f.uncommitted.takes_set_id()) return absl::OkStatus();
  }
  return committer_.Clean(file, io.interrupt);
}

absl::StatusOr<v1::Attr> FileResize::SetAttr(const FileRef& file, v1::SetAttr set,
                                             const IoContext& io) {
  FileState& f = *file;
  const std::uint64_t block_bytes = context_.io->block_bytes();
  if ((set.fields() & (v1::SetAttr::ATIME | v1::SetAttr::ATIME_NOW)) != 0) {
    MutexLock lock(f.mutex);
    f.access.Forget();  // what was read before no longer shows
  }
  absl::StatusOr<v1::Attr> attr;
  if ((set.fields() & v1::SetAttr::SIZE) != 0) {
    const std::uint64_t size_bytes = set.size_bytes();
    if (size_bytes > kMaxFileBytes) return ErrnoStatus(EFBIG, "larger than a file can be");
    // Raising it shows what lies behind the old end in its block.
    const auto edges_of = [&](std::uint64_t old_bytes) -> std::vector<Bytes> {
      return {{old_bytes, std::min(size_bytes, RoundUp(old_bytes, block_bytes))}};
    };
    const auto apply = [](FileState& state, const v1::Attr* now) {
      state.mutex.AssertHeld();
      if (now != nullptr) state.TakeResized(*now);
    };
    v1::Request request;
    *request.mutable_set_attr() = std::move(set);
    attr = Reshape(file, std::move(request), edges_of, apply, io);
  } else {
    bool owned = false;
    {
      MutexLock lock(f.mutex);
      owned = f.grant.holds_to_write();
    }
    if (owned && (set.fields() & (v1::SetAttr::MTIME | v1::SetAttr::MTIME_NOW)) != 0) {
      attr = SetTimes(file, std::move(set), io);
    } else {
      v1::Request request;
      *request.mutable_set_attr() = std::move(set);
      CallOptions options;
      options.credentials = io.credentials;
      options.interrupt = io.interrupt;
      options.on_reply = [file](const v1::Reply& reply) {
        MutexLock lock(file->mutex);
        if (reply.has_attr()) file->TakeAttr(reply.attr().attr());
      };
      options.on_done = [file](const absl::StatusOr<v1::Reply>&) {
        MutexLock lock(file->mutex);
        file->users.EndTimes();
      };
      {
        MutexLock lock(f.mutex);
        f.users.BeginTimes();
      }
      attr = AttrOf(context_.session->Call(std::move(request), options));
    }
  }
  if (!attr.ok()) return attr;
  MutexLock lock(f.mutex);
  f.OverlayOn(*attr);
  return attr;
}

// ---- fallocate --------------------------------------------------------------------------------

// In parts that the controller takes in one commit each; what came before an error stays, as with
// any file system.
absl::Status FileResize::Allocate(const FileRef& file, v1::Allocate whole, const IoContext& io) {
  if (absl::Status status = ValidateByteRange(whole.offset_bytes(), whole.length_bytes());
      !status.ok()) {
    return status;
  }
  const std::uint64_t block_bytes = context_.io->block_bytes();
  const std::uint64_t end = whole.offset_bytes() + whole.length_bytes();
  for (std::uint64_t at = whole.offset_bytes(); at < end;) {
    const std::uint64_t next =
        std::min(end, RoundDown(at, block_bytes) + kMaxAllocateBlocks * block_bytes);
    v1::Allocate part = whole;
    part.set_offset_bytes(at);
    part.set_length_bytes(next - at);
    absl::Status status = AllocatePart(file, std::move(part), io);
    if (!status.ok()) return status;
    at = next;
  }
  return absl::OkStatus();
}

absl::Status FileResize::AllocatePart(const FileRef& file, v1::Allocate allocate,
                                      const IoContext& io) {
  const std::uint32_t mode = allocate.mode();
  const bool keep_size = (mode & FALLOC_FL_KEEP_SIZE) != 0;
  const bool clears = Clears(mode);
  if (!clears && (mode & ~FALLOC_FL_KEEP_SIZE) != 0) {
    return ErrnoStatus(EOPNOTSUPP, absl::StrCat("fallocate mode ", mode, " does not exist here"));
  }
  const std::uint64_t from = allocate.offset_bytes();
  const std::uint64_t to = from + allocate.length_bytes();
  const std::uint64_t block_bytes = context_.io->block_bytes();
  const auto edges_of = [&](std::uint64_t size_bytes) {
    std::vector<Bytes> edges;
    if (clears) {
      // Whole blocks are the controller's; what lies beyond the end is nobody's.
      const std::uint64_t inner_from = RoundUp(from, block_bytes);
      const std::uint64_t inner_to = RoundDown(to, block_bytes);
      if (inner_from > inner_to) {
        edges.push_back({from, std::min(to, size_bytes)});
      } else {
        edges.push_back({from, std::min(inner_from, size_bytes)});
        edges.push_back({inner_to, std::min(to, size_bytes)});
      }
    }
    if (!keep_size && to > size_bytes) {
      edges.push_back({size_bytes, std::min(to, RoundUp(size_bytes, block_bytes))});
    }
    return edges;
  };
  const BlockSpan span = BlocksOf(from, allocate.length_bytes(), context_.io->block_bytes());
  const auto apply = [span, clears](FileState& state, const v1::Attr* attr) {
    state.mutex.AssertHeld();
    state.TakeReallocated(attr, span);
    if (!clears) state.grant.small().SetKeepsBlocks(true);
    if (attr == nullptr && !clears) state.grant.NoteTail(true);  // there may be some by now
  };
  v1::Request request;
  *request.mutable_allocate() = std::move(allocate);
  return Reshape(file, std::move(request), edges_of, apply, io).status();
}

// ---- lseek ------------------------------------------------------------------------------------

absl::StatusOr<std::uint64_t> FileResize::Seek(const FileRef& file, std::uint64_t offset_bytes,
                                               bool data, const IoContext& io) {
  FileState& f = *file;
  const std::uint64_t block_bytes = context_.io->block_bytes();
  std::uint64_t from = offset_bytes;  // what is before it was looked at
  std::uint64_t at = from;
  bool found = false;
  bool beyond = false;
  // From there on through what is known.
  const auto look = [&]() -> Finding {
    f.mutex.AssertHeld();
    at = from;
    found = beyond = false;
    const TokenSpan span{.first = f.SpanOf(at, kMaxFileBytes).first};
    if (!f.grant.Has(span, v1::TOKEN_SHARED)) {
      return Finding::FetchToken({span, RoundDown(at, block_bytes), block_bytes, false});
    }
    const std::uint64_t size_bytes = f.attr.size_bytes();
    bool first = true;
    for (; at < size_bytes; first = false) {
      if (f.grant.small().known() && at < f.SmallEnd()) {
        found = data;
        if (found) return Finding::Go();
        at = f.SmallEnd();
        continue;
      }
      const std::uint64_t block_end = RoundDown(at, block_bytes) + block_bytes;
      if (f.memory.Overlaps({at, block_end})) {  // written since
        found = data;
        if (found) return Finding::Go();
        at = block_end;
        continue;
      }
      const std::optional<Extent> extent = f.grant.Find(FileBlock(at / block_bytes));
      if (!extent && first) {
        return Finding::Fetch({span, RoundDown(at, block_bytes),
                               std::max<std::uint64_t>(f.grant.fetch_bytes(), 64 * kMiB), false});
      }
      if (!extent) return Finding::Go();  // the next window, after a breath
      found = (extent->state == ExtentState::kWritten) == data;
      if (found) return Finding::Go();
      at = extent->end().value() * block_bytes;
    }
    beyond = true;
    at = size_bytes;
    return Finding::Go();
  };
  // What is in memory only would pass for a hole.
  if (absl::Status s = committer_.EmptyMemory(file, io.interrupt); !s.ok()) return s;
  for (bool done = false; !done;) {
    if (absl::Status status = access_.AwaitLease(io); !status.ok()) return status;
    MutexLock lock(f.mutex);
    const absl::StatusOr<Entered> entered = access_.Enter(f, {.mode = v1::TOKEN_SHARED}, io, look);
    if (!entered.ok()) return entered.status();
    access_.Leave(f, *entered);
    if (!access_.LeaseHolds()) continue;  // others may have written since
    done = found || beyond;
    from = at;
  }
  // The end counts as a hole, but only for those that begin before it.
  if (beyond && (data || offset_bytes >= at)) return ErrnoStatus(ENXIO, "no such data or hole");
  return at;
}

}  // namespace reel::client
