// What `mount -o remount` and the client that runs say to each other: an ioctl(2) on the root of
// the mount, answered in the same place. Threads: plain values.
#pragma once

#include <linux/ioctl.h>  // (sys/ioctl.h makes a macro of CTIME)

namespace reel::client {

struct RemountMessage {
  // Options, separated by commas, ending with a zero. The answer: why not, or nothing.
  char text[4000];
};
inline constexpr unsigned kCheckRemount = _IOWR('R', 0x60, RemountMessage);  // could it be done?
inline constexpr unsigned kApplyRemount = _IOWR('R', 0x61, RemountMessage);

}  // namespace reel::client
