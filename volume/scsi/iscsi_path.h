// How an iSCSI LUN is reached: by which of its portals, and whether it is the LUN that it was.
//
// A path is one session by one portal, with no registration. Portals are tried in the order of the
// URL; a path that was lost goes on with the one behind the lost one, which itself comes last.
// Nothing is sent again here, and nothing registered: what was on the lost path, and under which
// key the new one may write, is for who holds the LUN to decide (docs/failover.md). Threads: pure,
// but that they wait for targets.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "volume/scsi/iscsi_connection.h"
#include "volume/scsi/iscsi_facts.h"
#include "volume/scsi/iscsi_url.h"

namespace reel {

struct IscsiPath {
  std::shared_ptr<IscsiConnection> connection;
  IscsiFacts facts;
  std::size_t portal = 0;  // its place in IscsiUrl::portals
};

// By the first portal that leads to the LUN, beginning with `first` (modulo their number), each
// tried once. `before`: the LUN has to be that one. Errors: as IscsiConnection::Open and
// AskForFacts; FAILED_PRECONDITION where another LUN answers. Of several portals each is named with
// what it says, and the code is that of one which answers, if any does.
absl::StatusOr<IscsiPath> OpenIscsiPath(const IscsiUrl& url, std::size_t first,
                                        const IscsiFacts* before);

// Whether each portal of the URL, by itself, leads to the LUN that the first good one leads to.
struct PortalLook {
  std::string portal;
  absl::Status status;
};
std::vector<PortalLook> LookAtPortals(const IscsiUrl& url);

}  // namespace reel
