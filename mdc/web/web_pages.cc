#include "mdc/web/web_pages.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "mdc/serve/volume_server.h"
#include "spdlog/spdlog.h"
#include "volume/base/mutex.h"

namespace reel::mdc {
namespace {

// Below what Prometheus waits for an answer (10 s).
constexpr std::chrono::milliseconds kCoreWait(5'000);
constexpr std::array kViewers{TlsRole::kMonitor, TlsRole::kAdmin};

// What a core's seat puts in while a page waits for it, or nobody does any more.
struct Asked {
  Mutex mutex;
  CondVar changed;
  bool done ABSL_GUARDED_BY(mutex) = false;
  std::optional<VolumeFacts> facts ABSL_GUARDED_BY(mutex);

  void Tell(std::optional<VolumeFacts> told) {
    MutexLock lock(mutex);
    facts = std::move(told);
    done = true;
    changed.NotifyAll();
  }
};

bool HasLimits(const v1::QuotaLimits& limits) {
  return limits.soft_bytes() + limits.hard_bytes() + limits.soft_files() + limits.hard_files() > 0;
}

// The first thousand owners of each kind: of more nobody would want a graph each.
void DescribeQuotas(const Core& core, VolumeFacts& facts) {
  for (const char* kind : {"user", "group", "tree"}) {
    v1::QuotasRequest request;
    request.set_kind(kind);
    VolumeFacts::Quotas quotas{.kind = kind, .reply = {}};
    if (!core.Describe(request, quotas.reply).ok()) continue;
    auto& owners = *quotas.reply.mutable_quotas();
    owners.erase(std::remove_if(owners.begin(), owners.end(),
                                [](const auto& quota) { return !HasLimits(quota.limits()); }),
                 owners.end());
    facts.quotas.push_back(std::move(quotas));
  }
}

VolumeFacts Describe(const VolumeServer& server, const Core& core) {
  VolumeFacts facts;
  core.Describe(facts.show);
  server.Complete(facts.show);
  core.Describe(facts.stat);
  server.Complete(facts.stat);
  core.Describe(facts.who);
  core.DescribeLuns(facts.who);
  core.Describe(facts.free);
  server.Complete(facts.free);
  core.Describe(facts.jobs);
  core.Describe(facts.bandwidth);
  DescribeQuotas(core, facts);
  return facts;
}

// nullopt: the core is stopping, or has not come to it in time.
std::optional<VolumeFacts> Ask(VolumeServer& server) {
  const auto asked = std::make_shared<Asked>();
  const bool queued =
      server.RunOnCore([asked, &server](Core& core) { asked->Tell(Describe(server, core)); },
                       [asked] { asked->Tell(std::nullopt); });
  if (!queued) return std::nullopt;
  const auto until = std::chrono::steady_clock::now() + kCoreWait;
  MutexLock lock(asked->mutex);
  while (!asked->done) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        until - std::chrono::steady_clock::now());
    if (left.count() <= 0) return std::nullopt;
    asked->changed.WaitFor(asked->mutex, left);
  }
  return std::move(asked->facts);
}

HttpsServer::Answer Refuse(const PeerGuard& guard, const HttpsServer::Request& request) {
  const absl::Status status = guard.Check(request.peer, kViewers, "this page");
  spdlog::warn("the page {} is refused to {}: {}", request.path, request.from,
               std::string(status.message()));
  return {.status = 403, .body = std::string(status.message()) + "\n"};
}

}  // namespace

HttpsServer::Pages WebPages::Pages() const {
  return {{"/metrics", [this](const HttpsServer::Request& request) {
             const bool may = daemon_.guard.Check(request.peer, kViewers, "this page").ok();
             return may ? Metrics() : Refuse(daemon_.guard, request);
           }}};
}

HttpsServer::Answer WebPages::Metrics() const {
  MetricWriter metrics;
  WriteDaemon(metrics);
  for (const VolumeRole* role : volumes_) WriteRole(*role, metrics);
  return {.type = "text/plain; version=0.0.4; charset=utf-8", .body = metrics.Text()};
}

void WebPages::WriteDaemon(MetricWriter& metrics) const {
  metrics.Gauge("reelfs_build_info", "The release that this controller runs; always 1.",
                {{"program", "reel-mdcd"}, {"version", daemon_.program}, {"host", daemon_.host}},
                1);
  metrics.Counter("reelfs_connections_refused_total",
                  "Connections that were refused for their certificate.", {},
                  static_cast<double>(daemon_.gate.refused()));
  if (daemon_.tls == nullptr) return;
  metrics.Gauge("reelfs_certificate_expiry_timestamp_seconds",
                "When this controller's certificate ends.", {},
                static_cast<double>(daemon_.tls->Current()->until_seconds));
}

void WebPages::WriteRole(const VolumeRole& role, MetricWriter& metrics) const {
  const MetricWriter::Labels labels{{"volume", role.name()}};
  VolumeServer* const server = role.server();
  const VolumeRole::Active active = role.active();
  metrics.Gauge("reelfs_controller_active", "1 where this controller serves the volume.", labels,
                server != nullptr ? 1 : 0);
  metrics.Gauge("reelfs_controller_epoch",
                "The term of the volume's active controller, as far as this one knows.", labels,
                static_cast<double>((server != nullptr ? server->epoch() : active.epoch).value()));
  metrics.Gauge("reelfs_volume_stopped", "1 while an administrator has the volume stopped.", labels,
                server == nullptr && active.stopped ? 1 : 0);
  if (server == nullptr) return;
  const std::optional<VolumeFacts> facts = Ask(*server);
  metrics.Gauge("reelfs_controller_answered",
                "1 where the volume's core has said what is shown of it.", labels, facts ? 1 : 0);
  if (facts) WriteVolume(role.name(), *facts, metrics);
}

}  // namespace reel::mdc
