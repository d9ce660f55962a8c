// reeladm dump: takes a dump of a volume's metadata into a file, says which one can be restored,
// and releases it.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "tools/commands/command_table.h"
#include "tools/commands/view.h"

namespace reel::tools {
namespace {

// FILE.tmp, until Rename makes it FILE: after a crash FILE is the old dump or the new one. What is
// not renamed is removed.
class DumpFile {
 public:
  explicit DumpFile(const std::string& path) : path_(path), temporary_(path + ".tmp") {}
  ~DumpFile() {
    if (fd_ < 0) return;
    close(fd_);
    if (!renamed_) unlink(temporary_.c_str());
  }
  DumpFile(const DumpFile&) = delete;
  DumpFile& operator=(const DumpFile&) = delete;

  // Nobody else may read it: it has the names of all files.
  absl::Status Create() {
    fd_ = open(temporary_.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    return fd_ < 0 ? Failed("created") : absl::OkStatus();
  }
  absl::Status Append(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t written = write(fd_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return Failed("written");
      bytes.remove_prefix(static_cast<std::size_t>(written));
      size_bytes_ += static_cast<std::uint64_t>(written);
    }
    return absl::OkStatus();
  }
  absl::Status Rename() {
    if (fsync(fd_) != 0) return Failed("made durable");
    if (rename(temporary_.c_str(), path_.c_str()) != 0) return Failed("renamed");
    renamed_ = true;
    const std::size_t slash = path_.rfind('/');
    const std::string folder = slash == path_.npos ? "." : path_.substr(0, slash + 1);
    const int directory = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool synced = directory >= 0 && fsync(directory) == 0;
    const int error = errno;
    if (directory >= 0) close(directory);
    errno = error;
    return synced ? absl::OkStatus() : Failed("made durable");
  }
  std::uint64_t size_bytes() const { return size_bytes_; }

 private:
  absl::Status Failed(const char* what) const {
    return absl::UnknownError(absl::StrCat("the dump was not taken: ", temporary_, " could not be ",
                                           what, ": ", strerror(errno)));
  }

  const std::string path_, temporary_;
  int fd_ = -1;
  bool renamed_ = false;
  std::uint64_t size_bytes_ = 0;
};

absl::Status Read(AdminApi& api, const std::string& volume, const std::string& dump,
                  DumpFile& file) {
  v1::ReadDumpRequest request;
  request.set_volume(volume);
  request.set_dump(dump);
  for (bool last = false; !last; request.set_index(request.index() + 1)) {
    const auto reply = api.Ask<v1::ReadDumpReply>(request);
    if (!reply.ok()) return reply.status();
    if (absl::Status s = file.Append(reply->block()); !s.ok()) return s;
    last = reply->last();
  }
  return absl::OkStatus();
}

// The controller lets go of the dump before only when this one is safe.
absl::StatusOr<Json> Take(AdminContext& context, const std::string& volume,
                          const std::string& path) {
  DumpFile file(path);
  if (absl::Status s = file.Create(); !s.ok()) return s;
  const auto begun =
      context.api.AskOf<v1::BeginDumpReply, v1::BeginDumpRequest>(volume, AdminApi::Repeat::kNo);
  if (!begun.ok()) return begun.status();
  if (absl::Status s = Read(context.api, volume, begun->dump(), file); !s.ok()) return s;
  if (absl::Status s = file.Rename(); !s.ok()) return s;
  v1::KeepDumpRequest keep;
  keep.set_volume(volume);
  keep.set_dump(begun->dump());
  if (const auto kept = context.api.Ask<v1::KeepDumpReply>(keep); !kept.ok()) {
    return absl::Status(kept.status().code(), absl::StrCat("the dump is in ", path,
                                                           ", but the MDC does not know that it "
                                                           "was kept, take it again: ",
                                                           kept.status().message()));
  }
  return Json{{"name", volume},
              {"dump", UuidText(begun->dump())},
              {"file", path},
              {"bytes", file.size_bytes()}};
}

absl::StatusOr<Json> Describe(AdminContext& context, const std::string& volume) {
  const auto show = context.api.AskOf<v1::ShowReply, v1::ShowRequest>(volume);
  if (!show.ok()) return show.status();
  const bool kept = show->has_kept_dump();
  return Json{{"name", volume},
              {"dump", kept ? Json(UuidText(show->kept_dump().dump())) : Json()},
              {"taken", kept ? Json(IsoText(show->kept_dump().taken())) : Json()},
              {"waiting_bytes", show->waiting_bytes()}};
}

absl::StatusOr<Json> Release(AdminContext& context, const std::string& volume) {
  absl::Status confirmed =
      Confirm(context, absl::StrCat("No dump of the metadata of volume ", volume,
                                    " can be restored afterwards. Release it?"));
  if (!confirmed.ok()) return confirmed;
  const auto reply = context.api.AskOf<v1::ReleaseDumpReply, v1::ReleaseDumpRequest>(volume);
  if (!reply.ok()) return reply.status();
  return Json{{"name", volume}, {"dump", Json()}};
}

absl::StatusOr<Json> Dump(AdminContext& context, const Words& words) {
  const auto volume = ChosenVolume(context);
  if (!volume.ok()) return volume.status();
  if (words.size() < 2) return Describe(context, *volume);
  if (words[1] == "release") return Release(context, *volume);
  return Take(context, *volume, words[1]);
}

std::string DumpText(const Json& json) {
  const auto volume = json["name"].get<std::string>();
  if (json["dump"].is_null()) {
    return absl::StrCat("No dump of the metadata of volume ", volume, " can be restored.\n");
  }
  const auto dump = json["dump"].get<std::string>();
  if (json.contains("file")) {
    return absl::StrCat("The metadata of volume ", volume, " are in ",
                        json["file"].get<std::string>(), ": dump ", dump, ", ",
                        CellText(json["bytes"], Cell::kSize), ".\n");
  }
  return absl::StrCat("Dump ", dump, " of ", CellText(json["taken"], Cell::kTime),
                      " can be restored; ", CellText(json["waiting_bytes"], Cell::kSize),
                      " that were freed since are kept for it.\n");
}

}  // namespace

AdminCommands DumpCommands() {
  return {{.name = "dump",
           .usage = "[FILE | release]",
           .help = "dump the metadata to FILE; which dump can be restored; release: none any more",
           .run = Dump,
           .text = DumpText,
           .examples = {"dump /root/reel.dump", "dump release"}}};
}

}  // namespace reel::tools
