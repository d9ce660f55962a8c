// All that this client knows of one inode's data, and who is using it right now.
//
// Plain state and its own rules; who waits for what is file_access's, who commits is committer's.
// Invariants:
//   1. Nothing below `token` is meaningful while it is empty, but `attr` as a hint. Extents are
//      known only of blocks that it covers; the size is exact while it covers all blocks from that
//      of the end of file on, else it is what the file has at least. Only who holds those blocks
//      exclusively raises it.
//   2. Blocks in `dirty` and `committing` hold data on the LUNs that the controller still calls
//      unwritten; `extents` calls them written. Where a flush of the LUNs fails, they are unwritten
//      again, and whatever is under way with them as written ones is done again (`lost_flushes`).
//   3. A LayoutGet begins only while nobody here uses the file alone, or has a grant still to use.
//   4. What is dirty in `memory` is on no LUN yet; its blocks are held exclusively, known, and no
//      holes. What is known and clean there is held exclusively, too.
//   5. `era` grows whenever the session that granted all this is lost: work begun in an earlier era
//      must not touch the state.
// Threads: everything under `mutex`, but the atomics.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "client/base/block_set.h"
#include "client/file/atime_policy.h"
#include "client/file/dirty_memory.h"
#include "client/file/kernel_pages.h"
#include "client/file/read_chunk.h"
#include "client/file/stream_pace.h"
#include "client/file/write_error.h"
#include "client/luns/lun_io.h"
#include "proto/mdc.pb.h"
#include "proto/token_ranges.h"
#include "volume/base/env.h"
#include "volume/base/mutex.h"
#include "volume/format/extent_map.h"

namespace reel::client {

// Blocks that a write uses: shared with other whole-block writers, or alone (part of a block).
struct BlockLock {
  std::uint64_t first = 0;
  std::uint64_t end = 0;
  bool alone = false;
  friend bool operator==(const BlockLock&, const BlockLock&) = default;
};
using BlockLocks = absl::InlinedVector<BlockLock, 4>;

// Metadata that the controller does not know yet.
struct DirtyData {
  BlockSet blocks;
  LunMarks unflushed;
  bool size = false;
  bool mtime = false;
  bool kill_set_id = false;
  bool kill_sgid = false;            // without group execution too; with kill_set_id only
  bool wrote = false;                // bytes: what a program was trusted with goes
  std::optional<v1::SetAttr> ahead;  // client/file/attributes_ahead.h
  bool any() const { return ahead || any_of_data(); }
  // Who reads the data needs none of it.
  bool only_time() const { return blocks.empty() && !size && !kill_set_id && !ahead; }
  bool any_of_data() const {
    return size || mtime || kill_set_id || wrote || !blocks.empty() || !unflushed.empty();
  }
};

struct FileState : std::enable_shared_from_this<FileState> {
  static constexpr std::uint64_t kFirstWindowBytes = 64 * kMiB;

  FileState(std::uint64_t inode_number, std::uint32_t volume_block_bytes,
            std::uint64_t stream_bytes = StreamPace::kStreamBytes)
      : inode(inode_number), block_bytes(volume_block_bytes), pace(stream_bytes) {}

  const std::uint64_t inode;
  const std::uint32_t block_bytes;
  std::atomic<std::uint32_t> last_use{0};
  std::atomic<std::uint64_t> written_ms{0};  // when the last write began

  mutable Mutex mutex;
  CondVar changed;  // any of the below

  // ---- what the controller granted
  TokenRanges token ABSL_GUARDED_BY(mutex);
  std::uint64_t session ABSL_GUARDED_BY(mutex) = 0;  // that it was granted to
  std::uint64_t era ABSL_GUARDED_BY(mutex) = 0;
  // The number under which the session was told that this file exists.
  std::uint64_t told ABSL_GUARDED_BY(mutex) = 0;
  v1::Attr attr ABSL_GUARDED_BY(mutex);
  ExtentMap extents ABSL_GUARDED_BY(mutex);
  std::uint64_t window_bytes ABSL_GUARDED_BY(mutex) = kFirstWindowBytes;  // see AdaptWindow
  bool fetching ABSL_GUARDED_BY(mutex) = false;        // a LayoutGet is under way
  bool tail_allocated ABSL_GUARDED_BY(mutex) = false;  // there may be blocks beyond the end
  std::uint32_t pins ABSL_GUARDED_BY(mutex) = 0;       // grants whose asker has not used them yet

  // ---- recall: direct requests wait from kDraining on, those of the page cache too from kClosed
  // on; a grant still gets its one use. From kReturning on nobody is at work, and no grant is taken
  // in.
  enum class Recall : std::uint8_t { kNone, kDraining, kClosed, kReturning };
  Recall recall ABSL_GUARDED_BY(mutex) = Recall::kNone;
  struct Recalled {
    TokenSpan span{};
    v1::TokenMode mode = v1::TOKEN_NONE;  // it comes down to
    // Both at once.
    void Add(const Recalled& other) {
      span = span.Hull(other.span);
      mode = std::min(mode, other.mode);
    }
    friend bool operator==(const Recalled&, const Recalled&) = default;
  };
  Recalled recalled ABSL_GUARDED_BY(mutex);                    // meaningless with kNone
  std::optional<Recalled> next_recall ABSL_GUARDED_BY(mutex);  // came while kReturning
  std::uint64_t recall_cycle ABSL_GUARDED_BY(mutex) = 0;
  // What the recall in progress will take. Direct requests that need nothing of it go on beside it:
  // a stream does not stand still because somebody reads what lies behind it.
  TokenSpan yielded ABSL_GUARDED_BY(mutex);
  std::uint32_t beside ABSL_GUARDED_BY(mutex) = 0;        // of shared_users, …
  std::uint64_t beside_round ABSL_GUARDED_BY(mutex) = 1;  // … those that got this number; not 0
  bool passed ABSL_GUARDED_BY(mutex) = false;             // somebody did
  // Begins it, or makes it larger: whoever is at work then is waited for.
  void BeginRecall(const Recalled& what) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Nobody whom it has to wait for is at work.
  bool drained() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    return shared_users == beside && !exclusive_user && pins == 0 && !commit_running;
  }
  // What a lost session leaves there stays in it until it is dropped.
  KernelPages kernel_pages ABSL_GUARDED_BY(mutex);
  // Page-cache requests that wait for the controller, with the kernel's pages locked, by the mode
  // in which they want the file.
  std::array<std::uint32_t, v1::TokenMode_ARRAYSIZE> page_fetches ABSL_GUARDED_BY(mutex) = {};
  // Those of them that had no token when they asked. What another request has brought since then
  // does not help them: they wait for their own answer.
  std::uint32_t page_token_fetches ABSL_GUARDED_BY(mutex) = 0;
  // Somebody has let a recall pass because of a lost path: until none is lost the token is not
  // asked for again.
  bool gave_way ABSL_GUARDED_BY(mutex) = false;
  // One of them wants more than is held: its answer may be behind that of a recall.
  bool PageWaitsForToken() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  TokenSpan last_used ABSL_GUARDED_BY(mutex);  // by the last read or write
  StreamPace pace ABSL_GUARDED_BY(mutex);      // of reads and writes
  // The most that a reading stream has had before it since it last asked for the token of more.
  std::uint64_t most_ahead_bytes ABSL_GUARDED_BY(mutex) = 0;

  // ---- who is at work
  std::uint32_t shared_users ABSL_GUARDED_BY(mutex) = 0;
  bool exclusive_user ABSL_GUARDED_BY(mutex) = false;
  std::uint32_t exclusive_waiters ABSL_GUARDED_BY(mutex) = 0;
  std::vector<BlockLock> locks ABSL_GUARDED_BY(mutex);
  // Of flushes that wait for their turn. Who comes later waits for them: a stream of writers that
  // share its blocks would else never let a flush in.
  std::vector<BlockLock> flush_waits ABSL_GUARDED_BY(mutex);
  bool idle() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    return shared_users == 0 && !exclusive_user && pins == 0 && !commit_running;
  }
  // Closed by all, and nothing of it is under way.
  bool unused() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    return opens == 0 && idle() && !fetching && recall == Recall::kNone;
  }

  // ---- read ahead
  std::deque<ReadChunkRef> read_chunks ABSL_GUARDED_BY(mutex);  // in order, without gaps
  std::size_t read_chunks_wanted ABSL_GUARDED_BY(mutex) = 0;    // grows while they are of use
  // Counts what makes bytes that were read before not those that would be read now.
  std::uint64_t data_changes ABSL_GUARDED_BY(mutex) = 0;

  // ---- dirty
  DirtyMemory memory ABSL_GUARDED_BY(mutex);
  DirtyData dirty ABSL_GUARDED_BY(mutex);
  // From the end of file to there, if that is not less, the LUNs hold zeros (or unwritten blocks),
  // whatever flush fails: the size may be raised so far without looking at what lies there.
  std::uint64_t zeros_to_bytes ABSL_GUARDED_BY(mutex) = 0;
  // The right to write is held, and nobody has a use for it: it would have to be recalled before
  // anybody else may so much as look at the file's size.
  bool done_writing() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    return token.Most() == v1::TOKEN_EXCLUSIVE && unused() && !dirty.any() && memory.empty() &&
           !tail_allocated;
  }
  BlockSet committing ABSL_GUARDED_BY(mutex);
  bool commit_running ABSL_GUARDED_BY(mutex) = false;
  std::uint64_t lost_flushes ABSL_GUARDED_BY(mutex) = 0;  // of written blocks: they no longer are
  bool committing_mtime ABSL_GUARDED_BY(mutex) = false;   // and what else is on its way
  bool committing_kill_set_id ABSL_GUARDED_BY(mutex) = false;
  bool committing_kill_sgid ABSL_GUARDED_BY(mutex) = false;
  bool committing_wrote ABSL_GUARDED_BY(mutex) = false;
  std::optional<v1::SetAttr> committing_ahead ABSL_GUARDED_BY(mutex);
  std::uint64_t set_ahead ABSL_GUARDED_BY(mutex) = 0;   // counts what was set ahead …
  std::uint64_t told_ahead ABSL_GUARDED_BY(mutex) = 0;  // … and up to where it is durable
  bool listed ABSL_GUARDED_BY(mutex) = false;           // with the committer
  std::uint64_t changes ABSL_GUARDED_BY(mutex) = 0;     // counts what was made dirty …
  std::uint64_t committed ABSL_GUARDED_BY(mutex) = 0;   // … and up to where it is durable
  WriteError write_error ABSL_GUARDED_BY(mutex);

  // ---- the last read, until the controller knows of it
  std::optional<v1::Time> accessed ABSL_GUARDED_BY(mutex);
  bool telling_access ABSL_GUARDED_BY(mutex) = false;
  std::uint32_t access_told_tick ABSL_GUARDED_BY(mutex) = 0;  // FileTable::tick, then

  // ---- opens
  std::uint32_t opens ABSL_GUARDED_BY(mutex) = 0;          // here
  std::uint64_t newest_handle ABSL_GUARDED_BY(mutex) = 0;  // of all who opened it so far
  // The controller knows; else a token alone keeps the inode.
  bool registered ABSL_GUARDED_BY(mutex) = false;
  // Some open here was for writing, since the last time that there was none: what the page cache
  // reads may be mapped and changed without asking, so it needs the exclusive token.
  bool opened_to_write ABSL_GUARDED_BY(mutex) = false;

  // Takes in a grant. EIO when it is malformed; nothing is changed then.
  absl::Status Install(const v1::LayoutReply& reply, std::uint64_t session_id)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // All that are not needed for what is in memory.
  void ForgetExtents() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // The file could not be made again in a new epoch.
  void NotMadeAgain() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // What to ask for, when [unknown, end) has to be known and nothing is known at `unknown`: more
  // than that, so that the next ones ask nothing.
  struct Window {
    std::uint64_t offset_bytes = 0;
    std::uint64_t length_bytes = 0;
  };
  Window WindowAround(std::uint64_t unknown_bytes, std::uint64_t end_bytes) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Learns from the answer how much an answer holds: `described_to_bytes` of what was asked for.
  void AdaptWindow(const Window& asked, std::uint64_t described_to_bytes, int extents)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

  // What it takes to know the size, or exclusively to raise it.
  TokenSpan EndSpan() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    return {.first = FileBlock(attr.size_bytes() / block_bytes)};
  }
  // What it takes to read or write [from, to); beyond what the size is at least, the end as well.
  // Pages of the kernel's cache take the whole file, so that none is dirty where a request for
  // another one has to wait: its recall may then be answered before all pages are dropped.
  TokenSpan SpanOf(std::uint64_t from_bytes, std::uint64_t to_bytes, bool page_cache = false) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // True when it continues a stream.
  bool NoteUse(std::uint64_t from_bytes, std::uint64_t to_bytes, std::uint64_t now_ms)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    last_used = {FileBlock(from_bytes / block_bytes), FileBlock(DivideUp(to_bytes, block_bytes))};
    return pace.Note(from_bytes, to_bytes, now_ms);
  }
  // The block up to which all from `first` on are held in that mode at least.
  FileBlock HeldTo(FileBlock first, v1::TokenMode mode) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // What the token's holder gives up when that is recalled: what lies away from its own place in
  // the file goes as a whole, so that not each step of the other one's recalls more.
  TokenSpan YieldFor(const TokenSpan& recalled_span) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Whether a commit has to come before the token of the span is lowered.
  bool DirtyIn(const TokenSpan& span) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // The token of the span comes down to `mode`.
  void LowerToken(const TokenSpan& span, v1::TokenMode mode) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // What the LUNs hold may be something else now.
  void ForgetContents() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

  // Attributes that came with no grant: of a token's holder they change neither size nor mtime.
  void TakeAttr(const v1::Attr& from) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // As TakeAttr, unless they are older than what is known.
  void Learn(const v1::Attr& from) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // The controller's, where it has refused what was set ahead. What is dirty here, or was set
  // since, still shows.
  void ShowAgain(const v1::Attr& from) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void OverlayOn(v1::Attr& attributes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // What is set here and not told.
  void OverlayAhead(v1::Attr& attributes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

  // The extents that cover [offset, offset + length), appended to `list`; the first byte that is
  // unknown, if any. REQUIRES: length > 0.
  std::optional<std::uint64_t> Cover(std::uint64_t offset_bytes, std::uint64_t length_bytes,
                                     ExtentList& list) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

  bool Conflicts(const BlockLocks& wanted) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Nor with a flush that waits.
  bool ConflictsWithFlush(const BlockLocks& wanted) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void Lock(const BlockLocks& wanted) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void Unlock(const BlockLocks& held) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

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
  // These blocks were written, and no flush of the LUNs has come to stand behind that: what is
  // left of them there may be anybody's old bytes. REQUIRES: no commit of them runs.
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
  void AccessTold(const v1::Time& time) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

  // Nothing is granted any more, nor to be told.
  void Reset() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // The session is lost, and with it all that was granted or not yet committed.
  void Void() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
};

using FileRef = std::shared_ptr<FileState>;

}  // namespace reel::client
