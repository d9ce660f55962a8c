// reeladm affinity: which there are, and which files and directories have which. That of a file is
// asked of the file system that it lies in (the attribute reelfs.affinity), with the rights of
// whoever asks; so it needs a mount, and no controller.
#include <sys/xattr.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tools/commands/command_table.h"
#include "tools/commands/view.h"

namespace reel::tools {
namespace {

constexpr char kAttribute[] = "reelfs.affinity";
constexpr std::size_t kMaxNameBytes = 255;

absl::StatusOr<Json> ListAffinities(AdminContext& context) {
  const auto reply = AskOfVolume<v1::ShowReply, v1::ShowRequest>(context);
  if (!reply.ok()) return reply.status();
  std::map<std::string, std::vector<std::string>> pools_of;
  for (const auto& pool : reply->pools()) {
    for (const std::string& affinity : pool.affinities()) pools_of[affinity].push_back(pool.name());
  }
  Json affinities = Json::array();
  for (const auto& [affinity, pools] : pools_of) {
    affinities.push_back({{"affinity", affinity}, {"pools", pools}});
  }
  return Json{{"affinities", std::move(affinities)}};
}

absl::Status Failed(const std::string& path, const std::string& name) {
  const int error = errno;
  if (error == EOPNOTSUPP) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": no file or directory of a mounted ReelFS volume"));
  }
  if (error == EINVAL) {
    return absl::FailedPreconditionError(absl::StrCat(path, ": no pool has the affinity \"", name,
                                                      "\"; \"reeladm affinity\" lists them"));
  }
  if (error == EPERM) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": only its owner, or root, sets its affinity"));
  }
  return absl::FailedPreconditionError(absl::StrCat(path, ": ", std::strerror(error)));
}

// Empty: it has none.
absl::StatusOr<std::string> AffinityOf(const std::string& path) {
  std::string name(kMaxNameBytes, '\0');
  const ssize_t length = getxattr(path.c_str(), kAttribute, name.data(), name.size());
  if (length < 0 && errno != ENODATA) return Failed(path, "");
  name.resize(length < 0 ? 0 : static_cast<std::size_t>(length));
  return name;
}

absl::StatusOr<Json> ShowAffinities(const std::vector<std::string>& paths) {
  Json json = Json::array();
  for (const std::string& path : paths) {
    const absl::StatusOr<std::string> name = AffinityOf(path);
    if (!name.ok()) return name.status();
    json.push_back({{"path", path}, {"affinity", *name}});
  }
  return Json{{"paths", std::move(json)}};
}

absl::StatusOr<Json> Affinity(AdminContext& context, const Words& words) {
  if (words.size() == 1) return ListAffinities(context);
  const bool sets = words[1] == "set";
  const bool clears = words[1] == "clear";
  if (!sets && !clears) return ShowAffinities({words.begin() + 1, words.end()});
  const std::size_t first = sets ? 3 : 2;
  if (words.size() <= first) {
    return absl::InvalidArgumentError("use: affinity set NAME PATH..., or affinity clear PATH...");
  }
  const std::string name = sets ? words[2] : "";
  const Words paths(words.begin() + static_cast<std::ptrdiff_t>(first), words.end());
  for (const std::string& path : paths) {
    if (setxattr(path.c_str(), kAttribute, name.data(), name.size(), 0) != 0) {
      return Failed(path, name);
    }
  }
  return ShowAffinities(paths);
}

std::string AffinityText(const Json& json) {
  if (json.contains("paths")) {
    return TableOf(json["paths"], {{"affinity", "affinity"}, {"path", "path"}});
  }
  return TableOf(json["affinities"], {{"affinity", "affinity"}, {"pools", "pools", Cell::kList}});
}

}  // namespace

AdminCommands AffinityCommands() {
  return {{.name = "affinity",
           .usage = "[PATH... | set NAME PATH... | clear PATH...]",
           .help = "affinities and their pools; which ones files and directories have",
           .run = Affinity,
           .text = AffinityText,
           .examples = {"affinity set audio /mnt/reel/sound", "affinity /mnt/reel/sound"}}};
}

}  // namespace reel::tools
