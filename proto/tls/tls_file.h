// One of the files by which a program takes part in TLS: read as a whole, and named in messages.
// Threads: pure functions that read a file; a sign is its owner's.
#pragma once

#include <sys/stat.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace reel {

// Borrows the path.
struct TlsFile {
  const char* key;  // what it is: "tls_ca"
  const std::string& path;

  std::string text() const;
  absl::Status Wrong(std::string_view what) const;  // INVALID_ARGUMENT
  // At most 1 MiB. NOT_FOUND, PERMISSION_DENIED, INVALID_ARGUMENT; also where it is `secret`, and
  // everybody may read or write it.
  absl::StatusOr<std::string> Read(bool secret) const;
};

// By which a file is known to be the same as before: what stat(2) says of it, or that it is not
// there.
class TlsFileSign {
 public:
  // True: another file lies there than at the last look, or it has changed; at the first look, too.
  // Look first, then read: what changes between is seen at the next look.
  bool LookAgain(const std::string& path);

 private:
  std::array<std::int64_t, 7> sign_{-1};
};

}  // namespace reel
