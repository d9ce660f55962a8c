#include "client/fuse/request/request_bytes.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "absl/strings/numbers.h"

namespace reel::client {

std::uint32_t FuseRequestBytes(const std::string& max_pages_limit) {
  std::uint32_t pages = 0;
  if (!absl::SimpleAtoi(max_pages_limit, &pages)) return kUsualFuseRequestBytes;
  const std::uint64_t bytes = std::uint64_t{pages} * static_cast<std::uint64_t>(getpagesize());
  return static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(bytes, kUsualFuseRequestBytes, kMostFuseRequestBytes));
}

std::uint32_t FuseRequestBytesHere() {
  std::string limit;
  std::getline(std::ifstream("/proc/sys/fs/fuse/max_pages_limit"), limit);
  return FuseRequestBytes(limit);
}

}  // namespace reel::client
