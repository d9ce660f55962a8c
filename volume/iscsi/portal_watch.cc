#include "volume/iscsi/portal_watch.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "spdlog/spdlog.h"
#include "volume/iscsi/iscsi_connection.h"

namespace reel {
namespace {

std::string LostText(const std::string& portal) {
  return absl::StrCat("portal ", portal, ": does not answer; LUNs go by the others that their ",
                      "addresses name; see its cable, and the target");
}

}  // namespace

PortalWatch::PortalWatch(const std::vector<std::string>& luns) {
  for (const std::string& name : luns) {
    const auto url = ParseIscsiUrl(name);
    if (!url.ok() || url->portals.size() == 1) continue;
    for (const std::string& portal : url->portals) {
      const bool known = std::any_of(watched_.begin(), watched_.end(),
                                     [&](const Watched& other) { return other.portal == portal; });
      if (!known) watched_.push_back({.url = *url, .portal = portal});
    }
  }
  if (!watched_.empty()) thread_ = Thread([this] { Main(); });
}

PortalWatch::~PortalWatch() {
  if (!thread_.joinable()) return;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    wake_.NotifyAll();
  }
  thread_.Join();
}

bool PortalWatch::stopping() const {
  MutexLock lock(mutex_);
  return stopping_;
}

void PortalWatch::Look() {
  MutexLock turn(looking_);
  for (const auto& [url, portal] : watched_) {
    if (stopping()) return;
    const absl::Status status = IscsiConnection::Open(url, portal).status();
    MutexLock lock(mutex_);
    const auto known = std::find(lost_.begin(), lost_.end(), portal);
    if (absl::IsUnavailable(status) && known == lost_.end()) {
      spdlog::warn("{}", LostText(portal));
      lost_.push_back(portal);
    } else if (!absl::IsUnavailable(status) && known != lost_.end()) {
      spdlog::info("portal {}: answers again", portal);
      lost_.erase(known);
    }
  }
}

std::vector<std::string> PortalWatch::Lost() const {
  std::vector<std::string> lines;
  MutexLock lock(mutex_);
  for (const std::string& portal : lost_) lines.push_back(LostText(portal));
  return lines;
}

void PortalWatch::Main() {
  while (!stopping()) {
    Look();
    MutexLock lock(mutex_);
    if (!stopping_) wake_.WaitFor(mutex_, std::chrono::milliseconds(PortalWatchMs()));
  }
}

}  // namespace reel
