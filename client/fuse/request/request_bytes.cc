#include "client/fuse/request/request_bytes.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "absl/strings/numbers.h"

namespace reel::client {
namespace {

std::string LineOf(const char* path) {
  std::string line;
  std::getline(std::ifstream(path), line);
  return line;
}

}  // namespace

std::uint32_t FuseRequestBytes(const std::string& max_pages_limit) {
  std::uint32_t pages = 0;
  if (!absl::SimpleAtoi(max_pages_limit, &pages)) return kUsualFuseRequestBytes;
  const std::uint64_t bytes = std::uint64_t{pages} * static_cast<std::uint64_t>(getpagesize());
  return static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(bytes, kUsualFuseRequestBytes, kMostFuseRequestBytes));
}

std::uint32_t FuseRequestBytesHere() {
  if (LineOf("/proc/sys/vm/overcommit_memory") == "2") return kUsualFuseRequestBytes;
  return FuseRequestBytes(LineOf("/proc/sys/fs/fuse/max_pages_limit"));
}

}  // namespace reel::client
