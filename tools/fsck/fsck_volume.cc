#include "tools/fsck/fsck_volume.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <utility>

#include "mdc/check/checker.h"
#include "mdc/metafs/pool_space.h"
#include "mdc/metafs/superblock.h"
#include "mdc/repair/repairer.h"
#include "mdc/repair/store_repair.h"
#include "mdc/seat/seat_check.h"
#include "mdc/serve/tool_seat.h"
#include "mdc/store/store.h"
#include "volume/base/env.h"
#include "volume/format/dump_mark.h"
#include "volume/format/lun_repair.h"
#include "volume/format/lun_scan.h"

namespace reel::tools {
namespace {

// What a check has found where.
struct Findings {
  std::uint64_t luns = 0, store = 0, records = 0;
  std::optional<mdc::CheckTotals> totals{};
  std::uint64_t all() const { return luns + store + records; }
};

class Fsck {
 public:
  Fsck(const FsckOptions& options, FsckOutput& output) : options_(options), output_(output) {}

  absl::StatusOr<FsckResult> Run() {
    FsckResult result{.repairing = options_.repair};
    if (absl::Status status = options_.repair ? OpenAndMend() : Open(); !status.ok()) {
      return status;
    }
    result.found = result.repairs = output_.count();
    output_.Begin(FsckOutput::Stage::kCheck);
    const Findings found = Check();
    result.found += found.all();
    result.left = found.all();
    result.totals = found.totals;
    if (options_.repair && found.all() > 0) {
      output_.Begin(FsckOutput::Stage::kRepair);
      Repair(found);
      result.repairs += output_.count();
      output_.Begin(FsckOutput::Stage::kFinal);
      const Findings left = Check();
      result.left = left.all();
      result.totals = left.totals;
      if (left.all() > 0 && !refusal_.ok()) {
        output_.Problem({"repair", "repair", std::string(refusal_.message())});
      }
    }
    output_.Finish(volume().descriptor, result);
    return result;
  }

 private:
  // Before anything else: without labels and a descriptor there is no volume. The seat comes first
  // of all: from here on no controller takes the volume, on whatever host.
  absl::Status OpenAndMend() {
    output_.Begin(FsckOutput::Stage::kRepair);
    auto found = OpenToMend(options_.volume, options_.patterns);
    const bool mendable = found.ok();
    if (absl::IsNotFound(found.status())) {
      found = OpenVolumeByName(options_.volume, options_.patterns, LunAccess::kReadWrite);
    }
    if (!found.ok()) return found.status();
    auto seat = mdc::ToolSeat::Take(*std::move(found), options_.program, LoseSeat, SystemClock());
    if (!seat.ok()) return seat.status();
    seat_ = *std::move(seat);
    if (!mendable) return absl::OkStatus();
    const auto mends = MendLuns(volume());
    if (!mends.ok()) return mends.status();
    if (!mends->empty()) output_.Phase("labels and descriptors");
    for (const LunMend& mend : *mends) output_.Action({"lun", mend.where, mend.what});
    // Whether all that is as everybody else will want it.
    auto mended = OpenVolumeByName(options_.volume, options_.patterns, LunAccess::kReadOnly);
    if (mended.ok()) volume().warnings = std::move(mended->warnings);
    return mended.status();
  }

  absl::Status Open() {
    auto opened = OpenVolumeByName(options_.volume, options_.patterns, LunAccess::kReadOnly);
    if (!opened.ok()) return opened.status();
    looked_at_ = *std::move(opened);
    if (absl::Status s = looked_at_.seat_lun().ClaimForThisProcess(); !s.ok()) return s;
    // On another machine, or standing still on this one.
    metafs::PoolSpace space(looked_at_);
    const auto store = metafs::ReadSuperblock(space);
    const Epoch written = store.ok() ? store->superblock.epoch : Epoch(0);
    mdc::SeatOptions seat;
    seat.volume = looked_at_.descriptor.volume;
    return mdc::CheckUnserved(looked_at_.seat_lun(), seat, written, SystemClock());
  }

  // Nothing may be written any more, destructors included.
  [[noreturn]] static void LoseSeat(const absl::Status& status) {
    std::fprintf(stderr, "fsck.reelfs: the volume's seat is lost: %s; run it again\n",
                 std::string(status.message()).c_str());
    _exit(kOperationalError);
  }

  // One that stood still for longer than its term writes nothing more, before LoseSeat ends it.
  std::function<absl::Status()> MayWrite() const {
    return [this] { return seat_->CheckTerm(); };
  }

  OpenVolume& volume() { return seat_ != nullptr ? seat_->volume() : looked_at_; }

  Findings Check() {
    Findings findings;
    output_.Phase("labels and descriptors");
    for (const std::string& warning : volume().warnings) {
      output_.Problem({"lun", "LUN area", warning});
    }
    findings.luns = output_.count();
    output_.Phase("metadata store");
    for (const std::string& line : mdc::Store::Check(volume(), options_.threads)) {
      output_.Problem({"store", "metadata store", line});
    }
    auto store = mdc::Store::Open(volume(), {.read_only = true, .cache_bytes = 64 * kMiB});
    if (!store.ok()) {
      output_.Problem({"store", "metadata store", std::string(store.status().message())});
      findings.store = output_.count() - findings.luns;
      return findings;
    }
    if (absl::Status status = (*store)->db().VerifyChecksums(options_.threads); !status.ok()) {
      output_.Problem({"store", "metadata store", std::string(status.message())});
    }
    findings.store = output_.count() - findings.luns;
    const mdc::CheckSink sink{
        .on_phase = [&](std::string_view name) { output_.Phase(name); },
        .on_problem = [&](const mdc::Problem& problem) { output_.Problem(problem); }};
    findings.totals = mdc::CheckVolume({(*store)->db(), volume().descriptor, (*store)->regions()},
                                       sink, {.threads = options_.threads});
    findings.records = output_.count() - findings.store - findings.luns;
    return findings;
  }

  // What a repair makes free may be what the last dump of the metadata names.
  absl::Status VoidDumps() {
    std::size_t next = 0;
    for (const Pool& pool : volume().descriptor.pools) {
      for (const StripeSet& set : pool.sets) {
        for (std::size_t i = 0; i < set.luns.size(); ++i) {
          Lun& lun = *volume().luns[next++];
          const auto mark = ReadDumpMark(lun, volume().descriptor.volume);
          if (absl::IsNotFound(mark.status())) continue;
          if (!mark.ok() && !absl::IsDataLoss(mark.status())) return mark.status();
          if (mark.ok() && mark->dumps.empty()) continue;
          absl::Status voided =
              WriteDumpMark(lun,
                            {volume().descriptor.volume,
                             std::max(seat_->epoch(), mark.ok() ? mark->epoch : Epoch()),
                             (mark.ok() ? mark->generation : 0) + 1,
                             {}},
                            MayWrite());
          if (!voided.ok()) return voided;
          output_.Action({"dump", lun.name(), "no dump of the metadata is valid any more"});
        }
      }
    }
    return absl::OkStatus();
  }

  // What it could not do, the check afterwards finds; why, stands in refusal_.
  void Repair(const Findings& found) {
    const auto did = [&](const mdc::Problem& action) { output_.Action(action); };
    bool rebuilt = false;
    if (found.store > 0 || found.records > 0) {
      refusal_ = VoidDumps();
      if (!refusal_.ok()) return;
    }
    if (found.store > 0) {
      output_.Phase("metadata store");
      const auto outcome =
          mdc::RepairStore(volume(), {.rebuild = options_.rebuild, .may_write = MayWrite()}, did);
      refusal_ = outcome.status();
      if (!outcome.ok()) return;
      rebuilt = *outcome == mdc::StoreRepair::kRebuilt;
    }
    if (found.records == 0 && !rebuilt) return;
    auto store = mdc::Store::Open(
        volume(), {.epoch = seat_->epoch(), .cache_bytes = 64 * kMiB, .may_write = MayWrite()});
    refusal_ = store.status();
    if (!store.ok()) return;
    const mdc::RepairSink sink{.on_phase = [&](std::string_view name) { output_.Phase(name); },
                               .on_action = did};
    refusal_ = mdc::RepairVolume({.db = (*store)->db(),
                                  .descriptor = volume().descriptor,
                                  .regions = (*store)->regions(),
                                  .epoch = (*store)->fs().epoch(),
                                  .now = SystemClock().WallNow()},
                                 sink)
                   .status();
  }

  const FsckOptions& options_;
  FsckOutput& output_;
  OpenVolume looked_at_;                 // by a check alone
  std::unique_ptr<mdc::ToolSeat> seat_;  // of a repair
  absl::Status refusal_;
};

}  // namespace

absl::StatusOr<FsckResult> CheckAndRepair(const FsckOptions& options, FsckOutput& output) {
  return Fsck(options, output).Run();
}

}  // namespace reel::tools
