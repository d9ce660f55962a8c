#include "mdc/map/new_luns.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "mdc/moves/restripe.h"
#include "volume/base/size.h"

namespace reel::mdc {
namespace {

bool IsNamed(const std::string& name, const std::string& reference) {
  if (name == reference || LunNameForPeople(name) == reference) return true;
  std::error_code error;
  return std::filesystem::equivalent(name, reference, error) && !error;
}

// What OpenLun takes for a LUN that was named by its path or its label.
absl::StatusOr<std::string> FindName(const std::string& reference,
                                     const std::vector<FoundLun>& found,
                                     const std::vector<std::string>& patterns) {
  std::string by_label;
  for (const FoundLun& lun : found) {
    if (IsNamed(lun.name, reference)) return lun.name;
    if (!lun.status.ok() || lun.reading.label.name != reference) continue;
    if (!by_label.empty()) {
      return absl::FailedPreconditionError(
          absl::StrCat("two LUNs are named ", reference, "; give the path of one"));
    }
    by_label = lun.name;
  }
  if (!by_label.empty()) return by_label;
  const auto shown = [](std::string* text, const std::string& pattern) {
    text->append(LunNameForPeople(pattern));
  };
  return absl::NotFoundError(
      absl::StrCat("LUN ", LunNameForPeople(reference),
                   " is none of those that the controller looks at (luns = ",
                   absl::StrJoin(patterns, ", ", shown),
                   "); connect it, or add it to the configuration of all hosts first"));
}

absl::Status CheckVolumeOf(const OpenVolume& volume, const ChosenLun& lun) {
  for (const Pool& pool : volume.descriptor.pools) {
    for (const StripeSet& set : pool.sets) {
      if (std::ranges::find(set.luns, lun.as.uuid, &LunEntry::lun) == set.luns.end()) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("LUN ", lun.facts.path, " is in pool ", pool.name, " already"));
    }
  }
  // One of this volume that it does not know was to be added when a controller died.
  if (lun.as.volume.is_nil() || lun.as.volume == volume.descriptor.volume) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "LUN ", lun.facts.path, " is \"", lun.as.name, "\" of another volume (",
      lun.as.volume.ToString(), "); clear it with reel-label first, if that is not in use"));
}

absl::Status CheckLogicalBlocks(const OpenVolume& volume, const LunFacts& lun) {
  std::uint32_t largest = 0;
  for (const auto& one : volume.luns) largest = std::max(largest, one->logical_block_bytes());
  if (lun.logical_block_bytes <= largest) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("LUN ", lun.path, " has logical blocks of ", lun.logical_block_bytes,
                   " bytes, and the largest of the volume's are of ", largest,
                   ": clients that have it mounted rely on that; use a LUN with such blocks"));
}

// The claim ends with it: the path that serves is another one.
absl::StatusOr<ChosenLun> LookAt(const std::string& name, bool forced) {
  auto lun = OpenLun(name, LunAccess::kReadWrite);
  if (!lun.ok()) return lun.status();
  if (absl::Status s = (*lun)->ClaimForThisProcess(); !s.ok()) return s;
  auto looked = LookAtNewLun(**lun, name, forced, "--force");
  if (!looked.ok()) return looked.status();
  ChosenLun chosen{.as = *std::move(looked), .facts = {}, .name = name};
  chosen.facts = FactsOf(**lun, chosen.as.uuid, chosen.as.name);
  return chosen;
}

}  // namespace

absl::StatusOr<std::vector<ChosenLun>> ChooseNewLuns(const OpenVolume& volume,
                                                     const LunChoice& choice) {
  std::vector<ChosenLun> chosen;
  if (choice.luns.empty()) return chosen;
  const std::vector<FoundLun> found = ScanLuns(choice.patterns);
  for (const std::string& reference : choice.luns) {
    const auto name = FindName(reference, found, choice.patterns);
    if (!name.ok()) return name.status();
    if (std::ranges::find(chosen, *name, &ChosenLun::name) != chosen.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("LUN ", LunNameForPeople(reference), " is given twice"));
    }
    const bool forced = std::ranges::any_of(
        choice.force, [&](const std::string& path) { return IsNamed(*name, path); });
    auto lun = LookAt(*name, forced);
    if (!lun.ok()) return lun.status();
    if (absl::Status s = CheckVolumeOf(volume, *lun); !s.ok()) return s;
    if (absl::Status s = CheckLogicalBlocks(volume, lun->facts); !s.ok()) return s;
    chosen.push_back(*std::move(lun));
  }
  return chosen;
}

absl::Status CheckReplacement(const VolumeDescriptor& descriptor, const std::string& old,
                              const LunFacts& facts) {
  if (!LunNamed(descriptor, facts.name).is_nil()) {
    return absl::InvalidArgumentError(absl::StrCat("the volume has a LUN ", facts.name, ": give ",
                                                   facts.path,
                                                   " another name first, with reel-label write"));
  }
  const Uuid replaced = LunNamed(descriptor, old);
  if (replaced.is_nil()) {
    return absl::NotFoundError(absl::StrCat("volume ", descriptor.name, " has no LUN ", old,
                                            "; \"reeladm show\" lists them"));
  }
  std::uint64_t end_bytes = 0;
  for (const Pool& pool : descriptor.pools) {
    end_bytes = std::max(end_bytes, EndOn(pool, replaced, descriptor.block_bytes));
  }
  if (facts.size_bytes >= end_bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("LUN ", facts.path, " has ",
                                                 FormatSize(facts.size_bytes), ", and ", old,
                                                 " is used up to ", FormatSize(end_bytes)));
}

}  // namespace reel::mdc
