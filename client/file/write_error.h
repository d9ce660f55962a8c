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
    reported_.clear();
    reported_any_ = false;
    ++losses_;
  }
  std::uint64_t losses() const { return losses_; }  // counts them
  bool unreported() const { return errno_ != 0 && !reported_any_; }
  int last() const { return errno_; }

  // The errno that this one has not been told; 0: none.
  int Report(std::uint64_t handle) {
    if (errno_ == 0) return 0;
    if (handle > newest_) return std::exchange(reported_any_, true) ? 0 : errno_;
    const int reported = Show(handle);
    if (reported != 0) reported_.push_back(handle);
    return reported;
  }
  // The same, and it will be told all the same; nothing to one that was opened later.
  int Show(std::uint64_t handle) {
    if (errno_ == 0 || handle > newest_) return 0;
    if (std::find(reported_.begin(), reported_.end(), handle) != reported_.end()) return 0;
    reported_any_ = true;
    return errno_;
  }
  void Forget() {
    errno_ = 0;
    reported_any_ = false;
    reported_.clear();
  }
  // Nobody has the file open any more.
  void AllClosed() {
    if (!reported_any_) return;
    errno_ = 0;
    reported_.clear();
  }

 private:
  int errno_ = 0;
  std::uint64_t losses_ = 0;
  std::uint64_t newest_ = 0;
  bool reported_any_ = false;
  std::vector<std::uint64_t> reported_;  // at most those that were open at the error
};

}  // namespace reel::client
