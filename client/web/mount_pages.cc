#include "client/web/mount_pages.h"

#include <array>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "proto/tls/certificate.h"
#include "proto/tls/page_viewer.h"
#include "proto/web/own_metrics.h"
#include "volume/base/host_name.h"

namespace reel::client {

absl::StatusOr<std::unique_ptr<MountPages>> MountPages::Start(Options options,
                                                              std::shared_ptr<WatchedTls> tls) {
  auto pages = absl::WrapUnique(new MountPages(std::move(options), std::move(tls)));
  if (pages->tls_ != nullptr) {
    const auto own = ParseCertificates(pages->tls_->Current()->cert_pem);
    if (!own.ok()) return own.status();
    if (!MayServe(*own->front())) {
      return absl::FailedPreconditionError(absl::StrCat(
          "web_listen = ", pages->options_.listen, ": the certificate ", pages->tls_->files().cert,
          " is for no host that serves: make one with \"reeladm pki issue … --host\""));
    }
    auto revocations = WatchedRevocations::Load(pages->tls_);
    if (!revocations.ok()) return revocations.status();
    pages->revocations_ = *std::move(revocations);
  }
  const auto metrics = [self = pages.get()](const HttpsServer::Request& request) {
    return self->Metrics(request);
  };
  auto server = HttpsServer::Start(pages->options_.listen, pages->tls_, {{"/metrics", metrics}});
  if (!server.ok()) return server.status();
  pages->server_ = *std::move(server);
  return pages;
}

void MountPages::Stop() {
  if (server_ != nullptr) server_->Stop();
}

HttpsServer::Answer MountPages::Metrics(const HttpsServer::Request& request) const {
  if (tls_ != nullptr) {
    const absl::Status may = CheckViewer(request.peer, *revocations_->Current());
    if (!may.ok()) return {.status = 403, .body = absl::StrCat(may.message(), "\n")};
  }
  MetricWriter metrics;
  WriteBuild("mount.reelfs", options_.program, HostName(), metrics);
  if (tls_ != nullptr) WriteCertificate(*tls_->Current(), metrics);
  WriteMount(options_.describe(), options_.descriptor, metrics);
  return {.type = std::string(MetricWriter::kType), .body = metrics.Text()};
}

}  // namespace reel::client
