// Fetches the files that whoever goes through a directory opens next: tokens, layouts and the bytes
// of small files from the controller, many with one message; other bytes from the LUNs
// (client/buffers/frame_ahead.h).
//
// Which these are, DirectoryOpens says; this asks for them. So an open and a read of them are
// answered here. Invariants:
//   1. Nobody waits for the request: where a directory is delegated to another host it is EAGAIN,
//      and a file that another one writes is left out. (One that it has closed it is asked to let
//      others read, as by any listing with attributes.)
//   2. Only opens of files of at most kMaxFileBytes count: frames are another matter
//      (client/ahead/sequence_ahead.h).
//   3. Where the controller has to be asked for every open (Session::checks_opens) nothing is
//      fetched: the open is what it checks.
// Threads: all methods may be called concurrently.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "client/ahead/directory_opens.h"
#include "client/ahead/looked_up_files.h"
#include "client/data/file_data.h"
#include "client/session/session.h"
#include "volume/base/env.h"
#include "volume/base/mutex.h"

namespace reel::client {

class OpenAhead {
 public:
  static constexpr std::uint64_t kMaxFileBytes = 256 * kKiB;
  static constexpr std::uint32_t kReplyBytes = 512 * kKiB;  // of names, and of layouts

  // All outlive this object, whose requests end with the session.
  OpenAhead(Session& session, FileData& data, const LookedUpFiles& looked_up, const Clock& clock)
      : session_(session), data_(data), looked_up_(looked_up), clock_(clock) {}

  // A program is about to open a file of that size to read it.
  void NoteOpen(std::uint64_t inode, std::uint64_t size_bytes, const v1::Credentials& credentials);
  // It closes it; before FileData does.
  void NoteClose(std::uint64_t inode);

 private:
  // What a request that is answered later still needs.
  struct State {
    Mutex mutex;
    DirectoryOpens opens ABSL_GUARDED_BY(mutex);
    // As `opens` says: whoever opens and closes what is held looks no further.
    std::atomic<bool> waits{false}, knows_any{false};

    void Publish() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
      waits.store(opens.waits());
      knows_any.store(opens.knows_any());
    }
    void Answer(std::uint64_t directory, const absl::StatusOr<v1::Reply>& reply,
                std::vector<std::uint64_t> taken);
  };
  bool IsOn() const;
  void Ask(const DirectoryOpens::Fetch& fetch, const v1::Credentials& credentials);

  Session& session_;
  FileData& data_;
  const LookedUpFiles& looked_up_;
  const Clock& clock_;
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace reel::client
