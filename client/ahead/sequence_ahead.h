// Fetches the frames that a player of a sequence opens next: names, attributes, tokens and layouts
// from the controller, bytes from the LUNs (client/buffers/frame_ahead.h).
//
// Which these are, FrameSequences says; this asks for them. Invariants:
//   1. Nothing is taken from another host: what it holds in the way of that is EAGAIN
//      (Lookup.ahead), and the frame waits for the player.
//   2. At most kMaxUnderWay requests are on their way, and nobody waits for one.
//   3. A file that is opened to write is no frame. Where the controller has to be asked for every
//      open (Session::checks_opens) nothing is fetched: the open is what it checks.
// Threads: all methods may be called concurrently.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "client/ahead/frame_sequences.h"
#include "client/ahead/looked_up_files.h"
#include "client/data/file_data.h"
#include "client/names/name_cache.h"
#include "client/session/session.h"
#include "volume/base/mutex.h"

namespace reel::client {

class SequenceAhead {
 public:
  static constexpr std::size_t kMaxUnderWay = 16;
  // All outlive this object, whose requests end with the session.
  SequenceAhead(Session& session, FileData& data, NameCache& names, LookedUpFiles& looked_up,
                const Clock& clock)
      : session_(session), data_(data), names_(names), looked_up_(looked_up), clock_(clock) {}

  // A program has opened it to read.
  void NoteOpen(std::uint64_t inode, std::uint64_t size_bytes, const v1::Credentials& credentials);
  // Whether that was a frame of a sequence that is being played, or may have been: where nothing is
  // fetched nobody looks.
  bool MayBePlayed(std::uint64_t inode) const;
  // It closes it; before FileData does.
  void NoteClose(std::uint64_t inode);

 private:
  using Frame = FrameSequences::Frame;
  // What a request that is answered later still needs.
  struct State {
    Mutex mutex;
    FrameSequences sequences ABSL_GUARDED_BY(mutex);
    std::size_t under_way ABSL_GUARDED_BY(mutex) = 0;
    // Of each stream the last frames that were fetched for it.
    absl::flat_hash_map<std::uint64_t, std::deque<std::uint64_t>> fetched ABSL_GUARDED_BY(mutex);

    void Fetched(const Frame& frame, std::uint64_t inode) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  };
  bool IsOn() const;
  // Begins to fetch it, without a question where nothing has to be asked.
  void Fetch(const Frame& frame, const v1::Credentials& credentials);
  void Ask(const Frame& frame, const v1::Credentials& credentials);

  Session& session_;
  FileData& data_;
  NameCache& names_;
  LookedUpFiles& looked_up_;
  const Clock& clock_;
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace reel::client
