// The commands of reeladm that decide who serves a volume. What they order is done by the daemons
// afterwards; so they ask until it is seen, for a bounded time.
#include <chrono>
#include <functional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "proto/address.h"
#include "tools/commands/command_table.h"

namespace reel::tools {
namespace {

using Entry = v1::VolumesReply::Volume;

constexpr std::chrono::seconds kAwait{60};
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
absl::StatusOr<std::string> Named(const AdminContext& context, const Words& words) {
  if (words.size() < 2) return context.api.mdcs().front();
  auto address = MdcAddress(words[1]);
  if (address.ok()) return address;
  return absl::InvalidArgumentError(absl::StrCat("the MDC's address ", address.status().message()));
}

Json Served(const std::string& volume, const std::string& mdc) {
  return {{"name", volume}, {"active", mdc}};
}

std::string ServedText(const Json& json) {
  return absl::StrCat("Volume ", json["name"].get<std::string>(), " is served by the MDC at ",
                      json["active"].get<std::string>(), ".\n");
}

absl::StatusOr<Json> AwaitActive(AdminApi& target, const std::string& volume,
                                 const std::string& mdc) {
  const auto active = [&] {
    const auto entry = AskOne(target, mdc, volume);
    return entry.ok() && entry->role() == "active";
  };
  absl::Status status =
      Await(active, volume, absl::StrCat("was not taken over by the MDC at ", mdc));
  if (!status.ok()) return status;
  return Served(volume, mdc);
}

// The address of the controller that serves the volume; empty: nobody says that it does.
std::string ActiveOf(const AdminContext& context, const std::string& volume) {
  for (const MdcAnswer& answer : context.api.Everywhere()) {
    const Entry* entry = FindEntry(answer.volumes, volume);
    if (entry != nullptr && entry->role() == "active") return answer.address;
  }
  return {};
}

absl::Status FailOver(AdminApi& api, const std::string& volume, const std::string& successor) {
  v1::FailRequest request;
  request.set_volume(volume);
  request.set_successor(successor);
  return api.Ask<v1::FailReply>(request, AdminApi::Repeat::kNo).status();
}

absl::Status StartAt(AdminApi& api, const std::string& volume) {
  return api.AskOf<v1::StartReply, v1::StartRequest>(volume, AdminApi::Repeat::kNo).status();
}

// Whoever has it hands it over; nobody has it, or no answer comes from there: it is taken.
absl::Status HandTo(AdminContext& context, AdminApi& target, const Entry& entry) {
  if (!entry.active().empty()) {
    const absl::Status status =
        FailOver(*context.api.At(entry.active()), entry.name(), entry.holder());
    if (!absl::IsUnavailable(status)) return status;
  }
  return StartAt(target, entry.name());
}

absl::StatusOr<Json> Fail(AdminContext& context, const Words&) {
  const auto volume = ChosenVolume(context);
  if (!volume.ok()) return volume.status();
  if (absl::Status s = FailOver(context.api, *volume, ""); !s.ok()) return s;
  return Json{{"handing_over", *volume}};
}

std::string FailText(const Json& json) {
  return absl::StrCat("The active MDC hands volume ", json["handing_over"].get<std::string>(),
                      " over: \"volumes\" shows who is active.\n");
}

absl::StatusOr<Json> Activate(AdminContext& context, const Words& words) {
  const auto volume = ChosenVolume(context);
  if (!volume.ok()) return volume.status();
  const auto mdc = Named(context, words);
  if (!mdc.ok()) return mdc.status();
  const std::unique_ptr<AdminApi> target = context.api.At(*mdc);
  const auto entry = AskPatiently(*target, *mdc, *volume);
  if (!entry.ok()) return entry.status();
  if (entry->role() == "active") return Served(*volume, *mdc);
  if (entry->stopped()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "volume ", *volume, " is stopped; \"reeladm start HOST\" starts it on that MDC"));
  }
  if (absl::Status s = HandTo(context, *target, *entry); !s.ok()) return s;
  return AwaitActive(*target, *volume, *mdc);
}

absl::StatusOr<Json> Stop(AdminContext& context, const Words&) {
  const auto volume = ChosenVolume(context);
  if (!volume.ok()) return volume.status();
  if (absl::Status status = Confirm(context, absl::StrCat("Stop serving volume ", *volume,
                                                          "? Its clients wait from then on."));
      !status.ok()) {
    return status;
  }
  const std::string mdc = ActiveOf(context, *volume);
  const auto reply =
      context.api.AskOf<v1::StopReply, v1::StopRequest>(*volume, AdminApi::Repeat::kNo);
  if (!reply.ok()) return reply.status();
  // Until it has let go of the LUNs, too, and stands by: what follows may be a check.
  const std::unique_ptr<AdminApi> server = context.api.At(mdc);
  const auto stopped = [&] {
    const auto entry = AskOne(*server, mdc, *volume);
    return entry.ok() && entry->stopped();
  };
  if (absl::Status s = Await(stopped, *volume, "was not stopped"); !s.ok()) return s;
  return Json{{"stopped", *volume}, {"sessions", reply->sessions()}};
}

std::string StopText(const Json& json) {
  return absl::StrCat("Volume ", json["stopped"].get<std::string>(), " is stopped; ",
                      json["sessions"].get<std::uint64_t>(),
                      " clients wait until \"reeladm start\".\n");
}

absl::StatusOr<Json> Start(AdminContext& context, const Words& words) {
  const auto volume = ChosenVolume(context);
  if (!volume.ok()) return volume.status();
  const auto mdc = Named(context, words);
  if (!mdc.ok()) return mdc.status();
  if (const std::string active = ActiveOf(context, *volume); !active.empty()) {
    return Served(*volume, active);
  }
  const std::unique_ptr<AdminApi> target = context.api.At(*mdc);
  if (const auto entry = AskPatiently(*target, *mdc, *volume); !entry.ok()) return entry.status();
  if (absl::Status s = StartAt(*target, *volume); !s.ok()) return s;
  return AwaitActive(*target, *volume, *mdc);
}

absl::StatusOr<Json> Maintenance(AdminContext& context, const Words& words) {
  const auto volume = ChosenVolume(context);
  if (!volume.ok()) return volume.status();
  bool on = false;
  if (words.size() > 1) {
    v1::MaintenanceRequest request;
    request.set_volume(*volume);
    request.set_on(on = words[1] == "on");
    if (auto reply = context.api.Ask<v1::MaintenanceReply>(request); !reply.ok()) {
      return reply.status();
    }
  } else {
    const auto entry = AskOne(context.api, context.api.mdcs().front(), *volume);
    if (!entry.ok()) return entry.status();
    on = entry->maintenance();
  }
  return Json{{"name", *volume}, {"maintenance", on}};
}

std::string MaintenanceText(const Json& json) {
  return absl::StrCat("Volume ", json["name"].get<std::string>(),
                      json["maintenance"].get<bool>()
                          ? " is in maintenance: no standby takes it over by itself, and there are "
                            "no new mounts.\n"
                          : " is not in maintenance.\n");
}

}  // namespace

AdminCommands SeatCommands() {
  return {{.name = "fail",
           .usage = "",
           .help = "let the active MDC hand its volumes over to a standby",
           .run = Fail,
           .text = FailText},
          {.name = "activate",
           .usage = "[HOST]",
           .help = "make this MDC, or the one on HOST, the active one",
           .run = Activate,
           .text = ServedText,
           .examples = {"activate mdc2.lan"}},
          {.name = "stop",
           .usage = "",
           .help = "stop serving a volume; its clients wait until it is started",
           .run = Stop,
           .text = StopText},
          {.name = "start",
           .usage = "[HOST]",
           .help = "serve a stopped volume again, by this MDC or the one on HOST",
           .run = Start,
           .text = ServedText,
           .examples = {"start", "start mdc2.lan"}},
          {.name = "maintenance",
           .usage = "[on|off]",
           .help = "no takeover by standbys and no new mounts, while it is on",
           .run = Maintenance,
           .text = MaintenanceText,
           .examples = {"maintenance on", "maintenance"}}};
}

}  // namespace reel::tools
