#include "volume/format/lun_repair.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "volume/base/aligned_buffer.h"
#include "volume/format/descriptor.h"
#include "volume/format/label.h"
#include "volume/format/lun_scan.h"

namespace reel {
namespace {

// A LUN that may be one of the volume's.
struct Candidate {
  FoundLun found;
  absl::StatusOr<DescriptorReading> reading;

  bool labelled() const { return found.status.ok() && !found.reading.label.volume.is_nil(); }
  bool damaged_label() const { return absl::IsDataLoss(found.status); }
};

std::vector<Candidate> ReadCandidates(const std::vector<std::string>& patterns) {
  std::vector<Candidate> candidates;
  for (FoundLun& found : ScanLuns(patterns)) {
    const bool one = (found.status.ok() && !found.reading.label.volume.is_nil()) ||
                     absl::IsDataLoss(found.status);
    if (!one) continue;
    const auto lun = OpenLun(found.name, LunAccess::kReadOnly);
    candidates.push_back({std::move(found), lun.ok() ? ReadDescriptor(**lun) : lun.status()});
  }
  return candidates;
}

// The descriptor that rules; nullptr when none is left, or volumes of one name are two.
const VolumeDescriptor* FindBest(const std::string& name,
                                 const std::vector<Candidate>& candidates) {
  const VolumeDescriptor* best = nullptr;
  bool best_is_seats = false;
  for (const Candidate& candidate : candidates) {
    if (!candidate.reading.ok()) continue;
    const VolumeDescriptor& own = candidate.reading->descriptor;
    if (candidate.labelled() && candidate.found.reading.label.volume != own.volume) continue;
    if (own.name != name) continue;
    if (best != nullptr && best->volume != own.volume) return nullptr;
    const bool is_seats = candidate.labelled() && candidate.found.reading.label.lun == own.seat_lun;
    if (best == nullptr || own.generation > best->generation ||
        (own.generation == best->generation && is_seats && !best_is_seats)) {
      best = &own;
      best_is_seats = is_seats;
    }
  }
  return best;
}

// One LUN of the volume, and what its label should say.
struct DescribedLun {
  Label label;
  const Candidate* candidate = nullptr;
};

std::vector<DescribedLun> MembersOf(const VolumeDescriptor& descriptor) {
  std::vector<DescribedLun> members;
  std::set<Uuid> seen;  // a LUN that grew stands in several sets; its label names the first
  for (std::uint32_t p = 0; p < descriptor.pools.size(); ++p) {
    const Pool& pool = descriptor.pools[p];
    for (std::uint32_t s = 0; s < pool.sets.size(); ++s) {
      for (std::uint32_t i = 0; i < pool.sets[s].luns.size(); ++i) {
        const LunEntry& entry = pool.sets[s].luns[i];
        if (!seen.insert(entry.lun).second) continue;
        members.push_back({{.lun = entry.lun,
                            .name = entry.name,
                            .volume = descriptor.volume,
                            .pool = p,
                            .stripe_set = s,
                            .position = i},
                           nullptr});
      }
    }
  }
  return members;
}

// By the stripe map's flat index.
std::vector<const LunEntry*> EntriesOf(const VolumeDescriptor& descriptor) {
  std::vector<const LunEntry*> entries;
  for (const Pool& pool : descriptor.pools) {
    for (const StripeSet& set : pool.sets) {
      for (const LunEntry& entry : set.luns) entries.push_back(&entry);
    }
  }
  return entries;
}

// False when a member is not there, or twice.
bool FindMembers(const VolumeDescriptor& descriptor, const std::vector<Candidate>& candidates,
                 std::vector<DescribedLun>& members) {
  DescribedLun* missing = nullptr;
  for (DescribedLun& member : members) {
    for (const Candidate& candidate : candidates) {
      if (!candidate.labelled() || candidate.found.reading.label.lun != member.label.lun ||
          candidate.found.reading.label.volume != descriptor.volume) {
        continue;
      }
      if (member.candidate != nullptr) return false;
      member.candidate = &candidate;
    }
    if (member.candidate != nullptr) continue;
    if (missing != nullptr) return false;
    missing = &member;
  }
  if (missing == nullptr) return true;
  for (const Candidate& candidate : candidates) {
    if (!candidate.damaged_label() || !candidate.reading.ok() ||
        candidate.reading->descriptor.volume != descriptor.volume) {
      continue;
    }
    if (missing->candidate != nullptr) return false;
    missing->candidate = &candidate;
  }
  return missing->candidate != nullptr;
}

absl::Status MendLabel(Lun& lun, Label wanted, std::vector<std::string>& done) {
  const absl::StatusOr<LabelReading> reading = ReadLabel(lun);
  if (!reading.ok() && !absl::IsDataLoss(reading.status())) return reading.status();
  wanted.generation = reading.ok() ? reading->label.generation : 0;
  wanted.size_bytes = reading.ok() ? reading->label.size_bytes : lun.size_bytes();
  if (reading.ok() && reading->primary.ok() && reading->copy.ok() && reading->label == wanted) {
    return absl::OkStatus();
  }
  ++wanted.generation;
  if (absl::Status status = WriteLabel(lun, wanted); !status.ok()) return status;
  done.push_back(!reading.ok()            ? "label written anew: no copy of it was whole"
                 : !reading->primary.ok() ? "label rewritten from its copy"
                 : !reading->copy.ok()    ? "copy of the label rewritten"
                                          : "label rewritten as the volume descriptor says");
  return absl::OkStatus();
}

bool IsWhole(const absl::StatusOr<DescriptorReading>& reading, const VolumeDescriptor& wanted) {
  if (!reading.ok() || reading->descriptor != wanted) return false;
  for (const absl::Status& slot : reading->slots) {
    if (!slot.ok() && !absl::IsNotFound(slot)) return false;
  }
  return true;
}

absl::Status ClearSlots(Lun& lun) {
  const AlignedBuffer zeros = AlignedBuffer::Zeroed(kLabelBytes);
  for (const std::uint64_t offset : kDescriptorSlotOffsets) {
    if (absl::Status status = lun.Write(offset, zeros.span()); !status.ok()) return status;
  }
  return lun.Flush();
}

absl::Status MendDescriptor(Lun& lun, const VolumeDescriptor& wanted,
                            std::vector<std::string>& done) {
  absl::StatusOr<DescriptorReading> reading = ReadDescriptor(lun);
  if (IsWhole(reading, wanted)) return absl::OkStatus();
  // Each write replaces the slot that does not rule.
  for (int slot = 0; slot < 2 && !IsWhole(reading, wanted); ++slot) {
    absl::Status written = WriteDescriptor(lun, wanted);
    if (absl::IsFailedPrecondition(written)) {  // another of the same generation
      written = ClearSlots(lun);
      if (written.ok()) written = WriteDescriptor(lun, wanted);
    }
    if (!written.ok()) return written;
    reading = ReadDescriptor(lun);
  }
  if (!reading.ok()) return reading.status();
  done.push_back(absl::StrCat("volume descriptor rewritten, generation ", wanted.generation));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<OpenVolume> OpenToMend(const std::string& volume_name,
                                      const std::vector<std::string>& patterns) {
  const absl::Status nothing =
      absl::NotFoundError("what is left names no volume that can be mended");
  const std::vector<Candidate> candidates = ReadCandidates(patterns);
  const VolumeDescriptor* best = FindBest(volume_name, candidates);
  if (best == nullptr || MustStayReadOnly(*best)) return nothing;
  OpenVolume volume;
  volume.descriptor = *best;
  std::vector<DescribedLun> members = MembersOf(volume.descriptor);
  if (!FindMembers(volume.descriptor, candidates, members)) return nothing;
  std::map<Uuid, std::shared_ptr<Lun>> open;  // a LUN that grew stands at several places
  for (const LunEntry* entry : EntriesOf(volume.descriptor)) {
    const auto member = std::find_if(members.begin(), members.end(), [&](const DescribedLun& one) {
      return one.label.lun == entry->lun;
    });
    volume.names.push_back(member->candidate->found.name);
    if (const auto known = open.find(entry->lun); known != open.end()) {
      volume.luns.push_back(known->second);
      continue;
    }
    auto lun = OpenLun(member->candidate->found.name, LunAccess::kReadWrite);
    if (!lun.ok()) return lun.status();
    volume.luns.push_back(open[entry->lun] = *std::move(lun));
  }
  return volume;
}

absl::StatusOr<std::vector<LunMend>> MendLuns(OpenVolume& volume) {
  const std::vector<const LunEntry*> entries = EntriesOf(volume.descriptor);
  std::vector<LunMend> mends;
  for (const DescribedLun& member : MembersOf(volume.descriptor)) {
    std::size_t index = 0;
    while (entries[index]->lun != member.label.lun) ++index;
    Lun& lun = *volume.luns[index];
    std::vector<std::string> done;
    absl::Status status = MendDescriptor(lun, volume.descriptor, done);
    if (status.ok()) status = MendLabel(lun, member.label, done);
    if (!status.ok()) return status;
    for (std::string& what : done) {
      mends.push_back(
          {absl::StrCat("LUN ", member.label.name, " (", lun.name(), ")"), std::move(what)});
    }
  }
  return mends;
}

}  // namespace reel
