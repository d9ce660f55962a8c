#include "volume/format/lun_scan.h"

#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "volume/base/check.h"

namespace reel {
namespace {

// Two paths to one file or device have one identity. Paths to nothing are told apart by their text.
using Identity = std::tuple<char, std::uint64_t, std::uint64_t, std::string>;

Identity IdentityOf(const std::string& path) {
  struct stat facts {};
  if (stat(path.c_str(), &facts) != 0) return {'?', 0, 0, path};
  if (S_ISBLK(facts.st_mode)) return {'b', facts.st_rdev, 0, ""};
  return {'f', facts.st_dev, facts.st_ino, ""};
}

std::vector<std::string> ExpandOne(const std::string& pattern) {
  if (absl::StrContains(pattern, "://")) return {pattern};  // a URL's brackets are no glob
  std::vector<std::string> paths;
  glob_t found{};
  if (glob(pattern.c_str(), GLOB_NOMAGIC, nullptr, &found) == 0) {
    for (std::size_t i = 0; i < found.gl_pathc; ++i) paths.emplace_back(found.gl_pathv[i]);
  }
  globfree(&found);
  return paths;
}

// A LUN of some volume, with what its own descriptor slots say.
struct Member {
  const FoundLun* found;
  absl::StatusOr<DescriptorReading> reading;

  const Label& label() const { return found->reading.label; }
  // True when the descriptor is the volume's own and names this LUN as the seat: such a one rules.
  bool rules() const {
    return reading.ok() && reading->descriptor.volume == label().volume &&
           reading->descriptor.seat_lun == label().lun;
  }
};

absl::StatusOr<DescriptorReading> ReadDescriptorAt(const std::string& name) {
  absl::StatusOr<std::unique_ptr<Lun>> lun = OpenLun(name, LunAccess::kReadOnly);
  if (!lun.ok()) return lun.status();
  return ReadDescriptor(**lun);
}

std::vector<Member> ReadMembers(const std::vector<FoundLun>& found) {
  std::vector<Member> members;
  for (const FoundLun& lun : found) {
    if (!lun.status.ok() || lun.reading.label.volume.is_nil()) continue;
    members.push_back({&lun, ReadDescriptorAt(lun.name)});
  }
  return members;
}

std::string CandidatesText(const std::vector<FoundLun>& found) {
  std::string text = absl::StrCat(found.size(), " candidates were looked at");
  for (const FoundLun& lun : found) {
    if (lun.status.ok() || absl::IsNotFound(lun.status)) continue;
    return absl::StrCat(text, "; of those not readable: ", lun.status.message());
  }
  return text;
}

// Why no descriptor that rules has the name.
absl::Status NoSuchVolume(const std::string& name, const std::vector<FoundLun>& found,
                          const std::vector<Member>& members, const std::set<Uuid>& ruled) {
  for (const Member& member : members) {
    if (ruled.contains(member.label().volume)) continue;
    if (!member.reading.ok() || member.reading->descriptor.name != name) continue;
    const Uuid seat = member.reading->descriptor.seat_lun;
    for (const Member& other : members) {
      if (other.label().lun != seat) continue;
      return absl::DataLossError(absl::StrCat(
          "volume ", name, ": its seat LUN ", other.label().name, " (", other.found->path,
          ") has no valid descriptor, but a copy is on ", member.found->path,
          "; run fsck.reelfs: ", other.reading.ok() ? "" : other.reading.status().ToString()));
    }
    return absl::NotFoundError(absl::StrCat("volume ", name, ": its seat LUN ", seat.ToString(),
                                            " was not found; connect it (", CandidatesText(found),
                                            ")"));
  }
  for (const Member& member : members) {
    if (ruled.contains(member.label().volume) || member.reading.ok()) continue;
    return {member.reading.status().code() == absl::StatusCode::kNotFound
                ? absl::StatusCode::kDataLoss
                : member.reading.status().code(),
            absl::StrCat(
                "no volume is named ", name, ", but LUN ", member.label().name,
                " belongs to one whose name cannot be read: ", member.reading.status().message())};
  }
  return absl::NotFoundError(absl::StrCat("no volume is named ", name,
                                          "; check the name and the LUN paths (",
                                          CandidatesText(found), ")"));
}

absl::StatusOr<VolumeDescriptor> FindRuling(const std::string& name,
                                            const std::vector<FoundLun>& found,
                                            const std::vector<Member>& members) {
  std::map<Uuid, const VolumeDescriptor*> ruling;
  std::set<Uuid> ruled;
  for (const Member& member : members) {
    if (!member.rules()) continue;
    const VolumeDescriptor& descriptor = member.reading->descriptor;
    const VolumeDescriptor*& best = ruling[descriptor.volume];
    if (best == nullptr || best->generation < descriptor.generation) best = &descriptor;
    ruled.insert(descriptor.volume);
  }
  std::erase_if(ruling, [&](const auto& entry) { return entry.second->name != name; });
  if (ruling.empty()) return NoSuchVolume(name, found, members, ruled);
  if (ruling.size() > 1) {
    return absl::FailedPreconditionError(absl::StrCat(
        "two volumes are named ", name, ": ", ruling.begin()->first.ToString(), " and ",
        std::next(ruling.begin())->first.ToString(), "; name the LUN paths of one"));
  }
  const VolumeDescriptor& best = *ruling.begin()->second;
  // Its metadata were restored onto other LUNs, and this is the seat of before. (A change is
  // written to the seat first: no copy of the same seat is ahead of it.)
  for (const Member& member : members) {
    if (!member.reading.ok() || member.reading->descriptor.volume != best.volume ||
        member.label().volume != best.volume ||
        member.reading->descriptor.generation <= best.generation ||
        member.reading->descriptor.seat_lun == best.seat_lun) {
      continue;
    }
    return absl::FailedPreconditionError(absl::StrCat(
        "volume ", name, ": LUN ", member.label().name, " (", member.found->path,
        ") says that the volume has another seat LUN by now, ",
        member.reading->descriptor.seat_lun.ToString(), ", which was not found; connect it, and ",
        "take the old one away (", CandidatesText(found), ")"));
  }
  return best;
}

// The flat list of places that a LUN of the volume fills.
struct Place {
  const LunEntry* entry;
  std::uint32_t pool, set, position;
  std::uint64_t end_bytes;  // where the pool's blocks end on the LUN
};

std::vector<Place> PlacesOf(const VolumeDescriptor& descriptor) {
  std::vector<Place> places;
  for (std::uint32_t p = 0; p < descriptor.pools.size(); ++p) {
    const Pool& pool = descriptor.pools[p];
    for (std::uint32_t s = 0; s < pool.sets.size(); ++s) {
      const StripeSet& set = pool.sets[s];
      const std::uint64_t used = set.rows * pool.BreadthOf(set) * descriptor.block_bytes;
      for (std::uint32_t i = 0; i < set.luns.size(); ++i) {
        places.push_back({&set.luns[i], p, s, i, set.luns[i].data_start_bytes + used});
      }
    }
  }
  return places;
}

// Copies of the descriptor that are damaged or behind.
std::vector<std::string> CopyWarnings(const VolumeDescriptor& descriptor,
                                      const std::vector<Member>& members) {
  std::vector<std::string> warnings;
  const auto warn = [&](const Member& member, const std::string& text) {
    warnings.push_back(
        absl::StrCat("LUN ", member.label().name, " (", member.found->path, "): ", text));
  };
  const std::vector<Place> places = PlacesOf(descriptor);
  const auto is_placed = [&](const Uuid& lun) {
    return std::ranges::any_of(places, [&](const Place& place) { return place.entry->lun == lun; });
  };
  for (const Member& member : members) {
    if (member.label().volume != descriptor.volume) continue;
    // It was to be added to the volume, and the controller died before that: the volume has never
    // used it.
    const bool untold = absl::IsNotFound(member.reading.status());
    if (untold && !is_placed(member.label().lun)) continue;
    if (!member.reading.ok()) {
      warn(member, absl::StrCat("its copy of the volume descriptor is not valid: ",
                                member.reading.status().message()));
      continue;
    }
    for (int slot = 0; slot < 2; ++slot) {
      const absl::Status& status = member.reading->slots[slot];
      if (status.ok() || absl::IsNotFound(status)) continue;
      warn(member, absl::StrCat("descriptor slot ", slot, ": ", status.message()));
    }
    const VolumeDescriptor& copy = member.reading->descriptor;
    if (copy == descriptor) continue;
    if (copy.volume != descriptor.volume) {
      warn(member, "its descriptor is of another volume");
    } else {
      warn(member, absl::StrCat("its descriptor has generation ", copy.generation,
                                ", the seat's has ", descriptor.generation));
    }
  }
  return warnings;
}

// The one candidate that carries the LUN.
absl::StatusOr<const FoundLun*> FindLun(const VolumeDescriptor& descriptor, const LunEntry& entry,
                                        const std::vector<FoundLun>& found) {
  const FoundLun* match = nullptr;
  const std::string what = absl::StrCat("volume ", descriptor.name, ": LUN ", entry.name, " (",
                                        entry.lun.ToString(), ")");
  for (const FoundLun& lun : found) {
    if (!lun.status.ok() || lun.reading.label.lun != entry.lun) continue;
    if (match != nullptr) {
      return absl::FailedPreconditionError(absl::StrCat(
          what, " is claimed by both ", match->path, " and ", lun.path,
          "; name only one (for multipath its /dev/mapper device), or remove the clone"));
    }
    match = &lun;
  }
  if (match == nullptr) {
    return absl::NotFoundError(
        absl::StrCat(what, " was not found; connect it (", CandidatesText(found), ")"));
  }
  if (match->reading.label.volume != descriptor.volume) {
    return absl::NotFoundError(
        absl::StrCat(what, ": the label at ", match->path, " does not name this volume"));
  }
  return match;
}

// Opens the LUN and makes sure that it is still the one whose label was scanned.
absl::StatusOr<std::unique_ptr<Lun>> OpenAt(const VolumeDescriptor& descriptor, const Place& place,
                                            const FoundLun& found, LunAccess access) {
  absl::StatusOr<std::unique_ptr<Lun>> lun = OpenLun(found.name, access);
  if (!lun.ok()) return lun.status();
  const absl::StatusOr<LabelReading> reading = ReadLabel(**lun);
  if (!reading.ok()) return reading.status();
  if (reading->label.lun != place.entry->lun) {
    return absl::FailedPreconditionError(absl::StrCat(found.path,
                                                      ": another LUN took this path while volume ",
                                                      descriptor.name, " was opened; retry"));
  }
  return lun;
}

absl::Status CheckSize(const VolumeDescriptor& descriptor, const Place& place, const Lun& lun) {
  if (lun.size_bytes() >= place.end_bytes) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "volume ", descriptor.name, ": LUN ", place.entry->name, " (", lun.name(), ") holds ",
      lun.size_bytes(), " bytes, but the volume uses ", place.end_bytes, "; restore its size"));
}

void WarnAboutLabel(const Place& place, const FoundLun& found, std::vector<std::string>& warnings) {
  const auto warn = [&](const std::string& text) {
    warnings.push_back(absl::StrCat("LUN ", place.entry->name, " (", found.path, "): ", text));
  };
  const LabelReading& reading = found.reading;
  if (!reading.primary.ok()) warn(absl::StrCat("label at its start: ", reading.primary.message()));
  if (!reading.copy.ok()) warn(absl::StrCat("copy of the label: ", reading.copy.message()));
  const Label& label = reading.label;
  if (label.name != place.entry->name || label.pool != place.pool ||
      label.stripe_set != place.set || label.position != place.position) {
    warn(absl::StrCat("its label says ", label.name, ", place ", label.pool, "/", label.stripe_set,
                      "/", label.position, "; the volume descriptor says place ", place.pool, "/",
                      place.set, "/", place.position));
  }
}

absl::Status CheckMayWrite(const VolumeDescriptor& descriptor, LunAccess access) {
  if (access == LunAccess::kReadOnly || !MustStayReadOnly(descriptor)) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat(
      "volume ", descriptor.name,
      ": uses features that this program can only read (ro-compat bits ",
      absl::Hex(descriptor.ro_compat & ~kKnownRoCompat), "); upgrade it, or open read-only"));
}

absl::StatusOr<OpenVolume> OpenFoundLuns(const VolumeDescriptor& descriptor,
                                         const std::vector<FoundLun>& found, LunAccess access,
                                         OpenLuns open = {}) {
  if (absl::Status s = CheckMayWrite(descriptor, access); !s.ok()) return s;
  OpenVolume volume;
  volume.descriptor = descriptor;
  for (const Place& place : PlacesOf(descriptor)) {
    auto known = open.find(place.entry->lun);
    if (known == open.end()) {
      const absl::StatusOr<const FoundLun*> match = FindLun(descriptor, *place.entry, found);
      if (!match.ok()) return match.status();
      absl::StatusOr<std::unique_ptr<Lun>> lun = OpenAt(descriptor, place, **match, access);
      if (!lun.ok()) return lun.status();
      WarnAboutLabel(place, **match, volume.warnings);
      known = open.emplace(place.entry->lun, NamedLun{*std::move(lun), (*match)->name}).first;
    } else if (known->second.lun->size_bytes() < place.end_bytes) {
      if (absl::Status s = known->second.lun->Grow(); !s.ok()) return s;
    }
    if (absl::Status s = CheckSize(descriptor, place, *known->second.lun); !s.ok()) return s;
    volume.names.push_back(known->second.name);
    volume.luns.push_back(known->second.lun);
  }
  return volume;
}

OpenLuns LunsOf(const OpenVolume& open) {
  OpenLuns luns;
  const std::vector<Place> places = PlacesOf(open.descriptor);
  for (std::size_t i = 0; i < places.size() && i < open.luns.size(); ++i) {
    luns.try_emplace(places[i].entry->lun, NamedLun{open.luns[i], open.NameOf(i)});
  }
  return luns;
}

}  // namespace

std::vector<std::string> ExpandLunPatterns(const std::vector<std::string>& patterns) {
  std::vector<std::string> paths;
  std::set<Identity> seen;
  for (const std::string& pattern : patterns) {
    for (std::string& path : ExpandOne(pattern)) {
      if (seen.insert(IdentityOf(path)).second) paths.push_back(std::move(path));
    }
  }
  return paths;
}

std::vector<FoundLun> ScanLuns(const std::vector<std::string>& patterns) {
  std::vector<FoundLun> found;
  for (std::string& name : ExpandLunPatterns(patterns)) {
    FoundLun& lun = found.emplace_back();
    lun.path = LunNameForPeople(name);
    lun.name = std::move(name);
    absl::StatusOr<std::unique_ptr<Lun>> opened = OpenLun(lun.name, LunAccess::kReadOnly);
    if (!opened.ok()) {
      lun.status = opened.status();
      continue;
    }
    absl::StatusOr<LabelReading> reading = ReadLabel(**opened);
    lun.status = reading.status();
    if (reading.ok()) lun.reading = *std::move(reading);
  }
  return found;
}

std::size_t OpenVolume::SeatIndex() const {
  const std::vector<Place> places = PlacesOf(descriptor);
  for (std::size_t i = 0; i < places.size() && i < luns.size(); ++i) {
    if (places[i].entry->lun == descriptor.seat_lun) return i;
  }
  CheckFailed("seat", "a valid descriptor's seat is one of its LUNs", __FILE__, __LINE__);
}

Lun& OpenVolume::seat_lun() const {
  return *luns[SeatIndex()];
}

const std::string& OpenVolume::NameOf(std::size_t index) const {
  return index < names.size() ? names[index] : luns[index]->name();
}

absl::StatusOr<OpenVolume> OpenVolumeByName(const std::string& volume_name,
                                            const std::vector<std::string>& patterns,
                                            LunAccess access) {
  const std::vector<FoundLun> found = ScanLuns(patterns);
  const std::vector<Member> members = ReadMembers(found);
  const absl::StatusOr<VolumeDescriptor> descriptor = FindRuling(volume_name, found, members);
  if (!descriptor.ok()) return descriptor.status();
  absl::StatusOr<OpenVolume> volume = OpenFoundLuns(*descriptor, found, access);
  if (!volume.ok()) return volume.status();
  for (std::string& warning : CopyWarnings(*descriptor, members)) {
    volume->warnings.push_back(std::move(warning));
  }
  return volume;
}

absl::StatusOr<OpenVolume> OpenVolumeLuns(const VolumeDescriptor& descriptor,
                                          const std::vector<std::string>& patterns,
                                          LunAccess access) {
  return OpenFoundLuns(descriptor, ScanLuns(patterns), access);
}

absl::StatusOr<OpenVolume> OpenMoreLuns(const OpenVolume& open, const VolumeDescriptor& later,
                                        const std::vector<std::string>& patterns,
                                        LunAccess access) {
  OpenLuns known = LunsOf(open);
  const bool any_new = std::ranges::any_of(
      PlacesOf(later), [&](const Place& place) { return !known.contains(place.entry->lun); });
  const std::vector<FoundLun> found = any_new ? ScanLuns(patterns) : std::vector<FoundLun>();
  return OpenFoundLuns(later, found, access, std::move(known));
}

absl::StatusOr<OpenVolume> OpenMoreLuns(const OpenVolume& open, const VolumeDescriptor& later,
                                        OpenLuns added) {
  OpenLuns known = LunsOf(open);
  known.merge(added);
  return OpenFoundLuns(later, {}, LunAccess::kReadWrite, std::move(known));
}

}  // namespace reel
