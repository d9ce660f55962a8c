#include "mdc/ops/operation.h"

#include <sys/stat.h>

#include <cerrno>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "mdc/metadb/schema.h"
#include "mdc/tables/token_table.h"
#include "proto/status.h"

namespace reel::mdc {

absl::Status StoreIsFull() {
  return ErrnoStatus(ENOSPC,
                     "the metadata store is nearly full: remove files, or give its pool more room");
}

absl::Status OpContext::RequireOthersAtMost(InodeNumber inode, v1::TokenMode allowed,
                                            const TokenSpan& span) {
  if (tokens.OthersAtMost(caller.session, inode, allowed, span)) return absl::OkStatus();
  return Block(inode, allowed, span);
}

absl::Status OpContext::RequireNoHolder(InodeNumber inode) {
  // (In grace its holder could not give it back.)
  if (decided.replay != nullptr || tokens.OthersAtMost(SessionId(0), inode, v1::TOKEN_NONE)) {
    return absl::OkStatus();
  }
  blocked.by_all = true;
  return Block(inode, v1::TOKEN_NONE, kWholeFile);
}

absl::Status OpContext::AwaitRemoval(InodeNumber inode) {
  blocked.on = inode;
  blocked.by_removal = true;
  return absl::UnavailableError("what was truncated is being removed");
}

absl::Status OpContext::Block(InodeNumber inode, v1::TokenMode others_at_most,
                              const TokenSpan& span) {
  blocked.on = inode;
  blocked.at_most = others_at_most;
  blocked.span = span;
  return ErrnoStatus(EAGAIN, absl::StrCat("waiting for tokens of inode ", inode.value()));
}

absl::Status OpContext::RequireAttrAtMost(InodeNumber inode, v1::TokenMode allowed) {
  if (attr_tokens.OthersAtMost(caller.session, inode, allowed)) return absl::OkStatus();
  blocked.on = inode;
  blocked.at_most = allowed;
  blocked.by_attr = true;
  return ErrnoStatus(EAGAIN, absl::StrCat("waiting for caches of inode ", inode.value()));
}

bool OpContext::IsUndelegated(InodeNumber inode, const v1::InodeRecord& record) const {
  const auto undelegated = [&](InodeNumber of) {
    return attr_tokens.OthersAtMost(caller.session, of, v1::TOKEN_SHARED);
  };
  if (!attr_tokens.AnyExclusive()) return true;
  return undelegated(inode) &&
         (!S_ISREG(record.mode()) || undelegated(InodeNumber(record.directory())));
}

std::optional<InodeNumber> InodeNumbers::Reserve() {
  if (next_ + kRangeRest >= limit_) return std::nullopt;
  return InodeNumber(next_++);
}

absl::StatusOr<v1::VolumeRecord> VolumeCounts(Txn& txn) {
  const absl::StatusOr<std::optional<std::string>> stored = txn.GetCounts(schema::VolumeKey());
  if (!stored.ok()) return stored.status();
  v1::VolumeRecord volume;
  if (!stored->has_value() || !volume.ParseFromString(**stored)) {
    return absl::DataLossError("volume record is missing or cannot be decoded; run fsck.reelfs");
  }
  return volume;
}

absl::StatusOr<InodeNumber> InodeNumbers::Take(Txn& txn, InodeNumber given) {
  absl::StatusOr<v1::VolumeRecord> volume = VolumeCounts(txn);
  if (!volume.ok()) return volume.status();
  limit_ = volume->next_inode();
  const InodeNumber taken = given != InodeNumber() ? given : InodeNumber(next_);
  // The record's own word, not memory's: an operation that staged a range may not have committed.
  if (next_ + kRangeRest >= limit_) volume->set_next_inode(next_ + kRange);
  volume->set_inodes(volume->inodes() + 1);
  txn.Put(schema::VolumeKey(), volume->SerializeAsString());
  return taken;
}

}  // namespace reel::mdc
