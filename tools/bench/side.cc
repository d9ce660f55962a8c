#include "tools/bench/side.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace reel::bench {

namespace {

bool IsDirectory(const std::string& path) {
  struct stat found {};
  errno = 0;
  return stat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode);
}

absl::Status NoDirectory(const std::string& path) {
  return absl::NotFoundError(
      absl::StrCat(path, ": ", errno != 0 ? std::strerror(errno) : "not a directory",
                   "; give the directories to compare, each as NAME=DIRECTORY"));
}

// A directory may have a comma in its name.
absl::StatusOr<std::vector<std::string>> DirectoriesOf(const std::string& text) {
  if (IsDirectory(text)) return std::vector<std::string>{text};
  if (text.find(',') == std::string::npos) return NoDirectory(text);
  const std::vector<std::string> paths = absl::StrSplit(text, ',');
  for (const std::string& path : paths) {
    if (!IsDirectory(path)) return NoDirectory(path);
  }
  return paths;
}

std::string LastComponent(const std::string& text) {
  const std::filesystem::path path = std::filesystem::path(text).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

}  // namespace

absl::StatusOr<std::vector<Side>> ParseSides(const std::vector<std::string>& texts) {
  std::vector<Side> sides;
  for (const std::string& text : texts) {
    Side side;
    const std::size_t equals = text.find('=');
    auto directories = DirectoriesOf(equals == std::string::npos ? text : text.substr(equals + 1));
    if (!directories.ok()) return directories.status();
    side.directory = directories->front();
    side.more_clients.assign(directories->begin() + 1, directories->end());
    side.name =
        equals == std::string::npos ? LastComponent(side.directory) : text.substr(0, equals);
    for (const Side& other : sides) {
      if (other.name == side.name) {
        return absl::InvalidArgumentError(absl::StrCat("two directories are named ", side.name,
                                                       "; give them names: NAME=DIRECTORY"));
      }
    }
    sides.push_back(std::move(side));
  }
  return sides;
}

absl::StatusOr<ScratchDirectory> ScratchDirectory::Make(const Side& side) {
  return MakeIn(side.directory);
}

absl::StatusOr<ScratchDirectory> ScratchDirectory::MakeIn(const std::string& directory) {
  std::string path = absl::StrCat(directory, "/reel-bench.XXXXXX");
  if (mkdtemp(path.data()) == nullptr) {
    return absl::PermissionDeniedError(
        absl::StrCat("cannot make a directory in ", directory, ": ", std::strerror(errno)));
  }
  ScratchDirectory made;
  made.path_ = std::move(path);
  return made;
}

ScratchDirectory& ScratchDirectory::operator=(ScratchDirectory&& other) noexcept {
  path_.swap(other.path_);
  return *this;
}

ScratchDirectory::~ScratchDirectory() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

}  // namespace reel::bench
