#include "tools/mkfs/restore_checks.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "mdc/backup/dump_reader.h"
#include "volume/base/coding.h"
#include "volume/format/dump_mark.h"
#include "volume/format/label.h"
#include "volume/format/lun_scan.h"

namespace reel::tools {
namespace {

std::string DumpText(const WholeDump& dump) {
  return absl::StrCat(
      "dump ", dump.head.dump.ToString(), " of ",
      absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::FromUnixSeconds(dump.head.taken.seconds),
                       absl::UTCTimeZone()));
}

absl::Status Refused(const WholeDump& dump, std::string_view why) {
  return absl::FailedPreconditionError(
      absl::StrCat(DumpText(dump), " cannot be restored: ", std::string(why)));
}

// The volume's descriptor with the highest generation of all that its LUNs hold.
absl::StatusOr<VolumeDescriptor> NewestDescriptor(const WholeDump& dump,
                                                  const std::vector<FoundLun>& found) {
  absl::StatusOr<VolumeDescriptor> newest = absl::NotFoundError(
      absl::StrCat("no LUN of volume ", dump.descriptor.name, " (", dump.head.volume.ToString(),
                   ") was found; check the paths with --luns"));
  for (const FoundLun& one : found) {
    if (!one.status.ok() || one.reading.label.volume != dump.head.volume) continue;
    auto lun = OpenLun(one.name, LunAccess::kReadOnly);
    if (!lun.ok()) return lun.status();
    auto reading = ReadDescriptor(**lun);
    if (!reading.ok() || reading->descriptor.volume != dump.head.volume) continue;
    if (!newest.ok() || newest->generation < reading->descriptor.generation) {
      newest = std::move(reading->descriptor);
    }
  }
  return newest;
}

// Addresses in the dump mean the same today: sets are only ever added.
absl::Status CheckPools(const WholeDump& dump, const VolumeDescriptor& now) {
  const auto& then = dump.descriptor.pools;
  if (dump.descriptor.block_bytes != now.block_bytes || then.size() > now.pools.size()) {
    return Refused(dump, "the volume has other pools by now");
  }
  for (std::size_t i = 0; i < then.size(); ++i) {
    if ((then[i].flags & Pool::kData) == 0) continue;
    const Pool& pool = now.pools[i];
    if ((pool.flags & Pool::kData) == 0 || pool.breadth_blocks != then[i].breadth_blocks ||
        pool.sets.size() < then[i].sets.size() ||
        !std::equal(then[i].sets.begin(), then[i].sets.end(), pool.sets.begin())) {
      return Refused(dump, absl::StrCat("pool ", then[i].name, " has other LUNs by now"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::size_t> MetadataPoolOf(const WholeDump& dump, const VolumeDescriptor& now) {
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < now.pools.size(); ++i) {
    if ((now.pools[i].flags & Pool::kMetadata) == 0) continue;
    if ((now.pools[i].flags & Pool::kData) != 0 || found) {
      return Refused(dump, absl::StrCat("metadata of the volume share pool ", now.pools[i].name,
                                        " with files"));
    }
    found = i;
  }
  if (!found) return Refused(dump, "its volume has no pool for metadata");
  return *found;
}

absl::StatusOr<std::unique_ptr<Lun>> OpenEntry(const WholeDump& dump, const LunEntry& entry,
                                               const std::vector<FoundLun>& found, LunAccess access,
                                               std::string* name) {
  const FoundLun* match = nullptr;
  for (const FoundLun& one : found) {
    if (!one.status.ok() || one.reading.label.lun != entry.lun) continue;
    if (match != nullptr) {
      return Refused(dump, absl::StrCat("LUN ", entry.name, " is claimed by both ", match->path,
                                        " and ", one.path, "; name only one"));
    }
    match = &one;
  }
  if (match == nullptr || match->reading.label.volume != dump.head.volume) {
    return absl::NotFoundError(absl::StrCat("LUN ", entry.name, " (", entry.lun.ToString(),
                                            "), which has files of volume ", dump.descriptor.name,
                                            ", was not found; connect it, and name it by --luns"));
  }
  *name = match->name;
  auto lun = OpenLun(match->name, access);
  if (lun.ok() && access == LunAccess::kReadWrite) {
    if (absl::Status s = (*lun)->ClaimForThisProcess(); !s.ok()) return s;
  }
  return lun;
}

// A volume that is served is not restored: where its metadata LUNs are, it may be.
absl::Status CheckLost(const WholeDump& dump, const VolumeDescriptor& now, const Pool& metadata,
                       const std::vector<FoundLun>& found,
                       const std::vector<std::string>& replaced) {
  for (const FoundLun& one : found) {
    if (!one.status.ok() || one.reading.label.volume != dump.head.volume) continue;
    if (std::ranges::find(replaced, one.name) != replaced.end()) continue;
    for (const StripeSet& set : metadata.sets) {
      for (const LunEntry& entry : set.luns) {
        if (entry.lun != one.reading.label.lun) continue;
        return Refused(dump, absl::StrCat("LUN ", entry.name, " (", one.path,
                                          "), which has metadata of volume ", now.name,
                                          ", is there; disconnect it, or if it is to be "
                                          "overwritten stop the volume everywhere "
                                          "and name the LUN by --metadata and --force"));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<WholeDump> ReadWholeDump(const std::string& path) {
  const auto named = [&](const absl::Status& status) {
    return absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
  };
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(absl::StrCat(path, ": the dump cannot be opened"));
  mdc::DumpReader reader(file);
  auto head = reader.ReadHead();
  if (!head.ok()) return named(head.status());
  const auto end = reader.ReadRecords([](const mdc::schema::ParsedKey&, std::string_view,
                                         std::string_view) { return absl::OkStatus(); });
  if (!end.ok()) return named(end.status());
  auto descriptor = DecodeDescriptor(AsBytes(head->descriptor));
  if (!descriptor.ok()) return named(descriptor.status());
  if (descriptor->volume != head->volume) {
    return absl::DataLossError(absl::StrCat(path, ": the dump is damaged: it is of two volumes"));
  }
  return WholeDump{*std::move(head), *std::move(descriptor), end->records};
}

absl::StatusOr<Remains> FindRemains(const WholeDump& dump, const std::vector<std::string>& patterns,
                                    const std::vector<std::string>& replaced, bool look_only) {
  const std::vector<FoundLun> found = ScanLuns(patterns);
  auto descriptor = NewestDescriptor(dump, found);
  if (!descriptor.ok()) return descriptor.status();
  if (absl::Status s = CheckPools(dump, *descriptor); !s.ok()) return s;
  const auto metadata_pool = MetadataPoolOf(dump, *descriptor);
  if (!metadata_pool.ok()) return metadata_pool.status();
  const Pool& metadata = descriptor->pools[*metadata_pool];
  if (absl::Status s = CheckLost(dump, *descriptor, metadata, found, replaced); !s.ok()) return s;
  Remains remains{.descriptor = *descriptor, .metadata_pool = *metadata_pool};
  const LunAccess access = look_only ? LunAccess::kReadOnly : LunAccess::kReadWrite;
  for (std::size_t i = 0; i < descriptor->pools.size(); ++i) {
    for (const StripeSet& set : descriptor->pools[i].sets) {
      for (const LunEntry& entry : set.luns) {
        std::string& name = remains.names.emplace_back();
        if (i == *metadata_pool) {
          remains.luns.push_back(nullptr);
          continue;
        }
        auto lun = OpenEntry(dump, entry, found, access, &name);
        if (!lun.ok()) return lun.status();
        remains.luns.push_back(*std::move(lun));
      }
    }
  }
  return remains;
}

absl::Status CheckMarks(const WholeDump& dump, Remains& remains) {
  std::set<Uuid> had_blocks;  // when the dump was taken
  for (const Pool& pool : dump.descriptor.pools) {
    for (const StripeSet& set : pool.sets) {
      for (const LunEntry& entry : set.luns) had_blocks.insert(entry.lun);
    }
  }
  std::size_t next = 0;
  for (const Pool& pool : remains.descriptor.pools) {
    for (const StripeSet& set : pool.sets) {
      for (const LunEntry& entry : set.luns) {
        Lun* const lun = remains.luns[next++].get();
        if (lun == nullptr) continue;
        const auto mark = ReadDumpMark(*lun, dump.head.volume);
        // One that was added since had nothing that the dump could name.
        if (absl::IsNotFound(mark.status()) && !had_blocks.contains(entry.lun)) continue;
        if (!mark.ok() && !absl::IsNotFound(mark.status())) {
          return Refused(dump, std::string(mark.status().message()));
        }
        if (mark.ok()) remains.marked = std::max(remains.marked, mark->epoch);
        if (mark.ok() && mark->Names(dump.head.dump)) continue;
        const bool other = mark.ok() && !mark->dumps.empty();
        return Refused(
            dump,
            absl::StrCat("blocks that it names may be another file's by now; LUN ", entry.name,
                         other ? absl::StrCat(" names dump ", mark->dumps[0].ToString(),
                                              ", restore that one")
                               : std::string(" names no dump that is valid")));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace reel::tools
