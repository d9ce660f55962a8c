#include "tests/sim/volume.h"

#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "mdc/core/core.h"
#include "mdc/store/store.h"
#include "volume/format/label.h"
#include "volume/format/reservation_key.h"

namespace reel::sim {
namespace {

constexpr std::uint32_t kBlockBytes = 4096;
constexpr std::uint32_t kBreadthBlocks = 4;
// The metadata store's, on two LUNs together; and the rest, one and a half MiB on each.
constexpr std::uint64_t kRegionBlocks = 6144;
constexpr std::uint64_t kFileRows = 96;
constexpr std::uint64_t kRows = kRegionBlocks / (2 * kBreadthBlocks) + kFileRows;
constexpr int kDataLuns = 2;  // of the second pool

StripeSet SetOf(int first_lun, int luns, std::uint64_t rows) {
  StripeSet set;
  set.rows = rows;
  for (int i = first_lun; i < first_lun + luns; ++i) {
    LunEntry lun;
    lun.lun.bytes[0] = static_cast<std::uint8_t>(i + 1);
    lun.name = absl::StrCat("lun", i);
    lun.data_start_bytes = kMiB;
    set.luns.push_back(lun);
  }
  return set;
}

VolumeDescriptor Describe(bool remade, Shape shape) {
  VolumeDescriptor volume;
  volume.volume.bytes[0] = remade ? 10 : 9;
  volume.name = "reel";
  volume.generation = 1;
  volume.block_bytes = kBlockBytes;
  Pool pool;
  pool.name = "data";
  pool.flags = Pool::kMetadata | Pool::kData;
  pool.breadth_blocks = kBreadthBlocks;
  pool.sets = {SetOf(0, 2, kRows)};
  volume.seat_lun = pool.sets[0].luns[0].lun;
  volume.pools = {pool};
  if (shape == Shape::kOnePool) return volume;
  pool.name = kDataPool;
  pool.flags = Pool::kData;
  pool.sets = {SetOf(2, kDataLuns, kFileRows)};
  if (shape == Shape::kTwoSets) pool.sets = {SetOf(2, 1, kFileRows), SetOf(3, 1, kFileRows)};
  volume.pools.push_back(pool);
  return volume;
}

const Path::FaultRates kCalm;
std::vector<std::unique_ptr<Disk>> g_formatted, g_remade, g_two_pools, g_two_sets;

std::vector<std::unique_ptr<Disk>>& DisksOf(Shape shape) {
  switch (shape) {
    case Shape::kOnePool:
      return g_formatted;
    case Shape::kTwoPools:
      return g_two_pools;
    case Shape::kTwoSets:
      return g_two_sets;
  }
  return g_formatted;
}

// On the first of the disks.
OpenVolume OpenAs(const VolumeDescriptor& descriptor,
                  const std::vector<std::unique_ptr<Disk>>& disks) {
  OpenVolume volume;
  volume.descriptor = descriptor;
  std::size_t luns = 0;
  for (const Pool& pool : descriptor.pools) {
    for (const StripeSet& set : pool.sets) luns += set.luns.size();
  }
  for (std::size_t i = 0; i < luns; ++i) {
    volume.luns.push_back(std::make_unique<Path>(*disks[i], 0, kCalm));
  }
  return volume;
}

absl::Status Format(const Clock& clock, OpenVolume volume, bool remade) {
  std::size_t next = 0;
  for (std::uint32_t pool = 0; pool < volume.descriptor.pools.size(); ++pool) {
    std::vector<LunEntry> luns;
    for (const StripeSet& set : volume.descriptor.pools[pool].sets) {
      luns.insert(luns.end(), set.luns.begin(), set.luns.end());
    }
    for (std::uint32_t i = 0; i < luns.size(); ++i) {
      Lun& lun = *volume.luns[next++];
      Label label;
      label.lun = luns[i].lun;
      label.name = luns[i].name;
      label.volume = volume.descriptor.volume;
      label.pool = pool;
      label.position = i;
      label.generation = remade ? 3 : 1;
      label.size_bytes = lun.size_bytes();
      if (absl::Status s = WriteLabel(lun, label); !s.ok()) return s;
      if (absl::Status s = WriteDescriptor(lun, volume.descriptor); !s.ok()) return s;
    }
  }
  auto store = mdc::Store::Format(volume, kRegionBlocks, {});
  if (!store.ok()) return store.status();
  return mdc::FormatVolume((*store)->db(), volume.descriptor, (*store)->regions(), clock.WallNow());
}

}  // namespace

absl::Status FormatOnce() {
  constexpr Micros kLimit = 60'000 * kMs;
  const auto add = [](std::vector<std::unique_ptr<Disk>>& disks, std::uint64_t rows) {
    const std::uint64_t size_bytes = kMiB + rows * kBreadthBlocks * kBlockBytes;
    disks.push_back(
        std::make_unique<Disk>(absl::StrCat("lun", disks.size()), size_bytes, /*reserves=*/false));
  };
  for (int i = 0; i < 2; ++i) {
    for (auto* disks : {&g_formatted, &g_remade, &g_two_pools, &g_two_sets}) add(*disks, kRows);
  }
  for (int i = 0; i < kDataLuns + 1; ++i) {
    for (auto* disks : {&g_two_pools, &g_two_sets}) add(*disks, kFileRows);
  }
  absl::Status status = absl::UnavailableError("the volume is not made");
  Scheduler scheduler(0);
  scheduler.Run(
      [&] {
        status = Format(scheduler, OpenOnHost0(g_formatted), /*remade=*/false);
        if (status.ok()) status = Format(scheduler, OpenOnHost0(g_remade, true), /*remade=*/true);
        for (const Shape shape : {Shape::kTwoPools, Shape::kTwoSets}) {
          const VolumeDescriptor descriptor = Describe(/*remade=*/false, shape);
          if (status.ok()) status = Format(scheduler, OpenAs(descriptor, DisksOf(shape)), false);
        }
      },
      kLimit);
  for (auto* disks : {&g_formatted, &g_two_pools, &g_two_sets}) {
    for (const auto& disk : *disks) disk->Flush();
  }
  return status;
}

void RemakeVolume(const std::vector<std::unique_ptr<Disk>>& disks) {
  // mkfs begins with zeros: old descriptors, and an old arbitration block.
  const std::vector<std::byte> zeros(kReservedBytes);
  const std::uint64_t key =
      MakeControllerKey(Describe(/*remade=*/true, Shape::kOnePool).volume, Epoch(0), 1);
  for (std::size_t i = 0; i < disks.size(); ++i) {
    if (disks[i]->reserves()) {
      const int path = disks[i]->NewConnection();
      disks[i]->keys() = {.registered = {{path, key}}, .holder = key, .holder_connection = path};
      disks[i]->Reset();
    }
    disks[i]->Write(Disk::kControllers, 0, zeros.data(), zeros.size());
    g_remade[i]->CopyTo(*disks[i]);
  }
}

std::vector<std::byte> DataOn(const Disk& disk) {
  constexpr std::uint64_t kBegin = kMiB + kRegionBlocks / 2 * kBlockBytes;
  std::vector<std::byte> bytes(disk.size_bytes() - kBegin);
  disk.Read(kBegin, bytes.data(), bytes.size());
  return bytes;
}

std::vector<std::unique_ptr<Disk>> FormattedDisks(Shape shape, bool reservations) {
  std::vector<std::unique_ptr<Disk>> disks;
  for (const auto& disk : DisksOf(shape)) {
    disks.push_back(std::make_unique<Disk>(std::move(*disk), reservations));
  }
  return disks;
}

OpenVolume OpenOnHost0(const std::vector<std::unique_ptr<Disk>>& disks, bool remade) {
  return OpenAs(Describe(remade, Shape::kOnePool), disks);
}

}  // namespace reel::sim
