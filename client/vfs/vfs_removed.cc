// What is remembered of inodes that lost their last name here (client/vfs/removed_inodes.h).
#include <sys/stat.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "client/vfs/vfs.h"
#include "proto/status.h"

namespace reel::client {

std::optional<v1::Attr> Vfs::Victim(const NameIn& at) {
  auto found = names_.Lookup(at.parent, at.name);
  if (!found || found->absent) return std::nullopt;
  const Attributes attr = Overlaid(found->attr);  // its size may be known here only
  const bool last = S_ISDIR(attr.mode) || attr.nlink <= 1;
  return last ? std::optional(attr.ToProto()) : std::nullopt;
}

bool Vfs::IsRemoved(std::uint64_t inode, const absl::Status& status) const {
  return ErrnoOf(status) == ESTALE && removed_.Has(inode);
}

// It may have been written, and closed, since the removal began.
void Vfs::Remember(v1::Attr removed, const v1::Time& now) {
  data_.Overlay(removed);
  removed_.Add(std::move(removed), now);
}

// What was written to a removed file is known nowhere else when all have closed it.
void Vfs::Close(std::uint64_t inode) {
  if (std::optional<v1::Attr> removed = removed_.Find(inode)) {
    data_.Overlay(*removed);
    removed_.Learn(*removed);
  }
  sequence_ahead_.NoteClose(inode);
  open_ahead_.NoteClose(inode);
  data_.Close(inode);
}

}  // namespace reel::client
