#include "mdc/web/web_pages.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "mdc/serve/volume_server.h"
#include "proto/web/own_metrics.h"
#include "spdlog/spdlog.h"
#include "volume/base/env.h"

namespace reel::mdc {
namespace {

// Below what Prometheus waits for an answer (10 s).
constexpr std::chrono::milliseconds kCoresWait(5'000);

bool HasLimits(const v1::QuotaLimits& limits) {
  return limits.soft_bytes() + limits.hard_bytes() + limits.soft_files() + limits.hard_files() > 0;
}

// The first thousand owners of each kind: of more nobody would want a graph each.
void DescribeQuotas(const Core& core, VolumeFacts& facts) {
  v1::QuotasReply state;
  if (!core.Describe(v1::QuotasRequest(), state).ok() || state.state() == "off") return;
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

}  // namespace

// What a core's seat puts in while a page waits for it.
struct WebPages::Asked {
  Mutex mutex;
  CondVar changed;
  bool over ABSL_GUARDED_BY(mutex) = false;  // it has been told, or nobody waits any more
  std::optional<VolumeFacts> facts ABSL_GUARDED_BY(mutex);

  bool IsOver() {
    MutexLock lock(mutex);
    return over;
  }
  void Tell(std::optional<VolumeFacts> told) {
    MutexLock lock(mutex);
    facts = std::move(told);
    over = true;
    changed.NotifyAll();
  }
  // nullopt: the core is stopping, or has not come to it in time.
  std::optional<VolumeFacts> Await(std::chrono::steady_clock::time_point until) {
    MutexLock lock(mutex);
    while (!over) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
          until - std::chrono::steady_clock::now());
      if (left.count() <= 0) break;
      changed.WaitFor(mutex, left);
    }
    over = true;
    return std::move(facts);
  }
};

std::shared_ptr<WebPages::Asked> WebPages::Ask(const VolumeRole& role) {
  VolumeServer* const server = role.server();
  if (server == nullptr) return nullptr;
  auto asked = std::make_shared<Asked>();
  const bool queued = server->RunOnCore(
      [asked, server](Core& core) {
        if (!asked->IsOver()) asked->Tell(Describe(*server, core));
      },
      [asked] { asked->Tell(std::nullopt); });
  if (!queued) asked->Tell(std::nullopt);
  return asked;
}

HttpsServer::Answer WebPages::Refuse(const HttpsServer::Request& request, const absl::Status& why) {
  daemon_.gate.CountRefused();
  MutexLock lock(mutex_);
  if (const auto more = refusals_.Admit(SystemClock().NowMs())) {
    spdlog::warn("the page {} is refused to {}: {}{}", request.path, request.from,
                 std::string(why.message()), *more);
  }
  return {.status = 403, .body = absl::StrCat(why.message(), "\n")};
}

HttpsServer::Pages WebPages::Pages() {
  return {{"/metrics", [this](const HttpsServer::Request& request) {
             const absl::Status may = daemon_.guard.CheckViewer(request.peer);
             return may.ok() ? Metrics() : Refuse(request, may);
           }}};
}

// All cores are asked at once, and have as long together as one.
HttpsServer::Answer WebPages::Metrics() const {
  std::vector<std::shared_ptr<Asked>> asked;
  for (const VolumeRole* role : volumes_) asked.push_back(Ask(*role));
  const auto until = std::chrono::steady_clock::now() + kCoresWait;
  MetricWriter metrics;
  WriteDaemon(metrics);
  for (std::size_t i = 0; i < volumes_.size(); ++i) {
    WriteRole(*volumes_[i], metrics);
    if (asked[i] == nullptr) continue;
    const std::optional<VolumeFacts> facts = asked[i]->Await(until);
    metrics.Gauge("reelfs_controller_answered",
                  "1 where the volume's core has said what is shown of it.",
                  {{"volume", volumes_[i]->name()}}, facts ? 1 : 0);
    if (facts) WriteVolume(volumes_[i]->name(), *facts, metrics);
  }
  return {.type = std::string(MetricWriter::kType), .body = metrics.Text()};
}

void WebPages::WriteDaemon(MetricWriter& metrics) const {
  WriteBuild("reel-mdcd", daemon_.program, daemon_.host, metrics);
  metrics.Counter("reelfs_connections_refused_total",
                  "Connections and pages that were refused for a certificate.", {},
                  static_cast<double>(daemon_.gate.refused()));
  if (daemon_.tls != nullptr) WriteCertificate(*daemon_.tls->Current(), metrics);
}

void WebPages::WriteRole(const VolumeRole& role, MetricWriter& metrics) {
  const MetricWriter::Labels labels{{"volume", role.name()}};
  const VolumeServer* const server = role.server();
  const VolumeRole::Active active = role.active();
  metrics.Gauge("reelfs_controller_active", "1 where this controller serves the volume.", labels,
                server != nullptr ? 1 : 0);
  metrics.Gauge("reelfs_controller_epoch",
                "The term of the volume's active controller, as far as this one knows.", labels,
                static_cast<double>((server != nullptr ? server->epoch() : active.epoch).value()));
  metrics.Gauge("reelfs_volume_stopped", "1 while an administrator has the volume stopped.", labels,
                server == nullptr && active.stopped ? 1 : 0);
}

}  // namespace reel::mdc
