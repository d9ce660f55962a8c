// reeladm free: who may have how much space, how whole it is, and what holds the rest.
#include "absl/strings/str_cat.h"
#include "tools/commands/command_table.h"
#include "tools/commands/view.h"

namespace reel::tools {
namespace {

Json UseJson(const v1::FreeReply::Use& use) {
  return {{"affinity", use.affinity()},
          {"total_bytes", use.total_bytes()},
          {"free_bytes", use.free_bytes()},
          {"pools", ListOf(use.pools())}};
}

Json FreePoolJson(const v1::FreeReply::Pool& pool) {
  Json classes = Json::array();
  for (const auto& one : pool.classes()) {
    classes.push_back(
        {{"from_bytes", one.from_bytes()}, {"runs", one.runs()}, {"bytes", one.bytes()}});
  }
  return {{"name", pool.name()},
          {"total_bytes", pool.total_bytes()},
          {"free_bytes", pool.free_bytes()},
          {"closed_bytes", pool.closed_bytes()},
          {"windows_bytes", pool.windows_bytes()},
          {"largest_run_bytes", pool.largest_run_bytes()},
          {"runs", pool.runs()},
          {"classes", std::move(classes)}};
}

// Null where no scrub has come to its end.
Json PiecesJson(const v1::FreeReply& reply) {
  if (!reply.has_files()) return nullptr;
  Json by_pieces = Json::array();
  for (const std::uint64_t files : reply.files().files_by_pieces()) by_pieces.push_back(files);
  return {{"as_of", IsoText(reply.files().as_of())},
          {"files", reply.files().files()},
          {"pieces", reply.files().pieces()},
          {"files_by_pieces", std::move(by_pieces)}};
}

absl::StatusOr<Json> Free(AdminContext& context, const Words&) {
  const auto volume = ChosenVolume(context);
  if (!volume.ok()) return volume.status();
  const auto reply = context.api.AskOf<v1::FreeReply, v1::FreeRequest>(*volume);
  if (!reply.ok()) return reply.status();
  Json uses = Json::array(), pools = Json::array();
  for (const auto& use : reply->uses()) uses.push_back(UseJson(use));
  for (const auto& pool : reply->pools()) pools.push_back(FreePoolJson(pool));
  return Json{{"name", *volume},
              {"uses", std::move(uses)},
              {"pools", std::move(pools)},
              {"open_files", reply->open_files()},
              {"open_bytes", reply->open_bytes()},
              {"removing_files", reply->removing_files()},
              {"removing_bytes", reply->removing_bytes()},
              {"reserved_bytes", reply->reserved_bytes()},
              {"waiting_bytes", reply->waiting_bytes()},
              {"store_bytes", reply->store_bytes()},
              {"store_free_bytes", reply->store_free_bytes()},
              {"pieces", PiecesJson(*reply)}};
}

std::string Size(const Json& json, const char* member) {
  return CellText(json[member], Cell::kSize);
}

std::string RunsText(const Json& pools) {
  Json rows = Json::array();
  for (const Json& pool : pools) {
    for (Json one : pool["classes"]) {
      one["pool"] = pool["name"];
      rows.push_back(std::move(one));
    }
  }
  if (rows.empty()) return "";
  return absl::StrCat("\n", TableOf(rows, {{"free runs of", "pool"},
                                           {"from", "from_bytes", Cell::kSize},
                                           {"how many", "runs", Cell::kNumber},
                                           {"space", "bytes", Cell::kSize}}));
}

std::string PiecesText(const Json& pieces) {
  if (pieces.is_null()) {
    return "Pieces of files: not known; \"scrub start\" counts them\n";
  }
  constexpr const char* kClasses[] = {"1", "2-3", "4-15", "16-63", "64-255", "256 or more"};
  std::string text = absl::StrCat("Pieces of files, as of ", CellText(pieces["as_of"], Cell::kTime),
                                  ": ", pieces["pieces"].get<std::uint64_t>(), " in ",
                                  pieces["files"].get<std::uint64_t>(), " files");
  const Json& by_pieces = pieces["files_by_pieces"];
  const char* separator = " (files of ";
  for (std::size_t i = 0; i < by_pieces.size() && i < std::size(kClasses); ++i) {
    if (by_pieces[i] == 0) continue;
    absl::StrAppend(&text, separator, kClasses[i], ": ", by_pieces[i].get<std::uint64_t>());
    separator = ", of ";
  }
  return text + (separator[0] == ',' ? ")\n" : "\n");
}

std::string FreeText(const Json& json) {
  Json uses = json["uses"];
  for (Json& use : uses) {
    if (use["affinity"] == "") use["affinity"] = "(none)";
    use["left"] = Percent(use["free_bytes"], use["total_bytes"]);
  }
  std::string text = TableOf(uses, {{"files of affinity", "affinity"},
                                    {"may use", "total_bytes", Cell::kSize},
                                    {"free", "free_bytes", Cell::kSize},
                                    {"left", "left"},
                                    {"in pools", "pools", Cell::kList}});
  absl::StrAppend(&text, "\n",
                  TableOf(json["pools"], {{"pool", "name"},
                                          {"size", "total_bytes", Cell::kSize},
                                          {"free", "free_bytes", Cell::kSize},
                                          {"largest run", "largest_run_bytes", Cell::kSize},
                                          {"runs", "runs", Cell::kNumber},
                                          {"down", "closed_bytes", Cell::kSize},
                                          {"windows", "windows_bytes", Cell::kSize}}),
                  RunsText(json["pools"]),
                  "\nHeld by files that are removed and open: ", Size(json, "open_bytes"), " (",
                  json["open_files"].get<std::uint64_t>(),
                  " files)\nBeing removed, and free for df: ", Size(json, "removing_bytes"), " (",
                  json["removing_files"].get<std::uint64_t>(),
                  " files)\nReserved for clients that make files, and for moves: ",
                  Size(json, "reserved_bytes"),
                  "\nWaits for a dump of the metadata: ", Size(json, "waiting_bytes"),
                  "\nMetadata store: ", Size(json, "store_free_bytes"), " free of ",
                  Size(json, "store_bytes"), "\n", PiecesText(json["pieces"]));
  return text;
}

}  // namespace

AdminCommand FreeCommand() {
  return {.name = "free",
          .usage = "",
          .help = "free space: whose it is, how whole it is, and what holds the rest",
          .run = Free,
          .text = FreeText,
          .examples = {"free"},
          .watched = true};
}

}  // namespace reel::tools
