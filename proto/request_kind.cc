#include "proto/request_kind.h"

#include <linux/falloc.h>
#include <linux/fs.h>
#include <unistd.h>

namespace reel {
namespace {

using enum StoreUse;

constexpr std::uint32_t kChange = kMutation | kChangesVolume;
// What pools a directory's files may use is part of what statfs(2) shows there.
constexpr std::string_view kAffinity = "reelfs.affinity";

std::uint32_t If(bool condition, std::uint32_t flags) {
  return condition ? flags : kPlain;
}

// Of an operation on the one inode that it names.
template <typename Message>
InodeNumber Inode(const Message& message) {
  return InodeNumber(message.inode());
}
template <typename Message>
InodeNumber Parent(const Message& message) {
  return InodeNumber(message.parent());
}

// One ahead may bring a token, which must not pass a return of it.
RequestKind LookupKind(const v1::Lookup& lookup) {
  return {lookup.ahead() ? kOfSession : kRead, kNone, {}, {Parent(lookup)}};
}

RequestKind SetAttrKind(const v1::SetAttr& set) {
  const bool sizes = (set.fields() & v1::SetAttr::SIZE) != 0;
  RequestKind kind{kChange | If(sizes, kChangesSpace) | If(!sizes, kEarly), kNone, {}, {}};
  if (set.fields() != v1::SetAttr::ACCESSED) kind.looks_at = {Inode(set)};
  return kind;
}

RequestKind RenameKind(const v1::Rename& rename) {
  const bool longer = rename.new_name().size() > rename.name().size();
  const bool whiteout = (rename.flags() & RENAME_WHITEOUT) != 0;
  return {kChange | kEarly | kChangesSpace,
          whiteout ? kGrows
          : longer ? kStretches
                   : kNone,
          {},
          {Parent(rename), InodeNumber(rename.new_parent())}};
}

RequestKind OpenKind(const v1::Open& open) {
  const bool to_write = open.write() || open.token() == v1::TOKEN_EXCLUSIVE;
  RequestKind kind{If(to_write, kChangesVolume), kNone, Inode(open), {}};
  // Else it waits for nobody: the return of the token that has kept the inode open comes next.
  if (!OnlyRegisters(open)) kind.looks_at = {Inode(open)};
  return kind;
}

RequestKind LayoutGetKind(const v1::LayoutGet& get) {
  if (get.allocate()) return {kChange | kOfSession | kChangesSpace, kGrows, Inode(get), {}};
  return {
      kOfSession | If(get.mode() == v1::TOKEN_EXCLUSIVE, kChangesVolume), kNone, Inode(get), {}};
}

// Attributes along are looked at as SetAttr does.
RequestKind LayoutCommitKind(const v1::LayoutCommit& commit) {
  RequestKind kind{kChange | kOfSession | kChangesSpace, kCommits, Inode(commit), {}};
  if (commit.has_attributes()) kind.looks_at = {Inode(commit)};
  return kind;
}

// A hole may cut one extent into two, and gives blocks back.
RequestKind AllocateKind(const v1::Allocate& allocate) {
  const bool punches = (allocate.mode() & FALLOC_FL_PUNCH_HOLE) != 0;
  return {kChange | kOfSession | kChangesSpace, punches ? kStretches : kGrows, Inode(allocate), {}};
}

// Who writes takes a lock to write: of flock(2)'s both kinds are for readers, too.
RequestKind SetLockKind(const v1::FileLock& lock) {
  const bool writes = lock.type() == v1::LOCK_EXCLUSIVE && lock.kind() != v1::LOCK_WHOLE;
  return {kOfSession | If(writes, kChangesVolume), kNone, {}, {}};
}

}  // namespace

bool OnlyRegisters(const v1::Open& open) {
  return open.token() == v1::TOKEN_NONE && open.access() == 0 && !open.write();
}

// (Not by the descriptors, which are made when they are first asked for: every request is counted.)
const char* NameOf(v1::Request::OpCase op) {
  switch (op) {
    case v1::Request::OP_NOT_SET:
      return "";
    case v1::Request::kHello:
      return "hello";
    case v1::Request::kRenew:
      return "renew";
    case v1::Request::kGoodbye:
      return "goodbye";
    case v1::Request::kReclaim:
      return "reclaim";
    case v1::Request::kNewKey:
      return "new_key";
    case v1::Request::kGiveUp:
      return "give_up";
    case v1::Request::kMapTaken:
      return "map_taken";
    case v1::Request::kTraffic:
      return "traffic";
    case v1::Request::kPong:
      return "pong";
    case v1::Request::kLookup:
      return "lookup";
    case v1::Request::kGetAttr:
      return "get_attr";
    case v1::Request::kSetAttr:
      return "set_attr";
    case v1::Request::kCreate:
      return "create";
    case v1::Request::kLink:
      return "link";
    case v1::Request::kUnlink:
      return "unlink";
    case v1::Request::kRename:
      return "rename";
    case v1::Request::kReadDir:
      return "read_dir";
    case v1::Request::kReadLink:
      return "read_link";
    case v1::Request::kGetXattr:
      return "get_xattr";
    case v1::Request::kSetXattr:
      return "set_xattr";
    case v1::Request::kListXattr:
      return "list_xattr";
    case v1::Request::kRemoveXattr:
      return "remove_xattr";
    case v1::Request::kStatFs:
      return "stat_fs";
    case v1::Request::kSync:
      return "sync";
    case v1::Request::kAccessed:
      return "accessed";
    case v1::Request::kAttrReturn:
      return "attr_return";
    case v1::Request::kOpen:
      return "open";
    case v1::Request::kClose:
      return "close";
    case v1::Request::kLayoutGet:
      return "layout_get";
    case v1::Request::kLayoutCommit:
      return "layout_commit";
    case v1::Request::kLayoutReturn:
      return "layout_return";
    case v1::Request::kAllocate:
      return "allocate";
    case v1::Request::kSetLock:
      return "set_lock";
    case v1::Request::kTestLock:
      return "test_lock";
    case v1::Request::kCancelLock:
      return "cancel_lock";
    case v1::Request::kLockReturn:
      return "lock_return";
  }
  return "";
}

// (Of a kind that is not known nothing is known: it is refused.)
RequestKind KindOf(const v1::Request& request) {
  const v1::Request& r = request;
  switch (r.op_case()) {
    case v1::Request::OP_NOT_SET:
      return {kPlain, kNone, {}, {}};
    // Of sessions.
    case v1::Request::kHello:
      return {kPlain, kNone, {}, {}};
    case v1::Request::kRenew:
      return {kBrief, kNone, {}, {}};
    case v1::Request::kGoodbye:
      return {kPlain, kNone, {}, {}};
    case v1::Request::kReclaim:
      return {kOfSession | kOfStream | kBrief, kNone, {}, {}};
    case v1::Request::kNewKey:
      return {kOfSession | kBrief, kNone, {}, {}};
    case v1::Request::kGiveUp:
      return {kOfStream, kNone, {}, {}};
    case v1::Request::kMapTaken:
    case v1::Request::kTraffic:
    case v1::Request::kPong:
      return {kOfStream | kBrief, kNone, {}, {}};
    // Of names and attributes.
    case v1::Request::kLookup:
      return LookupKind(r.lookup());
    case v1::Request::kGetAttr:
      return {kRead | If((r.get_attr().access() & W_OK) != 0, kChangesVolume),
              kNone,
              {},
              {Inode(r.get_attr())}};
    case v1::Request::kSetAttr:
      return SetAttrKind(r.set_attr());
    case v1::Request::kCreate:
      return {kChange | kChangesSpace | If(!r.create().unnamed(), kEarly),
              kGrows,
              {},
              {Parent(r.create())}};
    case v1::Request::kLink:
      return {kChange | kEarly, kGrows, {}, {Parent(r.link()), Inode(r.link())}};
    case v1::Request::kUnlink:
      return {kChange | kEarly | kChangesSpace, kNone, {}, {Parent(r.unlink())}};
    case v1::Request::kRename:
      return RenameKind(r.rename());
    case v1::Request::kReadDir:
      return {r.read_dir().layouts() > 0 ? kOfSession : kRead, kNone, {}, {Inode(r.read_dir())}};
    case v1::Request::kReadLink:
      return {kRead, kNone, {}, {}};
    case v1::Request::kGetXattr:
      return {kRead, kNone, {}, {}};
    case v1::Request::kSetXattr:
      return {kChange | kEarly | If(r.set_xattr().name() == kAffinity, kChangesSpace),
              kGrows,
              {},
              {Inode(r.set_xattr())}};
    case v1::Request::kListXattr:
      return {kRead, kNone, {}, {}};
    case v1::Request::kRemoveXattr:
      return {kChange | kEarly | If(r.remove_xattr().name() == kAffinity, kChangesSpace),
              kNone,
              {},
              {Inode(r.remove_xattr())}};
    case v1::Request::kStatFs:
      return {kRead, kNone, {}, {}};
    case v1::Request::kSync:
      return {kPlain, kNone, {}, {}};
    // (Without a slot: done twice it is done once, and a controller that does not know it has none
    // to go on with.)
    case v1::Request::kAccessed:
      return {kChangesVolume, kNone, {}, {}};
    case v1::Request::kAttrReturn:
      return {kRead | kOfStream | kBrief, kNone, {}, {}};
    // Of files. (A close is void with no session: of an unknown open it does nothing, and one of an
    // open that was registered anew must arrive. Nor is it brief: its open may not be sent yet.)
    case v1::Request::kOpen:
      return OpenKind(r.open());
    case v1::Request::kClose:
      return {kPlain, kNone, Inode(r.close()), {}};
    case v1::Request::kLayoutGet:
      return LayoutGetKind(r.layout_get());
    case v1::Request::kLayoutCommit:
      return LayoutCommitKind(r.layout_commit());
    case v1::Request::kLayoutReturn:
      return {kMutation | kOfSession, kNone, Inode(r.layout_return()), {}};
    case v1::Request::kAllocate:
      return AllocateKind(r.allocate());
    // Of locks.
    case v1::Request::kSetLock:
      return SetLockKind(r.set_lock().lock());
    case v1::Request::kTestLock:
      return {kRead, kNone, {}, {}};
    case v1::Request::kCancelLock:
      return {kOfSession, kNone, {}, {}};
    case v1::Request::kLockReturn:
      return {kOfSession | kBrief, kNone, {}, {}};
  }
  return {kPlain, kNone, {}, {}};
}

}  // namespace reel
