// mkfs.reelfs: makes a volume from LUNs and a description.
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "mdc/store/store.h"
#include "nlohmann/json.hpp"
#include "tools/lib/cli.h"
#include "tools/lib/geometry.h"
#include "tools/lib/volume_toml.h"
#include "tools/mkfs/forced_luns.h"
#include "tools/mkfs/lun_picker.h"
#include "tools/mkfs/make_volume.h"
#include "tools/mkfs/mkfs_report.h"
#include "tools/mkfs/restore_volume.h"
#include "volume/base/size.h"

namespace reel::tools {
namespace {

constexpr char kProgram[] = "mkfs.reelfs";

struct Arguments {
  std::string config;
  std::string restore;  // a dump
  std::vector<std::string> name_and_luns;
  std::vector<std::string> metadata;
  std::vector<std::string> luns;  // patterns
  std::vector<std::string> force;
  std::string block_size, stripe_breadth, strategy;
  bool no_small_files = false, dry_run = false, json = false;

  bool short_form() const { return config.empty(); }
};

// The short form as the TOML text that it stands for, so that both go one way.
std::string TextOfShortForm(const Arguments& arguments) {
  // JSON's strings and lists are TOML's too, with all that is not ASCII as escapes.
  const auto list = [](const nlohmann::json& texts) {
    return texts.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  };
  const auto string = [&](const std::string& text) { return list(text); };
  const std::vector<std::string>& all = arguments.name_and_luns;
  std::string text = absl::StrCat("name = ", string(all[0]), "\n");
  const auto add = [&](std::string_view key, const std::string& value) {
    if (!value.empty()) absl::StrAppend(&text, std::string(key), " = ", string(value), "\n");
  };
  add("block_size", arguments.block_size);
  add("stripe_breadth", arguments.stripe_breadth);
  add("strategy", arguments.strategy);
  const bool own_metadata = !arguments.metadata.empty();
  if (own_metadata) {
    absl::StrAppend(&text, "[[pool]]\nname = \"meta\"\nflags = [\"metadata\"]\nluns = ",
                    list(arguments.metadata), "\n");
  }
  absl::StrAppend(&text, "[[pool]]\nname = \"data\"\nflags = ",
                  own_metadata ? "[\"data\"]" : "[\"metadata\", \"data\"]",
                  "\nluns = ", list(std::vector<std::string>(all.begin() + 1, all.end())), "\n");
  return text;
}

absl::StatusOr<VolumeDescription> Describe(const Arguments& arguments) {
  if (!arguments.short_form()) {
    if (!arguments.name_and_luns.empty() || !arguments.metadata.empty() ||
        !arguments.block_size.empty() || !arguments.stripe_breadth.empty() ||
        !arguments.strategy.empty()) {
      return absl::InvalidArgumentError(
          "with --config the file alone describes the volume: no NAME, LUN or geometry options");
    }
    return ReadVolumeToml(arguments.config);
  }
  if (arguments.name_and_luns.size() < 2) {
    return absl::InvalidArgumentError("give --config FILE, or a NAME and at least one LUN");
  }
  auto description = ParseVolumeToml(TextOfShortForm(arguments), "arguments");
  if (!description.ok()) {
    // The line of a text that nobody wrote helps nobody.
    const absl::string_view message = description.status().message();
    const std::size_t text = message.find(": ");
    return absl::InvalidArgumentError(message.substr(text == message.npos ? 0 : text + 2));
  }
  for (PoolDescription& pool : description->pools) {
    pool.where.clear();
    for (LunReference& lun : pool.luns) lun.where.clear();
  }
  return description;
}

// Where names are looked up: what was asked for, else what the shared file beside the description
// says, else what this host's programs use, if there is any.
absl::StatusOr<std::vector<std::string>> Patterns(const Arguments& arguments,
                                                  const VolumeDescription& description) {
  std::vector<std::string> patterns = arguments.luns;
  patterns.insert(patterns.end(), description.lun_patterns.begin(), description.lun_patterns.end());
  if (!patterns.empty()) return patterns;
  if (!arguments.short_form()) {
    auto beside = LunPatterns({}, arguments.config);
    if (beside.ok() || !absl::IsNotFound(beside.status())) return beside;
  }
  auto of_host = LunPatterns({}, "");
  // A volume of paths alone needs none.
  if (absl::IsNotFound(of_host.status())) return patterns;
  return of_host;
}

bool AnyWithoutReservations(const std::vector<std::vector<PickedLun>>& pools) {
  for (const auto& luns : pools) {
    for (const PickedLun& picked : luns) {
      if (!picked.lun->has_reservations()) return true;
    }
  }
  return false;
}

int RunRestore(const Arguments& arguments) {
  const auto fail = [](const absl::Status& status, int code) {
    PrintError(kProgram, status);
    return code;
  };
  if (!arguments.name_and_luns.empty() || !arguments.block_size.empty() ||
      !arguments.stripe_breadth.empty() || !arguments.strategy.empty() ||
      arguments.no_small_files) {
    return fail(absl::InvalidArgumentError("with --restore the dump describes the volume: no NAME, "
                                           "LUN or geometry options but --metadata"),
                kExitUsage);
  }
  const auto patterns = LunPatterns(arguments.luns, arguments.config);
  if (!patterns.ok()) return fail(patterns.status(), kExitUsage);
  const auto restored = RestoreVolume({.file = arguments.restore,
                                       .metadata = arguments.metadata,
                                       .patterns = *patterns,
                                       .force = arguments.force,
                                       .look_only = arguments.dry_run,
                                       .program = "mkfs.reelfs " REEL_VERSION});
  if (!restored.ok()) {
    return fail({restored.status().code(),
                 absl::StrCat("the volume was not restored: ", restored.status().message())},
                absl::IsInvalidArgument(restored.status()) ? kExitUsage : kExitFailed);
  }
  if (arguments.json) {
    std::cout << JsonText({{"name", restored->descriptor.name},
                           {"volume", restored->descriptor.volume.ToString()},
                           {"dump", restored->head.dump.ToString()},
                           {"taken_seconds", restored->head.taken.seconds},
                           {"records", restored->records},
                           {"dry_run", arguments.dry_run}})
              << "\n";
    return 0;
  }
  std::cout << "Volume " << restored->descriptor.name << ": dump " << restored->head.dump.ToString()
            << ", " << restored->records << " records.\n"
            << (arguments.dry_run ? "Nothing was changed (--dry-run).\n"
                                  : "The volume is as it was when the dump was taken.\n");
  return 0;
}

int Run(const Arguments& arguments) {
  const auto fail = [](const absl::Status& status, int code) {
    PrintError(kProgram, status);
    return code;
  };
  auto description = Describe(arguments);
  if (!description.ok()) {
    return fail(description.status(),
                absl::IsInvalidArgument(description.status()) ? kExitUsage : kExitFailed);
  }
  const auto patterns = Patterns(arguments, *description);
  if (!patterns.ok()) return fail(patterns.status(), kExitUsage);
  auto picked =
      PickLuns(*description,
               {.patterns = *patterns, .force = arguments.force, .look_only = arguments.dry_run});
  if (!picked.ok()) return fail(picked.status(), kExitFailed);
  if (!arguments.dry_run) {
    absl::Status status = CheckForcedLuns(*picked, *patterns);
    if (!status.ok()) return fail(status, kExitFailed);
  }
  std::vector<std::vector<LunFacts>> facts;
  for (const auto& luns : *picked) {
    auto& pool = facts.emplace_back();
    for (const PickedLun& lun : luns) pool.push_back(lun.facts);
  }
  const bool fenceless = AnyWithoutReservations(*picked);
  const WallTime now = SystemClock().WallNow();
  auto geometry = ComputeGeometry({.description = *description,
                                   .luns = facts,
                                   .min_region_blocks = mdc::MinimumRegionBlocks(
                                       static_cast<std::uint32_t>(description->block_bytes)),
                                   .volume = Uuid::Random(),
                                   .now = now});
  if (!geometry.ok()) return fail(geometry.status(), kExitFailed);

  if (!arguments.dry_run) {
    if (absl::Status status =
            MakeVolume(*geometry, std::move(*picked), now, !arguments.no_small_files);
        !status.ok()) {
      return fail({status.code(), absl::StrCat("the volume was not made: ", status.message())},
                  kExitFailed);
    }
  }
  if (arguments.json) {
    nlohmann::ordered_json json = GeometryJson(*geometry);
    json["dry_run"] = arguments.dry_run;
    json["fencing"] = !fenceless;
    std::cout << JsonText(json) << "\n";
    return 0;
  }
  std::cout << GeometryText(*geometry);
  if (fenceless) {
    std::cout
        << "\nNot all LUNs have reservations: a host that hangs cannot be cut off from them.\n";
  }
  std::cout << (arguments.dry_run ? "\nNothing was changed (--dry-run).\n"
                                  : "\nThe volume is ready.\n");
  return 0;
}

int Main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app("Makes a ReelFS volume from LUNs.", kProgram);
  app.set_version_flag("-V,--version", "mkfs.reelfs " REEL_VERSION);
  app.add_option("name-and-luns", arguments.name_and_luns,
                 "NAME LUN…: one pool of these LUNs (label names, or paths with a '/')");
  app.add_option("-c,--config", arguments.config, "describe the volume in this TOML file instead");
  app.add_option("--restore", arguments.restore,
                 "restore a volume whose metadata LUNs are lost from this dump, onto --metadata");
  const auto repeated = [&](const char* flag, std::vector<std::string>& to, const char* help) {
    app.add_option(flag, to, help)->expected(1)->take_all();
  };
  repeated("--metadata", arguments.metadata,
           "a LUN for metadata alone (short form and --restore; repeatable)");
  repeated("--luns", arguments.luns, "GLOB of paths where LUN names are looked up (repeatable)");
  repeated("--force", arguments.force, "PATH of a LUN to overwrite whatever it holds (repeatable)");
  app.add_option("--block-size", arguments.block_size, "4KiB to 1MiB (short form; default 16KiB)");
  app.add_option("--stripe-breadth", arguments.stripe_breadth,
                 "bytes on one LUN before the next (short form; default 256KiB)");
  app.add_option("--strategy", arguments.strategy, "round, fill or balance (short form)");
  app.add_flag("--no-small-files", arguments.no_small_files,
               "a volume that controllers and clients without small files take, too");
  app.add_flag("-n,--dry-run", arguments.dry_run, "show what would be made; change nothing");
  app.add_flag("--json", arguments.json, "print the result as JSON");
  if (const auto code = ParseArguments(app, argc, argv, kProgram)) return *code;
  LogToStderr(kProgram);
  return arguments.restore.empty() ? Run(arguments) : RunRestore(arguments);
}

}  // namespace
}  // namespace reel::tools

int main(int argc, char** argv) {
  return reel::tools::Main(argc, argv);
}
