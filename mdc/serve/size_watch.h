// A thread that looks whether a volume's LUNs have been enlarged or cut while they are in use.
//
// A volume keeps its geometry until it is told to grow: of a LUN that has grown the rest lies idle,
// which is worth a note, and one that lacks what the volume uses of it is an alarm. What a LUN had
// when it was labelled stands in its label, so a controller that starts later says the same.
// Threads: all methods may be called concurrently.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "volume/base/mutex.h"
#include "volume/base/thread.h"
#include "volume/format/lun_scan.h"

namespace reel::mdc {

class SizeWatch {
 public:
  // `volume` outlives it. The first look is at once, on the thread.
  explicit SizeWatch(OpenVolume& volume);
  // Waits for the LUN that is being asked.
  ~SizeWatch();
  SizeWatch(const SizeWatch&) = delete;
  SizeWatch& operator=(const SizeWatch&) = delete;

  // Asks all of them now, and waits for them.
  void Look();
  // As of the last look, a line each.
  std::vector<std::string> Grown() const;
  std::vector<std::string> Cut() const;
  // The size of luns[index], as of the last look that it answered.
  std::uint64_t SizeOf(std::size_t index) const;

 private:
  struct Watched {
    std::string name;  // for people
    bool metadata = false;
    std::uint64_t used_bytes = 0;
    std::uint64_t labelled_bytes = 0;  // 0: its label has not been read
    std::uint64_t now_bytes = 0;
    bool grown() const { return labelled_bytes != 0 && now_bytes > labelled_bytes; }
    bool cut() const { return now_bytes < used_bytes; }
    std::string Text() const;
  };
  void Main();
  void LookAt(std::size_t index);
  bool stopping() const;

  OpenVolume& volume_;
  Mutex looking_;  // one look at a time; it waits for LUNs, and mutex_ does not
  mutable Mutex mutex_;
  CondVar wake_;
  std::vector<Watched> luns_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  Thread thread_;
};

}  // namespace reel::mdc
