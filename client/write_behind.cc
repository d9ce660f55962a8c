#include "client/write_behind.h"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/status.h"
#include "spdlog/spdlog.h"

namespace reel::client {
namespace {

// A stream of such pieces fills a window soon; one of smaller pieces may be a log's.
constexpr std::size_t kFillingBytes = 64 * kKiB;

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
  DirtyWindowRef window;
  std::vector<Part> parts;
  BlockLocks locks;
  std::uint64_t era = 0;
  std::uint64_t session = 0;
  LunMarks marks;
  bool given_up = false;  // the bytes are still to be sent
};

// ---- keeping ----------------------------------------------------------------------------------

bool WriteBehind::Takes(FileState& f, std::size_t bytes, const FileData::IoContext& io) const {
  if (io.sync || io.direct || context_.options.max_write_behind_bytes == 0) return false;
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
                    .buffers = context_.buffers,
                    .window_bytes = std::max<std::size_t>(
                        context_.options.write_behind_window_bytes, f.block_bytes),
                    .fills = stream && data.size() >= kFillingBytes,
                    .now_ms = context_.clock.NowMs()});
  for (const DirtyWindowRef& window : kept.whole) Enqueue(f, window);
  return kept.crowded;
}

// ---- flushing ---------------------------------------------------------------------------------

void WriteBehind::Enqueue(FileState& f, const DirtyWindowRef& window) {
  if (window->in_flight || std::exchange(window->queued, true)) return;
  pool_.Run([this, file = f.shared_from_this(), window] {
    MutexLock lock(file->mutex);
    window->queued = false;
    // What could not be done is tried again when it has grown older, or somebody asks for it.
    if (!context_.MayWrite(*file)) return context_.session->AskConfirmed();
    if (!window->gone && !window->in_flight) (void)FlushWindow(*file, window, &stopping_);
  });
}

void WriteBehind::Start(FileState& f, const ByteRange& range, std::uint64_t age_ms) {
  const std::uint64_t now_ms = context_.clock.NowMs();
  for (const DirtyWindowRef& window : f.memory.WindowsIn(range)) {
    if (now_ms - window->since_ms >= age_ms) Enqueue(f, window);
  }
}

absl::Status WriteBehind::Flush(const FileRef& file, const ByteRange& range,
                                const Interrupt* interrupt) {
  FileState& f = *file;
  MutexLock lock(f.mutex);
  const std::uint64_t through = f.memory.last_id();
  for (;;) {
    std::vector<DirtyWindowRef> windows = f.memory.WindowsIn(range);
    std::erase_if(windows, [&](const DirtyWindowRef& window) { return window->id > through; });
    if (windows.empty()) return absl::OkStatus();
    // One here, and the others beside it.
    const auto idle = [](const DirtyWindowRef& window) { return !window->in_flight; };
    const auto own = std::find_if(windows.begin(), windows.end(), idle);
    absl::Status status;
    if (own == windows.end()) {
      status = context_.Wait(f, interrupt);
    } else {
      for (auto other = own + 1; other != windows.end(); ++other) Enqueue(f, *other);
      status = FlushWindow(f, *own, interrupt);
    }
    if (!status.ok()) return status;
  }
}

absl::Status WriteBehind::FlushWindow(FileState& f, const DirtyWindowRef& window,
                                      const Interrupt* interrupt) {
  Flight flight;
  flight.window = window;
  flight.era = f.era;
  flight.session = f.session;
  const std::uint64_t block_bytes = f.block_bytes;
  flight.locks.push_back({window->ranges.front().from / block_bytes,
                          DivideUp(window->ranges.back().to, block_bytes), true});
  window->in_flight = true;
  absl::Status status;
  while (status.ok() && f.era == flight.era && !context_.MayWrite(f)) {
    const std::uint64_t told = f.told;
    f.mutex.Unlock();
    status = context_.session->AwaitConfirmed(told, interrupt);
    f.mutex.Lock();
  }
  while (status.ok() && f.era == flight.era && f.Conflicts(flight.locks)) {
    status = context_.Wait(f, interrupt);
  }
  const bool locked = status.ok() && f.era == flight.era;
  if (locked) {
    status = Prepare(f, flight);
    f.Lock(flight.locks);
    f.mutex.Unlock();
    if (status.ok()) status = Send(f, flight, interrupt);
    f.mutex.Lock();
    f.Unlock(flight.locks);
  }
  window->in_flight = false;
  f.changed.NotifyAll();
  // The loss is noted already.
  if (f.era != flight.era || window->gone) return absl::OkStatus();
  flight.given_up = flight.given_up || IsGivenUp(status);
  Finish(f, flight, status);
  return flight.given_up ? status : absl::OkStatus();
}

// An unwritten block is written whole, once for all that is dirty in it.
void WriteBehind::FillUnwritten(const FileState& f, DirtyWindow& window) {
  const std::vector<ByteRange> ranges = window.ranges;
  for (const ByteRange& range : ranges) {
    for (const std::uint64_t edge : {range.from, range.to - 1}) {
      const FileBlock block(edge / f.block_bytes);
      const std::optional<Extent> extent = f.extents.Find(block);
      if (!extent || extent->state != ExtentState::kUnwritten) continue;
      window.FillWithZeros({block.value() * f.block_bytes, (block.value() + 1) * f.block_bytes});
    }
  }
}

absl::Status WriteBehind::Prepare(FileState& f, Flight& flight) {
  FillUnwritten(f, *flight.window);
  for (const ByteRange& range : flight.window->ranges) {
    Flight::Part& part = flight.parts.emplace_back();
    part.range = range;
    const bool known = !f.Cover(range.from, range.to - range.from, part.extents);
    const auto hole = [](const Extent& extent) { return extent.state == ExtentState::kHole; };
    if (!known || std::any_of(part.extents.begin(), part.extents.end(), hole)) {
      return ErrnoStatus(EIO, absl::StrCat("no place is known for bytes ", range.from, " to ",
                                           range.to, " that were written"));
    }
  }
  return absl::OkStatus();
}

// Under the session that the bytes belong to, as long as that is there. Once more after its lease
// was late: the same bytes.
absl::Status WriteBehind::Send(FileState& f, Flight& flight, const Interrupt* interrupt) {
  const IoPermit permit{.session = flight.session, .interrupt = interrupt};
  for (;;) {
    absl::Status status = context_.AwaitLease(interrupt);
    const bool session_ended = ErrnoOf(status) == ESTALE;
    if (!status.ok() && !session_ended) {
      flight.given_up = true;
      return status;
    }
    for (const Flight::Part& part : flight.parts) {
      if (!status.ok()) break;
      const std::uint64_t began_ms = context_.clock.NowMs();
      status = context_.io->Write(part.extents, part.range.from, flight.window->BytesOf(part.range),
                                  flight.marks, permit);
      if (status.ok() && flight.window->whole()) {
        NoteLunWrite(part.range.to - part.range.from, began_ms);
      }
    }
    if (!session_ended && !IsPermitOver(status)) return status;
    MutexLock lock(f.mutex);
    if (f.era != flight.era) return status;
    if (absl::Status waited = context_.Wait(f, interrupt); !waited.ok()) return waited;
  }
}

void WriteBehind::Finish(FileState& f, const Flight& flight, const absl::Status& status) {
  if (!flight.marks.empty()) {
    MergeMarks(flight.marks, f.dirty.unflushed);
    ++f.changes;
  }
  if (flight.given_up) return;
  f.memory.Remove(*flight.window);
  if (!status.ok()) return f.NoteLoss(status);
  for (const Flight::Part& part : flight.parts) {
    f.NoteOnLuns(part.range, part.extents, {});
  }
}

}  // namespace reel::client
