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
#include "client/base/byte_range.h"
#include "client/file/file_data_options.h"
#include "client/file/io_context.h"
#include "client/inode/atime_policy.h"
#include "client/luns/lun_paths.h"
#include "client/session/session.h"
#include "proto/names.pb.h"
#include "volume/base/types.h"
#include "volume/format/lun_scan.h"

namespace reel::client {

class FileData : public SessionEvents {
 public:
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
    std::uint64_t max_frame_bytes = 256 * kMiB;
    std::uint64_t max_write_behind_bytes = 64 * kMiB;
  };
  virtual void Change(const Changed& /*changed*/) {}

  // What streams had ahead of them: reads that came from what had been read ahead, and requests for
  // blocks or extents that were made before anybody needed them. Of sequences: frames whose token
  // and layout came ahead, and reads from their bytes (and from those of files). Of directories:
  // files.
  struct PrefetchCounts {
    std::uint64_t reads = 0, layouts = 0, frames = 0, frame_reads = 0, files = 0;
    std::uint64_t frame_bytes = 0;  // in memory now
  };
  virtual PrefetchCounts prefetch_counts() const { return {}; }

  // The memory that bytes take, and what is known of files.
  struct Load {
    struct Memory {
      std::uint64_t used_bytes = 0, limit_bytes = 0;
    };
    Memory write_behind, read_ahead, sequence_ahead;
    std::size_t files = 0;
    std::vector<LunPaths::LunTimes> luns;  // with FileDataOptions::notes_times
  };
  virtual Load load() const { return {}; }

  // ---- what is opened next: frames of a sequence (client/ahead/sequence_ahead.h), or files of a
  // directory (client/ahead/open_ahead.h); none of these waits ----
  // How much memory the bytes may take together; 0: no frame is to be fetched.
  virtual std::uint64_t max_frame_bytes() const { return 0; }
  // Sends a Lookup that is `ahead`, and takes in the token that it brings; begins to read the first
  // `bytes` of the file then. `done` runs once, on the receiving thread or this one, with what the
  // name leads to: EAGAIN where another host would have to give something back for it.
  virtual void LookAhead(v1::Request lookup, std::uint64_t bytes,
                         std::function<void(const absl::StatusOr<v1::Attr>&)> done);
  // The same of a ReadDir with `layouts`: takes in the tokens that it brings, and begins to read
  // the files of at most `most_bytes`, where their bytes have not come along. `done` gets the
  // reply, or ESTALE, EAGAIN: it was not sent; and the inodes whose tokens are held by now.
  using Listed = std::function<void(const absl::StatusOr<v1::Reply>&, std::vector<std::uint64_t>)>;
  virtual void ListAhead(v1::Request read_dir, std::uint64_t most_bytes, Listed done);
  // Whether a token of all of it is held, so that whoever opens it need not ask.
  virtual bool Holds(std::uint64_t /*inode*/) const { return false; }
  // Begins to read that much of a file whose token is held; false: it is not.
  virtual bool FetchAhead(std::uint64_t /*inode*/, std::uint64_t /*bytes*/) { return false; }
  // Nobody will come for what was read of it, unless somebody has it open.
  virtual void DropAhead(std::uint64_t /*inode*/) {}
  // How far it was read, at most, since nobody had it open.
  virtual std::uint64_t ReadTo(std::uint64_t /*inode*/) const { return 0; }

  // Reads up to buffer.size() bytes; fewer only at the end of file. `buffer` is aligned to
  // kIoAlignment and its capacity is a multiple of it (direct I/O goes straight into it where
  // alignment allows).
  virtual absl::StatusOr<std::size_t> Read(std::uint64_t inode, std::uint64_t offset_bytes,
                                           std::span<std::byte> buffer, const IoContext& io) = 0;
  // Writes all of it, or the front that there is space for (write(2)). Returned is where it went:
  // elsewhere than asked with `append`. ENOSPC, EDQUOT: nothing was written.
  virtual absl::StatusOr<ByteRange> Write(std::uint64_t inode, std::uint64_t offset_bytes,
                                          std::span<const std::byte> data, const IoContext& io) = 0;
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
  // controller said last. Else nothing, and SendDelayed has to go before whatever else is set: it
  // tells of these, and of set-id bits that a write took.
  virtual std::optional<v1::Attr> DelayAttributes(const v1::SetAttr& /*set*/,
                                                  const v1::Attr& /*known*/) {
    return std::nullopt;
  }
  virtual absl::Status SendDelayed(std::uint64_t /*inode*/, const IoContext& /*io*/) {
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
  virtual bool HasUncommittedWrites(std::uint64_t inode) const = 0;

  // A directory or symbolic link, of which `attr` is known (but for the number: perhaps nothing),
  // has been read.
  virtual void NoteAccess(const v1::Attr& attr, AtimePolicy policy) = 0;

  // Opens: counted here, and registered with the controller (so an unlinked file lives on) at the
  // latest before the token goes back that keeps the inode without.
  virtual absl::StatusOr<v1::Attr> Open(std::uint64_t inode, bool write, const IoContext& io) = 0;
  // Whether every page that the kernel has of it is good, and stays so until it is told to drop it:
  // a program that opens the file to read may have them (FOPEN_KEEP_CACHE).
  virtual bool PagesAreGood(std::uint64_t /*inode*/) const { return false; }
  // Whether programs here read it in small pieces (ReadSizes), past the kernel's pages.
  virtual bool IsReadInPieces(std::uint64_t /*inode*/) const { return false; }
  // Whether nothing that is under way here changes its attributes: they stay as they are until
  // somebody sets them, or opens it to write.
  virtual bool IsSettled(std::uint64_t /*inode*/) const { return false; }
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
  virtual void Created(const v1::EntryReply& entry, std::uint64_t handle,
                       std::uint64_t early_number) = 0;
  virtual void Close(std::uint64_t inode) = 0;
  // Sends the removal of a file's last name (`send` returns 0 where that cannot be sent): where
  // nothing here uses the file it lets go of it, and what is known of its data is forgotten; but
  // what the controller was not told yet only where no other session has it open (`only_here`).
  // `removed` are its attributes from then on; what only its data told is added to them.
  virtual std::uint64_t RemoveLast(v1::Attr& /*removed*/, bool /*only_here*/,
                                   absl::FunctionRef<std::uint64_t(bool lets_go)> send) {
    return send(false);
  }
  // Sends a change of the file's name, but where something that was said of the file before it may
  // have an answer after it: 0 then, as where `send` cannot.
  virtual std::uint64_t Move(std::uint64_t /*inode*/, absl::FunctionRef<std::uint64_t()> send) {
    return send();
  }

  // Commits what is dirty (for `stop_timeout_ms` at most, if no controller answers) and ends the
  // threads. Not OK: what was written is lost, and nobody was told. The tokens go with the
  // session's Goodbye: Session::Shutdown follows, then this object's destruction. The registrations
  // on the LUNs are taken away.
  virtual absl::Status Stop() = 0;
};

}  // namespace reel::client
