#include "mdc/fence/reservations_view.h"

#include "absl/strings/str_cat.h"
#include "volume/format/reservation_key.h"

namespace reel::mdc {
namespace {

std::string OwnerOf(const Uuid& volume, const std::map<std::uint64_t, std::string>& known,
                    std::uint64_t key) {
  const auto parts = PartsOfKey(volume, key);
  if (!parts) return "not of this volume";
  if (parts->controller) return "controller";
  const auto found = known.find(key);
  return found == known.end() ? "a session that is over" : found->second;
}

}  // namespace

void DescribeReservations(const OpenVolume& volume,
                          const std::map<std::uint64_t, std::string>& known,
                          const std::vector<Fencer::LunKeys>& luns, v1::ReservationsReply& reply) {
  std::size_t next = 0;
  for (const Pool& pool : volume.descriptor.pools) {
    for (const StripeSet& set : pool.sets) {
      for (const LunEntry& entry : set.luns) {
        if (next >= luns.size()) return;
        v1::ReservationsReply::Lun& out = *reply.add_luns();
        out.set_name(entry.name);
        out.set_path(volume.luns[next]->name());
        const Fencer::LunKeys& lun = luns[next++];
        out.set_problem(std::string(lun.status.message()));
        std::map<std::uint64_t, std::uint32_t> paths;
        for (const std::uint64_t key : lun.registrations.keys) ++paths[key];
        for (const auto& [key, count] : paths) {
          v1::ReservationsReply::Key& row = *out.add_keys();
          row.set_key(key);
          row.set_owner(OwnerOf(volume.descriptor.volume, known, key));
          row.set_holder(key == lun.holder);
          row.set_paths(count);
        }
      }
    }
  }
}

}  // namespace reel::mdc
