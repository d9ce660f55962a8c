// reeladm repof and extents: which files are open, by whom, and where a file lies. The controller
// answers both, since it knows every extent and needs no mount; so a path is one of a volume that
// is mounted here, or else one from the root of the volume.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "tools/commands/command_table.h"
#include "tools/commands/mounted_file.h"
#include "tools/commands/view.h"

namespace reel::tools {
namespace {

// A file as the controller is asked for it: by its inode where it is seen here, else by its path.
struct NamedFile {
  std::string volume;
  std::uint64_t inode = 0;
  std::string path;
};

absl::StatusOr<NamedFile> FileNamed(AdminContext& context, const std::string& path) {
  NamedFile file{.volume = context.volume, .path = path};
  const auto mounted = FindMounted(path);
  if (mounted && (file.volume.empty() || file.volume == mounted->volume)) {
    file.volume = mounted->volume;
    file.inode = mounted->inode;
    return file;
  }
  const auto volume = ChosenVolume(context);
  if (!volume.ok()) return volume.status();
  file.volume = *volume;
  if (path.empty() || path[0] != '/') {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is no file of volume ", *volume,
                     " mounted here; from the root of the volume its path begins with \"/\""));
  }
  return file;
}

absl::StatusOr<v1::FileReply> Ask(AdminContext& context, const NamedFile& file,
                                  std::uint64_t from_block) {
  v1::FileRequest request;
  request.set_volume(file.volume);
  request.set_inode(file.inode);
  request.set_path(file.path);
  request.set_from_block(from_block);
  return context.api.Ask<v1::FileReply>(request);
}

Json ExtentJson(const v1::FileReply::Extent& extent, std::uint64_t block_bytes) {
  Json pieces = Json::array();
  for (const auto& piece : extent.pieces()) {
    pieces.push_back({{"lun", piece.lun()}, {"offset_bytes", piece.offset_bytes()}});
  }
  return {{"offset_bytes", extent.file_block() * block_bytes},
          {"length_bytes", extent.length_blocks() * block_bytes},
          {"pool", extent.pool()},
          {"pool_block", extent.pool_block()},
          {"state", extent.state()},
          {"pieces", std::move(pieces)}};
}

absl::StatusOr<Json> Extents(AdminContext& context, const Words& words) {
  const auto file = FileNamed(context, words[1]);
  if (!file.ok()) return file.status();
  Json extents = Json::array();
  absl::StatusOr<v1::FileReply> reply;
  std::uint64_t next_block = 0;
  do {
    reply = Ask(context, *file, next_block);
    if (!reply.ok()) return reply.status();
    for (const auto& extent : reply->extents()) {
      extents.push_back(ExtentJson(extent, reply->block_bytes()));
      next_block = extent.file_block() + extent.length_blocks();
    }
  } while (reply->more());
  return Json{{"name", file->volume},
              {"inode", reply->inode()},
              {"path", reply->path()},
              {"type", reply->type()},
              {"size_bytes", reply->size_bytes()},
              {"allocated_bytes", reply->allocated_bytes()},
              {"entries", reply->entries()},
              {"uid", reply->uid()},
              {"gid", reply->gid()},
              {"links", reply->nlink()},
              {"modified", IsoText(reply->mtime())},
              {"affinity", reply->affinity()},
              {"layout", reply->layout()},
              {"block_bytes", reply->block_bytes()},
              {"extents", std::move(extents)}};
}

std::string ExtentsText(const Json& json) {
  const auto text = [&](const char* member) { return CellText(json[member], Cell::kText); };
  std::string head = absl::StrCat(
      "Inode ", CellText(json["inode"], Cell::kNumber), " of volume ", text("name"), ": ",
      text("type"), " ", text("path"), "\n", CellText(json["size_bytes"], Cell::kSize), ", ",
      CellText(json["allocated_bytes"], Cell::kSize), " allocated, ", json["extents"].size(),
      " extents, layout ", text("layout"), ", affinity ", text("affinity"), ", modified ",
      CellText(json["modified"], Cell::kTime), "\n");
  if (json["type"] == "directory") {
    return head + CellText(json["entries"], Cell::kNumber) + " entries\n";
  }
  Json rows = json["extents"];
  for (Json& row : rows) {
    std::string pieces;
    for (const Json& piece : row["pieces"]) {
      absl::StrAppend(&pieces, pieces.empty() ? "" : " ", piece["lun"].get<std::string>(), "@",
                      CellText(piece["offset_bytes"], Cell::kNumber));
    }
    row["luns"] = pieces;
  }
  return absl::StrCat(head, "\n",
                      TableOf(rows, {{"offset", "offset_bytes", Cell::kNumber},
                                     {"length", "length_bytes", Cell::kNumber},
                                     {"state", "state"},
                                     {"pool", "pool"},
                                     {"block", "pool_block", Cell::kNumber},
                                     {"LUN@byte", "luns"}}));
}

absl::StatusOr<Json> OpenFiles(AdminContext& context, const Words& words) {
  v1::OpenFilesRequest request;
  if (words.size() > 1) {
    const auto file = FileNamed(context, words[1]);
    if (!file.ok()) return file.status();
    const auto found = Ask(context, *file, 0);
    if (!found.ok()) return found.status();
    request.set_volume(file->volume);
    request.set_inode(found->inode());
  } else {
    const auto volume = ChosenVolume(context);
    if (!volume.ok()) return volume.status();
    request.set_volume(*volume);
  }
  const auto reply = context.api.Ask<v1::OpenFilesReply>(request);
  if (!reply.ok()) return reply.status();
  Json files = Json::array();
  for (const auto& file : reply->files()) {
    Json holders = Json::array();
    for (const auto& holder : file.holders()) {
      holders.push_back({{"session", holder.session()},
                         {"host", holder.host()},
                         {"open", holder.open()},
                         {"token", holder.token()}});
    }
    files.push_back({{"inode", file.inode()},
                     {"path", file.path()},
                     {"size_bytes", file.size_bytes()},
                     {"holders", std::move(holders)}});
  }
  return Json{{"name", request.volume()}, {"files", std::move(files)}, {"more", reply->more()}};
}

std::string OpenFilesText(const Json& json) {
  Json rows = Json::array();
  for (const Json& file : json["files"]) {
    for (Json row : file["holders"]) {
      row["inode"] = file["inode"];
      row["path"] = file["path"];
      row["size_bytes"] = file["size_bytes"];
      rows.push_back(std::move(row));
    }
  }
  return TableOf(rows, {{"inode", "inode", Cell::kNumber},
                        {"size", "size_bytes", Cell::kSize},
                        {"session", "session", Cell::kNumber},
                        {"host", "host"},
                        {"open", "open", Cell::kYesNo},
                        {"token", "token"},
                        {"path", "path"}}) +
         (json["more"].get<bool>() ? "There are more; name a file to see who has it open.\n" : "");
}

}  // namespace

AdminCommands FileCommands() {
  return {{.name = "repof",
           .usage = "[PATH]",
           .help = "which files are open, by which client, with which token",
           .run = OpenFiles,
           .text = OpenFilesText,
           .examples = {"repof", "repof /mnt/reel/cut.mov"},
           .watched = true},
          {.name = "extents",
           .usage = "PATH",
           .help = "where a file lies: pools, LUNs, offsets; of a directory, what it is",
           .run = Extents,
           .text = ExtentsText,
           .examples = {"extents /mnt/reel/cut.mov", "extents /cut.mov"},
           .watched = true}};
}

}  // namespace reel::tools
