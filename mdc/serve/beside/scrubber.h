// Scrubs a served volume: a thread that checks the metadata, as fsck.reelfs does, as they were in
// one moment (docs/internals/scrub.md).
//
// The core says whether there is something to do (BeginScrub); Look makes the thread ask. What it
// has found goes back to the core. It rests three times as long as it works, or looks at no more
// records in a second than it was told. Where the store needs the room that its view takes, or
// there is more to keep than it may, it gives up and says why. Invariants:
//   1. It writes nothing, and its view has ended when Stop returns.
//   2. Descriptor, regions and view are of one turn of the core.
// Threads: all methods may be called concurrently, except that Stop comes last.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "mdc/core/core.h"
#include "mdc/map/core_call.h"
#include "mdc/metafs/metafs.h"
#include "volume/base/env.h"
#include "volume/base/mutex.h"
#include "volume/base/thread.h"

namespace reel::mdc {

class Scrubber {
 public:
  // Of what it keeps, in bytes, unless it is told otherwise.
  static constexpr std::uint64_t kMostBytes = 1ull << 30;
  // Lines about problems that the job's record keeps.
  static constexpr int kKeptLines = 100;

  struct Served {
    const MetaDb& db;
    const metafs::MetaFs& fs;
    const Clock& clock;
    std::uint64_t most_bytes = kMostBytes;
    // The blocks of the store, on the core's seat; nullopt: it is growing just now.
    std::function<std::optional<std::vector<Run>>()> regions;
    RunOnCore run_on_core;
  };

  explicit Scrubber(Served served) : served_(std::move(served)) {}
  ~Scrubber() { Stop(); }

  // The core has something else to say. On any thread.
  void Look();
  // REQUIRES: the core still runs.
  void Stop();

 private:
  struct Begun {
    std::optional<Core::ScrubOrder> order;
    std::vector<Run> regions;
    bool later = false;  // the store grows: ask again
  };
  // How far the scrub under way is, and when it may go on. Of the thread.
  struct Pace {
    JobId job;
    std::uint64_t rate_records = 0;
    std::uint64_t looked = 0, total = 0;
    std::uint64_t began_ms = 0;
    std::uint64_t resumed_ms = 0;  // after the last rest
    std::uint64_t told_ms = 0;     // when the core was told
    absl::Status gave_up;
  };

  void Main();
  absl::StatusOr<Begun> Begin();
  absl::StatusOr<v1::ScrubRecord> Check(const Begun& begun);
  // So many more records; false: no more of them.
  bool GoOn(Pace& pace, std::uint64_t records);
  // How long to rest, in ms.
  std::uint64_t RestMs(const Pace& pace) const;
  // Waits; false: to stop. `*changed`: the core is to be asked.
  bool Rest(std::uint64_t rest_ms, bool* changed);

  const Served served_;
  Mutex mutex_;
  CondVar wake_;
  bool changed_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  Thread thread_;
};

}  // namespace reel::mdc
