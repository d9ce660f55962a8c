#include "mdc/ops/allocate.h"
#include "mdc/ops/attributes.h"
#include "mdc/ops/layout.h"
#include "mdc/ops/locks.h"
#include "mdc/ops/names.h"
#include "mdc/ops/open.h"
#include "mdc/ops/operation.h"
#include "mdc/ops/read_dir.h"
#include "mdc/ops/xattrs.h"

namespace reel::mdc {

Operation OperationFor(v1::Request::OpCase op) {
  switch (op) {
    case v1::Request::OP_NOT_SET:
    case v1::Request::kHello:
    case v1::Request::kRenew:
    case v1::Request::kGoodbye:
    case v1::Request::kReclaim:
    case v1::Request::kNewKey:
    case v1::Request::kGiveUp:
    case v1::Request::kMapTaken:
    case v1::Request::kTraffic:
    case v1::Request::kPong:
      return nullptr;
    case v1::Request::kLookup:
      return Lookup;
    case v1::Request::kGetAttr:
      return GetAttr;
    case v1::Request::kSetAttr:
      return SetAttr;
    case v1::Request::kCreate:
      return Create;
    case v1::Request::kLink:
      return Link;
    case v1::Request::kUnlink:
      return Unlink;
    case v1::Request::kRename:
      return Rename;
    case v1::Request::kReadDir:
      return ReadDir;
    case v1::Request::kReadLink:
      return ReadLink;
    case v1::Request::kGetXattr:
      return GetXattr;
    case v1::Request::kSetXattr:
      return SetXattr;
    case v1::Request::kListXattr:
      return ListXattr;
    case v1::Request::kRemoveXattr:
      return RemoveXattr;
    case v1::Request::kStatFs:
      return StatFs;
    case v1::Request::kSync:
      return Sync;
    case v1::Request::kAccessed:
      return Accessed;
    case v1::Request::kOpen:
      return Open;
    case v1::Request::kClose:
      return Close;
    case v1::Request::kLayoutGet:
      return LayoutGet;
    case v1::Request::kLayoutCommit:
      return LayoutCommit;
    case v1::Request::kLayoutReturn:
      return LayoutReturn;
    case v1::Request::kAllocate:
      return Allocate;
    case v1::Request::kAttrReturn:
      return AttrReturn;
    case v1::Request::kSetLock:
      return SetLock;
    case v1::Request::kTestLock:
      return TestLock;
    case v1::Request::kCancelLock:
      return CancelLock;
    case v1::Request::kLockReturn:
      return LockReturn;
  }
  return nullptr;
}

}  // namespace reel::mdc
