#include "tools/mkfs/lun_picker.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "volume/format/descriptor.h"
#include "volume/format/label.h"
#include "volume/format/lun_scan.h"

namespace reel::tools {
namespace {

std::string Canonical(const std::string& path) {
  std::error_code error;
  const std::filesystem::path canonical = std::filesystem::canonical(path, error);
  return error ? path : canonical.string();
}

absl::Status At(const LunReference& reference, const absl::Status& status) {
  return {status.code(), absl::StrCat(reference.where, status.message())};
}

class Picker {
 public:
  explicit Picker(const PickOptions& options) : options_(options) {
    for (const std::string& path : options.force) force_.emplace(Canonical(path), path);
  }

  absl::StatusOr<PickedLun> Pick(const LunReference& reference);
  // FAILED_PRECONDITION when a picked LUN belongs to a volume that exists.
  absl::Status CheckMembers() const;
  // INVALID_ARGUMENT when a --force named nothing.
  absl::Status CheckForced() const;

 private:
  absl::StatusOr<std::string> PathOf(const LunReference& reference);
  absl::StatusOr<std::string> ByName(const LunReference& reference);
  absl::Status TakeLabel(const LunReference& reference, const std::string& path, PickedLun& picked);
  bool Forced(const std::string& path) const { return force_.contains(Canonical(path)); }

  // A LUN whose label names a volume.
  struct Member {
    Uuid seat;  // of the volume, as the LUN's descriptor says; nil when it says nothing
    absl::Status refusal;
  };

  const PickOptions& options_;
  std::map<std::string, std::string> force_;  // canonical path → as it was given
  std::map<std::string, std::string> taken_;  // canonical path → reference
  std::vector<Member> members_;
  std::set<Uuid> free_;  // picked LUNs with a label that names no volume
  std::vector<FoundLun> found_;
  bool scanned_ = false;
};

absl::StatusOr<std::string> Picker::ByName(const LunReference& reference) {
  if (!scanned_) found_ = ScanLuns(options_.patterns);
  scanned_ = true;
  // Names are unique within a volume only: another volume's LUN of that name is no candidate unless
  // nothing else is.
  const FoundLun* free = nullptr;
  const FoundLun* member = nullptr;
  for (const FoundLun& lun : found_) {
    if (!lun.status.ok() || lun.reading.label.name != reference.text) continue;
    const FoundLun*& slot = lun.reading.label.volume.is_nil() || Forced(lun.name) ? free : member;
    if (slot != nullptr && &slot == &free) {
      return absl::FailedPreconditionError(
          absl::StrCat("two LUNs are named \"", reference.text, "\": ", slot->path, " and ",
                       lun.path, "; give the path of one, or narrow the patterns"));
    }
    slot = &lun;
  }
  if (free != nullptr) return free->name;
  if (member != nullptr) return member->name;  // TakeLabel says what it belongs to
  std::error_code error;
  const bool file = std::filesystem::exists(reference.text, error);
  return absl::NotFoundError(absl::StrCat(
      "no LUN is named \"", reference.text, "\" among ", found_.size(), " looked at",
      file ? absl::StrCat("; for the file write ./", reference.text)
           : std::string(options_.patterns.empty() ? "; say where to look with --luns 'GLOB'"
                                                   : "; check its label (reel-label) and --luns")));
}

// What OpenLun takes.
absl::StatusOr<std::string> Picker::PathOf(const LunReference& reference) {
  return reference.is_path() ? reference.text : ByName(reference);
}

absl::Status Picker::TakeLabel(const LunReference& reference, const std::string& path,
                               PickedLun& picked) {
  const bool forced = Forced(path);
  const auto looked = LookAtNewLun(*picked.lun, path, forced, "--force");
  if (!looked.ok()) return looked.status();
  if (!looked->volume.is_nil() && !forced) {
    const auto descriptor = ReadDescriptor(*picked.lun);
    const bool own = descriptor.ok() && descriptor->descriptor.volume == looked->volume;
    const std::string holds = absl::StrCat("LUN \"", looked->name, "\" of the volume ",
                                           own ? descriptor->descriptor.name + " (" : "(",
                                           looked->volume.ToString(), ")");
    members_.push_back({own ? descriptor->descriptor.seat_lun : Uuid(),
                        At(reference, RefuseNewLun(path, holds, "--force"))});
  }
  picked.facts.uuid = looked->uuid;
  picked.facts.name = looked->name;
  picked.label_generation = looked->label_generation;
  picked.start_over = looked->start_over;
  if (!looked->start_over) free_.insert(looked->uuid);
  return absl::OkStatus();
}

absl::StatusOr<PickedLun> Picker::Pick(const LunReference& reference) {
  auto path = PathOf(reference);
  if (!path.ok()) return path.status();
  const auto [earlier, is_new] = taken_.emplace(Canonical(*path), reference.text);
  if (!is_new) {
    return absl::InvalidArgumentError(
        absl::StrCat("LUN \"", LunNameForPeople(reference.text), "\" (", LunNameForPeople(*path),
                     ") is given twice: it is \"", LunNameForPeople(earlier->second), "\" too"));
  }
  auto lun = OpenLun(*path, options_.look_only ? LunAccess::kReadOnly : LunAccess::kReadWrite);
  if (!lun.ok()) return lun.status();
  if (!options_.look_only) {
    if (absl::Status status = (*lun)->ClaimForThisProcess(); !status.ok()) return status;
  }
  PickedLun picked;
  picked.facts.path = LunNameForPeople(*path);
  picked.facts.size_bytes = (*lun)->size_bytes();
  picked.facts.logical_block_bytes = (*lun)->logical_block_bytes();
  picked.facts.optimal_io_bytes = (*lun)->optimal_io_bytes();
  picked.name = *path;
  picked.lun = std::move(*lun);
  if (absl::Status status = TakeLabel(reference, *path, picked); !status.ok()) return status;
  return picked;
}

// A volume exists when its seat's label names it (make_volume.h): where that one is free, an mkfs
// was interrupted just before its end, and what it left on the other LUNs is nobody's.
absl::Status Picker::CheckMembers() const {
  for (const Member& member : members_) {
    if (!free_.contains(member.seat)) return member.refusal;
  }
  return absl::OkStatus();
}

absl::Status Picker::CheckForced() const {
  for (const auto& [canonical, given] : force_) {
    if (taken_.contains(canonical)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--force ", LunNameForPeople(given), " names none of the volume's LUNs"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<std::vector<PickedLun>>> PickLuns(const VolumeDescription& description,
                                                             const PickOptions& options) {
  Picker picker(options);
  std::vector<std::vector<PickedLun>> pools;
  for (const PoolDescription& pool : description.pools) {
    std::vector<PickedLun>& luns = pools.emplace_back();
    for (const LunReference& reference : pool.luns) {
      auto picked = picker.Pick(reference);
      if (!picked.ok()) return At(reference, picked.status());
      luns.push_back(std::move(*picked));
    }
  }
  if (absl::Status status = picker.CheckMembers(); !status.ok()) return status;
  if (absl::Status status = picker.CheckForced(); !status.ok()) return status;
  return pools;
}

}  // namespace reel::tools
