#include "client/names/kernel_views.h"

#include <algorithm>
#include <utility>

namespace reel::client {

bool KernelViews::View::TakeAttributes() {
  return std::exchange(attributes_, Shown::kNo) != Shown::kNo;
}

void KernelViews::View::NoteListing(std::uint64_t number) {
  if (number != 0 && listing_.number == number) listing_.kept = true;
}

KernelViews::Shown KernelViews::ShowAttributes(View& view, std::uint64_t until_ms, bool keep,
                                               bool directory) {
  const bool kept = keep && (!directory || may_keep());
  if (kept) {
    if (directory) Keep(view);
    view.kept_until_ms_ = std::max(view.kept_until_ms_, until_ms);
  }
  view.shown_until_ms_ = std::max(view.shown_until_ms_, until_ms);
  const Shown shown = kept ? Shown::kKept : Shown::kMoment;
  view.attributes_ = std::max(view.attributes_, shown);
  return shown;
}

void KernelViews::ShowName(View& directory, View* child) {
  if (child != nullptr) Keep(*child);
  Keep(directory);
  directory.names_kept_in_ = epoch_;
}

KernelViews::Listing KernelViews::ShowListing(View& directory) {
  if (directory.listing_.number == 0) directory.listing_.number = ++last_listing_;
  return directory.listing_;
}

bool KernelViews::BeginForget() {
  forgetting_ = true;
  return keeps_;
}

void KernelViews::EndForget() {
  forgetting_ = false;
  keeps_ = false;
  ++epoch_;
}

void KernelViews::Keep(View& view) {
  view.kept_in_ = epoch_;
  keeps_ = true;
}

}  // namespace reel::client
