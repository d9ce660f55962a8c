// What the kernel and we say to each other about FUSE over io_uring: newer than this system's
// <linux/fuse.h> (7.42, Linux 6.14).
//
// Each possible CPU has a queue of entries. An entry is registered with its memory, two pieces: a
// header and a payload buffer. It comes back as the completion of the command that registered it,
// or that committed its last answer, and then holds a request.
#pragma once

#include <cstdint>

namespace reel::client {

// What is said of an entry beside request and answer.
struct UringEntryInOut {
  std::uint64_t flags = 0;
  std::uint64_t commit_id = 0;      // names the request in the command that answers it
  std::uint32_t payload_bytes = 0;  // of the request, or of the answer
  std::uint32_t padding = 0;
  std::uint64_t reserved = 0;
};

// The first piece of an entry's memory.
struct UringHeader {
  char in_out[128];  // fuse_in_header of a request, fuse_out_header of an answer
  char op_in[128];   // the request's first argument, of the operation's own type
  UringEntryInOut entry;
};
static_assert(sizeof(UringHeader) == 288);

// In the submission entry's command area.
struct UringCommand {
  std::uint64_t flags = 0;
  std::uint64_t commit_id = 0;
  std::uint16_t queue = 0;
  std::uint8_t padding[6] = {};
};
static_assert(sizeof(UringCommand) == 24);

enum class UringOperation : std::uint32_t {
  kRegister = 1,        // an entry is there; completes with its first request
  kCommitAndFetch = 2,  // an answer; completes with the entry's next request
};

}  // namespace reel::client
