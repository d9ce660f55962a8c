#include "tests/sim/volume.h"

#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "mdc/core/core.h"
#include "mdc/store/store.h"
#include "volume/format/label.h"

namespace reel::sim {
namespace {

constexpr std::uint32_t kBlockBytes = 4096;
constexpr std::uint32_t kBreadthBlocks = 4;
// The metadata store's, on two LUNs together; and the rest, one and a half MiB on each.
constexpr std::uint64_t kRegionBlocks = 6144;
constexpr std::uint64_t kRows = kRegionBlocks / (2 * kBreadthBlocks) + 96;

VolumeDescriptor Describe(bool remade) {
  VolumeDescriptor volume;
  volume.volume.bytes[0] = remade ? 10 : 9;
  volume.name = "reel";
  volume.generation = 1;
  volume.block_bytes = kBlockBytes;
  Pool pool;
  pool.name = "data";
  pool.flags = Pool::kMetadata | Pool::kData;
  pool.breadth_blocks = kBreadthBlocks;
  StripeSet set;
  set.rows = kRows;
  for (std::uint8_t i = 0; i < 2; ++i) {
    LunEntry lun;
    lun.lun.bytes[0] = static_cast<std::uint8_t>(i + 1);
    lun.name = absl::StrCat("lun", i);
    lun.data_start_bytes = kMiB;
    set.luns.push_back(lun);
  }
  pool.sets = {set};
  volume.pools = {pool};
  volume.seat_lun = set.luns[0].lun;
  return volume;
}

const Path::FaultRates kCalm;
std::vector<std::unique_ptr<Disk>> g_formatted, g_remade;

absl::Status Format(const Clock& clock, bool remade) {
  OpenVolume volume = OpenOnHost0(remade ? g_remade : g_formatted, remade);
  for (std::uint32_t i = 0; i < volume.luns.size(); ++i) {
    const LunEntry& entry = volume.descriptor.pools[0].sets[0].luns[i];
    Label label;
    label.lun = entry.lun;
    label.name = entry.name;
    label.volume = volume.descriptor.volume;
    label.position = i;
    label.generation = remade ? 3 : 1;
    label.size_bytes = volume.luns[i]->size_bytes();
    if (absl::Status s = WriteLabel(*volume.luns[i], label); !s.ok()) return s;
    if (absl::Status s = WriteDescriptor(*volume.luns[i], volume.descriptor); !s.ok()) return s;
  }
  auto store = mdc::Store::Format(volume, kRegionBlocks, {});
  if (!store.ok()) return store.status();
  return mdc::FormatVolume((*store)->db(), volume.descriptor, (*store)->regions(), clock.WallNow());
}

}  // namespace

absl::Status FormatOnce() {
  constexpr Micros kLimit = 60'000 * kMs;
  const std::uint64_t size_bytes = kMiB + kRows * kBreadthBlocks * kBlockBytes;
  const VolumeDescriptor descriptor = Describe(/*remade=*/false);
  for (const LunEntry& lun : descriptor.pools[0].sets[0].luns) {
    for (auto* disks : {&g_formatted, &g_remade}) {
      disks->push_back(std::make_unique<Disk>(lun.name, size_bytes, /*reserves=*/false));
    }
  }
  absl::Status status = absl::UnavailableError("the volume is not made");
  Scheduler scheduler(0);
  scheduler.Run(
      [&] {
        status = Format(scheduler, /*remade=*/false);
        if (status.ok()) status = Format(scheduler, /*remade=*/true);
      },
      kLimit);
  for (const auto& disk : g_formatted) disk->Flush();
  return status;
}

void RemakeVolume(const std::vector<std::unique_ptr<Disk>>& disks) {
  // mkfs begins with zeros: old descriptors, and an old arbitration block.
  const std::vector<std::byte> zeros(kReservedBytes);
  for (std::size_t i = 0; i < disks.size(); ++i) {
    disks[i]->Write(Disk::kControllers, 0, zeros.data(), zeros.size());
    g_remade[i]->CopyTo(*disks[i]);
    disks[i]->keys() = {};
  }
}

std::vector<std::byte> DataOn(const Disk& disk) {
  constexpr std::uint64_t kBegin = kMiB + kRegionBlocks / 2 * kBlockBytes;
  std::vector<std::byte> bytes(disk.size_bytes() - kBegin);
  disk.Read(kBegin, bytes.data(), bytes.size());
  return bytes;
}

std::vector<std::unique_ptr<Disk>> FormattedDisks(bool reservations) {
  std::vector<std::unique_ptr<Disk>> disks;
  for (const auto& disk : g_formatted) {
    disks.push_back(std::make_unique<Disk>(std::move(*disk), reservations));
  }
  return disks;
}

OpenVolume OpenOnHost0(const std::vector<std::unique_ptr<Disk>>& disks, bool remade) {
  OpenVolume volume;
  volume.descriptor = Describe(remade);
  for (const auto& disk : disks) volume.luns.push_back(std::make_unique<Path>(*disk, 0, kCalm));
  return volume;
}

}  // namespace reel::sim
