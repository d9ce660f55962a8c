#include "tools/doctor/doctor_luns.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tools/doctor/doctor_paths.h"
#include "volume/base/size.h"
#include "volume/format/descriptor.h"
#include "volume/format/lun_scan.h"
#include "volume/iscsi/iscsi_path.h"
#include "volume/iscsi/iscsi_url.h"
#include "volume/lun/lun.h"
#include "volume/lun/reservation.h"

namespace reel::tools {
namespace {

// What is seen of one LUN, and what there is to do about it.
struct LunLook {
  std::vector<std::string> seen;
  std::vector<std::string> todo;
  bool failed = false;

  void Say(std::string what) { seen.push_back(std::move(what)); }
  void Advise(std::string what) {
    if (!what.empty()) todo.push_back(std::move(what));
  }
};

// The kernel's name of a block device; empty for what is none.
std::string DeviceName(const std::string& path) {
  struct stat facts {};
  if (stat(path.c_str(), &facts) != 0 || !S_ISBLK(facts.st_mode)) return "";
  std::error_code error;
  return std::filesystem::canonical(path, error).filename();
}

void LookAtReservations(Lun& lun, LunLook& look) {
  if (!lun.has_reservations()) {
    look.Say("no reservations");
    look.Advise(lun.executes_late()
                    ? "a host that hangs is cut off by time alone: allow SCSI-3 persistent "
                      "reservations at the target"
                    : "for trials only: a host that hangs cannot be cut off from an image file");
    return;
  }
  const auto keys = lun.reservations()->ReadKeys();
  if (keys.ok()) {
    look.Say(absl::StrCat("reservations (", keys->keys.size(), " registered)"));
  } else if (absl::IsUnimplemented(keys.status())) {
    look.Say("reservations");
  } else {
    look.Say(absl::StrCat("reservations cannot be read: ", keys.status().message()));
    look.Advise("see the target's settings of persistent reservations");
  }
}

void LookAtPaths(const std::string& name, const HostTrees& trees, LunLook& look) {
  const std::string device = DeviceName(name);
  if (device.empty()) return;
  const LunPaths paths = PathsOf(trees, device);
  look.Say(paths.text);
  look.Advise(paths.todo);
  if (TextAt(absl::StrCat(trees.sys, "/class/block/", device, "/ro")) == "1") {
    look.failed = true;
    look.Say("read-only");
    look.Advise("allow writes at the target, or blockdev --setrw");
  }
}

// Of an iscsi:// address with several: one that does not lead to the LUN is no reserve.
void LookAtPortals(const std::string& name, LunLook& look) {
  const auto url = ParseIscsiUrl(name);
  if (!IsIscsiUrl(name) || !url.ok() || url->portals.size() == 1) return;
  std::size_t good = 0;
  std::vector<std::string> bad;
  for (const PortalLook& portal : reel::LookAtPortals(*url)) {
    if (portal.status.ok()) {
      ++good;
    } else {
      bad.push_back(absl::StrCat("portal ", portal.portal, ": ", portal.status.message()));
    }
  }
  look.Say(absl::StrCat(good, " of ", url->portals.size(), " portals lead to it"));
  if (bad.empty()) return;
  for (std::string& why : bad) look.Say(std::move(why));
  look.Advise("hosts go on by the other portals: see this one's cable, and the target");
}

Finding LookAt(const FoundLun& found, const HostTrees& trees) {
  const Label& label = found.reading.label;
  LunLook look;
  look.Say(absl::StrCat(FormatSize(label.size_bytes),
                        label.volume.is_nil() ? ", of no volume yet" : ""));
  for (const auto& [copy, what] : {std::pair(found.reading.primary, "label"),
                                   std::pair(found.reading.copy, "copy of the label")}) {
    if (copy.ok()) continue;
    look.Say(absl::StrCat("its ", what, " is damaged"));
    look.Advise("fsck.reelfs --repair mends it, when no controller serves the volume");
  }
  // Nothing is written: a volume that is served would be harmed, or refuse it.
  const auto lun = OpenLun(found.name, LunAccess::kReadWrite);
  if (lun.ok()) {
    look.Say("can be read and written");
    if ((*lun)->size_bytes() > label.size_bytes) {
      look.Say(absl::StrCat("has grown to ", FormatSize((*lun)->size_bytes()),
                            ", of which the volume goes on to use the first ",
                            FormatSize(label.size_bytes)));
    }
    LookAtReservations(**lun, look);
  } else {
    look.failed = true;
    look.Say(absl::StrCat("can be read, and not written: ", lun.status().message()));
    look.Advise("allow writes to it, here and at the target");
  }
  LookAtPortals(found.name, look);
  LookAtPaths(found.name, trees, look);
  return {look.failed         ? Finding::Level::kFailure
          : look.todo.empty() ? Finding::Level::kOk
                              : Finding::Level::kWarning,
          "lun", absl::StrCat(label.name, " (", found.path, ")"), absl::StrJoin(look.seen, ", "),
          absl::StrJoin(look.todo, "; ")};
}

void AddOnce(std::vector<std::string>& names, const std::string& name) {
  if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
}

// By the descriptors on the LUNs that are there.
void AddVolumesOf(const std::vector<FoundLun>& found, std::vector<std::string>& volumes) {
  for (const FoundLun& lun : found) {
    if (!lun.status.ok() || lun.reading.label.volume.is_nil()) continue;
    const auto opened = OpenLun(lun.name, LunAccess::kReadOnly);
    if (!opened.ok()) continue;
    if (const auto reading = ReadDescriptor(**opened); reading.ok()) {
      AddOnce(volumes, reading->descriptor.name);
    }
  }
}

Finding LookAtVolume(const std::string& volume, const std::vector<std::string>& patterns) {
  const auto open = OpenVolumeByName(volume, patterns, LunAccess::kReadOnly);
  if (open.ok()) {
    return Finding::Ok("volume", volume,
                       absl::StrCat("all ", open->luns.size(), " LUNs are there"));
  }
  return Finding::Failure("volume", volume, std::string(open.status().message()),
                          "see logins, zoning and cables, and luns in reelfs.toml; a volume is "
                          "made by mkfs.reelfs");
}

// Of what has no label that can be read.
std::vector<Finding> LookAtOthers(const std::vector<FoundLun>& found) {
  std::vector<Finding> findings;
  std::size_t bare = 0;
  for (const FoundLun& lun : found) {
    if (lun.status.ok()) continue;
    std::error_code error;
    const bool there = IsIscsiUrl(lun.name) || std::filesystem::exists(lun.name, error);
    if (absl::IsNotFound(lun.status) && there) {
      ++bare;
    } else {
      findings.push_back(
          Finding::Failure("lun", lun.path, std::string(lun.status.message()),
                           absl::IsPermissionDenied(lun.status)
                               ? "run this as root"
                               : "log in to its target, or mend luns in reelfs.toml"));
    }
  }
  if (bare > 0) {
    findings.push_back(Finding::Ok("lun", "",
                                   absl::StrCat(bare,
                                                " more without a label, which are left alone "
                                                "(reel-label write gives one)")));
  }
  return findings;
}

}  // namespace

std::vector<Finding> LunFindings(const std::vector<std::string>& patterns,
                                 std::vector<std::string> volumes, const HostTrees& trees) {
  std::vector<Finding> findings;
  for (const std::string& pattern : patterns) {
    if (!ExpandLunPatterns({pattern}).empty()) continue;
    findings.push_back(Finding::Failure("lun", LunNameForPeople(pattern), "leads to nothing",
                                        "log in to the target, or mend luns in reelfs.toml"));
  }
  const std::vector<FoundLun> found = ScanLuns(patterns);
  for (const FoundLun& lun : found) {
    if (lun.status.ok()) findings.push_back(LookAt(lun, trees));
  }
  for (Finding& finding : LookAtOthers(found)) findings.push_back(std::move(finding));
  AddVolumesOf(found, volumes);
  for (const std::string& volume : volumes) findings.push_back(LookAtVolume(volume, patterns));
  return findings;
}

}  // namespace reel::tools
