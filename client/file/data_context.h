// What the parts of the data path share.
// Threads: `session`, `paths`, `io` and `maps` are set once, before any inode is used.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "client/file/file_data_options.h"
#include "client/file/file_state.h"
#include "client/file/file_table.h"
#include "client/file/io_context.h"
#include "client/luns/bandwidth_gate.h"
#include "client/luns/lun_io.h"
#include "client/luns/lun_paths.h"
#include "client/luns/recall_watch.h"
#include "client/session/session.h"
#include "volume/base/buffer_pool.h"

namespace reel::client {

// As FileData::PrefetchCounts.
struct AheadCounters {
  std::atomic<std::uint64_t> reads{0}, layouts{0}, frames{0}, frame_reads{0}, files{0};
};

struct DataContext {
  static constexpr std::size_t kBufferBytes = 1 * kMiB;
  FileDataOptions options;
  const Clock& clock;
  InvalidatePages invalidate_pages;
  std::function<void(std::uint64_t inode)> forget_attributes;  // may be null
  // What buffers of streams and chunks read ahead lie in.
  BufferPool buffers{kBufferBytes, /*kept_bytes=*/32 * kMiB};
  std::atomic<std::uint64_t> read_ahead_bytes{0};  // in memory, of all files
  std::atomic<std::uint64_t> frame_bytes{0};       // likewise, of frames fetched ahead
  AheadCounters ahead{};
  // Those of the options that a remount changes.
  std::atomic<AtimePolicy> atime{options.atime};
  std::atomic<bool> flush_on_close{options.flush_on_close};
  std::atomic<std::uint64_t> max_read_ahead_bytes{options.max_read_ahead_bytes};
  std::atomic<std::uint64_t> max_frame_bytes{options.max_frame_bytes};
  MemoryBudget behind_memory{options.max_write_behind_bytes};
  SpareMemory spare_memory{};
  FileTable table{};
  RecallWatch recalls{clock};
  BandwidthGate gate{clock, recalls};
  Session* session = nullptr;
  std::unique_ptr<LunPaths> paths{};
  std::unique_ptr<LunIo> io{};
  std::unique_ptr<MapTaker> maps{};
  std::atomic<bool> stopping{false};
  // The size of the last file that was written and closed, where it was small: the next new file is
  // likely to get as much. 0: nothing is known, or it was large.
  std::atomic<std::uint64_t> expected_bytes{0};
  // How often a removal has let go of its file's tokens: a grant that was asked for before may have
  // gone with them.
  std::atomic<std::uint64_t> removals{0};
  std::atomic<std::uint32_t> removing{0};  // removals that are about to be sent

  // Tells the controller of the opens here, unless it knows. While a token is held that is not
  // needed: it keeps an inode of which anybody holds one.
  void RegisterOpens(FileState& file, std::function<void()> done = nullptr)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(file.mutex);

  // Takes back what the controller knows of opens here; with `lowers_token` its token comes down.
  void TellClosed(std::uint64_t inode, bool lowers_token);

  // Waits until the lease holds. REQUIRES: nothing entered, no lock held.
  absl::Status AwaitLease(const Interrupt* interrupt);

  // Waits a while for room in `behind_memory`. As Wait.
  absl::Status AwaitMemory(const Interrupt* interrupt);

  // What flushes have lost of what is dirty is noted now: what is written from here on, or was just
  // then, is not to go along with it.
  void NoteLostFlushes(FileState& file) ABSL_EXCLUSIVE_LOCKS_REQUIRED(file.mutex);
  // Of a write that has failed, and said so: what of it is on the LUNs is flushed with the rest.
  void NoteUnflushed(FileState& file, LunMarks marks) ABSL_EXCLUSIVE_LOCKS_REQUIRED(file.mutex);

  // Waits for any change of the file, or a while. EINTR, ETIMEDOUT (soft mount) or ESHUTDOWN when
  // the caller is to give up.
  absl::Status Wait(FileState& file, const Interrupt* interrupt)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(file.mutex);

  // What was told under this number and later is lost, and open files with it.
  void LoseEarly(std::uint64_t first);
  // A change of attributes that was told is lost: the controller's are newer than what is known.
  void LoseAttributes(const v1::Request& change);

  // `lun_paths`: null before there are any.
  RecallWork LookAtRecalls(const LunPaths* lun_paths) const;

  // At the end: what could not be flushed in time is lost.
  void DropMemory();

  // Whether a wait that has lasted for a while is to go on.
  absl::Status GoesOn(const Interrupt* interrupt) const;
};

}  // namespace reel::client
