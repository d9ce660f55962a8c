#include "proto/tls/watched_tls.h"

#include <string>
#include <utility>

#include "absl/memory/memory.h"
#include "spdlog/spdlog.h"

namespace reel {

absl::StatusOr<std::shared_ptr<WatchedTls>> WatchedTls::Load(const TlsFiles& files, TlsRole role) {
  std::shared_ptr<WatchedTls> watched = absl::WrapUnique(new WatchedTls(files, role));
  MutexLock lock(watched->mutex_);
  watched->LookAgain();
  auto loaded = LoadTls(files, role);
  if (!loaded.ok()) return loaded.status();
  if (!loaded->has_value()) return std::shared_ptr<WatchedTls>();
  watched->current_ = std::make_shared<const TlsMaterial>(**std::move(loaded));
  return watched;
}

std::shared_ptr<const TlsMaterial> WatchedTls::Current() {
  MutexLock lock(mutex_);
  if (!LookAgain()) return current_;
  auto loaded = LoadTls(files_, role_);
  if (!loaded.ok()) {
    spdlog::warn("the TLS files have changed, and those of before stay in use: {}",
                 std::string(loaded.status().message()));
  } else if (loaded->has_value()) {
    current_ = std::make_shared<const TlsMaterial>(**std::move(loaded));
    spdlog::info("the TLS files have changed: new connections use the certificate {}, until {}",
                 current_->self.serial, current_->until);
  }
  return current_;
}

bool WatchedTls::LookAgain() {
  const bool ca = signs_[0].LookAgain(files_.ca);
  const bool cert = signs_[1].LookAgain(files_.cert);
  const bool key = signs_[2].LookAgain(files_.key);
  return ca || cert || key;
}

}  // namespace reel
