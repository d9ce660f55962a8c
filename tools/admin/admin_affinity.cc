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
#include "nlohmann/json.hpp"
#include "tools/admin/admin_commands.h"
#include "tools/lib/cli.h"
#include "tools/lib/table.h"

namespace reel::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kAttribute[] = "reelfs.affinity";
constexpr std::size_t kMaxNameBytes = 255;

absl::StatusOr<std::string> ListAffinities(AdminContext& context) {
  auto volume = ChosenVolume(context);
  if (!volume.ok()) return volume.status();
  auto reply = context.api.Show(*volume);
  if (!reply.ok()) return reply.status();
  std::map<std::string, std::vector<std::string>> pools_of;
  for (const auto& pool : reply->pools()) {
    for (const std::string& affinity : pool.affinities()) pools_of[affinity].push_back(pool.name());
  }
  Json json = Json::array();
  Table table({{"affinity"}, {"pools"}});
  for (const auto& [affinity, pools] : pools_of) {
    table.Add({affinity, absl::StrJoin(pools, ",")});
    json.push_back({{"affinity", affinity}, {"pools", pools}});
  }
  if (context.json) return JsonText({{"affinities", std::move(json)}}) + "\n";
  return table.ToString();
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

absl::StatusOr<std::string> ShowAffinities(const AdminContext& context,
                                           const std::vector<std::string>& paths) {
  Json json = Json::array();
  Table table({{"affinity"}, {"path"}});
  for (const std::string& path : paths) {
    const absl::StatusOr<std::string> name = AffinityOf(path);
    if (!name.ok()) return name.status();
    table.Add({name->empty() ? "-" : *name, path});
    json.push_back({{"path", path}, {"affinity", *name}});
  }
  if (context.json) return JsonText({{"paths", std::move(json)}}) + "\n";
  return table.ToString();
}

}  // namespace

absl::StatusOr<std::string> AdminAffinity(AdminContext& context,
                                          const std::vector<std::string>& words) {
  if (words.size() == 1) return ListAffinities(context);
  const bool sets = words[1] == "set";
  const bool clears = words[1] == "clear";
  if (!sets && !clears) return ShowAffinities(context, {words.begin() + 1, words.end()});
  const std::size_t first = sets ? 3 : 2;
  if (words.size() <= first || (sets && words[2].empty())) {
    return absl::InvalidArgumentError("use: affinity set NAME PATH..., or affinity clear PATH...");
  }
  const std::string name = sets ? words[2] : "";
  const std::vector<std::string> paths(words.begin() + static_cast<std::ptrdiff_t>(first),
                                       words.end());
  for (const std::string& path : paths) {
    if (setxattr(path.c_str(), kAttribute, name.data(), name.size(), 0) != 0) {
      return Failed(path, name);
    }
  }
  return ShowAffinities(context, paths);
}

}  // namespace reel::tools
