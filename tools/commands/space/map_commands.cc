// The commands of reeladm that change a volume's map while it is in use: pools and their LUNs.
#include <algorithm>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "tools/commands/command_table.h"
#include "tools/commands/space/jobs.h"
#include "tools/commands/view.h"
#include "volume/base/size.h"

namespace reel::tools {
namespace {

// The words behind the fixed ones, apart from the settings among them ("breadth=1M").
struct Arguments {
  Words plain;
  std::vector<std::pair<std::string, std::string>> settings;
};

Arguments ArgumentsOf(const Words& words, std::size_t from) {
  Arguments arguments;
  for (std::size_t i = from; i < words.size(); ++i) {
    const std::size_t equals = words[i].find('=');
    // (A LUN's path may have one, too.)
    if (equals == std::string::npos || words[i][0] == '/' || absl::StrContains(words[i], "://")) {
      arguments.plain.push_back(words[i]);
    } else {
      arguments.settings.emplace_back(words[i].substr(0, equals), words[i].substr(equals + 1));
    }
  }
  return arguments;
}

absl::Status UnknownSetting(const std::string& name, std::string_view known) {
  return absl::InvalidArgumentError(
      absl::StrCat("there is no setting ", name, " here; there are ", std::string(known)));
}

std::vector<std::string> ListFrom(const std::string& text) {
  return absl::StrSplit(text, ',', absl::SkipEmpty());
}

absl::StatusOr<bool> YesOrNo(const std::string& name, const std::string& text) {
  if (text == "yes" || text == "no") return text == "yes";
  return absl::InvalidArgumentError(absl::StrCat(name, " is yes or no, not ", text));
}

// What holds something may be named once more, as force=PATH.
absl::Status ConfirmForce(AdminContext& context,
                          const google::protobuf::RepeatedPtrField<std::string>& force) {
  if (force.empty()) return absl::OkStatus();
  return Confirm(context, absl::StrCat("What ", absl::StrJoin(force, ", "),
                                       " holds is lost. Add it to the volume?"));
}

absl::StatusOr<Json> Change(AdminContext& context, v1::ChangeMapRequest& request) {
  const auto volume = ChosenVolume(context);
  if (!volume.ok()) return volume.status();
  request.set_volume(*volume);
  if (absl::Status confirmed = ConfirmForce(context, request.force()); !confirmed.ok()) {
    return confirmed;
  }
  const auto reply = context.api.Ask<v1::ChangeMapReply>(request, AdminApi::Repeat::kNo);
  if (!reply.ok()) return reply.status();
  return Json{{"name", *volume},
              {"map_generation", reply->map_generation()},
              {"added_bytes", reply->added_bytes()}};
}

std::string ChangedText(const Json& json) {
  const auto added = json["added_bytes"].get<std::uint64_t>();
  return absl::StrCat(
      "Volume ", json["name"].get<std::string>(), " has map generation ",
      json["map_generation"].get<std::uint64_t>(),
      added == 0
          ? ".\n"
          : absl::StrCat(" now, with ", FormatSize(added),
                         " more; they are used when all clients have taken it (\"show\").\n"));
}

// ---- LUNs ---------------------------------------------------------------------------------------

absl::StatusOr<Json> AddLuns(AdminContext& context, const Words& words) {
  v1::ChangeMapRequest request;
  request.mutable_add_luns()->set_pool(words[2]);
  const Arguments arguments = ArgumentsOf(words, 3);
  for (const std::string& lun : arguments.plain) request.mutable_add_luns()->add_luns(lun);
  for (const auto& [name, value] : arguments.settings) {
    if (name != "force") return UnknownSetting(name, "force");
    request.add_force(value);
  }
  return Change(context, request);
}

absl::StatusOr<Json> CloseSpace(AdminContext& context, const std::string& pool,
                                const std::string& lun, bool closed) {
  v1::CloseSpaceRequest request;
  const auto volume = ChosenVolume(context);
  if (!volume.ok()) return volume.status();
  request.set_volume(*volume);
  request.set_pool(pool);
  request.set_lun(lun);
  request.set_closed(closed);
  const auto reply = context.api.Ask<v1::CloseSpaceReply>(request);
  if (!reply.ok()) return reply.status();
  return Json{{"name", *volume}, {"closed", closed}, {"luns", ListOf(reply->luns())}};
}

std::string ClosedText(const Json& json) {
  const std::string luns = CellText(json["luns"], Cell::kList);
  return json["closed"].get<bool>()
             ? absl::StrCat("Nothing is allocated on ", luns,
                            " any more; what lies there is read and written as before.\n")
             : absl::StrCat("Files get space on ", luns, " again.\n");
}

std::string MapText(const Json& json) {
  if (json.contains("jobs")) return JobsText(json);
  return json.contains("luns") ? ClosedText(json) : ChangedText(json);
}

// A LUN, or a pool: what the first word says.
absl::StatusOr<Json> Remove(AdminContext& context, const Words& given) {
  v1::StartJobRequest request;
  request.set_kind(v1::JOB_RESTRIPE);
  request.set_remove(true);
  const auto words = WithoutRate(given, request);
  if (!words.ok()) return words.status();
  if (words->size() != 3) {
    return absl::InvalidArgumentError(absl::StrCat("use: ", given[0], " remove NAME [rate SIZE]"));
  }
  given[0] == "lun" ? request.set_lun((*words)[2]) : request.set_pool((*words)[2]);
  return StartJob(context, std::move(request));
}

absl::StatusOr<Json> ReplaceLun(AdminContext& context, const Words& given) {
  v1::StartJobRequest request;
  request.set_kind(v1::JOB_RESTRIPE);
  request.set_remove(true);
  const auto words = WithoutRate(given, request);
  if (!words.ok()) return words.status();
  const Arguments arguments = ArgumentsOf(*words, 2);
  if (arguments.plain.size() != 2) {
    return absl::InvalidArgumentError("use: lun replace LUN PATH [force=PATH] [rate SIZE]");
  }
  request.set_lun(arguments.plain[0]);
  request.set_with(arguments.plain[1]);
  for (const auto& [name, value] : arguments.settings) {
    if (name != "force") return UnknownSetting(name, "force");
    request.add_force(value);
  }
  if (absl::Status s = ConfirmForce(context, request.force()); !s.ok()) return s;
  return StartJob(context, std::move(request));
}

absl::StatusOr<Json> Lun(AdminContext& context, const Words& words) {
  if (words[1] == "replace") return ReplaceLun(context, words);
  if (words[1] == "add") return AddLuns(context, words);
  if (words[1] == "remove") return Remove(context, words);
  if (words[1] != "grow") return CloseSpace(context, "", words[2], words[1] == "down");
  v1::ChangeMapRequest request;
  request.mutable_grow()->set_pool(words[2]);
  return Change(context, request);
}

// ---- pools --------------------------------------------------------------------------------------

absl::StatusOr<Json> AddPool(AdminContext& context, const Words& words) {
  constexpr char kSettings[] = "holds, breadth, affinities, exclusive, force";
  v1::ChangeMapRequest request;
  v1::ChangeMapRequest::AddPool& pool = *request.mutable_add_pool();
  pool.set_pool(words[2]);
  pool.set_data(true);
  const Arguments arguments = ArgumentsOf(words, 3);
  for (const std::string& lun : arguments.plain) pool.add_luns(lun);
  for (const auto& [name, value] : arguments.settings) {
    if (name == "holds") {
      pool.set_data(value != "metadata");
      pool.set_metadata(value != "data");
      if (value != "data" && value != "metadata" && value != "both") {
        return absl::InvalidArgumentError("holds is data, metadata or both");
      }
    } else if (name == "breadth") {
      const auto bytes = ParseSize(value);
      if (!bytes.ok()) return bytes.status();
      pool.set_breadth_bytes(*bytes);
    } else if (name == "affinities") {
      for (const std::string& affinity : ListFrom(value)) pool.add_affinities(affinity);
    } else if (name == "exclusive") {
      const auto yes = YesOrNo(name, value);
      if (!yes.ok()) return yes.status();
      pool.set_exclusive(*yes);
    } else if (name == "force") {
      request.add_force(value);
    } else {
      return UnknownSetting(name, kSettings);
    }
  }
  return Change(context, request);
}

absl::StatusOr<Json> SetPool(AdminContext& context, const Words& words) {
  v1::ChangeMapRequest request;
  v1::ChangeMapRequest::SetPool& set = *request.mutable_set_pool();
  set.set_pool(words[2]);
  const Arguments arguments = ArgumentsOf(words, 3);
  if (!arguments.plain.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(arguments.plain[0], " sets nothing; write affinities=A,B or exclusive=yes"));
  }
  for (const auto& [name, value] : arguments.settings) {
    if (name == "affinities") {
      set.set_sets_affinities(true);
      for (const std::string& affinity : ListFrom(value)) set.add_affinities(affinity);
    } else if (name == "exclusive") {
      const auto yes = YesOrNo(name, value);
      if (!yes.ok()) return yes.status();
      set.set_exclusive(*yes);
    } else {
      return UnknownSetting(name, "affinities, exclusive");
    }
  }
  return Change(context, request);
}

absl::StatusOr<Json> Pool(AdminContext& context, const Words& words) {
  if (words[1] == "add") return AddPool(context, words);
  if (words[1] == "set") return SetPool(context, words);
  if (words[1] == "remove") return Remove(context, words);
  if (words[1] != "rename") return CloseSpace(context, words[2], "", words[1] == "down");
  v1::ChangeMapRequest request;
  request.mutable_rename()->set_pool(words[2]);
  request.mutable_rename()->set_name(words[3]);
  return Change(context, request);
}

}  // namespace

AdminCommands MapCommands() {
  return {
      {.name = "lun",
       .usage = "add POOL ARGUMENT... | grow POOL | remove LUN [rate SIZE] | replace LUN "
                "ARGUMENT... | down LUN | up LUN",
       .help = "add LUNs to a pool, use what they have grown by, take one out of the volume or put "
               "another one in its place, as a job that moves what lies there, or allocate nothing "
               "on one",
       .run = Lun,
       .text = MapText,
       .examples = {"lun add data /dev/mapper/new1 /dev/mapper/new2",
                    "lun add data /dev/mapper/used force=/dev/mapper/used", "lun grow data",
                    "lun remove data3", "lun replace data3 /dev/mapper/new3 rate 200M",
                    "lun down data3"}},
      {.name = "pool",
       .usage = "add NAME ARGUMENT... | rename POOL NAME | set POOL ARGUMENT... | "
                "remove POOL [rate SIZE] | down POOL | up POOL",
       .help = "add a pool, say something else of one, remove one, as a job that moves what lies "
               "there elsewhere, or allocate nothing in it",
       .run = Pool,
       .text = MapText,
       .examples = {"pool add archive /dev/mapper/big1 affinities=archive exclusive=yes",
                    "pool add fast /dev/nvme0n1 breadth=256K", "pool rename data edit",
                    "pool set archive affinities=archive,old", "pool remove archive",
                    "pool down archive"}}};
}

}  // namespace reel::tools
