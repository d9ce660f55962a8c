#include "client/vfs/dir_handle.h"

#include <algorithm>
#include <cerrno>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/convert.h"
#include "proto/status.h"

namespace reel::client {

DirHandle::Found DirHandle::Find(std::uint64_t cookie) {
  if (!kept_ || cookie < start_cookie_) return {};
  const auto& entries = reply_->entries();
  const bool in_sequence =
      next_ > 0 && next_ <= entries.size() && entries[next_ - 1].cookie() == cookie;
  if (!in_sequence) {
    const auto behind =
        std::upper_bound(entries.begin(), entries.end(), cookie,
                         [](std::uint64_t value, const v1::ReadDirReply::Entry& entry) {
                           return value < entry.cookie();
                         });
    next_ = static_cast<int>(behind - entries.begin());
  }
  if (next_ < entries.size()) {
    if (bound_cookie_ != 0 && entries[next_].cookie() >= bound_cookie_) return {Position::kEnd};
    return {Position::kEntry, &entries[next_++]};
  }
  return {reply_->end() ? Position::kEnd : Position::kUnknown, nullptr};
}

absl::Status DirHandle::Keep(std::uint64_t cookie, std::shared_ptr<const v1::ReadDirReply> reply) {
  kept_ = false;
  std::uint64_t last = cookie;
  for (const v1::ReadDirReply::Entry& entry : reply->entries()) {
    if (entry.cookie() <= last || entry.cookie() > std::numeric_limits<std::int64_t>::max() ||
        !ValidateName(entry.name()).ok()) {
      return ErrnoStatus(
          EIO, absl::StrCat("directory ", inode_, ": the controller's entry behind cookie ", last,
                            " has a bad name or cookie"));
    }
    last = entry.cookie();
  }
  if (reply->entries().empty() && !reply->end()) {
    return ErrnoStatus(
        EIO, absl::StrCat("directory ", inode_, ": the controller sent no entries behind cookie ",
                          cookie, " and no end"));
  }
  if (cookie == 0) bound_cookie_ = reply->next_cookie();
  reply_ = std::move(reply);
  start_cookie_ = cookie;
  next_ = 0;
  kept_ = true;
  return absl::OkStatus();
}

}  // namespace reel::client
