// reel-label: labels LUNs, lists them, and clears them; and their reservations.
//
// A device that holds a label, a partition table or a known file system is left alone, unless
// --force repeats its very path. Exit codes: 0 done, 1 failed, 2 usage.
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/label/label_reservations.h"
#include "tools/lib/cli.h"
#include "volume/base/aligned_buffer.h"
#include "volume/base/size.h"
#include "volume/base/types.h"
#include "volume/format/label.h"
#include "volume/format/lun_scan.h"
#include "volume/iscsi/iscsi_url.h"
#include "volume/lun/fd_lun.h"
#include "volume/lun/lun.h"

namespace reel::tools {
namespace {

struct Options {
  std::string name;
  std::string path;
  std::optional<std::uint64_t> size_bytes;  // of the image file to be made
  std::string force;                        // empty, or the path once more
  std::vector<std::string> patterns;
  bool json = false;

  std::string shown() const { return LunNameForPeople(path); }
};

// What the LUN holds that an overwrite would destroy; empty when nothing.
absl::StatusOr<std::string> WhatWouldBeLost(Lun& lun) {
  const absl::StatusOr<LabelReading> reading = ReadLabel(lun);
  switch (reading.status().code()) {
    case absl::StatusCode::kOk: {
      const Label& label = reading->label;
      const std::string free = absl::StrCat("the label of LUN ", label.name);
      return label.volume.is_nil() ? free
                                   : absl::StrCat(free, " of volume ", label.volume.ToString());
    }
    case absl::StatusCode::kDataLoss:
      return std::string("a damaged label");
    case absl::StatusCode::kUnimplemented:
      return std::string("a label of a newer format");
    case absl::StatusCode::kNotFound:
      return ProbeForeignContent(lun);
    default:
      return reading.status();
  }
}

absl::Status RefuseToLose(const Options& options, const std::string& content) {
  if (content.empty() || options.force == options.path) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(options.shown(), ": holds ", content,
                   "; nothing was changed. To destroy that, add --force ", options.shown()));
}

// Multipath devices before the paths that they are made of.
const std::vector<std::string> kBlockDevices = {"/dev/mapper/*", "/dev/nvme*n*", "/dev/sd*",
                                                "/dev/vd*", "/dev/md*"};

// Among those that can be seen beside it: block devices, or the images of the same directory.
absl::Status RefuseSecondName(const Options& options, Lun& lun) {
  if (options.force == options.path || IsIscsiUrl(options.path)) return absl::OkStatus();
  const std::filesystem::path path(options.path);
  std::error_code error;
  const bool image = std::filesystem::is_regular_file(path, error);
  const std::string siblings = (std::filesystem::absolute(path).parent_path() / "*").string();
  const absl::StatusOr<LabelReading> own = ReadLabel(lun);
  for (const FoundLun& found :
       ScanLuns(image ? std::vector<std::string>{siblings} : kBlockDevices)) {
    if (!found.status.ok() || found.reading.label.name != options.name) continue;
    if (std::filesystem::equivalent(found.path, path, error)) continue;
    if (own.ok() && own->label.lun == found.reading.label.lun) continue;  // another path to it
    return absl::AlreadyExistsError(absl::StrCat(
        options.shown(), ": the LUN at ", found.path, " has the name ", options.name,
        " already; nothing was changed. To have two of it, add --force ", options.shown()));
  }
  return absl::OkStatus();
}

// Takes away what might be recognised later: the first MiB, and the last, where partition tables
// and RAID keep copies.
absl::Status WipeEnds(Lun& lun) {
  if (absl::Status status = ClearReservedArea(lun); !status.ok()) return status;
  if (lun.size_bytes() < 2 * kReservedBytes) return absl::OkStatus();
  const AlignedBuffer zeros = AlignedBuffer::Zeroed(kReservedBytes);
  const std::uint64_t tail = RoundDown(lun.size_bytes(), lun.logical_block_bytes());
  if (absl::Status status = lun.Write(tail - kReservedBytes, zeros.span()); !status.ok()) {
    return status;
  }
  return lun.Flush();
}

// Opens the LUN for this process alone.
absl::StatusOr<std::unique_ptr<Lun>> OpenAndClaim(const std::string& path) {
  absl::StatusOr<std::unique_ptr<Lun>> lun = OpenLun(path, LunAccess::kReadWrite);
  if (!lun.ok()) return lun.status();
  if (absl::Status status = (*lun)->ClaimForThisProcess(); !status.ok()) return status;
  return lun;
}

absl::Status WriteTo(const Options& options) {
  absl::StatusOr<std::unique_ptr<Lun>> lun = OpenAndClaim(options.path);
  if (!lun.ok()) return lun.status();
  const absl::StatusOr<std::string> content = WhatWouldBeLost(**lun);
  if (!content.ok()) return content.status();
  if (absl::Status status = RefuseToLose(options, *content); !status.ok()) return status;
  if (absl::Status status = RefuseSecondName(options, **lun); !status.ok()) return status;
  if (!content->empty()) {
    if (absl::Status status = WipeEnds(**lun); !status.ok()) return status;
  }
  const Label label{.lun = Uuid::Random(),
                    .name = options.name,
                    .volume = {},
                    .generation = 1,
                    .size_bytes = (*lun)->size_bytes()};
  if (absl::Status status = WriteLabel(**lun, label); !status.ok()) return status;
  absl::PrintF("%s: labelled as LUN %s, %s, %s\n", options.shown(), label.name,
               FormatSize(label.size_bytes), label.lun.ToString());
  return absl::OkStatus();
}

// A sparse image file. ALREADY_EXISTS rather than touching one that is there.
absl::Status CreateImage(const std::string& path, std::uint64_t size_bytes) {
  const UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd.valid() && errno == EEXIST) {
    return absl::AlreadyExistsError(
        absl::StrCat(path, ": exists; --size only makes new image files, so leave it out"));
  }
  if (!fd.valid()) return OpenFailed(path, errno);
  if (ftruncate(fd.get(), static_cast<off_t>(size_bytes)) == 0) return absl::OkStatus();
  const int error = errno;
  unlink(path.c_str());
  return absl::UnknownError(absl::StrCat(path, ": cannot grow to ", size_bytes,
                                         " bytes: ", std::generic_category().message(error)));
}

absl::Status Write(const Options& options) {
  if (!options.size_bytes) return WriteTo(options);
  if (absl::Status status = CreateImage(options.path, *options.size_bytes); !status.ok()) {
    return status;
  }
  const absl::Status status = WriteTo(options);
  if (!status.ok()) unlink(options.path.c_str());
  return status;
}

absl::Status Clear(const Options& options) {
  absl::StatusOr<std::unique_ptr<Lun>> lun = OpenAndClaim(options.path);
  if (!lun.ok()) return lun.status();
  const absl::StatusOr<LabelReading> reading = ReadLabel(**lun);
  const bool is_free = reading.ok() && reading->label.volume.is_nil();
  if (!is_free) {
    const absl::StatusOr<std::string> content = WhatWouldBeLost(**lun);
    if (!content.ok()) return content.status();
    if (content->empty())
      return absl::NotFoundError(absl::StrCat(options.shown(), ": has no label"));
    if (absl::Status status = RefuseToLose(options, *content); !status.ok()) return status;
  }
  if (absl::Status status = WipeEnds(**lun); !status.ok()) return status;
  absl::PrintF("%s: cleared\n", options.shown());
  return absl::OkStatus();
}

bool HasNoLabel(const FoundLun& lun) {
  return absl::IsNotFound(lun.status) && std::filesystem::exists(lun.path);
}

std::string StateOf(const absl::Status& copy) {
  if (copy.ok()) return "ok";
  return absl::IsNotFound(copy) ? "missing" : std::string(copy.message());
}

nlohmann::json ToJson(const FoundLun& lun) {
  nlohmann::json json = {{"path", lun.path}};
  if (!lun.status.ok()) {
    json["error"] = HasNoLabel(lun) ? "no label" : std::string(lun.status.message());
    return json;
  }
  const Label& label = lun.reading.label;
  json["name"] = label.name;
  json["lun"] = label.lun.ToString();
  json["size_bytes"] = label.size_bytes;
  json["generation"] = label.generation;
  json["volume"] = nullptr;
  if (!label.volume.is_nil()) {
    json["volume"] = label.volume.ToString();
    json["pool"] = label.pool;
    json["stripe_set"] = label.stripe_set;
    json["position"] = label.position;
  }
  json["primary"] = StateOf(lun.reading.primary);
  json["copy"] = StateOf(lun.reading.copy);
  return json;
}

void PrintRow(const FoundLun& lun) {
  const auto& [label, primary, copy] = lun.reading;
  const bool is_free = label.volume.is_nil();
  const std::string place =
      is_free ? "-" : absl::StrCat(label.pool, "/", label.stripe_set, "/", label.position);
  const std::string copies = primary.ok() && copy.ok() ? "both ok"
                                                       : absl::StrCat("primary: ", StateOf(primary),
                                                                      "; copy: ", StateOf(copy));
  absl::PrintF("%-24s %-12s %10s  %-36s  %-8s  %s\n", lun.path, label.name,
               FormatSize(label.size_bytes), is_free ? "free" : label.volume.ToString(), place,
               copies);
}

// The block devices, and what the programs of this host are configured to look at: image files and
// iscsi:// URLs are nowhere else to be found.
std::vector<std::string> DefaultPatterns() {
  std::vector<std::string> patterns = kBlockDevices;
  const auto configured = LunPatterns({}, "");
  if (configured.ok()) {
    patterns.insert(patterns.end(), configured->begin(), configured->end());
  } else if (!absl::IsNotFound(configured.status())) {
    PrintError("reel-label", configured.status());
  }
  return patterns;
}

int List(Options options) {
  const bool by_default = options.patterns.empty();
  if (by_default) options.patterns = DefaultPatterns();
  const std::vector<FoundLun> found = ScanLuns(options.patterns);
  int exit_code = 0;
  nlohmann::json array = nlohmann::json::array();
  if (by_default && std::none_of(found.begin(), found.end(),
                                 [](const FoundLun& lun) { return lun.status.ok(); })) {
    absl::FPrintF(stderr,
                  "reel-label: no LUN among the block devices, and where this host's configuration "
                  "looks, has a label; name image files and iscsi:// URLs\n");
  }
  bool headed = options.json;
  for (const FoundLun& lun : found) {
    if (!lun.status.ok() && !HasNoLabel(lun) && !by_default) exit_code = kExitFailed;
    if (options.json) {
      if (!by_default || lun.status.ok() || absl::IsDataLoss(lun.status)) array += ToJson(lun);
      continue;
    }
    if (!std::exchange(headed, true)) {
      absl::PrintF("%-24s %-12s %10s  %-36s  %-8s  %s\n", "PATH", "NAME", "SIZE", "VOLUME", "PLACE",
                   "COPIES");
    }
    if (lun.status.ok()) {
      PrintRow(lun);
    } else if (!by_default && HasNoLabel(lun)) {
      absl::PrintF("%-24s no label\n", lun.path);
    } else if (!by_default || absl::IsDataLoss(lun.status) ||
               absl::IsPermissionDenied(lun.status) || IsIscsiUrl(lun.name)) {
      absl::FPrintF(stderr, "reel-label: %s\n", std::string(lun.status.message()));
    }
  }
  if (options.json) std::cout << array.dump(2) << "\n";
  return exit_code;
}

// For a udev rule, in the words of blkid(8). Silent about a device without a label.
int Udev(const Options& options) {
  const auto lun = OpenLun(options.path, LunAccess::kReadOnly);
  if (!lun.ok()) return kExitFailed;
  const absl::StatusOr<LabelReading> reading = ReadLabel(**lun);
  if (!reading.ok()) return kExitFailed;
  absl::PrintF("ID_FS_USAGE=raid\nID_FS_TYPE=reelfs_member\n");
  absl::PrintF("ID_FS_LABEL=%s\nID_FS_LABEL_ENC=%s\n", reading->label.name, reading->label.name);
  absl::PrintF("ID_FS_UUID_SUB=%s\n", reading->label.lun.ToString());
  if (reading->label.volume.is_nil()) return 0;
  absl::PrintF("ID_FS_UUID=%s\nID_FS_UUID_ENC=%s\n", reading->label.volume.ToString(),
               reading->label.volume.ToString());
  return 0;
}

int Report(const absl::Status& status, int exit_code_of_errors) {
  if (status.ok()) return 0;
  absl::FPrintF(stderr, "reel-label: %s\n", std::string(status.message()));
  return exit_code_of_errors;
}

// What CLI11 cannot judge of the command line.
absl::Status CheckUsage(const std::string& size, bool has_name, Options& options) {
  if (has_name) {
    if (absl::Status status = ValidateLunName(options.name); !status.ok()) return status;
  }
  if (!options.force.empty() && options.force != options.path) {
    return absl::InvalidArgumentError(absl::StrCat("--force ", LunNameForPeople(options.force),
                                                   " is not the path ", options.shown(),
                                                   "; nothing was changed"));
  }
  if (size.empty()) return absl::OkStatus();
  const absl::StatusOr<std::uint64_t> size_bytes = ParseSize(size);
  if (!size_bytes.ok()) return size_bytes.status();
  if (*size_bytes % kIoAlignment != 0 || *size_bytes < 2 * kReservedBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("--size ", size, ": a LUN has at least 2 MiB, in whole units of 4 KiB"));
  }
  options.size_bytes = *size_bytes;
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  Options options;
  std::string size;
  CLI::App app("Labels the LUNs of ReelFS volumes, lists and clears them.", "reel-label");
  app.require_subcommand(1);
  app.set_version_flag("-V,--version", "reel-label " REEL_VERSION);

  CLI::App* write = app.add_subcommand("write", "Label a LUN");
  write->add_option("NAME", options.name, "1 to 64 of A-Z a-z 0-9 . _ -")->required();
  write->add_option("PATH", options.path, "block device, image file or iscsi:// URL")->required();
  write->add_option("--size", size, "make PATH as an image file of this size, such as 8G");
  CLI::App* list = app.add_subcommand("list", "List labelled LUNs");
  list->add_option(
      "PATTERN", options.patterns,
      "paths, globs or URLs; without any, the block devices and the luns of reelfs.toml");
  list->add_flag("--json", options.json, "machine-readable");
  CLI::App* clear = app.add_subcommand("clear", "Remove a LUN's label");
  clear->add_option("PATH", options.path, "block device, image file or iscsi:// URL")->required();
  CLI::App* reservations = app.add_subcommand("reservations", "List a LUN's SCSI-3 registrations");
  reservations->add_option("PATH", options.path, "block device or iscsi:// URL")->required();
  CLI::App* unreserve = app.add_subcommand("unreserve", "Clear a LUN's SCSI-3 registrations");
  unreserve->add_option("PATH", options.path, "block device or iscsi:// URL")->required();
  unreserve->add_option("--force", options.force, "PATH once more: nobody uses the LUN any more");
  CLI::App* udev = app.add_subcommand("udev", "Print a LUN's label for a udev rule");
  udev->add_option("PATH", options.path, "block device or image file")->required();
  for (CLI::App* command : {write, clear}) {
    command->add_option("--force", options.force, "PATH once more: destroy what it holds");
  }

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitUsage;
  }
  if (list->parsed()) return List(options);
  if (udev->parsed()) return Udev(options);
  if (absl::Status status = CheckUsage(size, write->parsed(), options); !status.ok()) {
    return Report(status, kExitUsage);
  }
  if (reservations->parsed()) return Report(ListReservations(options.path), kExitFailed);
  if (unreserve->parsed()) {
    return Report(ClearReservations(options.path, !options.force.empty()), kExitFailed);
  }
  return Report(write->parsed() ? Write(options) : Clear(options), kExitFailed);
}

}  // namespace
}  // namespace reel::tools

int main(int argc, char** argv) {
  return reel::tools::Main(argc, argv);
}
