#include "tools/label/label_reservations.h"

#include <map>
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/lib/clear_registrations.h"
#include "tools/lib/table.h"
#include "volume/format/label.h"
#include "volume/format/reservation_key.h"
#include "volume/lun/lun.h"
#include "volume/lun/reservation.h"

namespace reel::tools {
namespace {

struct Found {
  std::unique_ptr<Lun> lun;
  Uuid volume;
  Registrations registrations;
  std::optional<ReservationHolder> holder;
};

absl::StatusOr<Found> Look(const std::string& path) {
  auto lun = OpenLun(path, LunAccess::kReadOnly);
  if (!lun.ok()) return lun.status();
  Found found;
  found.lun = *std::move(lun);
  Reservations* const reservations = found.lun->reservations();
  if (reservations == nullptr) {
    return absl::UnimplementedError(absl::StrCat(found.lun->name(), ": has no reservations"));
  }
  if (const auto label = ReadLabel(*found.lun); label.ok()) found.volume = label->label.volume;
  auto registrations = reservations->ReadKeys();
  if (!registrations.ok()) return registrations.status();
  found.registrations = *std::move(registrations);
  const auto holder = reservations->ReadHolder();
  if (!holder.ok()) return holder.status();
  found.holder = *holder;
  return found;
}

std::string OwnerOf(const Found& found, std::uint64_t key) {
  const auto parts = PartsOfKey(found.volume, key);
  if (found.volume.is_nil() || !parts) return "not of the volume in this LUN's label";
  return absl::StrCat(parts->controller ? "controller" : "client", " of its volume, epoch ",
                      parts->epoch.value());
}

}  // namespace

absl::Status ListReservations(const std::string& path) {
  const auto found = Look(path);
  if (!found.ok()) return found.status();
  std::map<std::uint64_t, int> paths;
  for (const std::uint64_t key : found->registrations.keys) ++paths[key];
  if (paths.empty()) {
    absl::PrintF("%s: nobody is registered\n", found->lun->name());
    return absl::OkStatus();
  }
  Table table({{"key"}, {"owner"}, {"holder"}, {"paths", Table::Align::kRight}});
  for (const auto& [key, count] : paths) {
    const bool holds = found->holder && found->holder->key == key;
    table.Add({KeyText(key), OwnerOf(*found, key), holds ? "yes" : "no", absl::StrCat(count)});
  }
  absl::PrintF("%s\n%s", found->lun->name(), table.ToString());
  return absl::OkStatus();
}

absl::Status ClearReservations(const std::string& path, bool force) {
  const auto found = Look(path);
  if (!found.ok()) return found.status();
  const std::string name = found->lun->name();
  const auto& keys = found->registrations.keys;
  if (keys.empty() && !found->holder) {
    absl::PrintF("%s: nobody is registered\n", name);
    return absl::OkStatus();
  }
  if (!force) {
    const std::uint64_t first = keys.empty() ? found->holder->key : keys.front();
    return absl::FailedPreconditionError(
        absl::StrCat(name, ": ", keys.size(), " registrations, one by ", KeyText(first), " (",
                     OwnerOf(*found, first),
                     "); nothing was changed. Where a controller or a client still runs, "
                     "clearing them lets hosts write that were fenced. If none does, add --force ",
                     name));
  }
  if (absl::Status s = ClearRegistrations(*found->lun, keys); !s.ok()) return s;
  absl::PrintF("%s: %d registrations cleared\n", name, keys.size());
  return absl::OkStatus();
}

}  // namespace reel::tools
