// Setting attributes: here, to be told later, by the data path that owns them, or by the
// controller.
#include <optional>
#include <utility>

#include "client/vfs/vfs.h"
#include "proto/convert.h"
#include "proto/status.h"

namespace reel::client {
namespace {

// Fields that FileData may own while it holds the token.
constexpr std::uint32_t kDataFields = v1::SetAttr::SIZE | v1::SetAttr::ATIME | v1::SetAttr::MTIME |
                                      v1::SetAttr::ATIME_NOW | v1::SetAttr::MTIME_NOW;

}  // namespace

absl::StatusOr<v1::Attr> Vfs::SetAttr(v1::SetAttr set, const Caller& caller) {
  absl::StatusOr<v1::Attr> attr = SetAttrOfNamed(set, caller);
  if (!IsRemoved(set.inode(), attr.status())) return attr;
  const std::optional<v1::Attr> removed = removed_.Set(set, ToProto(SystemClock().WallNow()));
  return removed ? *removed : attr;
}

// Where callers have other identities than the kernel knows, only the controller can say whether
// they may.
bool Vfs::MayChangeFirst() const {
  return !options_.durable_metadata && !session_.checks_opens() && !session_.read_only();
}

std::optional<v1::Attr> Vfs::DelayAttributes(const v1::SetAttr& set) {
  if (!session_.delays_attributes() || !MayChangeFirst()) return {};
  const std::optional<Attributes> found = names_.GetAttr(set.inode());
  if (!found) return {};
  v1::Attr known = found->ToProto();
  data_.Overlay(known);
  return data_.DelayAttributes(set, known);
}

absl::StatusOr<v1::Attr> Vfs::SetAttrOfNamed(v1::SetAttr set, const Caller& caller) {
  if (std::optional<v1::Attr> delayed = DelayAttributes(set)) return *std::move(delayed);
  if (absl::Status sent = data_.SendDelayed(set.inode(), Context(caller)); !sent.ok()) return sent;
  // These take set-group-id from a caller who is not in the file's group.
  constexpr std::uint32_t kAsksForGroups = v1::SetAttr::SIZE | v1::SetAttr::UID | v1::SetAttr::GID;
  Caller setter = AsChecked(caller);
  if ((set.fields() & kAsksForGroups) != 0 && caller.credentials.uid() != 0) setter.AddGroups();
  if ((set.fields() & kDataFields) != 0) {
    absl::StatusOr<v1::Attr> attr = data_.SetAttr(std::move(set), Context(setter));
    if (attr.ok()) data_.Overlay(*attr);
    return attr;
  }
  v1::Request request;
  *request.mutable_set_attr() = std::move(set);
  return CallForAttr(std::move(request), setter);
}

}  // namespace reel::client
