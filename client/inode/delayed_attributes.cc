#include "client/inode/delayed_attributes.h"

#include <sys/stat.h>

#include "proto/convert.h"
#include "proto/inode_flags.h"
#include "proto/times.h"

namespace reel::client {
namespace {

using v1::SetAttr;

constexpr std::uint32_t kDelayableFields = SetAttr::MODE | SetAttr::UID | SetAttr::GID |
                                           SetAttr::ATIME | SetAttr::MTIME | SetAttr::ATIME_NOW |
                                           SetAttr::MTIME_NOW;
constexpr std::uint32_t kSetId = S_ISUID | S_ISGID;

bool Has(const SetAttr& set, std::uint32_t fields) {
  return (set.fields() & fields) != 0;
}

}  // namespace

bool MayBeDelayed(const SetAttr& set, const v1::Attr& attr) {
  if (set.fields() == 0 || Has(set, ~kDelayableFields)) return false;
  if (!S_ISREG(attr.mode()) || attr.xattrs() || HasRules(attr.flags())) return false;
  return (attr.mode() & kSetId) == 0 && (!Has(set, SetAttr::MODE) || (set.mode() & kSetId) == 0);
}

SetAttr DelayedPart(const SetAttr& set, const v1::Attr& attr, WallTime now) {
  SetAttr delayed = set;
  std::uint32_t fields = set.fields() | SetAttr::CTIME;
  *delayed.mutable_ctime() = LaterThan(attr.ctime(), ToProto(now));  // (its clock may be behind)
  if (Has(set, SetAttr::ATIME_NOW)) {
    fields |= SetAttr::ATIME;
    *delayed.mutable_atime() = ToProto(now);
  }
  if (Has(set, SetAttr::MTIME_NOW)) {
    fields |= SetAttr::MTIME;
    *delayed.mutable_mtime() = ToProto(now);
  }
  delayed.set_fields(fields & ~std::uint32_t{SetAttr::ATIME_NOW | SetAttr::MTIME_NOW});
  delayed.set_only_if_due(true);
  return delayed;
}

void MergeDelayed(const SetAttr& later, SetAttr& delayed) {
  delayed.set_inode(later.inode());
  delayed.set_fields(delayed.fields() | later.fields());
  delayed.set_only_if_due(true);
  if (Has(later, SetAttr::MODE)) delayed.set_mode(later.mode());
  if (Has(later, SetAttr::UID)) delayed.set_uid(later.uid());
  if (Has(later, SetAttr::GID)) delayed.set_gid(later.gid());
  if (Has(later, SetAttr::ATIME)) *delayed.mutable_atime() = later.atime();
  if (Has(later, SetAttr::MTIME)) *delayed.mutable_mtime() = later.mtime();
  if (Has(later, SetAttr::CTIME)) *delayed.mutable_ctime() = later.ctime();
}

void ShowDelayed(const SetAttr& delayed, v1::Attr& attr) {
  if (Has(delayed, SetAttr::MODE)) attr.set_mode((attr.mode() & S_IFMT) | (delayed.mode() & 07777));
  if (Has(delayed, SetAttr::UID)) attr.set_uid(delayed.uid());
  if (Has(delayed, SetAttr::GID)) attr.set_gid(delayed.gid());
  if (Has(delayed, SetAttr::ATIME)) *attr.mutable_atime() = delayed.atime();
  if (Has(delayed, SetAttr::MTIME)) *attr.mutable_mtime() = delayed.mtime();
  if (Has(delayed, SetAttr::CTIME) && Later(delayed.ctime(), attr.ctime())) {
    *attr.mutable_ctime() = delayed.ctime();
  }
}

}  // namespace reel::client
