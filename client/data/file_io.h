// Read and write of file bytes under tokens.
//
// Small writes go to memory (client/buffers/write_behind.h), all others to the LUNs before they
// return. Reads, and writes of whole blocks, of one file run side by side; a write that shares a
// block with another one, raises the size over a partly used block, or appends, keeps to itself
// what it must. Threads: all methods may be called concurrently.
#pragma once

#include "client/buffers/frame_ahead.h"
#include "client/buffers/read_ahead.h"
#include "client/buffers/write_behind.h"
#include "client/tokens/committer.h"
#include "client/tokens/file_access.h"

namespace reel::client {

class FileIo {
 public:
  FileIo(DataContext& context, FileAccess& access, WriteBehind& write_behind, Committer& committer)
      : context_(context),
        access_(access),
        write_behind_(write_behind),
        committer_(committer),
        read_ahead_(context),
        frame_ahead_(context) {}
  void Stop() {
    read_ahead_.Stop();
    frame_ahead_.Stop();
  }
  FrameAhead& frame_ahead() { return frame_ahead_; }

  absl::StatusOr<std::size_t> Read(const FileRef& file, std::uint64_t offset_bytes,
                                   std::span<std::byte> buffer, const IoContext& io);
  absl::StatusOr<ByteRange> Write(const FileRef& file, std::uint64_t offset_bytes,
                                  std::span<const std::byte> data, const IoContext& io);

  // Zeros over [from, to) where it is written. REQUIRES: the file is held exclusively, or the
  // blocks locked; `extents` cover the range.
  absl::Status Zero(std::span<const Extent> extents, std::uint64_t from_bytes,
                    std::uint64_t to_bytes, LunMarks& marks, const IoPermit& permit);
  // Flushes, but does not outlast the session: then IsPermitOver.
  absl::Status FlushMarks(const LunMarks& marks, const IoPermit& permit);

 private:
  struct WriteAccess;
  Finding LookForWrite(FileState& file, WriteAccess& write)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(file.mutex);
  // How large the file may be with the write to be taken by the controller.
  std::uint64_t SmallLimit(const FileState& file, std::uint64_t end_bytes) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(file.mutex);
  // Of a write that is `small` enough to stay in memory for now. Whether it may wait there for its
  // way to the LUNs, …
  static bool MayStayBehind(const FileState& file, bool small)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(file.mutex);
  // … or for one to the controller, with all of the file. MayNeedNoBlocks: as far as the write
  // itself says.
  bool MayNeedNoBlocks(const FileState& file, bool small, std::uint64_t end_bytes) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(file.mutex);
  bool StaysSmall(const FileState& file, bool small, const ByteRange& write) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(file.mutex);
  // What has to come first, before bytes of a small file may lie in blocks, for that write;
  // nothing: it is there. `refused`: there is no space.
  static std::optional<Finding> LookForBlocks(const FileState& file, const ByteRange& write,
                                              const std::optional<absl::Status>& refused)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(file.mutex);
  static std::optional<Finding> LookToUnpack(const FileState& file,
                                             const std::optional<absl::Status>& refused)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(file.mutex);
  static bool IsInGroup(std::uint32_t mode, std::uint32_t gid, const IoContext& io);
  absl::Status Prepare(const FileRef& file, const WriteAccess& write, const IoContext& io);
  absl::Status EnterWrite(const FileRef& file, WriteAccess& write, const IoContext& io);
  static bool GoesOnWithLess(WriteAccess& write, const absl::Status& refused);
  void PutBehind(FileState& file, WriteAccess& write, const IoContext& io)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(file.mutex);
  absl::Status ClearTail(const WriteAccess& write);

  DataContext& context_;
  FileAccess& access_;
  WriteBehind& write_behind_;
  Committer& committer_;
  ReadAhead read_ahead_;
  FrameAhead frame_ahead_;
};

}  // namespace reel::client
