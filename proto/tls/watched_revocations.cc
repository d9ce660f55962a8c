#include "proto/tls/watched_revocations.h"

#include <string>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "spdlog/spdlog.h"

namespace reel {

absl::StatusOr<std::unique_ptr<WatchedRevocations>> WatchedRevocations::Load(
    std::shared_ptr<WatchedTls> tls) {
  auto watched = absl::WrapUnique(new WatchedRevocations(std::move(tls)));
  MutexLock lock(watched->mutex_);
  watched->sign_.LookAgain(watched->path_);
  auto list = ReadRevocations(watched->tls_->files().ca, watched->tls_->Current()->ca_pem);
  if (!list.ok()) return list.status();
  if (list->size() > 0) {
    spdlog::info("{} names {} revoked certificates", watched->path_, list->size());
  }
  watched->current_ = std::make_shared<const Revocations>(*std::move(list));
  return watched;
}

std::shared_ptr<const Revocations> WatchedRevocations::Current() {
  MutexLock lock(mutex_);
  if (!sign_.LookAgain(path_)) return current_;
  auto list = ReadRevocations(tls_->files().ca, tls_->Current()->ca_pem);
  if (list.ok() && list->size() == 0 && current_->size() > 0) {
    list = absl::NotFoundError(absl::StrCat(path_, " is gone, or names nobody"));
  }
  if (!list.ok()) {
    spdlog::warn("{}: those that were revoked stay so ({})", std::string(list.status().message()),
                 current_->size());
    return current_;
  }
  spdlog::info("{} names {} revoked certificates, and named {}", path_, list->size(),
               current_->size());
  current_ = std::make_shared<const Revocations>(*std::move(list));
  return current_;
}

}  // namespace reel
