// What the kernel may take for valid without asking again.
#include <sys/stat.h>

#include <algorithm>

#include "client/vfs/vfs.h"

namespace reel::client {
namespace {

// The kernel rounds it up to its clock's next tick: a few milliseconds.
constexpr std::uint64_t kMomentNs = 1'000;
constexpr std::uint64_t kNsPerMs = 1'000'000;

}  // namespace

// Ends long before the lease does, so that a process which stands still meanwhile, or a reply that
// the kernel takes in late, does no harm.
std::uint64_t Vfs::KeptNs() const {
  return std::min(KernelNames::kKeptMs, session_.LeaseLeftMs() / 4) * kNsPerMs;
}

std::uint64_t Vfs::ShowAttr(const Attributes& attr, bool knows_inode) {
  if (!session_.LeaseHolds()) return 0;
  const std::uint64_t kept_ns = KeptNs();
  KernelNames* const kernel_names = options_.kernel_names;
  const bool keep = knows_inode && kept_ns > 0 && S_ISDIR(attr.mode) && kernel_names != nullptr &&
                    kernel_names->Keeps() && kernel_names->IsQuiet(attr.inode);
  // (Its own clock may have begun to count later.)
  switch (names_.Show(attr, keep ? kernel_names->NowMs() + 2 * KernelNames::kKeptMs : 0)) {
    case NameCache::Shown::kNo:
      return 0;
    case NameCache::Shown::kMoment:
      return kMomentNs;
    case NameCache::Shown::kKept:
      return kept_ns;
  }
  return 0;
}

std::uint64_t Vfs::ShowName(const NameIn& at, std::uint64_t inode) {
  KernelNames* const kernel_names = options_.kernel_names;
  const std::uint64_t kept_ns = KeptNs();
  if (kernel_names == nullptr || kept_ns == 0 || !kernel_names->Keeps()) return 0;
  const bool quiet = kernel_names->IsQuiet(at.parent);
  return names_.ShowName(at.parent, at.name, inode, quiet) ? kept_ns : 0;
}

// The kernel cannot be told of an inode whose lookup it has not taken in yet. By now it has.
void Vfs::ForgetUnlessHeld(std::uint64_t inode) {
  if (!names_.Holds(inode)) options_.forget_attributes(inode);
}

}  // namespace reel::client
