#include "client/inode/attributes_ahead.h"

#include <sys/stat.h>

#include "proto/convert.h"
#include "proto/times.h"

namespace reel::client {
namespace {

using v1::SetAttr;

constexpr std::uint32_t kAheadFields = SetAttr::MODE | SetAttr::UID | SetAttr::GID |
                                       SetAttr::ATIME | SetAttr::MTIME | SetAttr::ATIME_NOW |
                                       SetAttr::MTIME_NOW;
constexpr std::uint32_t kSetId = S_ISUID | S_ISGID;

bool Has(const SetAttr& set, std::uint32_t fields) {
  return (set.fields() & fields) != 0;
}

}  // namespace

bool MayBeAhead(const SetAttr& set, const v1::Attr& attr) {
  if (set.fields() == 0 || Has(set, ~kAheadFields)) return false;
  if (!S_ISREG(attr.mode()) || attr.xattrs() || attr.flags() != 0) return false;
  return (attr.mode() & kSetId) == 0 && (!Has(set, SetAttr::MODE) || (set.mode() & kSetId) == 0);
}

SetAttr AheadOf(const SetAttr& set, const v1::Attr& attr, WallTime now) {
  SetAttr ahead = set;
  std::uint32_t fields = set.fields() | SetAttr::CTIME;
  *ahead.mutable_ctime() = LaterThan(attr.ctime(), ToProto(now));  // (its clock may be behind)
  if (Has(set, SetAttr::ATIME_NOW)) {
    fields |= SetAttr::ATIME;
    *ahead.mutable_atime() = ToProto(now);
  }
  if (Has(set, SetAttr::MTIME_NOW)) {
    fields |= SetAttr::MTIME;
    *ahead.mutable_mtime() = ToProto(now);
  }
  ahead.set_fields(fields & ~std::uint32_t{SetAttr::ATIME_NOW | SetAttr::MTIME_NOW});
  ahead.set_only_if_due(true);
  return ahead;
}

void MergeAhead(const SetAttr& later, SetAttr& ahead) {
  ahead.set_inode(later.inode());
  ahead.set_fields(ahead.fields() | later.fields());
  ahead.set_only_if_due(true);
  if (Has(later, SetAttr::MODE)) ahead.set_mode(later.mode());
  if (Has(later, SetAttr::UID)) ahead.set_uid(later.uid());
  if (Has(later, SetAttr::GID)) ahead.set_gid(later.gid());
  if (Has(later, SetAttr::ATIME)) *ahead.mutable_atime() = later.atime();
  if (Has(later, SetAttr::MTIME)) *ahead.mutable_mtime() = later.mtime();
  if (Has(later, SetAttr::CTIME)) *ahead.mutable_ctime() = later.ctime();
}

void ShowAhead(const SetAttr& ahead, v1::Attr& attr) {
  if (Has(ahead, SetAttr::MODE)) attr.set_mode((attr.mode() & S_IFMT) | (ahead.mode() & 07777));
  if (Has(ahead, SetAttr::UID)) attr.set_uid(ahead.uid());
  if (Has(ahead, SetAttr::GID)) attr.set_gid(ahead.gid());
  if (Has(ahead, SetAttr::ATIME)) *attr.mutable_atime() = ahead.atime();
  if (Has(ahead, SetAttr::MTIME)) *attr.mutable_mtime() = ahead.mtime();
  if (Has(ahead, SetAttr::CTIME) && Later(ahead.ctime(), attr.ctime())) {
    *attr.mutable_ctime() = ahead.ctime();
  }
}

}  // namespace reel::client
