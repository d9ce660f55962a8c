// The list of revoked certificates beside the authority's own, read again when it has changed.
//
// Invariant: a list that is damaged, or is not there any more, changes nothing: whom the last one
// names stays outside. Threads: any.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "proto/tls/revocations.h"
#include "proto/tls/watched_tls.h"
#include "volume/base/mutex.h"

namespace reel {

class WatchedRevocations {
 public:
  // Errors as of ReadRevocations: with a list that cannot be read at the start, it is not known who
  // is revoked.
  static absl::StatusOr<std::unique_ptr<WatchedRevocations>> Load(std::shared_ptr<WatchedTls> tls);

  // Costs a stat(2) where nothing has changed.
  std::shared_ptr<const Revocations> Current();

 private:
  explicit WatchedRevocations(std::shared_ptr<WatchedTls> tls)
      : tls_(std::move(tls)), path_(RevocationsBeside(tls_->files().ca)) {}

  const std::shared_ptr<WatchedTls> tls_;
  const std::string path_;
  Mutex mutex_;
  TlsFileSign sign_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const Revocations> current_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace reel
