// Making inodes and names: open(O_CREAT), mknod, mkdir, symlink, link.
#include <fcntl.h>
#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <memory>
#include <optional>
#include <utility>

#include "client/vfs/vfs.h"
#include "proto/convert.h"
#include "proto/status.h"

namespace reel::client {
namespace {

v1::Request CreateOf(const NameIn& at) {
  v1::Request request;
  request.mutable_create()->set_parent(at.parent);
  request.mutable_create()->set_name(at.name.data(), at.name.size());
  return request;
}

}  // namespace

// With the umask; and with the caller's groups where the controller will ask whether set-group-id
// may be given.
Caller Vfs::CompleteCreate(v1::Create& create, const Caller& caller) {
  create.set_umask(caller.umask & 0777);
  Caller creator = AsChecked(caller);
  constexpr std::uint32_t kGroupProgram = S_ISGID | S_IXGRP;
  if ((create.mode() & kGroupProgram) == kGroupProgram) creator.AddGroups();
  return creator;
}

// With the token and room for its first bytes, so that writing it asks for nothing more.
absl::StatusOr<v1::Attr> Vfs::CreateOpen(v1::Request request, const Caller& caller) {
  v1::Create& create = *request.mutable_create();
  create.set_mode(S_IFREG | (create.mode() & 07777));
  create.set_open(true);
  create.set_token(v1::TOKEN_EXCLUSIVE);
  const Caller creator = CompleteCreate(create, caller);
  if (std::optional<v1::Attr> made_here = CreateDelegated(request, creator))
    return *std::move(made_here);
  create.set_allocate_bytes(data_.ExpectedBytes());
  // Whoever comes second, the answer or the caller who has given up, closes the file again.
  struct Outcome {
    std::atomic<bool> one_came{false};
    std::atomic<std::uint64_t> inode{0};
  };
  const auto outcome = std::make_shared<Outcome>();
  CallOptions options;
  options.credentials = &creator.credentials;
  options.interrupt = creator.interrupt;
  options.on_reply = [&data = data_, &session = session_, outcome,
                      handle = creator.handle](const v1::Reply& reply) {
    const std::uint64_t inode = reply.entry().attr().inode();
    if (inode == 0) return;
    data.Created(reply.entry(), handle, session.early_number());
    outcome->inode = inode;
    if (outcome->one_came.exchange(true)) data.Close(inode);
  };
  NoteChange(request, options);
  absl::StatusOr<v1::Reply> reply = session_.Call(std::move(request), options);
  if (!reply.ok()) {
    if (outcome->one_came.exchange(true)) data_.Close(outcome->inode);
    return reply.status();
  }
  v1::Attr* attr = reply->mutable_entry()->mutable_attr();
  if (attr->inode() == 0) return ErrnoStatus(EIO, "the controller's reply carries no entry");
  return std::move(*attr);
}

// What may be made in a directory delegated to this client. (What runs as another than who
// executes it is not for the client to make.)
std::optional<v1::Attr> Vfs::CreateDelegated(v1::Request& request, const Caller& creator) {
  v1::Create& create = *request.mutable_create();
  const bool regular = S_ISREG(create.mode());
  const bool takes = regular ? session_.delegates() : session_.delegates_names();
  if (create.unnamed() || !takes || !MayChangeFirst()) return {};
  create.set_reserved_bytes(data_.ExpectedBytes());
  std::optional<v1::Attr> attr;
  if ((create.mode() & (S_ISUID | S_ISGID)) == 0) {
    *request.mutable_credentials() = creator.credentials;
    attr = names_.CreateDelegated(create, creator.credentials, ToProto(SystemClock().WallNow()),
                                  [&](const v1::EntryReply& made, const v1::Replay& decided) {
                                    create.set_allocate_bytes(made.attr().allocated_bytes());
                                    const std::uint64_t early_number =
                                        session_.SendDelegated(request, decided);
                                    if (early_number != 0 && regular)
                                      data_.Created(made, creator.handle, early_number);
                                    return early_number;
                                  });
  }
  if (!attr) {
    create.set_reserved_inodes(names_.ReservedInodesWanted(create.parent()));
  } else if (options_.kernel_names != nullptr) {
    options_.kernel_names->Leave(create.parent());
  }
  return attr;
}

bool Vfs::UnlinkDelegated(v1::Request& request, const Caller& caller) {
  const bool directory = request.unlink().directory();
  const bool takes = directory ? session_.delegates_names() : session_.delegates();
  if (!takes || !MayChangeFirst()) return false;
  const bool done = names_.UnlinkDelegated(
      request.unlink(), ToProto(SystemClock().WallNow()),
      [&](v1::Attr& removed, bool only_here, const v1::Replay& decided) {
        const auto send = [&](bool lets_go) {
          v1::Request sent = request;
          *sent.mutable_credentials() = caller.credentials;
          sent.mutable_unlink()->set_lets_go(lets_go);
          return session_.SendDelegated(std::move(sent), decided);
        };
        return directory ? send(false) : data_.RemoveLast(removed, only_here, send);
      });
  if (!done && session_.delegates_names()) names_.AskWhichAreSole(request);
  if (done && options_.kernel_names != nullptr) {
    options_.kernel_names->Leave(request.unlink().parent());
  }
  return done;
}

bool Vfs::RenameDelegated(v1::Request& request, const Caller& caller, bool may_replace) {
  if (!session_.delegates_names() || !MayChangeFirst()) return false;
  const auto done = names_.RenameDelegated(
      request.rename(), may_replace, ToProto(SystemClock().WallNow()),
      [&](v1::Attr* replaced, bool only_here, const v1::Replay& decided) {
        const auto send = [&](bool lets_go) {
          v1::Request sent = request;
          *sent.mutable_credentials() = caller.credentials;
          sent.mutable_rename()->set_lets_go(lets_go);
          return session_.SendDelegated(std::move(sent), decided);
        };
        return data_.Move(decided.moves(), [&] {
          return replaced == nullptr ? send(false) : data_.RemoveLast(*replaced, only_here, send);
        });
      });
  if (!done) {
    names_.AskWhichAreSole(request);
    return false;
  }
  if (done->forget != 0) options_.forget_attributes(done->forget);
  if (options_.kernel_names != nullptr) options_.kernel_names->Leave(request.rename().parent());
  return true;
}

absl::StatusOr<v1::Attr> Vfs::Make(const NameIn& at, std::uint32_t mode, std::uint64_t rdev,
                                   const Caller& caller) {
  v1::Request request = CreateOf(at);
  v1::Create& create = *request.mutable_create();
  create.set_mode(mode);
  create.set_rdev(rdev);
  const Caller creator = CompleteCreate(create, caller);
  if (S_ISDIR(mode)) {
    if (std::optional<v1::Attr> made_here = CreateDelegated(request, creator)) return *made_here;
  }
  return CallForEntry(std::move(request), creator);
}

absl::StatusOr<v1::Attr> Vfs::Symlink(const NameIn& at, std::string_view target,
                                      const Caller& caller) {
  v1::Request request = CreateOf(at);
  v1::Create& create = *request.mutable_create();
  create.set_mode(S_IFLNK | 0777);
  create.set_symlink(target.data(), target.size());
  if (std::optional<v1::Attr> made_here = CreateDelegated(request, caller)) return *made_here;
  return CallForEntry(std::move(request), caller);
}

absl::StatusOr<v1::Attr> Vfs::Link(std::uint64_t inode, const NameIn& to, const Caller& caller) {
  v1::Request request;
  v1::Link& link = *request.mutable_link();
  link.set_inode(inode);
  link.set_parent(to.parent);
  link.set_name(to.name.data(), to.name.size());
  return CallForEntry(std::move(request), caller);
}

absl::StatusOr<v1::Attr> Vfs::Create(const NameIn& at, std::uint32_t mode, int flags,
                                     const Caller& caller) {
  v1::Request request = CreateOf(at);
  v1::Create& create = *request.mutable_create();
  create.set_mode(mode);
  absl::StatusOr<v1::Attr> attr = CreateOpen(std::move(request), caller);
  if (ErrnoOf(attr.status()) == EEXIST && (flags & O_EXCL) == 0) {
    return ErrnoStatus(ESTALE, "another host has just created the name");
  }
  return attr;
}

absl::StatusOr<v1::Attr> Vfs::CreateUnnamed(std::uint64_t parent, std::uint32_t mode, int flags,
                                            const Caller& caller) {
  v1::Request request;
  v1::Create& create = *request.mutable_create();
  create.set_parent(parent);
  create.set_mode(mode);
  create.set_unnamed(true);
  create.set_linkable((flags & O_EXCL) == 0);
  absl::StatusOr<v1::Attr> attr = CreateOpen(std::move(request), caller);
  if (IsRemoved(parent, attr.status())) return ErrnoStatus(EPERM, "a removed directory");
  return attr;
}

}  // namespace reel::client
