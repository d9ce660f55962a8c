#include "client/vfs/vfs.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "google/protobuf/arena.h"
#include "proto/convert.h"
#include "proto/status.h"
#include "volume/base/types.h"

namespace reel::client {
namespace {

// What other hosts take and free shows that late in statfs(2). What this one does shows at once:
// for so long after it the controller, which frees in steps, is asked each time.
constexpr std::uint64_t kSpaceAgeMs = 10'000;
// Of how many directories what statfs(2) shows is kept.
constexpr std::size_t kMaxSpaces = 64;

// execve(2) reads what its caller may perhaps not: Linux's __FMODE_EXEC, which FUSE passes on.
constexpr int kToExecute = 040;

v1::Time WallNow() {
  return ToProto(SystemClock().WallNow());
}

absl::Status WrongReply(const char* wanted) {
  return ErrnoStatus(EIO, absl::StrCat("the controller's reply carries no ", wanted));
}

// Ends a wait when the caller does, and also when no controller answers.
auto WhenAway(const Session& session, const Interrupt* caller) {
  return InterruptWhen([&session] { return session.Away(); }, caller);
}

// True when the wait ended for WhenAway's own reason.
bool OnlyAway(const absl::Status& status, const Caller& caller) {
  const bool caller_interrupted = caller.interrupt != nullptr && caller.interrupt->interrupted();
  return ErrnoOf(status) == EINTR && !caller_interrupted;
}

}  // namespace

void Caller::AddGroups() {
  if (groups == nullptr || credentials.groups_size() > 0) return;
  for (const std::uint32_t group : groups->Get()) credentials.add_groups(group);
}

// (Who is root is nobody there, in no group.)
Caller Vfs::AsChecked(const Caller& caller) const {
  Caller checked = caller;
  if (session_.squashed() && caller.credentials.uid() != 0) checked.AddGroups();
  return checked;
}

absl::StatusOr<v1::Reply> Vfs::Call(v1::Request request, const Caller& caller) {
  std::optional<Caller> checked;
  if (session_.squashed()) checked = AsChecked(caller);
  CallOptions options;
  options.credentials = checked ? &checked->credentials : &caller.credentials;
  options.interrupt = caller.interrupt;
  NoteChange(request, options);
  return session_.Call(std::move(request), options);
}

void Vfs::NoteChange(const v1::Request& request, CallOptions& options) {
  NameCache::KernelForgets to_forget;
  PendingChanges::Change change = names_.BeginChange(request, to_forget);
  if (change.empty()) return;
  if (KernelNames* const kernel_names = options_.kernel_names) {
    for (const auto& [directory, name] : change.names) kernel_names->Leave(directory);
    if (to_forget.names) kernel_names->Forget();
  }
  for (const std::uint64_t inode : to_forget.attributes) options_.forget_attributes(inode);
  options.on_done = [&names = names_, change = std::move(change)](
                        const absl::StatusOr<v1::Reply>&) { names.EndChange(change); };
}

absl::StatusOr<v1::Attr> Vfs::CallForEntry(v1::Request request, const Caller& caller) {
  absl::StatusOr<v1::Reply> reply = Call(std::move(request), caller);
  if (!reply.ok()) return reply.status();
  v1::Attr* attr = reply->mutable_entry()->mutable_attr();
  if (attr->inode() == 0) return WrongReply("entry");
  data_.Overlay(*attr);
  return std::move(*attr);
}

absl::StatusOr<v1::Attr> Vfs::CallForAttr(v1::Request request, const Caller& caller) {
  absl::StatusOr<v1::Reply> reply = Call(std::move(request), caller);
  if (!reply.ok()) return reply.status();
  v1::Attr* attr = reply->mutable_attr()->mutable_attr();
  if (attr->inode() == 0) return WrongReply("attributes");
  data_.Overlay(*attr);
  return std::move(*attr);
}

void Vfs::NoteRead(std::uint64_t inode, AtimePolicy policy, bool due) {
  if (policy == AtimePolicy::kNone || (policy == AtimePolicy::kRelative && !due)) return;
  v1::Attr attr;
  attr.set_inode(inode);
  data_.NoteAccess(attr, AtimePolicy::kStrict);
}

// The kernel asks for the ACL of every directory on a path, and for the capability of every
// program; ls -l for all attributes of every file.
bool Vfs::KnowsNoXattrs(std::uint64_t inode) {
  const std::optional<Attributes> attr = names_.GetAttr(inode);
  return attr && !attr->xattrs && session_.LeaseHolds();
}

absl::StatusOr<std::string> Vfs::CallForData(v1::Request request, const Caller& caller) {
  absl::StatusOr<v1::Reply> reply = Call(std::move(request), caller);
  if (!reply.ok()) return reply.status();
  if (!reply->has_data()) return WrongReply("data");
  return std::move(*reply->mutable_data()->mutable_data());
}

// The data path speaks in messages; this one lies on the stack, with its times.
Attributes Vfs::Overlaid(const Attributes& known) const {
  constexpr std::size_t kMessageBytes = 1024;
  alignas(8) std::array<char, kMessageBytes> memory;
  google::protobuf::Arena arena(memory.data(), memory.size());
  v1::Attr& attr = *google::protobuf::Arena::CreateMessage<v1::Attr>(&arena);
  known.CopyTo(attr);
  data_.Overlay(attr);
  return attr;
}

IoContext Vfs::Context(const Caller& caller) {
  IoContext io;
  io.credentials = &caller.credentials;
  io.groups = caller.groups;
  io.interrupt = caller.interrupt;
  io.handle = caller.handle;
  return io;
}

// ---- names ------------------------------------------------------------------------------------

absl::StatusOr<Attributes> Vfs::Lookup(const NameIn& at, const Caller& caller) {
  // An absent name may be one that cannot be: too long.
  if (absl::Status valid = ValidateName(at.name); !valid.ok()) return valid;
  if (auto found = names_.Lookup(at.parent, at.name); found && session_.LeaseHolds()) {
    if (found->absent) return ErrnoStatus(ENOENT);
    if (S_ISREG(found->attr.mode)) looked_up_.Note(at.parent, at.name, found->attr.inode);
    return Overlaid(found->attr);
  }
  listing_prefetch_.NoteMissed(at.parent, at.name, caller.credentials);
  v1::Request request;
  v1::Lookup& lookup = *request.mutable_lookup();
  lookup.set_parent(at.parent);
  lookup.set_name(at.name.data(), at.name.size());
  absl::StatusOr<v1::Attr> attr = CallForEntry(std::move(request), caller);
  if (attr.ok() && S_ISREG(attr->mode())) looked_up_.Note(at.parent, at.name, attr->inode());
  return attr;
}

absl::Status Vfs::Unlink(const NameIn& at, bool directory, const Caller& caller) {
  std::optional<v1::Attr> victim = Victim(at);
  v1::Request request;
  v1::Unlink& unlink = *request.mutable_unlink();
  unlink.set_parent(at.parent);
  unlink.set_name(at.name.data(), at.name.size());
  unlink.set_directory(directory);
  absl::Status status;
  if (!victim || !UnlinkDelegated(request, caller))
    status = Call(std::move(request), caller).status();
  if (status.ok() && victim) Remember(*std::move(victim), WallNow());
  return status;
}

absl::Status Vfs::Rename(const NameIn& from, const NameIn& to, std::uint32_t flags,
                         const Caller& caller) {
  if ((flags & ~(RENAME_NOREPLACE | RENAME_EXCHANGE | RENAME_WHITEOUT)) != 0) {
    return ErrnoStatus(EINVAL, absl::StrCat("rename flags ", flags, " do not exist here"));
  }
  std::optional<v1::Attr> victim;
  if ((flags & RENAME_EXCHANGE) == 0) victim = Victim(to);
  v1::Request request;
  v1::Rename& rename = *request.mutable_rename();
  rename.set_parent(from.parent);
  rename.set_name(from.name.data(), from.name.size());
  rename.set_new_parent(to.parent);
  rename.set_new_name(to.name.data(), to.name.size());
  rename.set_flags(flags);
  absl::Status status;
  if (!RenameDelegated(request, caller, victim.has_value())) {
    status = Call(std::move(request), caller).status();
  }
  if (status.ok() && victim) Remember(*std::move(victim), WallNow());
  return status;
}

absl::StatusOr<std::string> Vfs::ReadLink(std::uint64_t inode, const Caller& caller) {
  if (auto known = names_.ReadLink(inode); known && session_.LeaseHolds()) {
    if (const auto attr = names_.GetAttr(inode)) data_.NoteAccess(attr->ToProto(), LinkAtime());
    return *std::move(known);
  }
  v1::Request request;
  request.mutable_read_link()->set_inode(inode);
  absl::StatusOr<v1::Reply> reply = Call(std::move(request), caller);
  if (!reply.ok()) return reply.status();
  if (!reply->has_data()) return WrongReply("link");
  NoteRead(inode, LinkAtime(), reply->data().atime_due());
  return std::move(*reply->mutable_data()->mutable_data());
}

// ---- inodes -----------------------------------------------------------------------------------

absl::StatusOr<Attributes> Vfs::GetAttr(std::uint64_t inode, const Caller& caller) {
  if (const auto known = names_.GetAttr(inode); known && session_.LeaseHolds()) {
    return Overlaid(*known);
  }
  v1::Request request;
  request.mutable_get_attr()->set_inode(inode);
  if (InodeNumber(inode) != kRootInode) {
    absl::StatusOr<v1::Attr> attr = CallForAttr(std::move(request), caller);
    if (ErrnoOf(attr.status()) != ESTALE) return attr;
    const std::optional<v1::Attr> removed = removed_.Find(inode);
    // What is open the controller keeps: so this went with a lost session, bytes and all. An old
    // size, or none, would make its readers believe that there had never been any.
    const bool lost = removed && S_ISREG(removed->mode()) && data_.IsOpen(inode);
    return removed && !lost ? *removed : attr;
  }

  const auto away = WhenAway(session_, caller.interrupt);
  Caller root_caller{.credentials = caller.credentials, .interrupt = caller.interrupt};
  {
    MutexLock lock(last_mutex_);
    if (root_.inode() != 0) root_caller.interrupt = &away;
  }
  absl::StatusOr<v1::Attr> attr = CallForAttr(std::move(request), root_caller);
  MutexLock lock(last_mutex_);
  if (attr.ok()) {
    root_ = *attr;
  } else if (OnlyAway(attr.status(), caller) && root_.inode() != 0) {
    return root_;
  }
  return attr;
}

absl::Status Vfs::LookAtRoot() {
  const auto away = WhenAway(session_, nullptr);
  const Caller nobody{.credentials = {}, .interrupt = &away};
  absl::Status status = GetAttr(kRootInode.value(), nobody).status();
  if (status.ok()) status = StatFs(kRootInode.value(), nobody).status();
  if (ErrnoOf(status) != EINTR) return status;
  return absl::UnavailableError("the controller went away during the mount");
}

absl::StatusOr<v1::StatFsReply> Vfs::StatFs(std::uint64_t inode, const Caller& caller) {
  std::optional<v1::StatFsReply> last;
  {
    const std::uint64_t now_ms = SystemClock().NowMs();
    const std::uint64_t changes = names_.space_changes();
    MutexLock lock(last_mutex_);
    if (std::exchange(space_changes_, changes) != changes) space_changed_ms_ = now_ms;
    const bool quiet = space_changed_ms_ == 0 || now_ms - space_changed_ms_ >= kSpaceAgeMs;
    if (const auto it = space_.find(inode); it != space_.end()) {
      last = it->second.reply;
      const bool young = now_ms - it->second.at_ms < kSpaceAgeMs;
      if (quiet && young && session_.LeaseHolds()) return *last;
    }
  }
  v1::Request request;
  request.mutable_stat_fs()->set_inode(inode);
  const auto away = WhenAway(session_, caller.interrupt);
  const Interrupt* interrupt = last ? &away : caller.interrupt;
  absl::StatusOr<v1::Reply> reply =
      Call(std::move(request), {.credentials = caller.credentials, .interrupt = interrupt});
  if (!reply.ok()) {
    if (OnlyAway(reply.status(), caller) && last) return *last;
    return reply.status();
  }
  v1::StatFsReply& space = *reply->mutable_stat_fs();
  if (space.block_bytes() == 0) return WrongReply("usage");
  if (!space.of_inode()) {
    NarrowSpace(inode, {.credentials = caller.credentials, .interrupt = &away}, space);
  }
  MutexLock lock(last_mutex_);
  if (space_.size() >= kMaxSpaces) {
    absl::erase_if(space_, [](const auto& entry) { return entry.first != kRootInode.value(); });
  }
  space_[inode] = {space, SystemClock().NowMs()};
  return space;
}

// As one of an earlier release does, or one that does not know this either; none does of what was
// removed.
void Vfs::NarrowSpace(std::uint64_t inode, const Caller& caller, v1::StatFsReply& space) {
  v1::Request request;
  request.mutable_get_xattr()->set_inode(inode);
  request.mutable_get_xattr()->set_name("reelfs.space");
  const absl::StatusOr<std::string> value = CallForData(std::move(request), caller);
  if (!value.ok()) return;
  const std::vector<std::string> bytes = absl::StrSplit(*value, ' ');
  std::uint64_t total = 0, free = 0;
  if (bytes.size() != 2 || !absl::SimpleAtoi(bytes[0], &total) ||
      !absl::SimpleAtoi(bytes[1], &free)) {
    return;
  }
  space.set_total_blocks(total / space.block_bytes());
  space.set_free_blocks(free / space.block_bytes());
}

// ---- directories -------------------------------------------------------------------------------

NameCache::Listing Vfs::OpenDirectory(std::uint64_t inode) {
  data_.OpenDirectory(inode);
  // In this order: a recall in between finds it open.
  if (!names_.Holds(inode)) data_.RegisterOpens(inode, [] {});
  ForgetForOpen(inode, /*write=*/false);
  // (Nobody learns of who reads what the kernel keeps.)
  if (DirectoryAtime() == AtimePolicy::kStrict || !session_.LeaseHolds()) return {};
  const NameCache::Listing listing = names_.ShowListing(inode);
  if (listing.number == 0) return {};
  // Linux keeps one listing of a directory, to which any open that may adds what it reads where the
  // last entry left off: an open from before a change would put the old rest behind the new
  // beginning.
  MutexLock lock(listings_mutex_);
  return listings_.insert(inode).second ? listing : NameCache::Listing();
}

void Vfs::CloseDirectory(std::uint64_t inode, const NameCache::Listing& listing) {
  if (listing.number != 0) {
    MutexLock lock(listings_mutex_);
    listings_.erase(inode);
  }
  data_.Close(inode);
}

absl::Status Vfs::SyncDirectory(DirHandle& handle, const Caller& caller) {
  if (absl::Status written = data_.SyncWritten(Context(caller)); !written.ok()) return written;
  absl::Status status =
      session_.Sync(session_.last_early_number(), session_.losses(), caller.interrupt);
  if (!status.ok() && ErrnoOf(status) != EIO) return status;
  const bool missed = handle.Missed(session_.losses());
  if (!status.ok() || !missed) return status;
  return ErrnoStatus(EIO, "changes of names were lost since this directory was opened");
}

absl::StatusOr<const v1::ReadDirReply::Entry*> Vfs::NextEntry(DirHandle& handle,
                                                              std::uint64_t cookie,
                                                              const Caller& caller) {
  if (cookie != 0) {
    const DirHandle::Found found = handle.Find(cookie);
    if (found.position != DirHandle::Position::kUnknown) return found.entry;
  } else if (absl::Status status = listing_prefetch_.Await(handle.inode(), caller.interrupt);
             !status.ok()) {
    return status;
  }
  absl::StatusOr<ListingPart> part = Listing(handle, cookie, caller);
  if (!part.ok()) return part.status();
  if (absl::Status kept = handle.Keep(cookie, *std::move(part)); !kept.ok()) return kept;
  if (cookie == 0) {
    // (Else who reads it next would not be noted as its reader.)
    if (!handle.no_atime()) names_.NoteListing(handle.inode(), handle.listing());
    listing_prefetch_.Follow(handle.inode(), handle.kept(), caller.credentials);
  }
  return handle.Find(cookie).entry;
}

absl::StatusOr<Vfs::ListingPart> Vfs::Listing(const DirHandle& handle, std::uint64_t cookie,
                                              const Caller& caller) {
  if (auto page = names_.Page(handle.inode(), cookie); page && session_.LeaseHolds()) {
    const auto attr = names_.GetAttr(handle.inode());
    if (cookie == 0 && attr && !handle.no_atime()) {
      data_.NoteAccess(attr->ToProto(), DirectoryAtime());
    }
    return page;
  }
  v1::Request request;
  v1::ReadDir& read = *request.mutable_read_dir();
  read.set_inode(handle.inode());
  read.set_cookie(cookie);
  read.set_limit_bytes(options_.listing_bytes);
  // For the name cache: whoever lists a directory is likely to look at what is in it, and goes on
  // doing so.
  read.set_attributes(names_.TakeLookedUp(handle.inode()) || cookie == 0);
  absl::StatusOr<v1::Reply> reply = Call(std::move(request), caller);
  if (!reply.ok()) return reply.status();
  if (!reply->has_read_dir()) return WrongReply("entries");
  if (!handle.no_atime()) {
    NoteRead(handle.inode(), DirectoryAtime(), reply->read_dir().atime_due());
  }
  return std::make_shared<const v1::ReadDirReply>(std::move(*reply->mutable_read_dir()));
}

// ---- files -------------------------------------------------------------------------------------

absl::StatusOr<v1::Attr> Vfs::Open(std::uint64_t inode, int flags, const Caller& caller) {
  const bool write = (flags & O_ACCMODE) != O_RDONLY;
  const Caller checked = AsChecked(caller);
  IoContext io = Context(checked);
  io.access = (write ? W_OK : 0) | ((flags & O_ACCMODE) != O_WRONLY ? R_OK : 0);
  if ((flags & kToExecute) != 0) io.access = X_OK;
  std::optional<v1::Attr> known;
  if (const auto cached = names_.GetAttr(inode); cached && session_.LeaseHolds()) {
    io.known = &known.emplace(cached->ToProto());
  }
  if (!write && known) open_ahead_.NoteOpen(inode, known->size_bytes(), caller.credentials);
  absl::StatusOr<v1::Attr> attr = data_.Open(inode, write, io);
  if (!attr.ok()) return attr;
  ForgetForOpen(inode, write);
  data_.Overlay(*attr);
  // The kernel, which asks no FUSE file system for these flags, leaves them to us.
  const bool immutable = (attr->flags() & v1::INODE_FLAG_IMMUTABLE) != 0;
  const bool append = (attr->flags() & v1::INODE_FLAG_APPEND) != 0;
  if (write && (immutable || (append && (flags & O_APPEND) == 0))) {
    data_.Close(inode);
    return ErrnoStatus(EPERM, absl::StrCat("inode ", inode, " is immutable or append-only"));
  }
  if (!write) sequence_ahead_.NoteOpen(inode, attr->size_bytes(), caller.credentials);
  return attr;
}

absl::StatusOr<std::size_t> Vfs::Read(std::uint64_t inode, std::uint64_t offset_bytes,
                                      std::span<std::byte> buffer, int flags, bool page_cache,
                                      const Caller& caller) {
  IoContext io = Context(caller);
  io.no_atime = (flags & O_NOATIME) != 0 || !notes_files_.load();
  io.read_ahead = !page_cache && (flags & O_DIRECT) == 0;
  io.page_cache = page_cache;
  return data_.Read(inode, offset_bytes, buffer, io);
}

absl::StatusOr<std::size_t> Vfs::Write(std::uint64_t inode, std::uint64_t offset_bytes,
                                       std::span<const std::byte> data, int flags,
                                       PageCacheWrite pages, const Caller& caller) {
  IoContext io = Context(caller);
  io.page_cache = pages != PageCacheWrite::kNone;
  io.write_back = pages == PageCacheWrite::kBack;
  // (The kernel sends no open flags with pages that it writes back: they have their place already.)
  io.append = (flags & O_APPEND) != 0;
  io.sync = (flags & (O_SYNC | O_DSYNC)) != 0;
  io.data_only = (flags & O_SYNC) != O_SYNC;
  io.direct = (flags & O_DIRECT) != 0;
  const absl::StatusOr<ByteRange> written = data_.Write(inode, offset_bytes, data, io);
  if (!written.ok()) return written.status();
  return written->to - written->from;
}

absl::Status Vfs::Fsync(std::uint64_t inode, bool data_only, const Caller& caller) {
  IoContext io = Context(caller);
  io.data_only = data_only;
  return data_.Fsync(inode, io);
}

absl::Status Vfs::Flush(std::uint64_t inode, const Caller& caller) {
  return data_.Flush(inode, Context(caller));
}

absl::Status Vfs::Allocate(std::uint64_t inode, std::uint32_t mode, std::uint64_t offset_bytes,
                           std::uint64_t length_bytes, const Caller& caller) {
  Caller allocator = caller;
  if (caller.credentials.uid() != 0) allocator.AddGroups();
  return data_.Allocate(inode, mode, offset_bytes, length_bytes, Context(allocator));
}

absl::StatusOr<std::uint64_t> Vfs::Seek(std::uint64_t inode, std::uint64_t offset_bytes, int whence,
                                        const Caller& caller) {
  if (whence != SEEK_DATA && whence != SEEK_HOLE) {
    return ErrnoStatus(EINVAL, absl::StrCat("lseek with whence ", whence));
  }
  return data_.Seek(inode, offset_bytes, whence == SEEK_DATA, Context(caller));
}

}  // namespace reel::client
