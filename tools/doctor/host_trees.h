// Where a host's kernel tells of itself: tests give trees of their own. Threads: plain values and
// functions that read files.
#pragma once

#include <string>
#include <vector>

namespace reel::tools {

struct HostTrees {
  std::string proc = "/proc";
  std::string sys = "/sys";
  std::string dev = "/dev";
  std::string etc = "/etc";
};

// A small file without the white space at its end; empty where it cannot be read.
std::string TextAt(const std::string& path);
// The names in a directory, in order; none where it cannot be read.
std::vector<std::string> NamesIn(const std::string& directory);

}  // namespace reel::tools
