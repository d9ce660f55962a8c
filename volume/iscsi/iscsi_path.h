// How an iSCSI LUN is reached: by which of its portals, and whether it is the LUN that it was.
//
// A path is one session by one portal, with no registration. Portals are tried in the order of the
// URL, and after them those that failed lately, whichever LUN that was for (iscsi_portals.h).
// Nothing is sent again here, and nothing registered: what was on a lost path, and under which key
// the new one may write, is for the LUN's holder to decide (docs/failover.md).
//
// Threads: pure, but that they wait for targets, and remember which portals failed.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "volume/iscsi/iscsi_connection.h"
#include "volume/iscsi/iscsi_facts.h"
#include "volume/iscsi/iscsi_url.h"

namespace reel {

struct IscsiPath {
  std::shared_ptr<IscsiConnection> connection;
  IscsiFacts facts;
  std::size_t portal = 0;  // its place in IscsiUrl::portals
};

// By the first portal that leads to the LUN, each tried once. Errors: as IscsiConnection::Open and
// AskForFacts; of several portals each is named with what it says, and the code is that of one that
// answers, if any does.
absl::StatusOr<IscsiPath> OpenIscsiPath(const IscsiUrl& url);
// The same, after the loss of a path by portal `lost` to the LUN of which `before` was known:
// FAILED_PRECONDITION where only another LUN answers.
absl::StatusOr<IscsiPath> ReopenIscsiPath(const IscsiUrl& url, std::size_t lost,
                                          const IscsiFacts& before);

// Whether each portal of the URL, by itself, leads to the LUN that the first good one leads to.
struct PortalLook {
  std::string portal;
  absl::Status status;
};
std::vector<PortalLook> LookAtPortals(const IscsiUrl& url);

}  // namespace reel
