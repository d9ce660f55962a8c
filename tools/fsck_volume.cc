#include "tools/fsck_volume.h"

#include <utility>

#include "mdc/checker.h"
#include "mdc/repairer.h"
#include "mdc/store.h"
#include "mdc/store_repair.h"
#include "volume/env.h"
#include "volume/lun_repair.h"
#include "volume/lun_scan.h"

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
    if (options_.repair) {
      if (absl::Status status = MendReservedAreas(); !status.ok()) return status;
      result.found = result.repairs = output_.count();
    }
    if (absl::Status status = Open(); !status.ok()) return status;
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
    output_.Finish(volume_.descriptor, result);
    return result;
  }

 private:
  // Before anything else: without labels and a descriptor there is no volume.
  absl::Status MendReservedAreas() {
    output_.Begin(FsckOutput::Stage::kRepair);
    const auto mends = MendLuns(options_.volume, options_.patterns);
    if (!mends.ok()) return mends.status();
    if (!mends->empty()) output_.Phase("labels and descriptors");
    for (const LunMend& mend : *mends) output_.Action({"lun", mend.where, mend.what});
    return absl::OkStatus();
  }

  absl::Status Open() {
    auto volume = OpenVolumeByName(options_.volume, options_.patterns,
                                   options_.repair ? LunAccess::kReadWrite : LunAccess::kReadOnly);
    if (!volume.ok()) return volume.status();
    volume_ = *std::move(volume);
    return volume_.seat().ClaimForThisProcess();
  }

  Findings Check() {
    Findings findings;
    output_.Phase("labels and descriptors");
    for (const std::string& warning : volume_.warnings) {
      output_.Problem({"lun", "LUN area", warning});
    }
    findings.luns = output_.count();
    output_.Phase("metadata store");
    for (const std::string& line : mdc::Store::Check(volume_)) {
      output_.Problem({"store", "metadata store", line});
    }
    auto store = mdc::Store::Open(volume_, {.read_only = true, .cache_bytes = 64 * kMiB});
    if (!store.ok()) {
      output_.Problem({"store", "metadata store", std::string(store.status().message())});
      findings.store = output_.count() - findings.luns;
      return findings;
    }
    if (absl::Status status = (*store)->db().VerifyChecksums(); !status.ok()) {
      output_.Problem({"store", "metadata store", std::string(status.message())});
    }
    findings.store = output_.count() - findings.luns;
    const mdc::CheckSink sink{
        .on_phase = [&](std::string_view name) { output_.Phase(name); },
        .on_problem = [&](const mdc::Problem& problem) { output_.Problem(problem); }};
    findings.totals =
        mdc::CheckVolume({(*store)->db(), volume_.descriptor, (*store)->regions()}, sink);
    findings.records = output_.count() - findings.store - findings.luns;
    return findings;
  }

  // What it could not do, the check afterwards finds; why, stands in refusal_.
  void Repair(const Findings& found) {
    const auto did = [&](const mdc::Problem& action) { output_.Action(action); };
    bool rebuilt = false;
    if (found.store > 0) {
      output_.Phase("metadata store");
      const auto outcome = mdc::RepairStore(volume_, {.rebuild = options_.rebuild}, did);
      refusal_ = outcome.status();
      if (!outcome.ok()) return;
      rebuilt = *outcome == mdc::StoreRepair::kRebuilt;
    }
    if (found.records == 0 && !rebuilt) return;
    auto store = mdc::Store::Open(volume_, {.cache_bytes = 64 * kMiB});
    refusal_ = store.status();
    if (!store.ok()) return;
    const mdc::RepairSink sink{.on_phase = [&](std::string_view name) { output_.Phase(name); },
                               .on_action = did};
    refusal_ = mdc::RepairVolume({.db = (*store)->db(),
                                  .descriptor = volume_.descriptor,
                                  .regions = (*store)->regions(),
                                  .epoch = (*store)->fs().epoch(),
                                  .now = SystemClock().WallNow()},
                                 sink)
                   .status();
  }

  const FsckOptions& options_;
  FsckOutput& output_;
  OpenVolume volume_;
  absl::Status refusal_;
};

}  // namespace

absl::StatusOr<FsckResult> CheckAndRepair(const FsckOptions& options, FsckOutput& output) {
  return Fsck(options, output).Run();
}

}  // namespace reel::tools
