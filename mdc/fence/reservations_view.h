// What administration sees of the LUNs' reservations: whose each key is.
// Thread rule: pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "mdc/fence/fencer.h"
#include "proto/admin.pb.h"
#include "volume/format/lun_scan.h"

namespace reel::mdc {

// `known`: the sessions' keys, with the words for their owners.
void DescribeReservations(const OpenVolume& volume,
                          const std::map<std::uint64_t, std::string>& known,
                          const std::vector<Fencer::LunKeys>& luns, v1::ReservationsReply& reply);

}  // namespace reel::mdc
