#include "mdc/core/exports.h"

#include <fnmatch.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "mdc/ops/operation.h"

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

bool ChangesVolume(const v1::Request& request) {
  switch (request.op_case()) {
    // What asks for the right to change something later, and what gives a token back.
    case v1::Request::kGetAttr:
      return (request.get_attr().access() & W_OK) != 0;
    case v1::Request::kOpen:
      return request.open().write() || request.open().token() == v1::TOKEN_EXCLUSIVE;
    case v1::Request::kLayoutGet:
      return request.layout_get().allocate() || request.layout_get().mode() == v1::TOKEN_EXCLUSIVE;
    case v1::Request::kLayoutReturn:
      return request.layout_return().has_commit();
    case v1::Request::kSetLock:  // who writes: of flock(2)'s both kinds are for readers too
      return request.set_lock().lock().type() == v1::LOCK_EXCLUSIVE &&
             request.set_lock().lock().kind() != v1::LOCK_WHOLE;
    default:
      return OperationFor(request.op_case()).mutation;
  }
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
