#include "mdc/ops/request_kinds.h"

#include <linux/falloc.h>
#include <linux/fs.h>
#include <unistd.h>

#include "mdc/ops/operation.h"

namespace reel::mdc {

bool IsRead(v1::Request::OpCase op) {
  switch (op) {
    case v1::Request::kLookup:
    case v1::Request::kGetAttr:
    case v1::Request::kReadDir:
    case v1::Request::kReadLink:
    case v1::Request::kGetXattr:
    case v1::Request::kListXattr:
    case v1::Request::kStatFs:
    case v1::Request::kAttrReturn:
    case v1::Request::kTestLock:
      return true;
    default:
      return false;
  }
}

bool OnlyRegisters(const v1::Open& open) {
  return open.token() == v1::TOKEN_NONE && open.access() == 0 && !open.write();
}

bool GrowsStore(const v1::Request& request) {
  switch (request.op_case()) {
    case v1::Request::kCreate:
    case v1::Request::kLink:
    case v1::Request::kSetXattr:
      return true;
    case v1::Request::kAllocate:
      // A hole may cut one extent into two, and gives blocks back.
      return (request.allocate().mode() & FALLOC_FL_PUNCH_HOLE) == 0;
    case v1::Request::kRename:
      return (request.rename().flags() & RENAME_WHITEOUT) != 0;
    case v1::Request::kLayoutGet:
      return request.layout_get().allocate();
    default:
      return false;
  }
}

bool StretchesStore(const v1::Request& request) {
  return (request.has_rename() &&
          request.rename().new_name().size() > request.rename().name().size()) ||
         (request.has_allocate() && !GrowsStore(request));
}

bool CommitsBlocks(const v1::Request& request) {
  return request.has_layout_commit() || request.layout_return().has_commit();
}

bool ChangesVolume(const v1::Request& request) {
  switch (request.op_case()) {
    // What asks for the right to change something later, and what gives a token back.
    case v1::Request::kGetAttr:
      return (request.get_attr().access() & W_OK) != 0;
    case v1::Request::kOpen:
      return request.open().write() || request.open().token() == v1::TOKEN_EXCLUSIVE;
    case v1::Request::kLayoutGet:
      return request.layout_get().allocate() || request.layout_get().mode() == v1::TOKEN_EXCLUSIVE;
    case v1::Request::kLayoutReturn:
      return request.layout_return().has_commit();
    case v1::Request::kSetLock:  // who writes: of flock(2)'s both kinds are for readers too
      return request.set_lock().lock().type() == v1::LOCK_EXCLUSIVE &&
             request.set_lock().lock().kind() != v1::LOCK_WHOLE;
    default:
      return OperationFor(request.op_case()).mutation;
  }
}

std::optional<InodeNumber> TokenInode(const v1::Request& request) {
  switch (request.op_case()) {
    case v1::Request::kOpen:
      return InodeNumber(request.open().inode());
    case v1::Request::kLayoutGet:
      return InodeNumber(request.layout_get().inode());
    case v1::Request::kLayoutCommit:
      return InodeNumber(request.layout_commit().inode());
    case v1::Request::kLayoutReturn:
      return InodeNumber(request.layout_return().inode());
    case v1::Request::kAllocate:
      return InodeNumber(request.allocate().inode());
    case v1::Request::kClose:
      return InodeNumber(request.close().inode());
    default:
      return std::nullopt;
  }
}

bool TellableAtOnce(const v1::Request& request) {
  switch (request.op_case()) {
    case v1::Request::kCreate:
      return !request.create().unnamed();
    case v1::Request::kLink:
    case v1::Request::kUnlink:
    case v1::Request::kRename:
    case v1::Request::kSetXattr:
    case v1::Request::kRemoveXattr:
      return true;
    case v1::Request::kSetAttr:
      return (request.set_attr().fields() & v1::SetAttr::SIZE) == 0;
    default:
      return false;
  }
}

absl::InlinedVector<InodeNumber, 2> NamedInodes(const v1::Request& request) {
  switch (request.op_case()) {
    case v1::Request::kLookup:
      return {InodeNumber(request.lookup().parent())};
    case v1::Request::kReadDir:
      return {InodeNumber(request.read_dir().inode())};
    case v1::Request::kCreate:
      return {InodeNumber(request.create().parent())};
    case v1::Request::kUnlink:
      return {InodeNumber(request.unlink().parent())};
    case v1::Request::kLink:
      return {InodeNumber(request.link().parent()), InodeNumber(request.link().inode())};
    case v1::Request::kRename:
      return {InodeNumber(request.rename().parent()), InodeNumber(request.rename().new_parent())};
    case v1::Request::kGetAttr:
      return {InodeNumber(request.get_attr().inode())};
    case v1::Request::kSetAttr:
      if (request.set_attr().fields() == v1::SetAttr::ACCESSED) return {};
      return {InodeNumber(request.set_attr().inode())};
    case v1::Request::kOpen:
      // It waits for nobody: the return of the token that has kept the inode open comes next.
      if (OnlyRegisters(request.open())) return {};
      return {InodeNumber(request.open().inode())};
    case v1::Request::kSetXattr:
      return {InodeNumber(request.set_xattr().inode())};
    case v1::Request::kRemoveXattr:
      return {InodeNumber(request.remove_xattr().inode())};
    default:
      return {};
  }
}

}  // namespace reel::mdc
