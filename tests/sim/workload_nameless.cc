// Files that are used on after their last name went, or that never had one.
#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "proto/status.h"
#include "tests/sim/workload.h"
#include "volume/base/aligned_buffer.h"

namespace reel::sim {

void Program::UseNameless(int slot) {
  const bool named = random().OneIn(2);
  const Micros opened = now();
  const std::uint64_t losses = machine_.vfs().losses();
  const std::uint64_t inode = named ? Create(slot) : CreateUnnamed(slot);
  if (inode == 0) return;
  if (random().OneIn(2)) UseFile(inode);
  if (named) Remove(slot, /*directory=*/false);
  const std::uint64_t times = random().Between(2, 5);
  for (std::uint64_t i = 0; i < times && Continue(); ++i) {
    UseFile(inode);
    // Also for as long as another controller takes to follow.
    shared_.cluster.scheduler().Sleep(random().Between(10, random().OneIn(3) ? 1'500 * kMs : kMs));
    if (losses == machine_.vfs().losses()) CheckOpen(inode, opened, /*has_no_name=*/!named);
  }
  if (!named && random().OneIn(2)) {
    const int to = AnySlot();
    const std::size_t number = Begin({.kind = Kind::kLink, .slot_to = to, .inode = inode});
    const absl::Status status = machine_.vfs().Link(inode, At(to), caller_).status();
    machine_.NameChanged(At(to), status.ok());
    machine_.attributes().Changed(inode);
    Ended(number, status, /*grows=*/true);
  }
  Close(inode);
}

// open(2) with O_TMPFILE.
std::uint64_t Program::CreateUnnamed(int slot) {
  NextHandle();
  const std::uint32_t mode = 0600 + static_cast<std::uint32_t>(random().Below(64));
  const std::size_t number = Begin({.kind = Kind::kMakeUnnamed, .mode = S_IFREG | mode});
  const absl::StatusOr<v1::Attr> attr =
      machine_.vfs().CreateUnnamed(At(slot).parent, S_IFREG | mode, O_RDWR, caller_);
  if (attr.ok()) shared_.names.at(number).inode = attr->inode();
  Ended(number, attr.status(), /*grows=*/true);
  if (!attr.ok()) return 0;
  CheckInherited(slot / NameHistory::kNames, attr->inode(), shared_.names.at(number).began);
  return attr->inode();
}

// Whatever became of its names: in the session in which it was opened it is there.
void Program::CheckOpen(std::uint64_t inode, Micros opened, bool has_no_name) {
  constexpr DataModel::Range kBeginning{0, DataModel::kCellBytes};
  const absl::StatusOr<client::Attributes> attr = machine_.vfs().GetAttr(inode, caller_);
  AlignedBuffer buffer(kIoAlignment);
  const absl::Status read =
      machine_.vfs()
          .Read(inode, kBeginning.offset_bytes, buffer.span().first(kBeginning.length_bytes), 0,
                false, caller_)
          .status();
  const int host = machine_.host();
  if (data().Unaware(host) || data().LostSessionSince(host, opened)) return;
  for (const absl::Status& status : {attr.status(), read}) {
    if (status.ok() || (ErrnoOf(status) != ESTALE && ErrnoOf(status) != ENOENT)) continue;
    shared_.cluster.Violate(absl::StrCat("host ", host, " has inode ", inode,
                                         " open, which is gone: ", status.ToString()));
    return;
  }
  if (has_no_name && attr.ok() && attr->nlink != 0) {
    shared_.cluster.Violate(
        absl::StrCat("inode ", inode, " has ", attr->nlink, " links, and never had a name"));
  }
}

}  // namespace reel::sim
