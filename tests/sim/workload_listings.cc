// Listings of several pages, between which names may change: each name is then listed as it was at
// some moment meanwhile, and once; so one that was there all the time is listed, and one that never
// was is not.
#include <cstddef>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/sim/workload.h"

namespace reel::sim {

// By an operation that has not ended before; without an answer, it may still take effect.
bool Program::MayHaveChanged(int slot, Micros since) {
  for (std::size_t i = 0; i < shared_.names.size(); ++i) {
    const NameOp& op = shared_.names.at(i);
    const bool reads = op.kind == Kind::kLookup || op.kind == Kind::kList ||
                       op.kind == Kind::kGetAttr || op.kind == Kind::kChmod ||
                       op.kind == Kind::kMakeUnnamed;
    const bool second = op.kind == Kind::kRename || op.kind == Kind::kLink;
    const bool first = op.kind != Kind::kLink;
    if (reads || !((first && op.slot == slot) || (second && op.slot_to == slot))) continue;
    if (!op.known || op.ended >= since) return true;
  }
  return false;
}

void Program::ListInPages(int directory) {
  const Micros began = now();
  const int first = directory * NameHistory::kNames;
  std::size_t numbers[NameHistory::kNames];
  for (int i = 0; i < NameHistory::kNames; ++i) {
    numbers[i] =
        Begin({.kind = Kind::kList, .slot = first + i, .directory = directory, .one_name = true});
  }
  if (numbers[0] % 2 == 0) ListRoot();
  const absl::StatusOr<ListingKeeper::Names> names =
      machine_.kept_listings().List(machine_.vfs(), shared_.directories[directory], caller_);
  for (int i = 0; i < NameHistory::kNames; ++i) {
    NameOp& op = shared_.names.at(numbers[i]);
    int times = 0;
    for (std::size_t n = 0; names.ok() && n < names->size(); ++n) {
      if ((*names)[n].first != At(first + i).name) continue;
      op.inode = (*names)[n].second;
      ++times;
    }
    if (times > 1 && !MayHaveChanged(first + i, began)) {
      shared_.cluster.Violate(absl::StrCat("host ", op.host, " lists name ", first + i, " ", times,
                                           " times, and nobody has changed it"));
    }
    Ended(numbers[i], names.status());
  }
}

}  // namespace reel::sim
