// Who asks for a file's bytes, and how. Threads: plain values, of one request.
#pragma once

#include <cstdint>
#include <vector>

#include "client/session/session.h"
#include "proto/types.pb.h"

namespace reel::client {

// The supplementary groups of the process that asks: dear to find out, and seldom needed.
class CallerGroups {
 public:
  virtual ~CallerGroups() = default;
  virtual std::vector<std::uint32_t> Get() const = 0;
};

struct IoContext {
  const v1::Credentials* credentials = nullptr;
  const Interrupt* interrupt = nullptr;
  const CallerGroups* groups = nullptr;
  bool read_ahead = false;  // a stream may be read ahead of
  bool page_cache = false;  // a request of the kernel's page cache, not of an application
  bool write_back = false;  // Write, with `page_cache`: a page that was changed some time ago
  bool append = false;      // O_APPEND: the offset given is ignored, the end of file counts
  bool sync = false;        // O_SYNC or O_DSYNC: durable before the return
  bool direct = false;      // O_DIRECT: straight to the LUNs
  bool data_only = false;   // with `sync`, Fsync: what it takes to read the data, as fdatasync(2)
  bool no_atime = false;    // O_NOATIME
  // The open file, known by a number that grows with each: it is told of lost writes once.
  std::uint64_t handle = 0;
  std::uint32_t access = 0;         // Open: R_OK, W_OK bits, for a controller that checks opens
  const v1::Attr* known = nullptr;  // Open: the attributes, where a token for them is held
};

}  // namespace reel::client
