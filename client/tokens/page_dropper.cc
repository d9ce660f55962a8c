#include "client/tokens/page_dropper.h"

#include <cstdint>

#include "volume/base/mutex.h"

namespace reel::client {

bool PageDropper::Drop(FileState& f, const ByteRange& range) {
  std::uint64_t drop = 0;
  {
    MutexLock lock(f.mutex);
    drop = f.kernel_pages.BeginDrop(range);
  }
  context_.invalidate_pages(f.inode, range);
  MutexLock lock(f.mutex);
  const bool dropped = f.kernel_pages.EndDrop(drop);
  f.changed.NotifyAll();
  return dropped;
}

void PageDropper::LoseToken(FileState& f) {
  if (f.grant.empty() && f.kernel_pages.empty()) return;
  f.kernel_pages.BecomeStale();
  stale_.Run([this, file = f.shared_from_this()] { (void)Drop(*file, {0, kMaxFileBytes}); });
}

}  // namespace reel::client
