// Until when the certificates of a file hold.
//
// Threads: pure function that reads a file.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace reel::tools {

struct CertificateEnd {
  std::string holder;             // its common name; empty where it has none
  std::string date;               // "2028-02-27"
  std::int64_t seconds_left = 0;  // negative: since when it does not hold
};

// Of the one in the PEM file that ends first. NOT_FOUND, INVALID_ARGUMENT; names the file.
absl::StatusOr<CertificateEnd> ReadCertificateEnd(const std::string& path);

}  // namespace reel::tools
