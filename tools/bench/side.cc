#include "tools/bench/side.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace reel::bench {

absl::StatusOr<std::vector<Side>> ParseSides(const std::vector<std::string>& texts) {
  std::vector<Side> sides;
  for (const std::string& text : texts) {
    Side side;
    const std::size_t equals = text.find('=');
    side.directory = equals == std::string::npos ? text : text.substr(equals + 1);
    if (equals != std::string::npos) {
      side.name = text.substr(0, equals);
    } else {
      const std::filesystem::path path = std::filesystem::path(text).lexically_normal();
      side.name = (path.has_filename() ? path : path.parent_path()).filename().string();
    }
    struct stat found {};
    if (stat(side.directory.c_str(), &found) != 0 || !S_ISDIR(found.st_mode)) {
      return absl::NotFoundError(
          absl::StrCat(side.directory, ": ", errno != 0 ? std::strerror(errno) : "not a directory",
                       "; give the directories to compare, each as NAME=DIRECTORY"));
    }
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
  std::string path = absl::StrCat(side.directory, "/reel-bench.XXXXXX");
  if (mkdtemp(path.data()) == nullptr) {
    return absl::PermissionDeniedError(
        absl::StrCat("cannot make a directory in ", side.directory, ": ", std::strerror(errno)));
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
