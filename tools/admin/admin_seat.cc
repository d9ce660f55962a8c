// The commands of reeladm that decide who serves a volume. What they order is done by the daemons
// afterwards; so they ask until it is seen, for a bounded time.
#include <chrono>
#include <functional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "proto/address.h"
#include "tools/admin/admin_commands.h"
#include "tools/lib/cli.h"

namespace reel::tools {
namespace {

using Json = nlohmann::ordered_json;
using Entry = v1::VolumesReply::Volume;

constexpr std::chrono::seconds kAwait{30};
constexpr std::chrono::milliseconds kAskAgain{100};
// A daemon that has just handed over begins anew, and does not answer meanwhile.
constexpr std::chrono::seconds kBeginsAnew{3};

const Entry* FindEntry(const absl::StatusOr<v1::VolumesReply>& volumes, const std::string& name) {
  if (!volumes.ok()) return nullptr;
  for (const Entry& entry : volumes->volumes()) {
    if (entry.name() == name) return &entry;
  }
  return nullptr;
}

// What one controller is to the volume.
absl::StatusOr<Entry> AskOne(AdminApi& api, const std::string& mdc, const std::string& volume) {
  const auto volumes = api.Volumes();
  if (!volumes.ok()) return volumes.status();
  if (const Entry* entry = FindEntry(volumes, volume)) return *entry;
  return absl::NotFoundError(
      absl::StrCat("the MDC at ", mdc, " is not configured for volume ", volume));
}

// The same of one that may be beginning anew.
absl::StatusOr<Entry> AskPatiently(AdminApi& api, const std::string& mdc,
                                   const std::string& volume) {
  const auto until = std::chrono::steady_clock::now() + kBeginsAnew;
  for (;;) {
    auto entry = AskOne(api, mdc, volume);
    if (!absl::IsUnavailable(entry.status()) || std::chrono::steady_clock::now() >= until) {
      return entry;
    }
    std::this_thread::sleep_for(kAskAgain);  // tidy: sleep: as below
  }
}

absl::Status Await(const std::function<bool()>& seen, const std::string& volume,
                   const std::string& what) {
  const auto until = std::chrono::steady_clock::now() + kAwait;
  for (;;) {
    if (seen()) return absl::OkStatus();
    if (std::chrono::steady_clock::now() >= until) break;
    std::this_thread::sleep_for(kAskAgain);  // tidy: sleep: a controller tells only who asks
  }
  return absl::DeadlineExceededError(
      absl::StrCat("volume ", volume, " ", what, " within ", kAwait.count(),
                   " s; \"volumes\" shows how it stands, the MDCs' logs why"));
}

// The controller that a command names, else the first of those that reeladm was given.
absl::StatusOr<std::string> Named(const AdminContext& context,
                                  const std::vector<std::string>& words) {
  if (words.size() < 2) return context.api.mdcs().front();
  auto address = MdcAddress(words[1]);
  if (address.ok()) return address;
  return absl::InvalidArgumentError(absl::StrCat("the MDC's address ", address.status().message()));
}

std::string Served(const AdminContext& context, const std::string& volume, const std::string& mdc) {
  if (context.json) return JsonText(Json{{"name", volume}, {"active", mdc}}) + "\n";
  return absl::StrCat("Volume ", volume, " is served by the MDC at ", mdc, ".\n");
}

absl::StatusOr<std::string> AwaitActive(const AdminContext& context, AdminApi& target,
                                        const std::string& volume, const std::string& mdc) {
  const auto active = [&] {
    const auto entry = AskOne(target, mdc, volume);
    return entry.ok() && entry->role() == "active";
  };
  absl::Status status =
      Await(active, volume, absl::StrCat("was not taken over by the MDC at ", mdc));
  if (!status.ok()) return status;
  return Served(context, volume, mdc);
}

// The address of the controller that serves the volume; empty: nobody says that it does.
std::string ActiveOf(const AdminContext& context, const std::string& volume) {
  for (const MdcAnswer& answer : context.api.Everywhere()) {
    const Entry* entry = FindEntry(answer.volumes, volume);
    if (entry != nullptr && entry->role() == "active") return answer.address;
  }
  return {};
}

// Whoever has it hands it over; nobody has it, or no answer comes from there: it is taken.
absl::Status HandTo(AdminContext& context, AdminApi& target, const Entry& entry) {
  if (!entry.active().empty()) {
    v1::FailRequest request;
    request.set_volume(entry.name());
    request.set_successor(entry.holder());
    const auto reply = context.api.At(entry.active())->Fail(request);
    if (!absl::IsUnavailable(reply.status())) return reply.status();
  }
  return target.Start(entry.name()).status();
}

}  // namespace

absl::StatusOr<std::string> AdminFail(AdminContext& context, const std::vector<std::string>&) {
  auto volume = ChosenVolume(context);
  if (!volume.ok()) return volume.status();
  v1::FailRequest request;
  request.set_volume(*volume);
  if (auto reply = context.api.Fail(request); !reply.ok()) return reply.status();
  if (context.json) return JsonText(Json{{"handing_over", *volume}}) + "\n";
  return absl::StrCat("The active MDC hands volume ", *volume,
                      " over: \"volumes\" shows who is active.\n");
}

absl::StatusOr<std::string> AdminActivate(AdminContext& context,
                                          const std::vector<std::string>& words) {
  auto volume = ChosenVolume(context);
  if (!volume.ok()) return volume.status();
  const auto mdc = Named(context, words);
  if (!mdc.ok()) return mdc.status();
  const std::unique_ptr<AdminApi> target = context.api.At(*mdc);
  const auto entry = AskPatiently(*target, *mdc, *volume);
  if (!entry.ok()) return entry.status();
  if (entry->role() == "active") return Served(context, *volume, *mdc);
  if (entry->stopped()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "volume ", *volume, " is stopped; \"reeladm start HOST\" starts it on that MDC"));
  }
  if (absl::Status s = HandTo(context, *target, *entry); !s.ok()) return s;
  return AwaitActive(context, *target, *volume, *mdc);
}

absl::StatusOr<std::string> AdminStop(AdminContext& context, const std::vector<std::string>&) {
  auto volume = ChosenVolume(context);
  if (!volume.ok()) return volume.status();
  if (absl::Status status = Confirm(context, absl::StrCat("Stop serving volume ", *volume,
                                                          "? Its clients wait from then on."));
      !status.ok()) {
    return status;
  }
  const std::string mdc = ActiveOf(context, *volume);
  const auto reply = context.api.Stop(*volume);
  if (!reply.ok()) return reply.status();
  // Until it has let go of the LUNs, too, and stands by: what follows may be a check.
  const std::unique_ptr<AdminApi> server = context.api.At(mdc);
  const auto stopped = [&] {
    const auto entry = AskOne(*server, mdc, *volume);
    return entry.ok() && entry->stopped();
  };
  if (absl::Status s = Await(stopped, *volume, "was not stopped"); !s.ok()) return s;
  if (context.json) {
    return JsonText(Json{{"stopped", *volume}, {"sessions", reply->sessions()}}) + "\n";
  }
  return absl::StrCat("Volume ", *volume, " is stopped; ", reply->sessions(),
                      " clients wait until \"reeladm start\".\n");
}

absl::StatusOr<std::string> AdminStart(AdminContext& context,
                                       const std::vector<std::string>& words) {
  auto volume = ChosenVolume(context);
  if (!volume.ok()) return volume.status();
  const auto mdc = Named(context, words);
  if (!mdc.ok()) return mdc.status();
  if (const std::string active = ActiveOf(context, *volume); !active.empty()) {
    return Served(context, *volume, active);
  }
  const std::unique_ptr<AdminApi> target = context.api.At(*mdc);
  if (const auto entry = AskPatiently(*target, *mdc, *volume); !entry.ok()) return entry.status();
  if (const auto reply = target->Start(*volume); !reply.ok()) return reply.status();
  return AwaitActive(context, *target, *volume, *mdc);
}

absl::StatusOr<std::string> AdminMaintenance(AdminContext& context,
                                             const std::vector<std::string>& words) {
  if (words.size() > 1 && words[1] != "on" && words[1] != "off") {
    return absl::InvalidArgumentError("use: maintenance [on|off]");
  }
  auto volume = ChosenVolume(context);
  if (!volume.ok()) return volume.status();
  bool on = false;
  if (words.size() > 1) {
    v1::MaintenanceRequest request;
    request.set_volume(*volume);
    request.set_on(on = words[1] == "on");
    if (auto reply = context.api.Maintenance(request); !reply.ok()) return reply.status();
  } else {
    const auto entry = AskOne(context.api, context.api.mdcs().front(), *volume);
    if (!entry.ok()) return entry.status();
    on = entry->maintenance();
  }
  if (context.json) return JsonText(Json{{"name", *volume}, {"maintenance", on}}) + "\n";
  return absl::StrCat("Volume ", *volume,
                      on ? " is in maintenance: no standby takes it over by itself, and there are "
                           "no new mounts.\n"
                         : " is not in maintenance.\n");
}

}  // namespace reel::tools
