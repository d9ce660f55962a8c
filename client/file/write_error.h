// What went wrong with a file's writes after they had returned: told to each open file that may
// have written them once, by fsync(2) or a synchronous write, as Linux does; and shown by close(2)
// until then. A close does not count: the one of a child that begins another program closes its
// copies of open files, and nobody reads what those closes return.
//
// An error that nobody was told yet waits for whoever asks next, also where that one opened the
// file later. Open files are known by numbers that grow with each open. Threads: externally
// synchronised.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace reel::client {

class WriteError {
 public:
  // `newest` is the last that was opened so far.
  void Note(int errno_value, std::uint64_t newest) {
    errno_ = errno_value;
    newest_ = newest;
    told_.clear();
    told_any_ = false;
    ++losses_;
  }
  std::uint64_t losses() const { return losses_; }  // counts them
  bool untold() const { return errno_ != 0 && !told_any_; }
  int last() const { return errno_; }

  // The errno that this one has not been told; 0: none.
  int Tell(std::uint64_t handle) {
    if (errno_ == 0) return 0;
    if (handle > newest_) return std::exchange(told_any_, true) ? 0 : errno_;
    const int told = Show(handle);
    if (told != 0) told_.push_back(handle);
    return told;
  }
  // The same, and it will be told all the same; nothing to one that was opened later.
  int Show(std::uint64_t handle) {
    if (errno_ == 0 || handle > newest_) return 0;
    if (std::find(told_.begin(), told_.end(), handle) != told_.end()) return 0;
    told_any_ = true;
    return errno_;
  }
  void Forget() {
    errno_ = 0;
    told_any_ = false;
    told_.clear();
  }
  // Nobody has the file open any more.
  void AllClosed() {
    if (!told_any_) return;
    errno_ = 0;
    told_.clear();
  }

 private:
  int errno_ = 0;
  std::uint64_t losses_ = 0;
  std::uint64_t newest_ = 0;
  bool told_any_ = false;
  std::vector<std::uint64_t> told_;  // at most those that were open at the error
};

}  // namespace reel::client
