// Administration that looks closely: at files, at how long clients wait; and at this daemon itself.
#include <array>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "mdc/rpc/admin_service.h"
#include "spdlog/spdlog.h"

namespace reel::mdc {
namespace {

// As log_level has them in the configuration.
constexpr std::array<std::string_view, 5> kLevels{"trace", "debug", "info", "warn", "error"};

std::string LevelNow() {
  const spdlog::level::level_enum level = spdlog::get_level();
  if (level == spdlog::level::warn) return "warn";
  if (level == spdlog::level::err) return "error";
  const spdlog::string_view_t name = spdlog::level::to_string_view(level);
  return std::string(name.data(), name.size());
}

absl::Status SetLevel(const std::string& level) {
  if (level.empty()) return absl::OkStatus();
  const auto found = absl::c_find(kLevels, level);
  if (found == kLevels.end()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "there is no log level ", level, "; there are ",
        absl::StrJoin(kLevels, ", ", [](std::string* out, auto name) { out->append(name); })));
  }
  spdlog::set_level(static_cast<spdlog::level::level_enum>(found - kLevels.begin()));
  return absl::OkStatus();
}

void Describe(const Export& exported, v1::ExportsReply::Export& out) {
  constexpr const char* kAccess[] = {"rw", "ro", "none"};
  constexpr const char* kSquash[] = {"none", "root", "all"};
  for (const std::string& client : exported.clients) out.add_clients(client);
  out.set_access(kAccess[static_cast<int>(exported.access)]);
  out.set_squash(kSquash[static_cast<int>(exported.squash)]);
}

}  // namespace

void AdminService::AcceptInspectCalls(CallQueue& queue) {
  using OpenFilesCall = Call<v1::OpenFilesRequest, v1::OpenFilesReply>;
  using FileCall = Call<v1::FileRequest, v1::FileReply>;
  using MeasureCall = Call<v1::MeasureRequest, v1::MeasureReply>;
  AcceptKind<OpenFilesCall>(
      &Service::RequestOpenFiles,
      [this](OpenFilesCall& call) {
        OnVolume(call, [&call](VolumeServer& volume, Core& core) {
          core.DescribeOpenFiles(InodeNumber(call.request().inode()), call.reply());
          volume.LookUp(
              [&call](FileLookup& lookup) {
                lookup.Name(call.reply());
                call.Finish(grpc::Status::OK);
              },
              [&call] { call.Finish(Stopping()); });
        });
      },
      queue);
  AcceptKind<FileCall>(
      &Service::RequestFile,
      [this](FileCall& call) {
        OnVolume(call, [&call](VolumeServer& volume, Core&) {
          volume.LookUp(
              [&call](FileLookup& lookup) {
                call.Finish(ToGrpc(lookup.Report(call.request(), call.reply())));
              },
              [&call] { call.Finish(Stopping()); });
        });
      },
      queue);
  AcceptKind<MeasureCall>(
      &Service::RequestMeasure,
      [this](MeasureCall& call) {
        OnVolume(call, [&call](VolumeServer& volume, Core& core) {
          call.Finish(ToGrpc(volume.Measure(core, call.request(), call.reply())));
        });
      },
      queue);
  AcceptDaemonCalls(queue);
}

void AdminService::AcceptDaemonCalls(CallQueue& queue) {
  using LogLevelCall = Call<v1::LogLevelRequest, v1::LogLevelReply>;
  using ExportsCall = Call<v1::ExportsRequest, v1::ExportsReply>;
  using SettingsCall = Call<v1::SettingsRequest, v1::SettingsReply>;
  AcceptKind<LogLevelCall>(
      &Service::RequestLogLevel,
      [](LogLevelCall& call) {
        const absl::Status set = SetLevel(call.request().level());
        call.reply().set_level(LevelNow());
        call.Finish(ToGrpc(set));
      },
      queue);
  AcceptKind<ExportsCall>(
      &Service::RequestExports, [this](ExportsCall& call) { Exports(call); }, queue);
  AcceptKind<SettingsCall>(
      &Service::RequestSettings,
      [this](SettingsCall& call) {
        call.reply().set_host(about_.host);
        call.reply().set_program(about_.program);
        if (about_.describe) about_.describe(call.reply());
        guard_.Describe(call.reply());
        call.Finish(grpc::Status::OK);
      },
      queue);
}

void AdminService::Exports(Call<v1::ExportsRequest, v1::ExportsReply>& call) {
  const std::string& name = call.request().volume();
  const VolumeRole* const role = RoleOf(name);
  if (role == nullptr || !about_.exports) {
    return call.Finish(grpc::Status(grpc::StatusCode::NOT_FOUND,
                                    absl::StrCat("volume ", name, " is not configured here")));
  }
  auto exports = about_.exports(name, call.request().reload());
  if (!exports.ok()) return call.Finish(ToGrpc(exports.status()));
  for (const Export& exported : *exports) Describe(exported, *call.reply().add_exports());
  if (!call.request().reload()) return call.Finish(grpc::Status::OK);
  call.reply().set_changed(true);
  spdlog::info("volume {}: its exports were read anew", name);
  VolumeServer* const server = role->server();
  if (server == nullptr) return call.Finish(grpc::Status::OK);
  const bool queued = server->RunOnCore(
      [&call, exports = *std::move(exports)](Core& core) {
        core.SetExports(exports);
        call.Finish(grpc::Status::OK);
      },
      [&call] { call.Finish(Stopping()); });
  if (!queued) call.Finish(Stopping());
}

}  // namespace reel::mdc
