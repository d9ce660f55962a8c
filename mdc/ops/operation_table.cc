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

const OperationEntry& OperationFor(v1::Request::OpCase op) {
  static constexpr OperationEntry kNone{};
  static constexpr OperationEntry kLookup{Lookup, false, "lookup"};
  static constexpr OperationEntry kGetAttr{GetAttr, false, "get_attr"};
  static constexpr OperationEntry kSetAttr{SetAttr, true, "set_attr"};
  static constexpr OperationEntry kCreate{Create, true, "create"};
  static constexpr OperationEntry kLink{Link, true, "link"};
  static constexpr OperationEntry kUnlink{Unlink, true, "unlink"};
  static constexpr OperationEntry kRename{Rename, true, "rename"};
  static constexpr OperationEntry kReadDir{ReadDir, false, "read_dir"};
  static constexpr OperationEntry kReadLink{ReadLink, false, "read_link"};
  static constexpr OperationEntry kGetXattr{GetXattr, false, "get_xattr"};
  static constexpr OperationEntry kSetXattr{SetXattr, true, "set_xattr"};
  static constexpr OperationEntry kListXattr{ListXattr, false, "list_xattr"};
  static constexpr OperationEntry kRemoveXattr{RemoveXattr, true, "remove_xattr"};
  static constexpr OperationEntry kStatFs{StatFs, false, "stat_fs"};
  static constexpr OperationEntry kSync{Sync, false, "sync"};
  static constexpr OperationEntry kOpen{Open, false, "open"};
  static constexpr OperationEntry kClose{Close, false, "close"};
  // Carries a slot when it allocates.
  static constexpr OperationEntry kLayoutGet{LayoutGet, false, "layout_get"};
  static constexpr OperationEntry kLayoutCommit{LayoutCommit, true, "layout_commit"};
  static constexpr OperationEntry kLayoutReturn{LayoutReturn, true, "layout_return"};
  static constexpr OperationEntry kAllocate{Allocate, true, "allocate"};
  static constexpr OperationEntry kAttrReturn{AttrReturn, false, "attr_return"};
  static constexpr OperationEntry kSetLock{SetLock, false, "set_lock"};
  static constexpr OperationEntry kTestLock{TestLock, false, "test_lock"};
  static constexpr OperationEntry kCancelLock{CancelLock, false, "cancel_lock"};
  static constexpr OperationEntry kLockReturn{LockReturn, false, "lock_return"};

  switch (op) {
    case v1::Request::kLookup:
      return kLookup;
    case v1::Request::kGetAttr:
      return kGetAttr;
    case v1::Request::kSetAttr:
      return kSetAttr;
    case v1::Request::kCreate:
      return kCreate;
    case v1::Request::kLink:
      return kLink;
    case v1::Request::kUnlink:
      return kUnlink;
    case v1::Request::kRename:
      return kRename;
    case v1::Request::kReadDir:
      return kReadDir;
    case v1::Request::kReadLink:
      return kReadLink;
    case v1::Request::kGetXattr:
      return kGetXattr;
    case v1::Request::kSetXattr:
      return kSetXattr;
    case v1::Request::kListXattr:
      return kListXattr;
    case v1::Request::kRemoveXattr:
      return kRemoveXattr;
    case v1::Request::kStatFs:
      return kStatFs;
    case v1::Request::kSync:
      return kSync;
    case v1::Request::kOpen:
      return kOpen;
    case v1::Request::kClose:
      return kClose;
    case v1::Request::kLayoutGet:
      return kLayoutGet;
    case v1::Request::kLayoutCommit:
      return kLayoutCommit;
    case v1::Request::kLayoutReturn:
      return kLayoutReturn;
    case v1::Request::kAllocate:
      return kAllocate;
    case v1::Request::kAttrReturn:
      return kAttrReturn;
    case v1::Request::kSetLock:
      return kSetLock;
    case v1::Request::kTestLock:
      return kTestLock;
    case v1::Request::kCancelLock:
      return kCancelLock;
    case v1::Request::kLockReturn:
      return kLockReturn;
    default:
      return kNone;
  }
}

}  // namespace reel::mdc
