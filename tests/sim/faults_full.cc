// A data pool without a free block, or a metadata store without room: what has been acknowledged
// has its place, and all that was there before can be used again.
#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <memory>

#include "absl/strings/str_cat.h"
#include "proto/protocol.h"
#include "proto/status.h"
#include "tests/sim/faults.h"
#include "volume/base/types.h"

namespace reel::sim {
namespace {

constexpr std::uint64_t kBlockBytes = 4096;
constexpr std::uint64_t kMostAtOnce = 128 * kBlockBytes;
constexpr Micros kPause = 100 * kMs;
// Behind that everybody's session has run out who may have been in the way.
constexpr Micros kFreeWithin = 30 * kLease;

// False: its session is over, or it has no file.
bool TakeAllBlocks(client::Vfs& vfs, std::uint64_t inode) {
  std::uint64_t end_bytes = 0;
  for (std::uint64_t step = kMostAtOnce; step >= kBlockBytes;) {
    const absl::Status status = vfs.Allocate(inode, 0, end_bytes, step, {});
    if (status.ok()) {
      end_bytes += step;
    } else if (ErrnoOf(status) == ENOSPC) {
      step /= 2;
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace

void Faults::FillPool(Machine& machine) {
  ++under_way_;
  filling_ = true;
  cluster_.NoteFull(true);
  const std::string name = absl::StrCat("filler", scheduler().now());
  const auto done = std::make_shared<bool>(false);
  const Micros time = random().Between(50 * kMs, kLease);
  scheduler().Spawn(machine.host(), [this, &machine, name, done, time] {
    client::Vfs& vfs = machine.vfs();
    const auto made = vfs.Create({kRootInode.value(), name}, 0600, O_CREAT | O_EXCL | O_RDWR, {});
    if (made.ok()) {
      const bool full = TakeAllBlocks(vfs, made->inode());
      cluster_.Log(
          [&] { return full ? "*** the pool is full" : "*** the pool could not be filled"; });
      scheduler().Sleep(time);
      vfs.Close(made->inode());
    }
    *done = true;
  });
  scheduler().Spawn(0, [this, &machine, name, done] {
    while (!*done && cluster_.alive(machine)) scheduler().Sleep(kPause);
    RemoveFiller(name);
    CheckSpace(absl::StrCat(name, ".after"), /*blocks=*/true);
    cluster_.NoteFull(false);
    filling_ = false;
    --under_way_;
  });
}

// By anybody.
void Faults::RemoveFiller(const std::string& name) {
  const Micros until = scheduler().now() + kFreeWithin;
  while (scheduler().now() < until) {
    const auto error = std::make_shared<int>(EIO);
    Machine* const machine = AnyMachine();
    if (machine != nullptr && machine->mounted()) {
      scheduler().Spawn(machine->host(), [machine, name, error] {
        *error = ErrnoOf(machine->vfs().Unlink({kRootInode.value(), name}, false, {}));
      });
      for (Micros waited = 0; waited < kLease && *error == EIO; waited += kPause) {
        scheduler().Sleep(kPause);
      }
    }
    if (*error == 0 || *error == ENOENT) return;
    scheduler().Sleep(kPause);
  }
}

// Names are refused as soon as the controller has looked, and it looks before it answers; but those
// that a client makes by itself in a delegated directory, as many as inodes were reserved before.
void Faults::FillStore(Machine& machine) {
  ++under_way_;
  filling_store_ = true;
  cluster_.SetStoreRoom(Cluster::StoreRoom::kFull);
  const std::string name = absl::StrCat("full", scheduler().now());
  scheduler().Spawn(machine.host(), [this, &machine, name] {
    for (std::size_t made = 0; cluster_.StoreIsFull(); ++made) {
      const client::NameIn at{kRootInode.value(), name};
      const absl::Status status = machine.vfs().Make(at, S_IFDIR | 0700, 0, {}).status();
      if (!status.ok()) return;
      // (It may make what it has reserved inodes for.)
      if (made > kMaxReservedInodes && cluster_.StoreIsFull()) {
        cluster_.Violate("names are made in a store that is full");
      }
      (void)machine.vfs().Unlink(at, /*directory=*/true, {});
    }
  });
  scheduler().Spawn(0, [this, name] {
    scheduler().Sleep(random().Between(50 * kMs, kLease));
    if (random().OneIn(2)) {
      cluster_.SetStoreRoom(Cluster::StoreRoom::kExhausted);
      scheduler().Sleep(random().Between(50 * kMs, kLease));
    }
    cluster_.SetStoreRoom(Cluster::StoreRoom::kAmple);
    CheckSpace(absl::StrCat(name, ".after"), /*blocks=*/false);
    filling_store_ = false;
    --under_way_;
  });
}

// Somebody can have names and blocks again.
void Faults::CheckSpace(const std::string& name, bool blocks) {
  const Micros until = scheduler().now() + kFreeWithin;
  const auto got = std::make_shared<bool>(false);
  for (int i = 0; scheduler().now() < until && !*got; ++i) {
    Machine* const machine = AnyMachine();
    if (machine == nullptr) return;
    // (What one leaves that dies has a name of its own.)
    scheduler().Spawn(machine->host(), [machine, name = absl::StrCat(name, i), got, blocks] {
      client::Vfs& vfs = machine->vfs();
      const client::NameIn at{kRootInode.value(), name};
      const auto file = vfs.Create(at, 0600, O_CREAT | O_EXCL | O_RDWR, {});
      if (!file.ok()) return;
      if (!blocks || vfs.Allocate(file->inode(), 0, 0, kBlockBytes, {}).ok()) *got = true;
      vfs.Close(file->inode());
      (void)vfs.Unlink(at, false, {});
    });
    for (Micros waited = 0; waited < kLease && !*got; waited += kPause) {
      scheduler().Sleep(kPause);
    }
  }
  if (*got) return;
  cluster_.Violate(blocks ? "no block is free, long after the pool was full"
                          : "no name can be made, long after the store was full");
}

}  // namespace reel::sim
