// What a client may do with a volume: [[volume.export]] of the configuration.
//
//   clients = ["edit-*", "ws7"]   shell patterns, of the names in the clients' certificates;
//   without
//                                 TLS, of the host names that clients give
//   access = "rw"                 or "ro" (every change is EROFS), or "none" (no mount at all)
//   squash = "none"               or "root" (its root is nobody), or "all" (everybody there is)
//   anonymous_uid = 65534         who a squashed caller is
//   anonymous_gid = 65534
//
// The first export that names the client rules; a client that none names gets "rw" and "none".
// The rule is found at Hello: exports that were changed since hold for a session from its next
// connection on.
// Threads: plain values and pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "proto/types.pb.h"

namespace reel::mdc {

struct Export {
  enum class Access { kReadWrite, kReadOnly, kNone };
  enum class Squash { kNone, kRoot, kAll };
  std::vector<std::string> clients;
  Access access = Access::kReadWrite;
  Squash squash = Squash::kNone;
  std::uint32_t anonymous_uid = 65534;
  std::uint32_t anonymous_gid = 65534;
};

// A copy of the first that names the client, without its patterns; else the default.
Export ExportFor(const std::vector<Export>& exports, std::string_view client);

// Makes a squashed caller nobody. Where root is squashed, root's group is for nobody either.
void Squash(const Export& exported, v1::Credentials& credentials);

// Some callers there have other identities than their kernel knows, and any of them may be its root
// in disguise: what its kernel has checked counts for nothing.
inline bool Squashes(const Export& exported) {
  return exported.squash != Export::Squash::kNone;
}
// Not everything is allowed there: its clients ask for every open.
inline bool Restricts(const Export& exported) {
  return Squashes(exported) || exported.access != Export::Access::kReadWrite;
}

// "rw", "ro,squash=root": for administration.
std::string ExportText(const Export& exported);

}  // namespace reel::mdc
