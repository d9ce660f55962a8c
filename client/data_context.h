// What the parts of the data path share.
// Threads: `session`, `paths` and `io` are set once, before any inode is used.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "client/file_data.h"
#include "client/file_state.h"
#include "client/file_table.h"
#include "client/lun_io.h"
#include "client/lun_paths.h"
#include "client/session.h"

namespace reel::client {

struct DataContext {
  FileDataOptions options;
  const Clock& clock;
  std::function<void(std::uint64_t inode)> invalidate_pages;
  FileTable table{};
  Session* session = nullptr;
  std::unique_ptr<LunPaths> paths{};
  std::unique_ptr<LunIo> io{};
  std::atomic<bool> stopping{false};
  std::atomic<std::uint64_t> read_ahead_bytes{0};  // in memory, of all files
  // What the first write of the last new file brought: the next new file is likely to get as much.
  std::atomic<std::uint64_t> first_write_bytes{0};

  // Tells the controller of the opens here, unless it knows. While a token is held that is not
  // needed: it keeps an inode of which anybody holds one.
  void RegisterOpens(FileState& file, std::function<void()> done = nullptr)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(file.mutex);

  // Waits for any change of the file, or a while. EINTR, ETIMEDOUT (soft mount) or ESHUTDOWN when
  // the caller is to give up.
  absl::Status Wait(FileState& file, const Interrupt* interrupt)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(file.mutex);
};

}  // namespace reel::client
