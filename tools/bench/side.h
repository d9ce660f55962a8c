// A directory that is measured: the mount, or what it is compared with (a local file system, the
// file system that holds the LUN images, a file system that moves no data). Thread rule: a plain
// value; ScratchDirectory is owned by one thread.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace reel::bench {

struct Side {
  std::string name;
  std::string directory;
  // Other mounts of the same, each a client that works at the same time (`meta`).
  std::vector<std::string> more_clients{};
};

// "NAME=DIRECTORY", or "DIRECTORY", which is named by its last component; or several directories
// with commas between them, the clients of one side. INVALID_ARGUMENT when two sides have one name;
// NOT_FOUND when a directory is not there.
absl::StatusOr<std::vector<Side>> ParseSides(const std::vector<std::string>& texts);

// A directory of our own within a side, removed with all that is in it.
class ScratchDirectory {
 public:
  static absl::StatusOr<ScratchDirectory> Make(const Side& side);
  static absl::StatusOr<ScratchDirectory> MakeIn(const std::string& directory);
  ScratchDirectory(ScratchDirectory&& other) noexcept { path_.swap(other.path_); }
  ScratchDirectory& operator=(ScratchDirectory&& other) noexcept;
  ~ScratchDirectory();

  const std::string& path() const { return path_; }

 private:
  ScratchDirectory() = default;

  std::string path_;
};

}  // namespace reel::bench
