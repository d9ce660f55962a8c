// The TLS files of a program that goes on for long, read again when they have changed: a renewed
// certificate is used from the next connection on, and nothing has to be restarted.
//
// Invariant: what Current gives out has been checked as LoadTls does. Files that are wrong, or half
// replaced, are told of in the log, and those of before stay in use. Threads: any.
#pragma once

#include <array>
#include <memory>

#include "absl/status/statusor.h"
#include "proto/tls/tls.h"
#include "proto/tls/tls_file.h"
#include "volume/base/mutex.h"

namespace reel {

class WatchedTls {
 public:
  // Null when no file is named: no TLS. Errors as of LoadTls.
  static absl::StatusOr<std::shared_ptr<WatchedTls>> Load(const TlsFiles& files, TlsRole role);

  // Costs three stat(2) where nothing has changed.
  std::shared_ptr<const TlsMaterial> Current();
  const TlsFiles& files() const { return files_; }

 private:
  WatchedTls(const TlsFiles& files, TlsRole role) : files_(files), role_(role) {}
  bool LookAgain() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const TlsFiles files_;
  const TlsRole role_;
  Mutex mutex_;
  std::array<TlsFileSign, 3> signs_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const TlsMaterial> current_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace reel
