// Operations on what files are made of: many extents, holes, tails that are cut and shown again.
#include <fcntl.h>
#include <linux/falloc.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tests/sim/workload.h"

namespace reel::sim {
namespace {

constexpr std::uint64_t kBlock = 4096;

bool Zeroes(int mode) {
  return (mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE)) != 0;
}

}  // namespace

void Program::Reshape(std::uint64_t inode) {
  switch (random().Below(4)) {
    case 0:
      return Scatter(inode);
    case 1:
    case 2:
      return CutAndShow(inode);
    default:
      return Allocate(inode, AnyAllocation(), AnyRange());
  }
}

int Program::AnyAllocation() {
  constexpr int kModes[] = {0, FALLOC_FL_KEEP_SIZE, FALLOC_FL_ZERO_RANGE,
                            FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE,
                            FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE};
  return kModes[random().Below(std::size(kModes))];
}

// A file of as many extents as it has room for; then something that takes away many of them at
// once, and what shows that they are gone.
void Program::Scatter(std::uint64_t inode) {
  const std::uint64_t from = kBlock * random().Below(2);
  for (std::uint64_t at = from; at + kBlock <= DataModel::kMaxFileBytes; at += 2 * kBlock) {
    if (random().OneIn(8)) continue;
    Write(inode, {at, random().OneIn(2) ? kBlock : kCell * random().Between(1, kBlock / kCell)});
  }
  if (!Continue()) return;
  if (random().OneIn(2)) Fsync(inode);
  const std::uint64_t cut = kCell * random().Below(DataModel::kMaxFileBytes / 2 / kCell);
  switch (random().Below(4)) {
    case 0:
      Truncate(inode, cut);
      break;
    case 1:
      Truncate(inode, cut / kBlock * kBlock);
      break;
    default:
      Allocate(inode, AnyAllocation(), {cut, DataModel::kMaxFileBytes - cut});
      break;
  }
  if (!Continue()) return;
  // Another size, so that what was cut off would be seen, while it is still being freed.
  if (random().OneIn(2)) Truncate(inode, DataModel::kMaxFileBytes - kCell * random().Below(64));
  if (random().OneIn(2)) Write(inode, {DataModel::kMaxFileBytes - kBlock, kBlock});
  Read(inode, {0, DataModel::kMaxFileBytes});
}

// A file that ends in the middle of a block, whose rest may hold old bytes, and then does not end
// there any more.
void Program::CutAndShow(std::uint64_t inode) {
  const DataModel::Range range = AnyRange();
  Write(inode, range);
  const std::uint64_t end = range.offset_bytes + range.length_bytes;
  const std::uint64_t cut = end - kCell * random().Between(1, range.length_bytes / kCell);
  if (random().OneIn(2)) Fsync(inode);
  Truncate(inode, cut);
  if (!Continue()) return;
  if (random().OneIn(3)) shared_.cluster.scheduler().Sleep(random().Between(10, 5 * kMs));
  const std::uint64_t later = cut + kCell * random().Between(1, 2 * kBlock / kCell);
  const DataModel::Range across{cut - std::min(cut, kCell * random().Below(4)),
                                kCell * random().Between(1, 2 * kBlock / kCell)};
  switch (random().Below(5)) {
    case 0:
      Truncate(inode, later);
      break;
    case 1:
      Write(inode, {later, kCell * random().Between(1, 16)});
      break;
    default:
      Allocate(inode, AnyAllocation(), across);
      break;
  }
  Read(inode, {cut / kBlock * kBlock, 3 * kBlock});
}

void Program::Allocate(std::uint64_t inode, int mode, DataModel::Range range) {
  const bool zeroes = Zeroes(mode);
  machine_.pages().BeginChange(inode);
  const DataModel::Range zeros{range.offset_bytes, zeroes ? range.length_bytes : 0};
  const std::uint32_t number = data().BeginWrite(inode, Actor(), zeros, /*zeros=*/true);
  if (zeroes && (Cached() || shared_.maps)) data().GoesThroughPages(number);
  const bool grows = (mode & FALLOC_FL_KEEP_SIZE) == 0;
  if (grows) data().GrowsTo(number, range.offset_bytes + range.length_bytes);
  const Micros began = now();
  machine_.pages().WriteBack(inode, range.offset_bytes, range.length_bytes);
  const absl::Status status = machine_.vfs().Allocate(
      inode, static_cast<std::uint32_t>(mode), range.offset_bytes, range.length_bytes, caller_);
  machine_.attributes().Changed(inode);
  const bool punches = (mode & FALLOC_FL_PUNCH_HOLE) != 0;
  const bool full = ErrnoOf(status) == ENOSPC && shared_.cluster.StoreFullSince(began);
  const bool refused = punches ? full : IsRefused(status, began);
  CheckError("fallocate", inode, status, refused || IsLostFile(status, began));
  machine_.pages().EndChange(inode, range.offset_bytes,
                             zeroes && status.ok() ? range.length_bytes : 0);
  // Parts of blocks are zeroed by writes of the client's, and synced like those.
  data().EndWrite(number, status.ok(), /*durable=*/false);
  Done(began);
  Log([&] {
    return absl::StrCat("[", began, ", ", now(), "] fallocate ", mode, " ", number, " of inode ",
                        inode, " at ", range.offset_bytes, "+", range.length_bytes, ": ",
                        status.ToString());
  });
}

}  // namespace reel::sim
