// Directory entries in the store: each is one record by name and one by cookie.
//
// Invariants: the two agree; a directory's `entries`, `size_bytes` and `nlink` count what it holds;
// a cookie is used for one name once. An entry keeps the spelling with which its name was made.
// Threads: the core thread.
#pragma once

#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mdc/ops/operation.h"

namespace reel::mdc {

struct Entry {
  InodeNumber inode;
  std::uint32_t type = 0;  // S_IFMT bits
  std::uint64_t cookie = 0;
};

// A directory that an operation works on.
struct Directory {
  InodeNumber inode;
  v1::InodeRecord* record = nullptr;
};

// The live directory, for an operation that changes entries. ESTALE, ENOTDIR, ENOENT; EPERM when it
// is immutable, or append-only and entries shall go.
absl::StatusOr<Directory> DirectoryToChange(OpContext& ctx, std::uint64_t inode, bool removes);

// EILSEQ where the directory folds names, and this one cannot be folded.
absl::Status CheckNewName(const Directory& directory, std::string_view name);

// nullopt when there is none of this name, in any spelling where the directory folds names.
absl::StatusOr<std::optional<Entry>> FindEntry(Txn& txn, InodeNumber directory,
                                               std::string_view name);

// Each changes the two records, the directory's counts and its times. A subdirectory counts in
// nlink.
void AddEntry(OpContext& ctx, const Directory& directory, std::string_view name, InodeNumber inode,
              std::uint32_t type);
void RemoveEntry(OpContext& ctx, const Directory& directory, std::string_view name,
                 const Entry& entry);
// The name, in this spelling, stands for another inode from now on, at the same cookie.
void ReplaceEntry(OpContext& ctx, const Directory& directory, std::string_view name,
                  const Entry& entry, InodeNumber inode, std::uint32_t type);

}  // namespace reel::mdc
