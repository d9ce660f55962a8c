// Operations on files from one end to the other: the client asks for blocks and extents ahead of
// them, and reads ahead. And on one file after the other: it fetches the next ones ahead.
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>

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

// Forward or in reverse, some times over: by then names are known, and bytes of a few of them lie
// in memory, while the other hosts write them.
void Program::Play(int directory) {
  const bool reverse = random().OneIn(3);
  const std::uint64_t rounds = random().Between(1, 4);
  for (std::uint64_t i = 0; i < rounds * NameHistory::kNames; ++i) {
    const int at = static_cast<int>(i % NameHistory::kNames);
    const int frame = reverse ? NameHistory::kNames - 1 - at : at;
    if (!Continue() || !PlayFrame(directory * NameHistory::kNames + frame)) return;
    if (random().OneIn(2)) shared_.cluster.scheduler().Sleep(random().Between(10, 4 * kMs));
  }
}

bool Program::PlayFrame(int slot) {
  client::Attributes attr;
  if (Lookup(slot, &attr) == 0 || !S_ISREG(attr.mode)) return random().OneIn(2);
  NextHandle();
  const Micros began = now();
  const absl::Status opened = machine_.vfs().Open(attr.inode, O_RDONLY, caller_).status();
  CheckPause(began);
  CheckOpened(attr.inode, opened, began);
  if (!opened.ok()) return false;
  if (!machine_.vfs().PagesAreGood(attr.inode)) {
    machine_.pages().Drop(attr.inode, 0, DataModel::kMaxFileBytes);
  }
  // Whole, or its first part alone.
  std::uint64_t length_bytes = random().OneIn(3) ? 8 * kKiB : DataModel::kMaxFileBytes;
  for (std::uint64_t at = 0; length_bytes > 0;) {
    const std::uint64_t part_bytes = std::min<std::uint64_t>(length_bytes, 16 * kKiB);
    const std::uint64_t got = RoundDown(Read(attr.inode, {at, part_bytes}), kCell);
    if (got < part_bytes) break;
    at += got;
    length_bytes -= got;
  }
  Close(attr.inode);
  return true;
}

}  // namespace reel::sim
