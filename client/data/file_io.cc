#include "client/data/file_io.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "client/session/session_end.h"
#include "proto/convert.h"
#include "proto/status.h"
#include "volume/base/aligned_buffer.h"

namespace reel::client {

// One write on its way: what it covers, and what it found when it was let in.
struct FileIo::WriteAccess {
  std::uint64_t offset_bytes = 0;
  std::span<const std::byte> data;
  bool append = false;
  bool page_cache = false;
  bool write_back = false;  // as in IoContext

  // There is no space for all of it: no more is asked for, and it ends where blocks do.
  std::optional<absl::Status> refused;

  // A small file's content went to memory, from where it goes to the LUNs first.
  bool unpacked = false;

  bool small = false;   // enough that it may stay in memory for now, …
  bool behind = false;  // … and does

  std::uint64_t lost_sessions = 0;
  std::uint64_t lost_flushes = 0;  // Uncommitted's, when the extents were looked up
  // In which some of it may have reached the LUNs, or a page was changed: in no other one it goes.
  std::optional<std::uint64_t> lost_sessions_when_sent;
  // Grant's lowerings, when it had landed and a failed flush made it to be done once more.
  std::optional<std::uint64_t> lowerings_when_landed;
  bool stream = false;       // it continues the last one
  bool took_set_id = false;  // of which the kernel does not know
  Entered entered;
  // The pages that it passes by: those that the kernel may hold have to be dropped first, …
  std::optional<ByteRange> held_pages;
  std::uint64_t change = 0;  // … and then its number among the changes of them
  IoPermit permit;
  std::uint32_t mode = 0;  // the file's
  std::uint32_t gid = 0;
  ExtentList extents;
  BlockLocks locks;
  // The rest of the block that the file ends in, where the size is raised over it: old bytes may
  // lie there, which are zeroed first.
  ByteRange tail;
  ExtentList tail_extents;

  std::uint64_t end_bytes() const { return offset_bytes + data.size(); }
  // With that of the old end of file, beyond which a page may have been changed.
  ByteRange PagesPassed(std::uint64_t size_bytes) const {
    return {std::min(offset_bytes, size_bytes), end_bytes()};
  }
};

// ---- read -------------------------------------------------------------------------------------

absl::StatusOr<std::size_t> FileIo::Read(const FileRef& file, std::uint64_t offset_bytes,
                                         std::span<std::byte> buffer, const IoContext& io) {
  if (buffer.empty() || offset_bytes >= kMaxFileBytes) return std::size_t{0};
  buffer = buffer.first(std::min<std::uint64_t>(buffer.size(), kMaxFileBytes - offset_bytes));
  FileState& f = *file;
  ExtentList extents;
  std::uint64_t length_bytes = 0;
  v1::TokenMode mode = v1::TOKEN_SHARED;
  bool from_memory = false;
  std::string small;  // what comes from a small file's content
  const ByteRange pages{offset_bytes, offset_bytes + buffer.size()};
  const auto look = [&]() -> Finding {
    f.mutex.AssertHeld();
    if (io.page_cache && f.kernel_pages.IsChanging(pages)) return Finding::Wait();
    const TokenSpan span = f.SpanOf(offset_bytes, offset_bytes + buffer.size(), io.page_cache);
    if (!f.grant.Has(span, mode)) {
      // Whoever holds the end of the file may have gone far beyond the end that is known here, and
      // is then not to be bothered for it.
      const BlockSpan blocks = BlocksOf(offset_bytes, buffer.size(), f.block_bytes);
      const TokenSpan needed{.first = blocks.start, .end = blocks.start + blocks.length_blocks};
      const bool enough = io.page_cache || f.grant.Has(needed, mode);
      return Finding::FetchToken({enough ? span : needed, offset_bytes, buffer.size(), false});
    }
    const std::uint64_t size_bytes = f.attr.size_bytes();
    length_bytes = offset_bytes < size_bytes
                       ? std::min<std::uint64_t>(buffer.size(), size_bytes - offset_bytes)
                       : 0;
    if (length_bytes == 0) return Finding::ProceedUsing(span);
    const ByteRange range{offset_bytes, offset_bytes + length_bytes};
    from_memory = f.grant.small().known() ? range.to <= f.SmallEnd() : f.memory.Covers(range);
    if (from_memory) return Finding::ProceedUsing(span);
    if (f.memory.Overlaps(range)) {
      write_behind_.Start(f, range);
      return Finding::Wait();
    }
    const auto unknown = f.grant.Cover(offset_bytes, length_bytes, extents);
    if (!unknown) return Finding::ProceedUsing(span);
    const Grant::FetchSpan fetch = f.grant.FetchSpanAround(*unknown, offset_bytes + length_bytes);
    return Finding::Fetch({span, fetch.offset_bytes, fetch.length_bytes, false});
  };
  for (;;) {
    if (absl::Status status = access_.AwaitLease(io); !status.ok()) return status;
    if (absl::Status s = access_.AwaitPathsOfPages(io); !s.ok()) return s;
    std::uint64_t lost_sessions = 0;
    std::uint64_t lost_flushes = 0;
    bool gives_way = false;
    bool stream = false;
    bool framed = false;  // it may lie, or is about to, in what was fetched of a sequence's frame
    IoPermit permit{.interrupt = io.interrupt};
    Entered entered;
    {
      MutexLock lock(f.mutex);
      // A mapped page turns dirty without a word, and is written back as a whole: another host may
      // not have changed it meanwhile.
      if (io.page_cache && f.opens.may_be_mapped_to_write()) mode = v1::TOKEN_EXCLUSIVE;
      AccessNeed need{.mode = mode};
      if (io.page_cache) need.locks_pages = pages;
      need.keeps_token = io.page_cache && f.opens.may_be_mapped_to_write();
      const absl::StatusOr<Entered> place = access_.Enter(f, need, io, look);
      if (!place.ok()) return place.status();
      entered = *place;
      stream = f.NoteUse(offset_bytes, offset_bytes + length_bytes, context_.clock.NowMs());
      f.frame_chunks.NoteRead(offset_bytes + length_bytes);
      framed = f.frame_chunks.Leads(offset_bytes);
      lost_sessions = f.grant.lost_sessions();
      // Where other pages may have been changed, they go back under this token alone.
      gives_way = !io.page_cache || !f.opens.may_be_mapped_to_write();
      permit = {.session = f.grant.session(), .interrupt = io.interrupt};
      if (gives_way) permit = access_.YieldingPermit(f, entered, io.interrupt);
      lost_flushes = f.uncommitted.lost_flushes();
      permit.inode = f.inode;
      permit.tree = f.attr.project();
      if (io.page_cache) f.kernel_pages.Fill(pages, KernelPages::By::kRead);
      const ByteRange range{offset_bytes, offset_bytes + length_bytes};
      small = f.grant.small().known() && length_bytes > 0
                  ? f.grant.small().Read(range, f.SmallEnd())
                  : "";
      if (from_memory && small.empty()) f.memory.Read(range, buffer.data());
    }
    if (stream && small.empty())
      access_.PrefetchLayout(file, mode, offset_bytes + length_bytes, io);
    absl::Status status;
    bool submitted = access_.LeaseHolds();
    const bool streams = stream && io.read_ahead && !framed;
    const std::span<std::byte> wanted = buffer.first(length_bytes);
    if (submitted && length_bytes > 0 && !from_memory &&
        !(framed && frame_ahead_.Take(f, offset_bytes, wanted, io.interrupt)) &&
        !(streams && read_ahead_.Take(f, offset_bytes, wanted, io.interrupt))) {
      const FrameAhead::Demand demand(frame_ahead_);
      const std::uint64_t began_ms = streams ? context_.clock.NowMs() : 0;
      status = context_.io->Read(extents, offset_bytes, length_bytes, buffer, permit);
      submitted = !IsPermitOver(status);
      if (streams) read_ahead_.NoteLunRead(length_bytes, began_ms);
    }
    std::memcpy(buffer.data(), small.data(), small.size());
    if (streams && submitted) {
      read_ahead_.Continue(file, offset_bytes + length_bytes, length_bytes);
    }
    bool valid = false;
    {
      MutexLock lock(f.mutex);
      entered.gave_way = IsPermitOver(status);
      access_.Leave(f, entered);
      if (io.page_cache && entered.gave_way && gives_way) access_.GiveWay(f);
      // (What a lost block holds may be another file's.)
      if (f.grant.lost_sessions() == lost_sessions) context_.NoteLostFlushes(f);
      valid = submitted && f.grant.lost_sessions() == lost_sessions &&
              f.uncommitted.lost_flushes() == lost_flushes;
    }
    // A fenced host can still read: what came in after the lease may be another's bytes.
    if (!valid || !access_.LeaseHolds()) continue;
    if (!status.ok()) return status;
    return static_cast<std::size_t>(length_bytes);
  }
}

// ---- write ------------------------------------------------------------------------------------

Finding FileIo::LookForWrite(FileState& f, WriteAccess& write) {
  // Others may have seen it and overwritten it since: not a second time.
  if (write.lost_sessions_when_sent && *write.lost_sessions_when_sent != f.grant.lost_sessions()) {
    if (write.write_back) return Finding::Fail(f.LosePage());
    return Finding::Fail(
        ErrnoStatus(EIO, "the session with the controller ended while this was being written"));
  }
  if (write.lowerings_when_landed && *write.lowerings_when_landed != f.grant.lowerings()) {
    if (write.write_back) return Finding::Fail(f.LosePage());
    return Finding::Fail(ErrnoStatus(EIO, "a LUN could not be flushed while this was written"));
  }
  const std::uint64_t block_bytes = f.block_bytes;
  const std::uint64_t unit_bytes = context_.io->unit_bytes();
  const std::uint64_t size_bytes = f.attr.size_bytes();  // without the token, a guess
  if (write.append) {
    write.offset_bytes = size_bytes;
    absl::Status status = ValidateByteRange(write.offset_bytes, write.data.size());
    if (!status.ok()) return Finding::Fail(std::move(status));
  }
  const std::uint64_t from = write.offset_bytes;
  const std::uint64_t to = write.end_bytes();
  const TokenSpan span = f.SpanOf(from, to, write.page_cache);
  const auto allocate_from = [&](std::uint64_t at) -> FetchRange {
    return {span, at, RoundUp(to, block_bytes) - at, !write.refused};
  };
  if (!f.grant.Has(span, v1::TOKEN_EXCLUSIVE)) {
    FetchRange range = allocate_from(RoundDown(from, block_bytes));
    range.allocate = range.allocate && !MayNeedNoBlocks(f, write.small, to);
    return Finding::FetchToken(range);
  }
  // The kernel leaves this flag of FUSE file systems to us; it may be younger than the open. (Not
  // than a page that was changed before, and is written back now.)
  if ((f.attr.flags() & v1::INODE_FLAG_IMMUTABLE) != 0 && !write.write_back) {
    return Finding::Fail(ErrnoStatus(EPERM, "the file is immutable"));
  }
  const bool stays_small = StaysSmall(f, write.small, {from, to});
  if (!stays_small) {
    if (std::optional<Finding> first = LookForBlocks(f, {from, to}, write.refused))
      return *std::move(first);
  }
  // (Holes first: all that is missing then lies together.)
  const std::optional<std::uint64_t> unknown = f.grant.Cover(from, to - from, write.extents);
  for (const Extent& extent : write.extents) {
    if (extent.state != ExtentState::kHole || stays_small) continue;
    const std::uint64_t at =
        std::max(RoundDown(from, block_bytes), extent.file_block.value() * block_bytes);
    if (!write.refused) return Finding::Fetch(allocate_from(at));
    if (at <= from) return Finding::Fail(*write.refused);
    write.data = write.data.first(at - from);
    return LookForWrite(f, write);
  }
  if (unknown) {
    FetchRange range = allocate_from(*unknown);
    range.allocate = range.allocate && !stays_small;
    return Finding::Fetch(range);
  }
  // What is acknowledged and not committed would hold up its fsync. (What the kernel writes back is
  // acknowledged.)
  if (!write.write_back && context_.session->commits_wait() &&
      std::ranges::any_of(write.extents, [](const Extent& extent) {
        return extent.state == ExtentState::kUnwritten;
      })) {
    return Finding::Fail(ErrnoStatus(ENOSPC, "the metadata store is full: commits wait for it"));
  }

  if (!write.page_cache) {
    const ByteRange pages = write.PagesPassed(size_bytes);
    if (f.kernel_pages.MayHold(pages)) {
      write.held_pages = pages;
      return Finding::Fail(absl::AbortedError("the kernel holds pages of it"));
    }
  } else if (!write.write_back && f.kernel_pages.IsChanging({from, to})) {
    return Finding::Wait();
  }

  const ByteRange tail{size_bytes, RoundUp(size_bytes, block_bytes)};
  write.tail = {};
  if (to > tail.from && tail.from < tail.to && f.zeros_to_bytes < tail.to) {
    const FileBlock last(size_bytes / block_bytes);
    const std::optional<Extent> extent = f.grant.Find(last);
    if (!extent) return Finding::Fetch({span, last.value() * block_bytes, block_bytes, false});
    if (extent->state == ExtentState::kWritten) {
      write.tail = tail;
      write.tail_extents = {*extent};
    }
  }
  // (The size that it brings may be durable before its bytes are, so what clears the tail does
  // not.)
  write.behind = MayStayBehind(f, write.small) && write.tail.to == 0;

  // Whole units of written blocks, and whole unwritten blocks, concern nobody else.
  const auto exclusive_at = [&](std::uint64_t edge, FileBlock block) {
    f.mutex.AssertHeld();
    if (edge % unit_bytes != 0) return true;
    const std::optional<Extent> extent = f.grant.Find(block);
    return edge % block_bytes != 0 && (!extent || extent->state != ExtentState::kWritten);
  };
  const std::uint64_t first = from / block_bytes;
  const std::uint64_t end = DivideUp(to, block_bytes);
  const ByteRange blocks{first * block_bytes, end * block_bytes};
  write.locks.clear();
  write.locks.push_back({first, end, write.behind});
  if (write.behind) {
    if (f.memory.InFlight(blocks)) return Finding::Wait();
  } else if (f.memory.Overlaps(blocks)) {
    write_behind_.Start(f, blocks);
    return Finding::Wait();
  }
  if (exclusive_at(from, FileBlock(first))) write.locks.push_back({first, first + 1, true});
  if (exclusive_at(to, FileBlock(end - 1))) write.locks.push_back({end - 1, end, true});
  if (write.tail.to != 0) {
    const std::uint64_t last = size_bytes / block_bytes;
    write.locks.push_back({last, last + 1, true});
  }
  if (!f.locks.AdmitWrite(write.locks)) return Finding::Wait();
  // (Bytes that the controller is to take need the whole token: such a write passes no recall.)
  const bool whole = stays_small || f.grant.small().known() || f.FirstWithoutBlock().has_value();
  return Finding::ProceedUsing(whole ? kWholeFile : span);
}

// Before it enters: it waits for memory where that is short, and what lies there in its way goes
// first.
absl::Status FileIo::Prepare(const FileRef& file, const WriteAccess& write, const IoContext& io) {
  if (!write.small) {
    if (write.append) return absl::OkStatus();  // nobody knows yet where
    std::uint64_t through = 0;
    {
      MutexLock lock(file->mutex);
      if (file->FirstWithoutBlock()) return absl::OkStatus();  // they come first
      through = file->memory.last_id();
    }
    const std::uint64_t block_bytes = file->block_bytes;
    return write_behind_.Flush(
        file, {RoundDown(write.offset_bytes, block_bytes), RoundUp(write.end_bytes(), block_bytes)},
        through, io.interrupt);
  }
  while (!context_.behind_memory.has_room()) {
    committer_.RelieveMemory();
    if (absl::Status status = context_.AwaitMemory(io.interrupt); !status.ok()) return status;
  }
  return absl::OkStatus();
}

// All of a write that stays in memory for now, at once.
void FileIo::PutBehind(FileState& f, WriteAccess& write, const IoContext& io) {
  const bool crowded = write_behind_.Put(f, write.offset_bytes, write.data, write.stream);
  write.took_set_id =
      f.NoteChange({.offset_bytes = write.offset_bytes,
                    .end_bytes = write.end_bytes(),
                    .time = context_.clock.WallNow(),
                    .by_root = io.credentials == nullptr || io.credentials->uid() == 0},
                   write.extents);
  committer_.NoteDirty(f);
  if (crowded) committer_.NoteMemoryShort();
}

absl::Status FileIo::EnterWrite(const FileRef& file, WriteAccess& write, const IoContext& io) {
  FileState& f = *file;
  MutexLock lock(f.mutex);
  AccessNeed need{.mode = v1::TOKEN_EXCLUSIVE, .exclusive = write.append};
  if (write.page_cache) need.locks_pages = {write.offset_bytes, write.end_bytes()};
  need.keeps_token = write.page_cache && !write.write_back;
  const absl::StatusOr<Entered> entered = access_.Enter(f, need, io, [&]() -> Finding {
    f.mutex.AssertHeld();
    return LookForWrite(f, write);
  });
  if (!entered.ok()) return entered.status();
  write.entered = *entered;
  const std::uint64_t now_ms = context_.clock.NowMs();
  f.written_ms.store(now_ms, std::memory_order_relaxed);
  write.stream = f.NoteUse(write.offset_bytes, write.end_bytes(), now_ms);
  f.opens.NoteHandle(io.handle);
  if (write.page_cache && !write.write_back) {  // what was written stays in the kernel's pages
    f.kernel_pages.Fill({write.offset_bytes, write.end_bytes()}, KernelPages::By::kWrite);
  }
  if (f.grant.small().known()) {
    write_behind_.Unpack(f);
    committer_.NoteDirty(f);
    write.unpacked = !write.behind;
    if (write.unpacked) {
      access_.Leave(f, write.entered);
      return absl::AbortedError("its content goes to the LUNs first");
    }
  }
  if (write.behind) {
    PutBehind(f, write, io);
    access_.Leave(f, write.entered);
    return absl::OkStatus();
  }
  f.locks.Lock(write.locks);
  if (!write.page_cache) {
    write.change = f.kernel_pages.BeginChange({write.offset_bytes, write.end_bytes()});
  }
  for (const BlockLock& lock : write.locks) {
    f.memory.Forget({lock.first * f.block_bytes, lock.end * f.block_bytes});
  }
  write.lost_sessions = f.grant.lost_sessions();
  write.lost_flushes = f.uncommitted.lost_flushes();
  write.permit = {.session = f.grant.session(),
                  .interrupt = io.interrupt,
                  .inode = f.inode,
                  .tree = f.attr.project()};
  // (A page that the kernel writes is to reach the LUNs before the token goes.)
  if (!io.page_cache) write.permit = access_.YieldingPermit(f, write.entered, io.interrupt);
  write.mode = f.attr.mode();
  write.gid = f.attr.gid();
  return absl::OkStatus();
}

// For good: where the flush of the write itself failed, its size would be told all the same, and
// what these zeros hide would be shown.
absl::Status FileIo::ClearTail(const WriteAccess& write) {
  LunMarks marks;
  const auto& [from, to] = write.tail;
  absl::Status status = Zero(write.tail_extents, from, to, marks, write.permit);
  return status.ok() ? FlushMarks(marks, write.permit) : status;
}

// Where there is no space for all of it, what has blocks is written. (A page goes back as a whole.)
bool FileIo::GoesOnWithLess(WriteAccess& write, const absl::Status& refused) {
  const int error = ErrnoOf(refused);
  if (write.write_back || write.refused || (error != ENOSPC && error != EDQUOT)) return false;
  write.refused = refused;
  return true;
}

absl::StatusOr<ByteRange> FileIo::Write(const FileRef& file, std::uint64_t offset_bytes,
                                        std::span<const std::byte> data, const IoContext& io) {
  if (data.empty()) return ByteRange{offset_bytes, offset_bytes};
  if (!io.append) {
    if (absl::Status status = ValidateByteRange(offset_bytes, data.size()); !status.ok()) {
      return status;
    }
  }
  FileState& f = *file;
  WriteAccess write;
  write.offset_bytes = offset_bytes;
  write.data = data;
  write.append = io.append;
  write.page_cache = io.page_cache;
  write.write_back = io.write_back;
  write.small = write_behind_.Takes(f, data.size(), io);
  // A page goes back whole: what others wrote there since it was read, it would take away.
  if (write.write_back) {
    MutexLock lock(f.mutex);
    if (f.kernel_pages.IsStale({write.offset_bytes, write.end_bytes()})) return f.LosePage();
    write.lost_sessions_when_sent = f.grant.lost_sessions();
  }
  for (;;) {
    if (absl::Status status = access_.AwaitLease(io); !status.ok()) return status;
    if (absl::Status s = access_.AwaitPathsOfPages(io); !s.ok()) return s;
    if (absl::Status status = Prepare(file, write, io); !status.ok()) return status;
    if (absl::Status status = EnterWrite(file, write, io); !status.ok()) {
      if (std::exchange(write.unpacked, false)) continue;
      if (GoesOnWithLess(write, status)) continue;
      if (!write.held_pages) return status;
      const ByteRange pages = *std::exchange(write.held_pages, std::nullopt);
      status = access_.DropPages(file, pages, io);
      if (!status.ok()) return status;
      continue;
    }
    write.refused.reset();
    if (write.stream) access_.PrefetchLayout(file, v1::TOKEN_EXCLUSIVE, write.end_bytes(), io);
    if (write.behind) break;
    absl::Status status;
    LunMarks marks;
    bool submitted = access_.LeaseHolds();
    if (submitted && write.tail.to != 0) status = ClearTail(write);
    if (submitted && status.ok()) {
      const std::uint64_t began_ms = context_.clock.NowMs();
      status =
          context_.io->Write(write.extents, write.offset_bytes, write.data, marks, write.permit);
      if (write.stream && status.ok()) write_behind_.NoteLunWrite(write.data.size(), began_ms);
    }
    if (submitted) write.lost_sessions_when_sent = write.lost_sessions;
    submitted = submitted && !IsPermitOver(status);
    const bool in_group = IsInGroup(write.mode, write.gid, io);
    MutexLock lock(f.mutex);
    f.locks.Unlock(write.locks);
    if (!write.page_cache) f.kernel_pages.EndChange(write.change);
    write.entered.gave_way = IsPermitOver(status);
    access_.Leave(f, write.entered);
    if (!submitted || !status.ok()) f.ForgetContents();  // some of it may lie beyond the end
    if (!submitted || f.grant.lost_sessions() != write.lost_sessions) continue;
    context_.NoteLostFlushes(f);
    // What lies around it in its blocks is no longer written: once more, with zeros there.
    if (status.ok() && f.uncommitted.lost_flushes() != write.lost_flushes) {
      write.lowerings_when_landed = f.grant.lowerings();
      continue;
    }
    if (!status.ok()) {
      context_.NoteUnflushed(f, marks);
      committer_.NoteDirty(f);
      return status;
    }
    const FileState::Written written{
        .offset_bytes = write.offset_bytes,
        .end_bytes = write.end_bytes(),
        .time = context_.clock.WallNow(),
        .by_root = io.credentials == nullptr || io.credentials->uid() == 0,
        .in_group = in_group};
    write.took_set_id = f.NoteWritten(written, write.extents, marks);
    f.NoteTailCleared(write.tail.to);
    committer_.NoteDirty(f);
    break;
  }
  // Of a write past its pages the kernel takes size and times for changed, and no more.
  if (write.took_set_id && context_.forget_attributes) context_.forget_attributes(f.inode);
  if (io.sync) {
    absl::Status status = committer_.Sync(file, io.data_only, io.interrupt);
    if (status.ok()) status = Committer::ReportLoss(file, io.handle);
    if (!status.ok()) return status;
  }
  return ByteRange{write.offset_bytes, write.end_bytes()};
}

}  // namespace reel::client
