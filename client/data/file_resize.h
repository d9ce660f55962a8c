// Operations on a file's shape: truncate, times, fallocate, and where its data lie.
//
// Those that change it hold the file exclusively from before the dirty metadata is committed until
// the controller has answered, also when the caller was interrupted meanwhile. Threads: all methods
// may be called concurrently.
#pragma once

#include "client/data/file_io.h"
#include "client/tokens/committer.h"
#include "client/tokens/file_access.h"

namespace reel::client {

class FileResize {
 public:
  FileResize(DataContext& context, FileAccess& access, FileIo& file_io, Committer& committer)
      : context_(context), access_(access), file_io_(file_io), committer_(committer) {}

  absl::StatusOr<v1::Attr> SetAttr(const FileRef& file, v1::SetAttr set, const IoContext& io);
  std::optional<v1::Attr> DelayAttributes(const v1::SetAttr& set, const v1::Attr& known);
  absl::Status SendDelayed(std::uint64_t inode, const IoContext& io);
  absl::Status Allocate(const FileRef& file, v1::Allocate whole, const IoContext& io);
  absl::StatusOr<std::uint64_t> Seek(const FileRef& file, std::uint64_t offset_bytes, bool data,
                                     const IoContext& io);

 private:
  // A range of a file's bytes; empty when from >= to.
  struct Bytes {
    std::uint64_t from = 0;
    std::uint64_t to = 0;
  };
  // Parts of blocks to zero before the controller is asked. Computed from the size, under the lock.
  using EdgesOf = absl::FunctionRef<std::vector<Bytes>(std::uint64_t size_bytes)>;
  // Runs under the file's lock when the controller has done it, or (null) has failed: then it may
  // have done some of its steps.
  using Apply = std::function<void(FileState& file, const v1::Attr* attr)>;

  absl::StatusOr<v1::Attr> Reshape(const FileRef& file, v1::Request request, EdgesOf edges_of,
                                   Apply apply, const IoContext& io);
  // The extents of each edge; the first byte that is unknown, if any.
  static std::optional<std::uint64_t> CoverEdges(const FileState& file,
                                                 const std::vector<Bytes>& edges,
                                                 std::vector<ExtentList>& extents)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(file.mutex);
  absl::Status CleanSize(const FileRef& file, const Interrupt* interrupt);
  absl::Status ZeroEdges(const FileRef& file, const std::vector<Bytes>& edges,
                         const std::vector<ExtentList>& extents, const IoPermit& permit);
  absl::Status AllocatePart(const FileRef& file, v1::Allocate allocate, const IoContext& io);
  absl::StatusOr<v1::Attr> SetTimes(const FileRef& file, v1::SetAttr set, const IoContext& io);
  // Under `session` alone, if that is not 0: when that has ended, EIO; it may have been done.
  absl::StatusOr<v1::Attr> CallHeld(const FileRef& file, std::uint64_t session, v1::Request request,
                                    Apply apply, const IoContext& io);

  DataContext& context_;
  FileAccess& access_;
  FileIo& file_io_;
  Committer& committer_;
};

}  // namespace reel::client
