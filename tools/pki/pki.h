// A small certificate authority in a directory, enough for the machines of one facility: ECDSA
// P-256, one authority, one certificate and key per host or person.
//
// Invariants: neither function overwrites a file; a private key is readable by its owner alone from
// the moment it exists. Threads: one at a time per directory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/tls/certificate.h"

namespace reel::tools {

struct PkiFiles {
  std::string certificate;
  std::string key;
};

// Makes DIR if need be, and in it ca.crt and ca.key. ALREADY_EXISTS: there is an authority.
absl::StatusOr<PkiFiles> InitPki(const std::string& directory, std::uint32_t days);

struct PkiRequest {
  TlsRole role = TlsRole::kClient;
  std::string name;                // how exports and lists call the holder
  std::vector<std::string> hosts;  // names and addresses that a metadata controller is dialled by
  std::uint32_t days = 0;
  std::string path{};  // of both files without their endings; empty: DIR/NAME
};

// Makes DIR/NAME.crt and DIR/NAME.key (with a copy in DIR/issued, see pki_life.h), or PATH.crt and
// PATH.key. INVALID_ARGUMENT, ALREADY_EXISTS, NOT_FOUND (no authority).
absl::StatusOr<PkiFiles> IssueCertificate(const std::string& directory, const PkiRequest& request);

}  // namespace reel::tools
