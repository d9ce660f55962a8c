// The data path of a mounted volume: bytes of files, straight to and from the LUNs.
//
// Keeps, per inode in use, the token held, the known extents, and what was written but not yet told
// to the controller (written blocks, size, times). Invariants:
//   1. Data I/O happens only under a token of the right mode and a lease that holds (checked before
//      submission, and after a read before its bytes are handed on).
//   2. A large write that was acknowledged lies in the LUNs, a small one in memory until it is
//      flushed; its metadata is *dirty* until committed: by Fsync, by a recall, by age (about a
//      second), by pressure, at unmount. Before a commit the LUNs written to are flushed, so that
//      no block is called written whose bytes could still be lost.
//   3. On recall: no new direct I/O, kernel pages invalidated (from a thread that holds no lock),
//   I/O in
//      flight awaited, dirty metadata committed, then LayoutReturn. Requests of the page cache
//      (`page_cache`) go on under the old token meanwhile.
//   4. While the exclusive token is held this object, not the controller, knows size and mtime.
//   5. Blocks beyond the end of file may hold old bytes: whoever raises the size zeroes from the
//   old end
//      to the end of its block (or the new data) first. Unwritten blocks are written whole,
//      zero-filled.
// Errors are errno statuses. Threads: all public methods may be called concurrently.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "client/atime_policy.h"
#include "client/byte_range.h"
#include "client/session.h"
#include "client/stream_pace.h"
#include "proto/mdc.pb.h"
#include "volume/lun_scan.h"
#include "volume/types.h"

namespace reel::client {

struct FileDataOptions {
  AtimePolicy atime = AtimePolicy::kRelative;
  std::uint32_t commit_age_ms = 1000;             // dirty metadata is committed when older, …
  static constexpr std::uint32_t kIdlePart = 10;  // … in that part of it where nobody writes on
  std::uint32_t max_idle_tokens = 65'536;  // beyond it the least recently used ones are returned
  // Of which lost writes are remembered until somebody is told: of the last ones used.
  std::uint32_t max_untold_files = 65'536;
  // Known of all files together, about: 200 MB. Beyond it those of the files that were unused the
  // longest are forgotten, and asked for again when they are needed.
  std::size_t max_extents = 2'000'000;
  // How long a request waits for a LUN whose path is lost, before it ends with ETIMEDOUT. 0: for
  // ever.
  std::uint32_t soft_timeout_ms = 0;
  std::uint32_t stop_timeout_ms = 10'000;
  std::uint64_t max_read_ahead_bytes = 256 * kMiB;  // of all files together; 0: nothing is
  bool always_read_ahead = false;                   // also where the LUNs are fast
  std::uint64_t read_chunk_bytes = 1 * kMiB;        // at once; at most that, a power of two
  // What a file is read or written of in a row before that counts as a stream, and how far ahead of
  // any stream the controller is asked for blocks and extents.
  std::uint64_t stream_bytes = StreamPace::kStreamBytes;
  std::uint64_t least_ahead_bytes = 8 * kMiB;
  // Small writes stay in memory for a while, of all files together about that much; 0: none does.
  std::uint64_t max_write_behind_bytes = 64 * kMiB;
  std::uint64_t max_behind_write_bytes = 512 * kKiB;   // larger ones go straight to the LUNs, …
  double behind_ms_per_mib = 4;                        // … unless those take longer for a stream
  std::uint64_t write_behind_window_bytes = 1 * kMiB;  // flushed together; a power of two
  std::uint32_t write_behind_age_ms = 2000;            // and at the latest when that old, about;
                                                       // sooner where nobody writes on, as above
  bool flush_on_close = false;                         // close(2) is an fsync(2), too
};

// The supplementary groups of the process that asks: dear to find out, and seldom needed.
class CallerGroups {
 public:
  virtual ~CallerGroups() = default;
  virtual std::vector<std::uint32_t> Get() const = 0;
};

class FileData : public SessionEvents {
 public:
  // Drops the kernel's pages of the inode in that range, after it has written back those that were
  // changed, and its attributes; with an empty range its attributes alone. Called from a thread of
  // this object's own that holds no lock.
  using InvalidatePages = std::function<void(std::uint64_t inode, const ByteRange& range)>;
  // `forget_attributes(inode)` makes the kernel ask for the attributes again; called by a Write of
  // that inode, before it returns.
  static std::unique_ptr<FileData> Create(
      const FileDataOptions& options, const Clock& clock, InvalidatePages invalidate_pages,
      std::function<void(std::uint64_t inode)> forget_attributes = nullptr);
  // Once, after Session::Connect and the opening of the LUNs; both outlive this object. Not OK:
  // this host could not be registered on a LUN, which the message names.
  virtual absl::Status Start(Session& session, OpenVolume& volume) = 0;
  // What may change while it runs: as the options of these names.
  struct Changed {
    AtimePolicy atime = AtimePolicy::kRelative;
    std::uint32_t soft_timeout_ms = 0;
    bool flush_on_close = false;
    std::uint64_t max_read_ahead_bytes = 256 * kMiB;
    std::uint64_t max_write_behind_bytes = 64 * kMiB;
  };
  virtual void Change(const Changed& /*changed*/) {}

  // What streams had ahead of them: reads that came from what had been read ahead, and requests for
  // blocks or extents that were made before anybody needed them.
  struct AheadCounts {
    std::uint64_t reads = 0, layouts = 0;
  };
  virtual AheadCounts ahead() const { return {}; }

  struct IoContext {
    const v1::Credentials* credentials = nullptr;
    const Interrupt* interrupt = nullptr;
    const CallerGroups* groups = nullptr;
    bool read_ahead = false;  // a stream may be read ahead of
    bool page_cache = false;  // a request of the kernel's page cache, not of an application
    bool write_back = false;  // Write, with `page_cache`: a page that was changed some time ago
    bool append = false;      // O_APPEND: the offset given is ignored, the end of file counts
    bool sync = false;        // O_SYNC or O_DSYNC: durable before the return
    bool direct = false;      // O_DIRECT: straight to the LUNs
    bool data_only = false;   // with `sync`, Fsync: what it takes to read the data, as fdatasync(2)
    bool no_atime = false;    // O_NOATIME
    // The open file, known by a number that grows with each: it is told of lost writes once.
    std::uint64_t handle = 0;
    std::uint32_t access = 0;         // Open: R_OK, W_OK bits, for a controller that checks opens
    const v1::Attr* known = nullptr;  // Open: the attributes, where a token for them is held
  };

  // Reads up to buffer.size() bytes; fewer only at the end of file. `buffer` is aligned to
  // kIoAlignment and its capacity is a multiple of it (direct I/O goes straight into it where
  // alignment allows).
  virtual absl::StatusOr<std::size_t> Read(std::uint64_t inode, std::uint64_t offset_bytes,
                                           std::span<std::byte> buffer, const IoContext& io) = 0;
  // Writes all of it. The offset that was used is returned (it differs with `append`).
  virtual absl::StatusOr<std::uint64_t> Write(std::uint64_t inode, std::uint64_t offset_bytes,
                                              std::span<const std::byte> data,
                                              const IoContext& io) = 0;
  // Data flushed, metadata committed and durable. With `data_only`, bytes that lie where the file
  // had bytes already need no commit: their time of change is told later.
  virtual absl::Status Fsync(std::uint64_t inode, const IoContext& io) = 0;
  // One descriptor of an open file is closed: as Fsync with `flush_on_close`, else only what writes
  // before have already come to. Of that the next Fsync tells all the same.
  virtual absl::Status Flush(std::uint64_t inode, const IoContext& io) = 0;
  // What was written to any inode is durable (fsync(2) of a directory). An error: what was lost
  // meanwhile.
  virtual absl::Status SyncWritten(const IoContext& io) = 0;

  // SetAttr with SIZE, ATIME or MTIME goes through here, since this object may own them.
  virtual absl::StatusOr<v1::Attr> SetAttr(v1::SetAttr set, const IoContext& io) = 0;
  // Sets them here, to be told with the next commit, where that may be; `known`: what the
  // controller said last. Else nothing, and TellAhead has to go before whatever else is set: it
  // tells of these, and of set-id bits that a write took.
  virtual std::optional<v1::Attr> SetAhead(const v1::SetAttr& /*set*/, const v1::Attr& /*known*/) {
    return std::nullopt;
  }
  virtual absl::Status TellAhead(std::uint64_t /*inode*/, const IoContext& /*io*/) {
    return absl::OkStatus();
  }
  virtual absl::Status Allocate(std::uint64_t inode, std::uint32_t mode, std::uint64_t offset_bytes,
                                std::uint64_t length_bytes, const IoContext& io) = 0;
  // lseek(2) with SEEK_DATA or SEEK_HOLE; ENXIO beyond the end.
  virtual absl::StatusOr<std::uint64_t> Seek(std::uint64_t inode, std::uint64_t offset_bytes,
                                             bool data, const IoContext& io) = 0;

  // Puts the size and times that this object owns into attributes from the controller, and learns
  // from them what it does not own.
  virtual void Overlay(v1::Attr& attr) const = 0;
  // Whether bytes were written here of which the controller does not know yet.
  virtual bool WroteUntold(std::uint64_t inode) const = 0;

  // A directory or symbolic link, of which `attr` is known (but for the number: perhaps nothing),
  // has been read.
  virtual void NoteAccess(const v1::Attr& attr, AtimePolicy policy) = 0;

  // Opens: counted here, and registered with the controller (so an unlinked file lives on) at the
  // latest before the token goes back that keeps the inode without.
  virtual absl::StatusOr<v1::Attr> Open(std::uint64_t inode, bool write, const IoContext& io) = 0;
  // Whether it is open here, by Open or Created.
  virtual bool IsOpen(std::uint64_t /*inode*/) const { return false; }
  // opendir(2): as Open, but the controller is told only by RegisterOpens: at once, or before its
  // attribute token goes back, which keeps a directory as well. One that is removed meanwhile then
  // still has attributes. Close ends it.
  virtual void OpenDirectory(std::uint64_t inode) = 0;
  // Tells the controller of an inode's opens where no data token keeps it and it does not know.
  // `done` runs when it does: at once, or on the receiving thread.
  virtual void RegisterOpens(std::uint64_t inode, std::function<void()> done) = 0;
  // How many bytes a new file is likely to get at once, judging by the last one: for
  // Create.allocate_bytes.
  virtual std::uint64_t ExpectedBytes() const = 0;
  // The answer to a Create with open = true, which has registered the open already, and the number
  // under which it was told (0: it is durable); from on_reply, or before anybody else can know the
  // file, so that a recall finds the token installed.
  virtual void Created(const v1::EntryReply& entry, std::uint64_t handle, std::uint64_t told) = 0;
  virtual void Close(std::uint64_t inode) = 0;
  // Sends the removal of a file's last name (`send` returns 0 where that cannot be sent): where
  // nothing here uses the file it lets go of it, and what is known of its data is forgotten.
  // `removed` are its attributes from then on; what only its data told is added to them.
  virtual std::uint64_t RemoveLast(v1::Attr& /*removed*/,
                                   absl::FunctionRef<std::uint64_t(bool lets_go)> send) {
    return send(false);
  }

  // Commits what is dirty (for `stop_timeout_ms` at most, if no controller answers) and ends the
  // threads. Not OK: what was written is lost, and nobody was told. The tokens go with the
  // session's Goodbye: Session::Shutdown follows, then this object's destruction. The registrations
  // on the LUNs are taken away.
  virtual absl::Status Stop() = 0;
};

}  // namespace reel::client
