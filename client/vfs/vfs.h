// The semantics of the mounted file system, without FUSE: each call becomes requests to the
// metadata controller (Session) or operations on file data (FileData).
//
// Invariants:
//   1. Attributes leave here overlaid: FileData may know size and times better than the controller.
//   2. Names and attributes come from NameCache where it knows them and the lease holds; else the
//   controller is asked: each call sees what any host did before it.
//   3. What the controller sent is checked where a consequence could reach memory or the kernel's
//   tree:
//      names, and that a reply is of the kind asked for (EIO otherwise).
//   4. What a change of this client's own may touch is asked for until it is answered.
//   5. What this client took the last name from has attributes until the kernel forgets it.
// Permissions are checked by the kernel before a call arrives. Errors are errno statuses.
// Threads: all methods may be called concurrently; they wait for the controller and the LUNs.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/ahead/listing_prefetch.h"
#include "client/ahead/looked_up_files.h"
#include "client/ahead/open_ahead.h"
#include "client/ahead/sequence_ahead.h"
#include "client/base/attributes.h"
#include "client/data/file_data.h"
#include "client/names/kernel_names.h"
#include "client/names/name_cache.h"
#include "client/session/session.h"
#include "client/vfs/dir_handle.h"
#include "client/vfs/removed_inodes.h"
#include "proto/mdc.pb.h"
#include "volume/base/mutex.h"

namespace reel::client {

// On whose behalf a call runs.
struct Caller {
  v1::Credentials credentials;  // without supplementary groups
  const CallerGroups* groups = nullptr;
  std::uint32_t umask = 0;
  std::uint64_t handle = 0;  // the open file that is used, or made
  const Interrupt* interrupt = nullptr;

  void AddGroups();  // to the credentials
};

struct NameIn {
  std::uint64_t parent = 0;
  std::string_view name;
};

struct VfsOptions {
  // The kernel shall take nothing for valid that it knows of the inode; called by whoever changes
  // it.
  std::function<void(std::uint64_t inode)> forget_attributes = [](std::uint64_t) {};
  KernelNames* kernel_names = nullptr;  // null: the kernel keeps no names
  bool durable_metadata = false;        // when a call that changes names or attributes returns
  std::uint32_t listing_bytes = kReadDirBytes;  // of a page of a listing, about
  const Clock* clock = &SystemClock();          // of when frames of sequences are opened
};

// How a write has to do with the kernel's page cache: it went past it, or through it just now, or a
// page that was changed some time ago comes back.
enum class PageCacheWrite : std::uint8_t { kNone, kThrough, kBack };

class Vfs {
 public:
  // All outlive this object.
  Vfs(Session& session, FileData& data, NameCache& names, const VfsOptions& options)
      : session_(session),
        data_(data),
        names_(names),
        options_(options),
        listing_prefetch_(session, names, options.listing_bytes),
        sequence_ahead_(session, data, names, looked_up_, *options.clock),
        open_ahead_(session, data, looked_up_, *options.clock) {}

  // ---- names ----
  absl::StatusOr<Attributes> Lookup(const NameIn& at, const Caller& caller);
  // For how many nanoseconds the kernel may keep what Lookup just said: that a name leads to this
  // inode, or to none (0). 0: not at all.
  std::uint64_t ShowName(const NameIn& at, std::uint64_t inode);
  // mknod, mkdir: by the type in `mode`, to which umask or a default ACL are still to be applied.
  absl::StatusOr<v1::Attr> Make(const NameIn& at, std::uint32_t mode, std::uint64_t rdev,
                                const Caller& caller);
  absl::StatusOr<v1::Attr> Symlink(const NameIn& at, std::string_view target, const Caller& caller);
  absl::StatusOr<v1::Attr> Link(std::uint64_t inode, const NameIn& to, const Caller& caller);
  absl::Status Unlink(const NameIn& at, bool directory, const Caller& caller);
  // EINVAL for flags other than RENAME_NOREPLACE, RENAME_EXCHANGE and RENAME_WHITEOUT.
  absl::Status Rename(const NameIn& from, const NameIn& to, std::uint32_t flags,
                      const Caller& caller);
  absl::StatusOr<std::string> ReadLink(std::uint64_t inode, const Caller& caller);

  // ---- inodes ----
  // The kernel has no reference to it any more.
  void Forget(std::uint64_t inode) { removed_.Forget(inode); }
  // Before the mount: asks for the root's attributes and StatFs once. UNAVAILABLE when the
  // controller has gone away.
  absl::Status LookAtRoot();
  // Whether the reading of files, and of directories, is noted from now on, in the way that the
  // options say.
  void NoteReads(bool files, bool directories, AtimePolicy how) {
    noted_atime_.store(how);
    notes_files_.store(files);
    notes_directories_.store(directories);
  }
  // The root's attributes, and StatFs of it, are answered from the last ones while no controller is
  // there: umount(8) asks for both, and has to work then.
  absl::StatusOr<Attributes> GetAttr(std::uint64_t inode, const Caller& caller);
  // For how many nanoseconds the kernel may take these attributes, which came from here just now,
  // for valid: 0, a moment (for the system call that asked), or as long as it keeps names: those of
  // a directory only where it knows the inode (it has asked for its attributes).
  std::uint64_t ShowAttr(const Attributes& attr, bool knows_inode);
  absl::StatusOr<v1::Attr> SetAttr(v1::SetAttr set, const Caller& caller);
  // What files that are made in that directory may use of the volume.
  absl::StatusOr<v1::StatFsReply> StatFs(std::uint64_t inode, const Caller& caller);
  absl::StatusOr<std::string> GetXattr(std::uint64_t inode, std::string_view name,
                                       const Caller& caller);
  absl::Status SetXattr(v1::SetXattr set, const Caller& caller);
  absl::StatusOr<std::string> ListXattr(std::uint64_t inode, const Caller& caller);
  absl::Status RemoveXattr(std::uint64_t inode, std::string_view name, const Caller& caller);

  // ---- directories ----
  // How the kernel may keep its listing by this open: by one at a time.
  NameCache::Listing OpenDirectory(std::uint64_t inode);
  // The end of that: `listing` is what it returned.
  void CloseDirectory(std::uint64_t inode, const NameCache::Listing& listing);
  // The entry behind `cookie` in the stream, or null at the end. It stays valid until the next call
  // with this handle. Entries come from the handle's last reply where that holds them; cookie 0
  // always asks anew.
  absl::StatusOr<const v1::ReadDirReply::Entry*> NextEntry(DirHandle& handle, std::uint64_t cookie,
                                                           const Caller& caller);

  // ---- files ----
  absl::StatusOr<v1::Attr> Open(std::uint64_t inode, int flags, const Caller& caller);
  // open(O_CREAT) of a name that the kernel believes absent. ESTALE, without O_EXCL, when it is
  // there by now: the kernel then looks it up, checks permissions, and opens it.
  absl::StatusOr<v1::Attr> Create(const NameIn& at, std::uint32_t mode, int flags,
                                  const Caller& caller);
  // open(O_TMPFILE) in a directory.
  absl::StatusOr<v1::Attr> CreateUnnamed(std::uint64_t parent, std::uint32_t mode, int flags,
                                         const Caller& caller);
  // Of files and directories.
  void Close(std::uint64_t inode);
  // As FileData's.
  bool PagesAreGood(std::uint64_t inode) const { return data_.PagesAreGood(inode); }
  bool IsReadInPieces(std::uint64_t inode) const { return data_.IsReadInPieces(inode); }
  // Whether what was opened to read just now may be a frame of a sequence that is being played.
  bool MayBePlayed(std::uint64_t inode) const { return sequence_ahead_.MayBePlayed(inode); }
  // `flags` are the file's open flags; `page_cache` as in IoContext.
  absl::StatusOr<std::size_t> Read(std::uint64_t inode, std::uint64_t offset_bytes,
                                   std::span<std::byte> buffer, int flags, bool page_cache,
                                   const Caller& caller);
  // The bytes that were written: fewer where there is no space for more.
  absl::StatusOr<std::size_t> Write(std::uint64_t inode, std::uint64_t offset_bytes,
                                    std::span<const std::byte> data, int flags,
                                    PageCacheWrite pages, const Caller& caller);
  absl::Status Fsync(std::uint64_t inode, bool data_only, const Caller& caller);
  // fsync(2) of an open directory: all that this mount has written, too, since sync(1) says nothing
  // to it. EIO, once, if changes of names were lost since it was opened.
  absl::Status SyncDirectory(DirHandle& handle, const Caller& caller);
  std::uint64_t losses() const { return session_.losses(); }
  // close(2) of a descriptor: the error that it ends with.
  absl::Status Flush(std::uint64_t inode, const Caller& caller);
  absl::Status Allocate(std::uint64_t inode, std::uint32_t mode, std::uint64_t offset_bytes,
                        std::uint64_t length_bytes, const Caller& caller);
  // SEEK_DATA and SEEK_HOLE; EINVAL for others (the kernel does those itself).
  absl::StatusOr<std::uint64_t> Seek(std::uint64_t inode, std::uint64_t offset_bytes, int whence,
                                     const Caller& caller);

 private:
  // With supplementary groups, where the controller checks who may do what.
  Caller AsChecked(const Caller& caller) const;
  absl::StatusOr<v1::Reply> Call(v1::Request request, const Caller& caller);
  // The part of a listing behind `cookie`, from the cache or the controller.
  using ListingPart = std::shared_ptr<const v1::ReadDirReply>;
  absl::StatusOr<ListingPart> Listing(const DirHandle& handle, std::uint64_t cookie,
                                      const Caller& caller);
  // Until the request is done, the cache knows nothing of what it may change.
  void NoteChange(const v1::Request& request, CallOptions& options);
  // For how long the kernel keeps names by now, in nanoseconds.
  std::uint64_t KeptNs() const;
  // Where the token is not held, the kernel's attributes of the inode are not valid; nor is what it
  // keeps of them, once somebody may write.
  void ForgetForOpen(std::uint64_t inode, bool write);
  // The inode that `at` is known to lead to, before it is removed; and once that is done.
  std::optional<v1::Attr> Victim(const NameIn& at);
  void Remember(v1::Attr removed, const v1::Time& now);
  // True when `status` only says that the controller has let go of a removed inode.
  bool IsRemoved(std::uint64_t inode, const absl::Status& status) const;
  absl::StatusOr<v1::Attr> SetAttrOfNamed(v1::SetAttr set, const Caller& caller);
  std::optional<v1::Attr> DelayAttributes(const v1::SetAttr& set);
  // Whether this client may change names before the controller knows.
  bool MayChangeFirst() const;
  std::optional<v1::Attr> CreateDelegated(v1::Request& request, const Caller& creator);
  // False: the request, which may now ask more, is to go to the controller.
  bool UnlinkDelegated(v1::Request& request, const Caller& caller);
  bool RenameDelegated(v1::Request& request, const Caller& caller, bool may_replace);
  Caller CompleteCreate(v1::Create& create, const Caller& caller);
  absl::StatusOr<v1::Attr> CreateOpen(v1::Request request, const Caller& caller);
  // An inode other than a regular file has been read.
  void NoteRead(std::uint64_t inode, AtimePolicy policy, bool due);
  // True when the inode is known to have no extended attributes.
  bool KnowsNoXattrs(std::uint64_t inode);
  absl::StatusOr<v1::Attr> CallForEntry(v1::Request request, const Caller& caller);
  absl::StatusOr<v1::Attr> CallForAttr(v1::Request request, const Caller& caller);
  // Of the volume's space, to what files that are made in that directory may use.
  void NarrowSpace(std::uint64_t inode, const Caller& caller, v1::StatFsReply& space);
  absl::StatusOr<std::string> CallForData(v1::Request request, const Caller& caller);
  // What the cache knows, with what FileData knows better. Allocates nothing.
  Attributes Overlaid(const Attributes& known) const;
  static IoContext Context(const Caller& caller);
  AtimePolicy LinkAtime() const {
    return notes_files_.load() ? noted_atime_.load() : AtimePolicy::kNone;
  }
  AtimePolicy DirectoryAtime() const {
    return notes_directories_.load() ? noted_atime_.load() : AtimePolicy::kNone;
  }

  Session& session_;
  FileData& data_;
  NameCache& names_;
  const VfsOptions options_;
  std::atomic<bool> notes_files_{true};
  std::atomic<bool> notes_directories_{true};
  std::atomic<AtimePolicy> noted_atime_{AtimePolicy::kRelative};
  RemovedInodes removed_;
  ListingPrefetch listing_prefetch_;
  LookedUpFiles looked_up_;
  SequenceAhead sequence_ahead_;
  OpenAhead open_ahead_;

  Mutex listings_mutex_;
  // Directories of which some open may fill the kernel's listing.
  absl::flat_hash_set<std::uint64_t> listings_ ABSL_GUARDED_BY(listings_mutex_);

  Mutex last_mutex_;
  v1::Attr root_ ABSL_GUARDED_BY(last_mutex_);  // as last seen
  struct Space {
    v1::StatFsReply reply;
    std::uint64_t at_ms = 0;
  };
  // As last seen, by directory; few, and the root's before the mount.
  absl::flat_hash_map<std::uint64_t, Space> space_ ABSL_GUARDED_BY(last_mutex_);
  std::uint64_t space_changes_ ABSL_GUARDED_BY(last_mutex_) = 0;     // as last looked at, …
  std::uint64_t space_changed_ms_ ABSL_GUARDED_BY(last_mutex_) = 0;  // … and when that was new
};

}  // namespace reel::client
