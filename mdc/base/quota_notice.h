// What whoever looks after quotas is told when an owner comes to a limit: for a program that sends
// mail (mdc/serve/beside/quota_hook.h). Threads: a value.
#pragma once

#include <cstdint>
#include <string>

namespace reel::mdc {

struct QuotaNotice {
  std::string event;  // "soft": above the soft limit; "hard": at the hard one; "grace": its time is
                      // over
  std::string kind;   // "user", "group", "tree"
  std::uint32_t id = 0;
  std::string name;  // a tree's
  std::string of;    // "space", in bytes below; "files"
  std::uint64_t used = 0;
  std::uint64_t soft = 0;  // 0: none
  std::uint64_t hard = 0;  // 0: none
  std::uint64_t grace_seconds = 0;
  std::string text;  // for people, a line
};

}  // namespace reel::mdc
