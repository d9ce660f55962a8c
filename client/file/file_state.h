// All that this client knows of one inode's data, and who is using it right now.
//
// Its parts keep their own rules (client/inode); here are those that hold between them. Who waits
// for what is file_access's, who commits is committer's. Invariants:
//   1. Nothing of `grant` is meaningful while its token is empty, and `attr` is a hint then. The
//      size is exact while the token covers all blocks from that of the end of file on, else it is
//      what the file has at least. Only who holds those blocks exclusively raises it.
//   2. Blocks that are dirty or on their way in `uncommitted` are written ones in `grant`, where
//      they are known, until a flush of the LUNs fails.
//   3. What is dirty in `memory` is on no LUN yet; its blocks are held exclusively, known, and no
//      holes. (But where all of the file is there and short enough for the controller to take, or
//      was refused by it: `FirstWithoutBlock`.) What is known and clean there is held exclusively,
//      too.
//   4. The token goes back when nobody is at work that its recall has to wait for (`drained`).
//   5. With the session goes all that was granted, that is on its way back, registered or
//      uncommitted, in one step (`Reset`).
// Threads: everything under `mutex`, but the atomics.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "client/base/block_set.h"
#include "client/base/byte_range.h"
#include "client/file/dirty_memory.h"
#include "client/file/frame_chunks.h"
#include "client/file/kernel_pages.h"
#include "client/file/read_sizes.h"
#include "client/file/stream_pace.h"
#include "client/file/write_error.h"
#include "client/inode/access_time.h"
#include "client/inode/grant.h"
#include "client/inode/locked_blocks.h"
#include "client/inode/occupancy.h"
#include "client/inode/opens.h"
#include "client/inode/page_fetches.h"
#include "client/inode/read_ahead_chunks.h"
#include "client/inode/recall_progress.h"
#include "client/inode/uncommitted.h"
#include "client/luns/lun_io.h"
#include "proto/layout.pb.h"
#include "proto/token_ranges.h"
#include "volume/base/env.h"
#include "volume/base/mutex.h"
#include "volume/base/types.h"

namespace reel::client {

struct FileState : std::enable_shared_from_this<FileState> {
  FileState(std::uint64_t inode_number, std::uint32_t volume_block_bytes,
            std::uint64_t stream_bytes = StreamPace::kStreamBytes)
      : inode(inode_number),
        block_bytes(volume_block_bytes),
        grant(volume_block_bytes),
        pace(stream_bytes) {}

  const std::uint64_t inode;
  const std::uint32_t block_bytes;
  std::atomic<std::uint32_t> last_use{0};
  std::atomic<std::uint64_t> written_ms{0};  // when the last write began
  ReadSizes read_sizes;

  mutable Mutex mutex;
  CondVar changed;  // any of the below

  // ---- what the controller granted
  Grant grant ABSL_GUARDED_BY(mutex);
  v1::Attr attr ABSL_GUARDED_BY(mutex);

  // ---- who is at work, and what is to go back
  Occupancy users ABSL_GUARDED_BY(mutex);
  LockedBlocks locks ABSL_GUARDED_BY(mutex);
  RecallProgress recall ABSL_GUARDED_BY(mutex);
  PageFetches page_fetches ABSL_GUARDED_BY(mutex);
  // What a lost session leaves there stays in it until it is dropped.
  KernelPages kernel_pages ABSL_GUARDED_BY(mutex);
  TokenSpan last_used ABSL_GUARDED_BY(mutex);  // by the last read or write
  StreamPace pace ABSL_GUARDED_BY(mutex);      // of reads and writes

  // A commit runs, or bytes that were dropped may yet land.
  bool on_its_way() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    return uncommitted.running() || memory.landing() > 0;
  }
  // Nobody is at work.
  bool idle() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) { return users.idle() && !on_its_way(); }
  // Nobody whom the recall has to wait for is.
  bool drained() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    return users.IdleBut(recall.passing()) && !on_its_way();
  }
  // As Occupancy's; nor while something is on its way.
  bool EnterExclusive() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (on_its_way() || !users.EnterExclusive()) return false;
    ForgetAhead();
    return true;
  }
  // Closed by all, and nothing of it is under way.
  bool unused() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    return !opens.any() && idle() && !users.fetching() && !recall.under_way();
  }

  // ---- programs
  Opens opens ABSL_GUARDED_BY(mutex);
  ReadAheadChunks read_ahead_chunks ABSL_GUARDED_BY(mutex);
  FrameChunks frame_chunks ABSL_GUARDED_BY(mutex);
  AccessTime access ABSL_GUARDED_BY(mutex);

  // ---- dirty
  DirtyMemory memory ABSL_GUARDED_BY(mutex);
  Uncommitted uncommitted ABSL_GUARDED_BY(mutex);
  // From the end of file to there, if that is not less, the LUNs hold zeros (or unwritten blocks),
  // whatever flush fails: the size may be raised so far without looking at what lies there.
  std::uint64_t zeros_to_bytes ABSL_GUARDED_BY(mutex) = 0;
  bool listed ABSL_GUARDED_BY(mutex) = false;  // with the committer
  WriteError write_error ABSL_GUARDED_BY(mutex);

  // The right to write is held, and nobody has a use for it: it would have to be recalled before
  // anybody else may so much as look at the file's size.
  bool done_writing() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    return grant.holds_to_write() && unused() && !uncommitted.any() && memory.empty() &&
           !grant.tail_allocated();
  }

  // Something is to be told to the controller, or on its way.
  bool untold() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    return uncommitted.any() || uncommitted.running() || !memory.empty();
  }

  // Takes in a grant. EIO when it is malformed; nothing is changed then.
  absl::Status Install(const v1::LayoutReply& reply, std::uint64_t session_id)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // All that are not needed for what is in memory.
  void ForgetExtents() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Where the blocks end that a small file's content stands for.
  std::uint64_t SmallEnd() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    return DivideUp(grant.small().size_bytes(), block_bytes) * block_bytes;
  }
  // What the controller has of a small file is to be asked for. REQUIRES: nothing of it is dirty.
  void ForgetSmall() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // All of the file is in memory, in place of no written block, and is short enough.
  bool IsSmall(std::uint64_t most_bytes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // With a write up to `to_bytes` it would be, or stay so; of a file without a byte, too.
  bool WouldBeSmall(std::uint64_t to_bytes, std::uint64_t most_bytes) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // The first byte in memory that has no block to go to.
  std::optional<std::uint64_t> FirstWithoutBlock() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // The file could not be made again in a new epoch.
  void ReplayFailed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // What it takes to know the size, or exclusively to raise it.
  TokenSpan EndSpan() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    return {.first = FileBlock(attr.size_bytes() / block_bytes)};
  }
  // What it takes to read or write [from, to); beyond what the size is at least, the end as well.
  // Pages of the kernel's cache take the whole file, so that none is dirty where a request for
  // another one has to wait: its recall may then be answered before all pages are dropped.
  TokenSpan SpanOf(std::uint64_t from_bytes, std::uint64_t to_bytes, bool page_cache = false) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (page_cache) return kWholeFile;
    const std::uint64_t size_bytes = attr.size_bytes();
    if (to_bytes > size_bytes) {
      return {.first = FileBlock(std::min(from_bytes, size_bytes) / block_bytes)};
    }
    return {.first = FileBlock(from_bytes / block_bytes),
            .end = FileBlock(DivideUp(to_bytes, block_bytes))};
  }
  // True when it continues a stream.
  bool NoteUse(std::uint64_t from_bytes, std::uint64_t to_bytes, std::uint64_t now_ms)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    last_used = {FileBlock(from_bytes / block_bytes), FileBlock(DivideUp(to_bytes, block_bytes))};
    return pace.Note(from_bytes, to_bytes, now_ms);
  }
  // Whether a commit has to come before the token of the span is lowered.
  bool DirtyIn(const TokenSpan& span) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // The token of the span comes down to `mode`.
  void LowerToken(const TokenSpan& span, v1::TokenMode mode) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // What was read ahead is not what the file will be.
  void ForgetAhead() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    read_ahead_chunks.NoteChange();
    frame_chunks.Clear();
  }
  // What the LUNs hold may be something else now.
  void ForgetContents() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

  // Attributes that came with no grant: of a token's holder they change neither size nor mtime.
  void TakeAttr(const v1::Attr& from) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // As TakeAttr, unless they are older than what is known.
  void Learn(const v1::Attr& from) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // The controller's, where it has refused delayed attributes. What is dirty here, or was set
  // since, still shows.
  void ShowAgain(const v1::Attr& from) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void OverlayOn(v1::Attr& attributes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Whatever the controller says next is newer than what is known.
  void DistrustAttr() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) { attr.set_change(0); }

  // What the controller has done on this host's behalf, which holds the file alone: its attributes
  // from then on. The size is another one; …
  void TakeResized(const v1::Attr& now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // … these blocks may lie elsewhere, be unwritten, or be gone, also where it failed (null) after
  // some of its steps; …
  void TakeReallocated(const v1::Attr* now, const BlockSpan& blocks)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // … times were set.
  void TakeTimes(const v1::Attr& now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // The file has lost its last name, and nothing here uses it. `removed` are its attributes from
  // then on, for who still holds those from before; what only its data told is added to them.
  void TakeRemoved(v1::Attr& removed) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

  // What a finished write of [offset, end) changes. `extents` are those that it used.
  struct Written {
    std::uint64_t offset_bytes = 0;
    std::uint64_t end_bytes = 0;
    WallTime time;
    bool by_root = true;
    bool in_group = true;  // the writer is in the file's group
  };
  // True: the file's set-id bits went with it.
  bool NoteWritten(const Written& write, std::span<const Extent> used, const LunMarks& marks)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // The two halves of that, where the bytes are only in memory at first: what everybody sees at
  // once, …
  bool NoteChange(const Written& write, std::span<const Extent> used)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // … and that the bytes are on the LUNs.
  void NoteOnLuns(const ByteRange& range, std::span<const Extent> used, const LunMarks& marks)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // The tail of the block that the file ended in was cleared for good, up to `to_bytes`, before a
  // write over it.
  void NoteTailCleared(std::uint64_t to_bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (attr.size_bytes() <= to_bytes) zeros_to_bytes = to_bytes;
  }
  // These blocks were written, and no flush of the LUNs has come to stand behind that: what is
  // left of them there may be anybody's old bytes. REQUIRES: no commit that runs tells of them.
  void LoseWritten(const BlockSet& blocks) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // As that, of all that no commit has taken yet.
  void LoseDirty() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // What was acknowledged is lost.
  void NoteLoss(const absl::Status& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Attributes that were set, and said to be, are not.
  void NoteRefused(const absl::Status& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // A page that was changed under a lost session is not written any more: what its write is told.
  absl::Status LosePage() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

  // A read at `now`; true when the controller is to be told of it.
  bool NoteRead(AtimePolicy policy, const v1::Time& now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // It has been told (or will not be).
  void AccessSent(const v1::Time& time) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

  // Which is lost where the controller still has what was there before: it is asked again.
  void AskAgainIfSmall() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

  // Nothing is granted any more, nor to be told.
  void Reset() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // The session is lost, and with it all that was granted or not yet committed.
  void Void() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
};

using FileRef = std::shared_ptr<FileState>;

}  // namespace reel::client
