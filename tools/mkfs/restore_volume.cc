#include "tools/mkfs/restore_volume.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "mdc/backup/restore_records.h"
#include "mdc/check/checker.h"
#include "mdc/serve/tool_seat.h"
#include "mdc/store/store.h"
#include "tools/lib/geometry.h"
#include "tools/mkfs/forced_luns.h"
#include "tools/mkfs/lun_claim.h"
#include "tools/mkfs/lun_picker.h"
#include "tools/mkfs/make_volume.h"
#include "tools/mkfs/restore_checks.h"
#include "volume/base/thread.h"
#include "volume/format/dump_mark.h"
#include "volume/format/label.h"
#include "volume/format/lun_scan.h"

namespace reel::tools {
namespace {

// Nothing may be written any more, destructors included.
[[noreturn]] void LoseSeat(const absl::Status& status) {
  std::fprintf(stderr, "mkfs.reelfs: the volume's seat is lost: %s; restore it again\n",
               std::string(status.message()).c_str());
  _exit(1);
}

class Restore {
 public:
  explicit Restore(const RestoreOptions& options) : options_(options) {}

  absl::StatusOr<Restored> Run() {
    if (absl::Status s = Look(); !s.ok()) return s;
    if (!options_.look_only) {
      if (absl::Status s = Write(); !s.ok()) return s;
    }
    return Restored{dump_.head, dump_.records, descriptor_};
  }

 private:
  // Everything that may refuse.
  absl::Status Look() {
    if (options_.metadata.empty()) {
      return absl::InvalidArgumentError(
          "which LUNs are the metadata to be restored onto? Name them by --metadata");
    }
    auto dump = ReadWholeDump(options_.file);
    if (!dump.ok()) return dump.status();
    dump_ = *std::move(dump);
    auto remains = FindRemains(dump_, options_.patterns, options_.force, options_.look_only);
    if (!remains.ok()) return remains.status();
    remains_ = *std::move(remains);
    if (absl::Status s = CheckMarks(dump_, remains_); !s.ok()) return s;
    return PickNewLuns();
  }

  absl::Status PickNewLuns() {
    const Pool& old = remains_.descriptor.pools[remains_.metadata_pool];
    const std::uint64_t block_bytes = remains_.descriptor.block_bytes;
    PoolDescription pool{.name = old.name,
                         .flags = old.flags,
                         .affinities = old.affinities,
                         .breadth_bytes = old.breadth_blocks * block_bytes,
                         .luns = {},
                         .where = {}};
    for (const std::string& lun : options_.metadata) pool.luns.push_back({lun, ""});
    VolumeDescription description;
    description.name = remains_.descriptor.name;
    description.block_bytes = block_bytes;
    description.pools.push_back(pool);
    auto picked = PickLuns(
        description,
        {.patterns = options_.patterns, .force = options_.force, .look_only = options_.look_only});
    if (!picked.ok()) return picked.status();
    if (!options_.look_only) {
      if (absl::Status s = CheckForcedLuns(*picked, options_.patterns); !s.ok()) return s;
    }
    picked_ = std::move(picked->front());
    std::vector<LunFacts> facts;
    for (const PickedLun& lun : picked_) facts.push_back(lun.facts);
    auto made = ComputeMetadataPool(pool, facts, block_bytes,
                                    mdc::MinimumRegionBlocks(remains_.descriptor.block_bytes));
    if (!made.ok()) return made.status();
    region_blocks_ = made->region_blocks;
    descriptor_ = remains_.descriptor;
    descriptor_.generation = std::max(descriptor_.generation, dump_.descriptor.generation) + 1;
    descriptor_.seat_lun = made->pool.sets[0].luns[0].lun;
    descriptor_.pools[remains_.metadata_pool] = std::move(made->pool);
    return ValidateDescriptor(descriptor_);
  }

  absl::Status Write() {
    auto volume = LabelNewLuns();
    if (!volume.ok()) return volume.status();
    auto seat = mdc::ToolSeat::Take(*std::move(volume), options_.program, LoseSeat, SystemClock());
    if (!seat.ok()) return seat.status();
    seat_ = *std::move(seat);
    if (absl::Status s = cleared_ ? seat_->AwaitSent() : absl::OkStatus(); !s.ok()) return s;
    // A client that had the volume mounted may write for as long.
    SleepFor(std::chrono::milliseconds(dump_.head.lease_ms));
    epoch_ = std::max({dump_.head.epoch, remains_.marked, seat_->epoch()}) +
             mdc::kEpochsSkippedByRestore;
    if (absl::Status s = OnDataLuns([this](Lun& lun) { return MarkLun(lun); }); !s.ok()) return s;
    if (absl::Status s = MakeStore(); !s.ok()) return s;
    return Publish();
  }

  // No volume yet: there is no descriptor on its seat.
  absl::StatusOr<OpenVolume> LabelNewLuns() {
    std::vector<Lun*> picked_luns;
    for (const PickedLun& picked : picked_) picked_luns.push_back(picked.lun.get());
    const auto cleared = EndFormerRegistrations(picked_luns);
    if (!cleared.ok()) return cleared.status();
    cleared_ = *cleared;
    for (std::uint32_t position = 0; position < picked_.size(); ++position) {
      PickedLun& picked = picked_[position];
      Lun& lun = *picked.lun;
      if (absl::Status s = PrepareNewLun(lun, picked.AsNew()); !s.ok()) return s;
      absl::Status labelled =
          WriteLabel(lun, {.lun = picked.facts.uuid,
                           .name = picked.facts.name,
                           .volume = descriptor_.volume,
                           .pool = static_cast<std::uint32_t>(remains_.metadata_pool),
                           .stripe_set = 0,
                           .position = position,
                           .generation = picked.label_generation + 2,
                           .size_bytes = lun.size_bytes()});
      if (!labelled.ok()) return labelled;
    }
    OpenVolume volume;
    volume.descriptor = descriptor_;
    std::size_t next = 0;  // among what remains
    for (std::size_t pool = 0; pool < remains_.descriptor.pools.size(); ++pool) {
      for (const StripeSet& set : remains_.descriptor.pools[pool].sets) {
        for (std::size_t i = 0; i < set.luns.size(); ++i, ++next) {
          if (remains_.luns[next] == nullptr) continue;
          volume.luns.push_back(std::move(remains_.luns[next]));
          volume.names.push_back(remains_.names[next]);
        }
      }
      if (pool != remains_.metadata_pool) continue;
      for (PickedLun& picked : picked_) {
        // The claim of the seat LUN is the seat's to have.
        picked.lun.reset();
        auto lun = OpenLun(picked.name, LunAccess::kReadWrite);
        if (!lun.ok()) return lun.status();
        volume.luns.push_back(*std::move(lun));
        volume.names.push_back(picked.name);
      }
    }
    return volume;
  }

  absl::Status OnLuns(std::uint32_t pool_flag, const std::function<absl::Status(Lun&)>& action) {
    std::size_t next = 0;
    for (const Pool& pool : descriptor_.pools) {
      for (const StripeSet& set : pool.sets) {
        for (std::size_t i = 0; i < set.luns.size(); ++i) {
          Lun& lun = *seat_->volume().luns[next++];
          if ((pool.flags & pool_flag) == 0) continue;
          if (absl::Status s = seat_->CheckTerm(); !s.ok()) return s;
          if (absl::Status s = action(lun); !s.ok()) return s;
        }
      }
    }
    return absl::OkStatus();
  }
  absl::Status OnDataLuns(const std::function<absl::Status(Lun&)>& action) {
    return OnLuns(Pool::kData, action);
  }

  absl::Status MarkLun(Lun& lun) {
    return WriteDumpMark(lun, {descriptor_.volume, epoch_, 1, {dump_.head.dump}},
                         [this] { return seat_->CheckTerm(); });
  }

  absl::Status MakeStore() {
    auto store =
        mdc::Store::Format(seat_->volume(), region_blocks_,
                           {.epoch = epoch_, .cache_bytes = 64 * kMiB, .may_write = [this] {
                              return seat_->CheckTerm();
                            }});
    if (!store.ok()) return store.status();
    std::ifstream file(options_.file, std::ios::binary);
    mdc::DumpReader reader(file);
    const auto head = reader.ReadHead();
    if (!head.ok()) return head.status();
    if (head->dump != dump_.head.dump) {
      return absl::AbortedError(
          absl::StrCat(options_.file, " was changed meanwhile; restore it again"));
    }
    const auto restored = mdc::RestoreRecords(
        *head, reader, {(*store)->db(), descriptor_, (*store)->regions(), (*store)->fs().epoch()});
    if (!restored.ok()) return restored.status();
    std::string first;
    const auto totals =
        mdc::CheckVolume({(*store)->db(), descriptor_, (*store)->regions()},
                         {.on_phase = {}, .on_problem = [&](const mdc::Problem& problem) {
                            if (first.empty())
                              first = absl::StrCat(problem.where, ": ", problem.what);
                          }});
    if (totals.problems == 0) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat("what the dump holds is not sound (", totals.problems,
                                            " problems; ", first, "); no volume was made"));
  }

  // From the seat's descriptor on there is a volume.
  absl::Status Publish() {
    absl::Status flushed = OnLuns(Pool::kMetadata, [](Lun& lun) { return lun.Flush(); });
    if (!flushed.ok()) return flushed;
    const Lun* const seat_lun = &seat_->volume().seat_lun();
    const auto write = [&](Lun& lun) { return WriteDescriptor(lun, descriptor_); };
    absl::Status written = OnLuns(Pool::kMetadata, [&](Lun& lun) {
      return &lun == seat_lun ? absl::OkStatus() : write(lun);
    });
    if (written.ok()) written = write(seat_->volume().seat_lun());
    return written.ok() ? OnDataLuns(write) : written;
  }

  const RestoreOptions& options_;
  WholeDump dump_;
  Remains remains_;
  std::vector<PickedLun> picked_;
  bool cleared_ = false;  // what former hosts had registered on these
  std::uint64_t region_blocks_ = 0;
  VolumeDescriptor descriptor_;
  Epoch epoch_;
  std::unique_ptr<mdc::ToolSeat> seat_;
};

}  // namespace

absl::StatusOr<Restored> RestoreVolume(const RestoreOptions& options) {
  return Restore(options).Run();
}

}  // namespace reel::tools
