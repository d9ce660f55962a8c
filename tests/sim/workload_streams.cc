// Operations on files from one end to the other: the client asks for blocks and extents ahead of
// them, and reads ahead.
#include "tests/sim/workload.h"

namespace reel::sim {
namespace {

constexpr std::uint64_t kPartsAnOperation = 4;  // of a stream, as the history counts them

}  // namespace

void Program::Stream(std::uint64_t inode) {
  switch (random().Below(3)) {
    case 0:
      return StreamOut(inode);
    case 1:
      return StreamIn(inode, /*follows=*/false);
    default:
      return StreamIn(inode, /*follows=*/true);
  }
}

void Program::PauseInStream() {
  if (random().OneIn(4)) shared_.cluster.scheduler().Sleep(random().Between(10, 3 * kMs));
  if (random().OneIn(64)) shared_.cluster.scheduler().Sleep(random().Between(kMs, 1'500 * kMs));
}

void Program::StreamOut(std::uint64_t inode) {
  const std::uint64_t part_bytes = kCell << random().Between(2, 7);
  const std::uint64_t end_bytes =
      RoundDown(random().Between(16 * kKiB, DataModel::kMaxFileBytes), part_bytes);
  if (random().OneIn(3)) Truncate(inode, 0);
  std::uint64_t at = 0;
  for (std::uint64_t i = 0; at < end_bytes; ++i, at += part_bytes) {
    if (i % kPartsAnOperation == 0 && !Continue()) return;
    Write(inode, {at, part_bytes});
    PauseInStream();
  }
  if (random().OneIn(2)) Fsync(inode);
}

// `follows`: whoever comes to the end waits for a writer to go on, for a while.
void Program::StreamIn(std::uint64_t inode, bool follows) {
  const std::uint64_t part_bytes = kCell << random().Between(2, 7);
  std::uint64_t waits = follows ? random().Between(4, 16) : 0;
  std::uint64_t at = 0;
  for (std::uint64_t i = 0; at + part_bytes <= DataModel::kMaxFileBytes; ++i) {
    if (i % kPartsAnOperation == 0 && !Continue()) return;
    const std::uint64_t length = RoundDown(Read(inode, {at, part_bytes}), kCell);
    at += length;
    if (length < part_bytes) {
      if (waits-- == 0) return;
      shared_.cluster.scheduler().Sleep(random().Between(kMs, 20 * kMs));
    }
    // Somebody on the same machine changes what may have been read ahead by now.
    if (random().OneIn(12) && at + 2 * part_bytes < DataModel::kMaxFileBytes) {
      Write(inode, {at + kCell * random().Below(part_bytes / kCell), part_bytes});
    }
    PauseInStream();
  }
}

}  // namespace reel::sim
