#include "mdc/tables/exports.h"

#include <fnmatch.h>

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace reel::mdc {

Export ExportFor(const std::vector<Export>& exports, std::string_view client) {
  const std::string name(client);
  for (const Export& exported : exports) {
    const bool named = std::any_of(
        exported.clients.begin(), exported.clients.end(),
        [&](const auto& pattern) { return fnmatch(pattern.c_str(), name.c_str(), 0) == 0; });
    if (!named) continue;
    Export found = exported;
    found.clients.clear();
    return found;
  }
  return Export();
}

void Squash(const Export& exported, v1::Credentials& credentials) {
  if (!Squashes(exported)) return;
  if (exported.squash == Export::Squash::kAll || credentials.uid() == 0) {
    credentials.set_uid(exported.anonymous_uid);
    credentials.set_gid(exported.anonymous_gid);
    credentials.clear_groups();
    return;
  }
  if (credentials.gid() == 0) credentials.set_gid(exported.anonymous_gid);
  auto& groups = *credentials.mutable_groups();
  groups.erase(std::remove(groups.begin(), groups.end(), 0u), groups.end());
}

std::string ExportText(const Export& exported) {
  std::string text = exported.access == Export::Access::kReadWrite  ? "rw"
                     : exported.access == Export::Access::kReadOnly ? "ro"
                                                                    : "none";
  if (exported.squash != Export::Squash::kNone) {
    absl::StrAppend(&text, ",squash=", exported.squash == Export::Squash::kRoot ? "root" : "all");
  }
  return text;
}

}  // namespace reel::mdc
