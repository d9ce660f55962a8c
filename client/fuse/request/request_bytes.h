// How many bytes a READ or WRITE of the kernel carries at most.
//
// A large read(2) or write(2) past the kernel's pages comes in requests of that size, one after the
// other. So it says how much of one goes to all LUNs at a time. Threads: any.
#pragma once

#include <cstdint>
#include <string>

namespace reel::client {

// The kernel's limit as long as nobody has raised it.
inline constexpr std::uint32_t kUsualFuseRequestBytes = 1 << 20;
// What is asked for where it is raised: a worker, or an entry of io_uring, has memory for one.
inline constexpr std::uint32_t kMostFuseRequestBytes = 4 << 20;

// By the text of fs.fuse.max_pages_limit (Linux 6.13), a number of pages: between the two above.
std::uint32_t FuseRequestBytes(const std::string& max_pages_limit);
// By this machine's. The usual ones where memory may not be promised beyond what there is
// (vm.overcommit_memory = 2): most of what is for requests is never used.
std::uint32_t FuseRequestBytesHere();

}  // namespace reel::client
