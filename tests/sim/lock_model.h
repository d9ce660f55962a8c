// Whether advisory locks exclude each other: who holds what, from the moment at which a program was
// told so until it gives the lock up or its session is over. Threads: one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace reel::sim {

class LockModel {
 public:
  struct Held {
    std::uint64_t inode = 0;
    int host = 0;
    std::uint64_t owner = 0;
    std::uint64_t first = 0, last = 0;
    bool exclusive = false;
    bool whole = false;        // by flock(2), which knows nothing of ranges
    std::uint64_t number = 0;  // its own, once it is granted
  };

  void Granted(const Held& lock) {
    for (const Held& other : held_) {
      const bool same = other.host == lock.host && other.owner == lock.owner;
      const bool apart = other.last < lock.first || lock.last < other.first;
      if (other.inode != lock.inode || other.whole != lock.whole || same || apart) continue;
      if (!other.exclusive && !lock.exclusive) continue;
      violations_.push_back(absl::StrCat("hosts ", other.host, " and ", lock.host,
                                         " both hold locks of inode ", lock.inode, ", bytes ",
                                         lock.first, " to ", lock.last));
    }
    held_.push_back(lock);
    held_.back().number = ++granted_;
  }
  const std::vector<Held>& held() const { return held_; }
  // Whether that one has been held all the time since it was granted.
  bool IsHeld(std::uint64_t number) const {
    return std::ranges::any_of(held_, [&](const Held& held) { return held.number == number; });
  }
  // Whoever asked who is in the way of that one was told that nobody is.
  void Missed(const Held& lock) {
    if (!IsHeld(lock.number)) return;
    violations_.push_back(absl::StrCat("a lock of inode ", lock.inode, ", bytes ", lock.first,
                                       " to ", lock.last, ", is not there, which host ", lock.host,
                                       " holds"));
  }
  // All of an owner's on the inode: before it says so to anybody.
  void GivenUp(std::uint64_t inode, int host, std::uint64_t owner) {
    std::erase_if(held_, [&](const Held& held) {
      return held.inode == inode && held.host == host && held.owner == owner;
    });
  }
  void SessionOver(int host) {
    std::erase_if(held_, [&](const Held& held) { return held.host == host; });
  }

  const std::vector<std::string>& violations() const { return violations_; }
  std::uint64_t granted() const { return granted_; }

 private:
  std::vector<Held> held_;
  std::vector<std::string> violations_;
  std::uint64_t granted_ = 0;
};

}  // namespace reel::sim
