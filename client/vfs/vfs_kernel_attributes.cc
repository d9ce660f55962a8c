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
  const std::uint64_t until_ms = kernel_names != nullptr ? kernel_names->ShownUntilMs() : 0;
  bool keep = kept_ns > 0 && kernel_names != nullptr;
  if (S_ISDIR(attr.mode)) {
    keep = keep && knows_inode && kernel_names->Keeps() && kernel_names->IsQuiet(attr.inode);
  } else {
    keep = keep && S_ISREG(attr.mode) && data_.IsSettled(attr.inode);
  }
  switch (names_.Show(attr, until_ms, keep)) {
    case NameCache::Shown::kNo:
      return 0;
    case NameCache::Shown::kMoment:
      return kMomentNs;
    case NameCache::Shown::kKept:
      // (Whoever opens it to write from now on finds that it is shown.)
      return S_ISDIR(attr.mode) || data_.IsSettled(attr.inode) ? kept_ns : kMomentNs;
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
void Vfs::ForgetForOpen(std::uint64_t inode, bool write) {
  const KernelNames* const kernel_names = options_.kernel_names;
  const bool changes =
      write && kernel_names != nullptr && names_.KeepsAttributes(inode, kernel_names->NowMs());
  if (changes || !names_.Holds(inode)) options_.forget_attributes(inode);
}

}  // namespace reel::client
