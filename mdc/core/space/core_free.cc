// Free space: who may have how much, how whole it is, and what holds the rest; and a word before it
// runs out.
#include <algorithm>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "mdc/core/core_impl.h"
#include "spdlog/spdlog.h"

namespace reel::mdc {
namespace {

bool IsFor(const Pool& pool, const std::string& affinity) {
  if ((pool.flags & Pool::kData) == 0) return false;
  return (pool.flags & Pool::kExclusive) == 0 ||
         std::find(pool.affinities.begin(), pool.affinities.end(), affinity) !=
             pool.affinities.end();
}

}  // namespace

v1::FreeReply::Use CoreImpl::UseOf(const std::string& affinity) const {
  v1::FreeReply::Use use;
  use.set_affinity(affinity);
  std::uint64_t total = 0, free = 0;
  for (std::uint32_t i = 0; i < descriptor_.pools.size(); ++i) {
    const Pool& pool = descriptor_.pools[i];
    if (!IsFor(pool, affinity)) continue;
    use.add_pools(pool.name);
    total += pool.capacity_blocks();
    free += allocator_->free_blocks(PoolId(i));
  }
  use.set_total_bytes(total * descriptor_.block_bytes);
  use.set_free_bytes(free * descriptor_.block_bytes);
  return use;
}

void CoreImpl::Describe(v1::FreeReply& reply) const {
  const std::uint64_t block = descriptor_.block_bytes;
  std::set<std::string> affinities{""};
  std::uint64_t reserved = 0;
  for (std::uint32_t i = 0; i < descriptor_.pools.size(); ++i) {
    const Pool& pool = descriptor_.pools[i];
    if ((pool.flags & Pool::kData) == 0 || pool.is_removed()) continue;
    affinities.insert(pool.affinities.begin(), pool.affinities.end());
    const FreeFacts space = allocator_->space_of(PoolId(i));
    reserved += space.reserved;
    v1::FreeReply::Pool& out = *reply.add_pools();
    out.set_name(pool.name);
    out.set_total_bytes(pool.capacity_blocks() * block);
    out.set_free_bytes(space.free * block);
    out.set_closed_bytes(space.closed * block);
    out.set_windows_bytes(space.windows * block);
    out.set_largest_run_bytes(space.largest_run * block);
    std::uint64_t runs = 0;
    for (std::size_t n = 0; n < space.classes.size(); ++n) {
      if (space.classes[n].runs == 0) continue;
      runs += space.classes[n].runs;
      v1::FreeReply::RunClass& of_length = *out.add_classes();
      of_length.set_from_bytes(block << n);
      of_length.set_runs(space.classes[n].runs);
      of_length.set_bytes(space.classes[n].blocks * block);
    }
    out.set_runs(runs);
  }
  for (const std::string& affinity : affinities) *reply.add_uses() = UseOf(affinity);
  reply.set_open_files(work_.orphans.open().files);
  reply.set_open_bytes(work_.orphans.open().blocks * block);
  reply.set_removing_files(work_.orphans.removing().files);
  reply.set_removing_bytes(work_.orphans.removing().blocks * block);
  reply.set_reserved_bytes(reserved * block);
  reply.set_waiting_bytes(allocator_->waiting_blocks() * block);
  if (const v1::JobRecord* const scrub = work_.moves.jobs.LastScrub()) {
    *reply.mutable_files() = scrub->scrub();
    reply.mutable_files()->clear_lines();
  }
}

// Files that are being removed count as gone.
void CoreImpl::WatchFreeSpace() {
  if (grace_.on() || !work_.space.IsDue(clock_.NowMs())) return;
  const std::uint64_t removing = work_.orphans.removing().blocks * descriptor_.block_bytes;
  std::set<std::string> affinities{""};
  for (const Pool& pool : descriptor_.pools) {
    if ((pool.flags & Pool::kData) == 0 || pool.is_removed()) continue;
    affinities.insert(pool.affinities.begin(), pool.affinities.end());
  }
  for (const std::string& affinity : affinities) {
    const v1::FreeReply::Use use = UseOf(affinity);
    if (use.total_bytes() == 0) continue;
    const std::string name = affinity.empty()
                                 ? std::string("the space of files without an affinity")
                                 : absl::StrCat("the space of files of affinity ", affinity);
    const std::uint64_t free = std::min(use.free_bytes() + removing, use.total_bytes());
    const auto told = work_.space.Look(name, free, use.total_bytes(), options_.space_limits);
    if (told) spdlog::warn("volume {}: {}", descriptor_.name, *told);
  }
}

}  // namespace reel::mdc
