#include "tools/mkfs/make_volume.h"

#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "mdc/core/core.h"
#include "mdc/store/store.h"
#include "tools/mkfs/lun_claim.h"
#include "volume/format/label.h"
#include "volume/format/lun_scan.h"

namespace reel::tools {
namespace {

// One LUN: what it was picked for, and the label that it gets in the end.
struct Place {
  Lun* lun = nullptr;
  NewLun before;
  Label label;
};

absl::Status MakeStore(const Geometry& geometry, OpenVolume& volume, WallTime now,
                       bool small_files) {
  auto store = mdc::Store::Format(volume, geometry.region_blocks, mdc::StoreOptions{});
  if (!store.ok()) return store.status();
  absl::Status status =
      mdc::FormatVolume((*store)->db(), volume.descriptor, (*store)->regions(), now, small_files);
  if (!status.ok()) return status;
  return (*store)->db().Sync().status();
}

// Does the seat last.
absl::Status ForEach(const std::vector<Place>& places, const Uuid& seat,
                     const std::function<absl::Status(const Place&)>& step) {
  const Place* last = nullptr;
  for (const Place& place : places) {
    if (place.label.lun == seat) {
      last = &place;
      continue;
    }
    if (absl::Status status = step(place); !status.ok()) return status;
  }
  return step(*last);
}

}  // namespace

absl::Status MakeVolume(const Geometry& geometry, std::vector<std::vector<PickedLun>> luns,
                        WallTime now, bool small_files) {
  OpenVolume volume;
  volume.descriptor = geometry.descriptor;
  std::vector<Place> places;
  for (std::uint32_t pool = 0; pool < luns.size(); ++pool) {
    for (std::uint32_t position = 0; position < luns[pool].size(); ++position) {
      PickedLun& picked = luns[pool][position];
      places.push_back({picked.lun.get(),
                        picked.AsNew(),
                        {.lun = picked.facts.uuid,
                         .name = picked.facts.name,
                         .volume = geometry.descriptor.volume,
                         .pool = pool,
                         .stripe_set = 0,
                         .position = position,
                         .generation = picked.label_generation + 2,
                         .size_bytes = picked.lun->size_bytes()}});
      volume.luns.push_back(std::move(picked.lun));
    }
  }
  LunClaim claim(volume);
  if (absl::Status status = claim.Take(); !status.ok()) return status;
  for (const Place& place : places) {
    if (absl::Status status = PrepareNewLun(*place.lun, place.before); !status.ok()) return status;
  }
  if (absl::Status status = MakeStore(geometry, volume, now, small_files); !status.ok()) {
    return status;
  }
  for (const Place& place : places) {
    if (absl::Status status = place.lun->Flush(); !status.ok()) return status;
  }
  const Uuid seat = geometry.descriptor.seat_lun;
  absl::Status status = ForEach(places, seat, [&](const Place& place) {
    return WriteDescriptor(*place.lun, geometry.descriptor);
  });
  if (!status.ok()) return status;
  status =
      ForEach(places, seat, [](const Place& place) { return WriteLabel(*place.lun, place.label); });
  if (status.ok()) claim.Keep();
  return status;
}

}  // namespace reel::tools
