#include "client/buffers/write_behind.h"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/file/layout_request.h"
#include "proto/status.h"
#include "spdlog/spdlog.h"

namespace reel::client {
namespace {

// A stream of such pieces fills a buffer soon; one of smaller pieces may be a log's.
constexpr std::size_t kFillingBytes = 64 * kKiB;

// Reading that much takes hardly longer than reading a unit.
constexpr std::uint64_t kReadAheadBytes = 64 * kKiB;
// A buffer of more is a stream's, which does not come back.
constexpr std::uint64_t kMostKeptBytes = 256 * kKiB;

// A wait ended; the LUNs have not refused anything.
bool IsGivenUp(const absl::Status& status) {
  const int errno_value = ErrnoOf(status);
  return errno_value == EINTR || errno_value == ETIMEDOUT || errno_value == ESHUTDOWN;
}

}  // namespace

struct WriteBehind::Flight {
  struct Part {
    ByteRange range;
    ExtentList extents;
  };
  DirtyBufferRef dirty_buffer;
  std::uint64_t known_to = 0;   // as WorthKnowingTo
  std::uint64_t forgotten = 0;  // DirtyMemory's count, when that was planned
  std::vector<Part> edges;      // units to be read, for what is around the dirty bytes
  std::vector<Part> parts;      // to be written
  BlockLocks locks;
  std::vector<ByteRange> own;  // what was dirty, without what was filled and read around it
  std::uint64_t lost_sessions = 0;
  std::uint64_t lost_flushes = 0;  // Uncommitted's, when that was planned
  std::uint64_t session = 0;
  LunMarks marks;
  bool given_up = false;  // the bytes are still to be sent
};

struct WriteBehind::Learnt {
  std::vector<ByteRange> ranges;
  std::vector<AlignedBuffer> memory;  // of each
};

// ---- keeping ----------------------------------------------------------------------------------

bool WriteBehind::Takes(FileState& f, std::size_t bytes, const IoContext& io) const {
  if (io.sync || io.direct || context_.behind_memory.limit_bytes() == 0) return false;
  // A session is given up for what is in memory: nothing is kept there that it would be given up
  // for.
  if (context_.paths->AnyLost()) return false;
  if (bytes <= context_.options.max_behind_write_bytes) return true;
  // The other half is for small writes, and beyond it a stream waits for the LUNs as they are.
  if (io.page_cache || context_.behind_memory.half_used()) return false;
  {
    MutexLock lock(mutex_);
    if (!pace_.SlowerThan(context_.options.behind_ms_per_mib)) return false;
  }
  MutexLock lock(f.mutex);
  return f.pace.streams();
}

void WriteBehind::NoteLunWrite(std::uint64_t bytes, std::uint64_t began_ms) {
  if (bytes <= context_.options.max_behind_write_bytes) return;  // they take long for a MiB anyway
  const std::uint64_t now_ms = context_.clock.NowMs();
  MutexLock lock(mutex_);
  pace_.Note(bytes, now_ms - began_ms);
}

bool WriteBehind::Put(FileState& f, std::uint64_t offset_bytes, std::span<const std::byte> data,
                      bool stream) {
  const DirtyMemory::Kept kept =
      f.memory.Put(offset_bytes, data,
                   {.budget = context_.behind_memory,
                    .spare = context_.spare_memory,
                    .buffers = context_.buffers,
                    .dirty_buffer_bytes = std::max<std::size_t>(
                        context_.options.write_behind_buffer_bytes, f.block_bytes),
                    .fills = stream && data.size() >= kFillingBytes,
                    .now_ms = context_.clock.NowMs()});
  if (!kept.whole.empty() && f.FirstWithoutBlock()) return kept.crowded;  // the controller takes it
  for (const DirtyBufferRef& dirty_buffer : kept.whole) Enqueue(f, dirty_buffer);
  return kept.crowded;
}

// ---- small files ------------------------------------------------------------------------------

WriteBehind::Whole WriteBehind::TakeWhole(const FileState& f) {
  Whole whole{
      .bytes = std::string(f.attr.size_bytes(), '\0'), .changes = f.memory.changes(), .held = {}};
  f.memory.Read({0, whole.bytes.size()}, reinterpret_cast<std::byte*>(whole.bytes.data()));
  return whole;
}

void WriteBehind::Hold(const FileState& f, Whole& whole) {
  whole.held = f.memory.BuffersIn(kAllBytes);
  for (const DirtyBufferRef& dirty_buffer : whole.held) dirty_buffer->in_flight = true;
}

// By a flush that has failed: it is neither here nor on the LUNs.
bool WriteBehind::LostMeanwhile(const FileState& f, const Whole& whole) {
  const std::optional<Extent> first = f.grant.Find(FileBlock(0));
  const bool written = first && first->state == ExtentState::kWritten;
  return !written && !f.memory.Overlaps({0, whole.bytes.size()});
}

// What was changed meanwhile is still dirty, with all the rest: the next commit takes it, or it has
// outgrown the controller's care, and goes to the LUNs.
void WriteBehind::Land(FileState& f, Whole whole, bool committed) {
  for (const DirtyBufferRef& dirty_buffer : whole.held) dirty_buffer->in_flight = false;
  if (!whole.held.empty()) f.changed.NotifyAll();
  if (!committed) return;
  f.grant.small().NoteAtController();
  if (LostMeanwhile(f, whole)) {
    return f.memory.empty() ? f.AskAgainIfSmall() : f.NoteLoss(ErrnoStatus(EIO, "a flush failed"));
  }
  if (f.memory.changes() != whole.changes || f.memory.InFlight(kAllBytes)) return;
  f.memory.Clear();
  f.grant.small().Take(std::move(whole.bytes));
}

void WriteBehind::Unpack(FileState& f) {
  const std::string content = f.grant.small().MoveOut();
  (void)Put(f, 0, std::as_bytes(std::span(content)), /*stream=*/false);
}

// ---- flushing ---------------------------------------------------------------------------------

void WriteBehind::Enqueue(FileState& f, const DirtyBufferRef& dirty_buffer) {
  if (dirty_buffer->in_flight || std::exchange(dirty_buffer->queued, true)) return;
  pool_.Run([this, file = f.shared_from_this(), dirty_buffer] {
    MutexLock lock(file->mutex);
    dirty_buffer->queued = false;
    // What could not be done is tried again when it has grown older, or somebody asks for it.
    if (dirty_buffer->gone || dirty_buffer->in_flight || !dirty_buffer->dirty()) return;
    const InterruptWhen stopping([this] { return context_.stopping.load(); });
    (void)FlushBuffer(*file, dirty_buffer, &stopping);
  });
}

void WriteBehind::Start(FileState& f, const ByteRange& range, std::uint64_t age_ms) {
  const std::uint64_t now_ms = context_.clock.NowMs();
  for (const DirtyBufferRef& dirty_buffer : f.memory.BuffersIn(range)) {
    if (now_ms - dirty_buffer->since_ms >= age_ms) Enqueue(f, dirty_buffer);
  }
}

absl::Status WriteBehind::Flush(const FileRef& file, const ByteRange& range, std::uint64_t through,
                                const Interrupt* interrupt) {
  FileState& f = *file;
  MutexLock lock(f.mutex);
  for (;;) {
    std::vector<DirtyBufferRef> dirty_buffers = f.memory.BuffersIn(range);
    std::erase_if(dirty_buffers,
                  [&](const DirtyBufferRef& dirty_buffer) { return dirty_buffer->id > through; });
    if (dirty_buffers.empty()) return absl::OkStatus();
    // One here, and the others beside it.
    const auto idle = [](const DirtyBufferRef& dirty_buffer) { return !dirty_buffer->in_flight; };
    const auto own = std::find_if(dirty_buffers.begin(), dirty_buffers.end(), idle);
    absl::Status status;
    if (own == dirty_buffers.end()) {
      status = context_.Wait(f, interrupt);
    } else {
      for (auto other = own + 1; other != dirty_buffers.end(); ++other) Enqueue(f, *other);
      status = FlushBuffer(f, *own, interrupt);
    }
    if (!status.ok()) return status;
  }
}

absl::Status WriteBehind::FlushBuffer(FileState& f, const DirtyBufferRef& dirty_buffer,
                                      const Interrupt* interrupt) {
  std::optional<Flight> flight;
  absl::Status status;
  const std::uint64_t lost_sessions = f.grant.lost_sessions();
  const auto over = [&] {
    f.mutex.AssertHeld();
    return f.grant.lost_sessions() != lost_sessions ||
           dirty_buffer->gone;  // then the loss is noted already
  };
  DirtyMemory::BeginFlight(*dirty_buffer);
  // Once more, where blocks that counted as written no longer do.
  for (bool again = true; again;) {
    flight.emplace();
    flight->dirty_buffer = dirty_buffer;
    flight->own = dirty_buffer->ranges;
    flight->lost_sessions = lost_sessions;
    flight->session = f.grant.session();
    status = Fly(f, *flight, interrupt);
    if (!over()) context_.NoteLostFlushes(f);
    again = status.ok() && !over() && f.uncommitted.lost_flushes() != flight->lost_flushes;
    flight->given_up = flight->given_up || IsGivenUp(status);
    if ((again || flight->given_up) && !over())
      dirty_buffer->ranges = dirty_buffer->known = flight->own;
  }
  f.memory.EndFlight(*dirty_buffer);
  f.changed.NotifyAll();
  if (over()) return absl::OkStatus();
  Finish(f, *flight, status);
  return flight->given_up ? status : absl::OkStatus();
}

// (What comes is taken in as it comes: another answer may know of more. But not what was sent
// before some of the token went back; and a repeated answer brings no layout.)
absl::Status WriteBehind::Place(FileState& f, std::uint64_t at_bytes, const Interrupt* interrupt) {
  const std::uint64_t end = RoundUp(f.attr.size_bytes(), f.block_bytes);
  const std::uint64_t lost_sessions = f.grant.lost_sessions();
  const std::uint64_t session = f.grant.session();
  const std::uint64_t lowerings = f.grant.lowerings();
  const auto installed = std::make_shared<std::optional<absl::Status>>();  // under the file's mutex
  CallOptions options;
  options.interrupt = interrupt;
  options.session = session;
  options.under_token = true;
  options.on_reply = [file = f.shared_from_this(), lost_sessions, session, lowerings,
                      installed](const v1::Reply& reply) {
    FileState& state = *file;
    MutexLock lock(state.mutex);
    if (state.grant.lost_sessions() != lost_sessions) return;
    state.grant.NoteTail(true);
    if (state.grant.lowerings() != lowerings || !reply.has_layout()) return;
    *installed = state.Install(reply.layout(), session);
  };
  f.grant.NoteTail(true);
  f.mutex.Unlock();
  const absl::Status status = context_.session
                                  ->Call(LayoutGetOf(f.inode, v1::TOKEN_EXCLUSIVE,
                                                     {kWholeFile, at_bytes, end - at_bytes, true}),
                                         options)
                                  .status();
  f.mutex.Lock();
  if (f.grant.lost_sessions() != lost_sessions) return absl::OkStatus();
  if (!status.ok()) return status;
  if (!*installed) return absl::OkStatus();  // once more
  if (!(*installed)->ok() || f.FirstWithoutBlock() != at_bytes) return **installed;
  return ErrnoStatus(EIO, "the controller's layout has no block for what was written");
}

absl::Status WriteBehind::Fly(FileState& f, Flight& flight, const Interrupt* interrupt) {
  for (;;) {
    if (f.grant.lost_sessions() != flight.lost_sessions || flight.dirty_buffer->gone)
      return absl::OkStatus();
    if (const std::optional<std::uint64_t> at = f.FirstWithoutBlock()) {
      if (absl::Status placed = Place(f, *at, interrupt); !placed.ok()) return placed;
      continue;
    }
    flight.locks = LocksFor(f, flight);
    if (!f.locks.Conflict(flight.locks)) break;
    f.locks.BeginAwait(flight.locks.front());
    const absl::Status waited = context_.Wait(f, interrupt);
    f.locks.EndAwait(flight.locks.front());
    if (!waited.ok()) return waited;
  }
  flight.lost_flushes = f.uncommitted.lost_flushes();
  absl::Status status = Prepare(f, flight);
  f.locks.Lock(flight.locks);
  f.mutex.Unlock();
  if (status.ok()) status = Send(f, flight, interrupt);
  f.mutex.Lock();
  f.locks.Unlock(flight.locks);
  return status;
}

// An unwritten block is written whole, once for all that is dirty in it.
void WriteBehind::FillUnwritten(const FileState& f, DirtyBuffer& dirty_buffer) {
  const std::vector<ByteRange> ranges = dirty_buffer.ranges;
  for (const ByteRange& range : ranges) {
    for (const std::uint64_t edge : {range.from, range.to - 1}) {
      const FileBlock block(edge / f.block_bytes);
      const std::optional<Extent> extent = f.grant.Find(block);
      if (!extent || extent->state != ExtentState::kUnwritten) continue;
      dirty_buffer.FillWithZeros(
          {block.value() * f.block_bytes, (block.value() + 1) * f.block_bytes});
    }
  }
}

// How far to read when the end of the last unit has to be: who writes on from where it wrote last
// will want what comes behind.
std::uint64_t WriteBehind::WorthKnowingTo(const FileState& f,
                                          const DirtyBuffer& dirty_buffer) const {
  const ByteRange& last = dirty_buffer.ranges.back();
  const std::uint64_t unit_bytes = context_.io->unit_bytes();
  const std::uint64_t end = RoundUp(last.to, unit_bytes);
  const bool goes_on =
      last.from == dirty_buffer.offset_bytes || dirty_buffer.Knows({last.from - 1, last.from});
  const std::optional<Extent> block = f.grant.Find(FileBlock((last.to - 1) / f.block_bytes));
  const bool reads =
      block && block->state == ExtentState::kWritten && !dirty_buffer.Knows({last.to, end});
  if (!goes_on || !reads) return end;
  const std::uint64_t unit = end - unit_bytes;
  const FileBlock held = f.grant.HeldTo(FileBlock(unit / f.block_bytes), v1::TOKEN_EXCLUSIVE);
  const std::uint64_t to = std::min(
      {unit + kReadAheadBytes, dirty_buffer.end_bytes(), RoundUp(f.attr.size_bytes(), unit_bytes),
       held == kEndOfFileBlocks ? kMaxFileBytes : held.value() * f.block_bytes});
  // Of the same LUN: what is needed waits for no other one.
  return to <= end ? end : std::max(end, unit + context_.io->OnOneLun(*block, unit, to - unit));
}

BlockLocks WriteBehind::LocksFor(const FileState& f, Flight& flight) const {
  const DirtyBuffer& dirty_buffer = *flight.dirty_buffer;
  flight.known_to = WorthKnowingTo(f, dirty_buffer);
  flight.forgotten = f.memory.forgotten();
  return {{dirty_buffer.ranges.front().from / f.block_bytes,
           DivideUp(flight.known_to, f.block_bytes),
           /*alone=*/true}};
}

void WriteBehind::PlanReads(const FileState& f, Flight& flight) const {
  const DirtyBuffer& dirty_buffer = *flight.dirty_buffer;
  const std::uint64_t unit_bytes = context_.io->unit_bytes();
  const auto read = [&](std::uint64_t unit) {
    f.mutex.AssertHeld();
    const bool twice = !flight.edges.empty() && flight.edges.back().range.from == unit;
    if (!twice) flight.edges.emplace_back().range = {unit, unit + unit_bytes};
  };
  for (const ByteRange& range : dirty_buffer.ranges) {
    const ByteRange units{RoundDown(range.from, unit_bytes), RoundUp(range.to, unit_bytes)};
    if (!dirty_buffer.Knows({units.from, range.from})) read(units.from);
    if (!dirty_buffer.Knows({range.to, units.to})) read(units.to - unit_bytes);
  }
  // (Where nothing is known of a block, the plan of the writes will say so.)
  for (Flight::Part& edge : flight.edges)
    (void)f.grant.Cover(edge.range.from, unit_bytes, edge.extents);
}

// Whole units.
absl::Status WriteBehind::PlanWrites(const FileState& f, Flight& flight) const {
  const std::uint64_t unit_bytes = context_.io->unit_bytes();
  for (const ByteRange& range : flight.dirty_buffer->ranges) {
    const ByteRange units{RoundDown(range.from, unit_bytes), RoundUp(range.to, unit_bytes)};
    if (!flight.parts.empty() && units.from <= flight.parts.back().range.to) {
      flight.parts.back().range.to = units.to;
    } else {
      flight.parts.emplace_back().range = units;
    }
  }
  for (Flight::Part& part : flight.parts) {
    const auto& [from, to] = part.range;
    const bool known = !f.grant.Cover(from, to - from, part.extents);
    const auto hole = [](const Extent& extent) { return extent.state == ExtentState::kHole; };
    if (!known || std::any_of(part.extents.begin(), part.extents.end(), hole)) {
      return ErrnoStatus(EIO, absl::StrCat("no place is known for bytes ", from, " to ", to,
                                           " that were written"));
    }
  }
  return absl::OkStatus();
}

absl::Status WriteBehind::Prepare(const FileState& f, Flight& flight) const {
  FillUnwritten(f, *flight.dirty_buffer);
  PlanReads(f, flight);
  return PlanWrites(f, flight);
}

// What lies ahead of the last edge is read along with it; if that fails, the edges alone.
absl::Status WriteBehind::ReadEdges(const Flight& flight, const IoPermit& permit, Learnt& learnt) {
  if (flight.edges.empty()) return absl::OkStatus();
  const std::uint64_t to = flight.edges.back().range.to;
  const std::uint64_t following_bytes = flight.known_to > to ? flight.known_to - to : 0;
  for (const bool with_following : {true, false}) {
    if (with_following && following_bytes == 0) continue;
    learnt.ranges.clear();
    learnt.memory.clear();
    absl::InlinedVector<LunIo::Range, 4> reads;
    for (const Flight::Part& edge : flight.edges) {
      const bool last = &edge == &flight.edges.back();
      const ByteRange range{edge.range.from,
                            edge.range.to + (with_following && last ? following_bytes : 0)};
      const AlignedBuffer& memory = learnt.memory.emplace_back(range.to - range.from);
      learnt.ranges.push_back(range);
      reads.push_back({edge.extents, range.from, range.to, memory.data()});
    }
    absl::Status status = context_.io->ReadUnits(reads, permit);
    if (status.ok() || !with_following || IsPermitOver(status) || IsGivenUp(status)) return status;
  }
  return absl::OkStatus();
}

// Then all of the parts is known, and dirty.
absl::Status WriteBehind::ReadAround(FileState& f, Flight& flight, const IoPermit& permit) {
  Learnt learnt;
  if (absl::Status status = ReadEdges(flight, permit, learnt); !status.ok()) return status;
  MutexLock lock(f.mutex);
  if (flight.dirty_buffer->gone) return ErrnoStatus(EIO, "dropped meanwhile");
  const std::uint64_t end = flight.parts.back().range.to;
  for (std::size_t i = 0; i < learnt.ranges.size(); ++i) {
    ByteRange range = learnt.ranges[i];
    // The token of what lies in no block of the buffer's own may have gone meanwhile.
    if (f.memory.forgotten() != flight.forgotten) range.to = std::min(range.to, end);
    flight.dirty_buffer->Learn(range, learnt.memory[i].data());
  }
  flight.edges.clear();
  for (const Flight::Part& part : flight.parts) flight.dirty_buffer->Add(part.range);
  return absl::OkStatus();
}

absl::Status WriteBehind::WriteParts(Flight& flight, const IoPermit& permit) {
  const DirtyBuffer& dirty_buffer = *flight.dirty_buffer;
  absl::InlinedVector<LunIo::Range, 4> pieces;
  for (const auto& [range, extents] : flight.parts) {
    pieces.push_back(
        {extents, range.from, range.to,
         dirty_buffer.memory.buffer.data() + (range.from - dirty_buffer.offset_bytes)});
  }
  const std::uint64_t began_ms = context_.clock.NowMs();
  absl::Status status = context_.io->WriteUnits(pieces, flight.marks, permit);
  if (status.ok() && dirty_buffer.whole())
    NoteLunWrite(dirty_buffer.memory.buffer.size(), began_ms);
  return status;
}

// Under the session that the bytes belong to, as long as that is there. Once more after its lease
// was late: the same bytes.
absl::Status WriteBehind::Send(FileState& f, Flight& flight, const Interrupt* interrupt) {
  IoPermit permit{.session = flight.session, .interrupt = interrupt, .inode = f.inode};
  {
    MutexLock lock(f.mutex);
    permit.tree = f.attr.project();
  }
  for (;;) {
    absl::Status status = context_.AwaitLease(interrupt);
    const bool session_ended = ErrnoOf(status) == ESTALE;
    if (!status.ok() && !session_ended) {
      flight.given_up = true;
      return status;
    }
    if (status.ok()) status = ReadAround(f, flight, permit);
    if (status.ok()) status = WriteParts(flight, permit);
    if (!session_ended && !IsPermitOver(status)) return status;
    MutexLock lock(f.mutex);
    if (f.grant.lost_sessions() != flight.lost_sessions) return status;
    if (absl::Status waited = context_.Wait(f, interrupt); !waited.ok()) return waited;
  }
}

void WriteBehind::Finish(FileState& f, const Flight& flight, const absl::Status& status) {
  if (!status.ok()) {
    context_.NoteUnflushed(f, flight.marks);
  } else if (!flight.marks.empty()) {
    f.uncommitted.CountOnLuns(flight.marks);
  }
  if (flight.given_up) return;
  if (status.ok()) context_.recalls.Moved(f.inode);
  DirtyBuffer& dirty_buffer = *flight.dirty_buffer;
  if (status.ok() && f.opens.any() && dirty_buffer.held_bytes() <= kMostKeptBytes &&
      context_.behind_memory.hardly_used()) {
    f.memory.Keep(dirty_buffer);
  } else {
    f.memory.Remove(dirty_buffer);
  }
  if (!status.ok()) return f.NoteLoss(status);
  for (const Flight::Part& part : flight.parts) {
    f.NoteOnLuns(part.range, part.extents, {});
  }
}

}  // namespace reel::client
