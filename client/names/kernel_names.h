// Names that the kernel keeps, so that it walks a path without asking this process.
//
// It keeps one for a second at most, and only while the directory's attribute token is held. It is
// told to forget by the number of an *epoch* (FUSE_NOTIFY_INC_EPOCH, Linux 6.16): what it has from
// before, or gets in a reply to a request from before, it asks for again. That takes none of its
// locks, which the way to forget one name does: the directory's may be held by a create that waits
// for another client's answer to a recall, which may wait for such a create of its own.
//
// The price: Linux unmounts, too, what is mounted on a directory that it was told to forget. So
// where something is, it is not told; what it keeps is waited out instead, and it gets no more.
//
// Invariants:
//   1. After Forget, no name that the kernel got before is valid there.
//   2. A name is shown (NameCache::ShowName) only where Keeps said so before.
// Changes of this client's own, too, are preceded by Forget: another host may see one before this
// one hears that it is made. So the kernel keeps names of directories that nobody changes, or that
// is delegated to this client.
// Threads: all methods may be called concurrently.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "client/names/name_cache.h"
#include "volume/base/env.h"
#include "volume/base/mutex.h"

namespace reel::client {

class KernelNames {
 public:
  struct Kernel {
    std::function<bool()> forget;           // false: it cannot
    std::function<bool()> is_mounted_upon;  // something is mounted on one of our directories
  };
  // For how long it keeps a name at most.
  static constexpr std::uint64_t kKeptMs = 1'000;
  // A reply may wait that long for the process that has asked.
  static constexpr std::uint64_t kSlackMs = 200;
  // The first pause between two tellings of what it may be just learning of.
  static constexpr std::uint64_t kRetellMs = 2;

  // For how long a directory is left out after each change in it, so that the kernel has not to be
  // told with each.
  static constexpr std::uint64_t kLeftMs = 2'000;

  // Both outlive this object.
  KernelNames(NameCache& names, const Clock& clock, std::uint64_t left_ms = kLeftMs)
      : names_(names), clock_(clock), left_ms_(left_ms) {}

  // Nothing is kept before, nor where the kernel cannot forget. False then.
  bool Start(Kernel kernel);

  // Whether the kernel may keep anything.
  bool Keeps();
  // Whether the directory was left a while ago: then the kernel gets its attributes again, and its
  // names also where this client has no delegation of it.
  bool IsQuiet(std::uint64_t directory);
  // Its names are changing.
  void Leave(std::uint64_t directory);
  std::uint64_t NowMs() const { return clock_.NowMs(); }
  // Until when attributes that are shown now may be valid. (The kernel's own clock may begin to
  // count later.)
  std::uint64_t ShownUntilMs() const { return NowMs() + 2 * kKeptMs; }
  // Whether a reply with what is shown until then may still be on its way to the kernel.
  bool MayBeOnItsWay(std::uint64_t until_ms) const { return until_ms + kSlackMs > ShownUntilMs(); }
  // For a while, in which the kernel may take in replies of before.
  void AwaitReplies(std::uint64_t ms) { WaitFor(ms); }
  // Returns when the kernel has forgotten all that it kept: more than a second later, where
  // something is mounted upon a directory of ours.
  void Forget();
  // The same where that needs no waiting; false: nothing was done. (For the receiving thread, on
  // which all other recalls, and the answers to renewals, would wait along.)
  bool TryForget();

 private:
  static constexpr std::size_t kMaxLeft = 4'096;
  static constexpr std::uint64_t kLookAgainMs = 10'000;

  bool StillMountedUpon(std::uint64_t now_ms);
  void WaitOut();
  void WaitFor(std::uint64_t ms);
  void EndForget();

  NameCache& names_;
  const Clock& clock_;
  const std::uint64_t left_ms_;
  Kernel kernel_;  // set before enabled_
  std::atomic<bool> enabled_{false};
  std::atomic<std::uint64_t> look_at_ms_{0};  // something was mounted upon; 0: nothing was

  Mutex waiting_;
  CondVar never_;  // (only its timeout ends a wait)

  Mutex mutex_;
  CondVar forgotten_;
  bool forgetting_ ABSL_GUARDED_BY(mutex_) = false;  // one thread makes it forget
  absl::flat_hash_map<std::uint64_t, std::uint64_t> left_until_ms_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace reel::client
