#include "tools/commands/quota_trees.h"

#include <ftw.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace reel::tools {
namespace {

constexpr char kTreeAttribute[] = "reelfs.tree";
constexpr int kMostOpen = 64;  // directories at a time

std::string Why(int error, const std::string& tree) {
  switch (error) {
    case EOPNOTSUPP:
      return "no directory of a mounted ReelFS volume";
    case EPERM:
      return "only root puts files into a tree, where it is not squashed, and no immutable ones";
    case EINVAL:
      return absl::StrCat("the volume that is mounted there has no tree \"", tree, "\"");
    default:
      return std::strerror(error);
  }
}

// nftw(3) takes nothing along.
thread_local const std::string* tree_name = nullptr;
thread_local std::string failed_path;

// A file that has gone meanwhile is nobody's.
int Put(const char* path, const struct stat*, int, FTW*) {
  if (lsetxattr(path, kTreeAttribute, tree_name->data(), tree_name->size(), 0) == 0) return 0;
  if (errno == ENOENT || errno == ESTALE) return 0;
  failed_path = path;
  return errno;
}

}  // namespace

absl::Status PutIntoTree(const std::string& tree, const std::string& directory) {
  struct stat found {};
  int error = 0;
  failed_path = directory;
  if (lstat(directory.c_str(), &found) != 0) {
    error = errno;
  } else if (!S_ISDIR(found.st_mode)) {
    error = ENOTDIR;
  } else {
    tree_name = &tree;
    // Before what is in it: FTW_DEPTH is not set.
    error = nftw(directory.c_str(), Put, kMostOpen, FTW_PHYS | FTW_MOUNT);
    tree_name = nullptr;
    if (error < 0) error = errno;
  }
  if (error == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(failed_path, ": ", Why(error, tree)));
}

}  // namespace reel::tools
