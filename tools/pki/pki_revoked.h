// The authority's list of revoked certificates, DIR/ca.crl: an X.509 CRL in PEM form.
//
// Invariant: a list that is there is never replaced by one that names fewer. Threads: one at a time
// per directory.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/pki/pki_authority.h"

namespace reel::tools {

// Serial → the date since when. Empty: there is no list. INVALID_ARGUMENT: it is damaged, or is not
// this authority's.
absl::StatusOr<std::map<std::string, std::string>> ReadRevoked(const std::string& directory,
                                                               const X509& authority);

// Writes the list anew, with these on it, too, and names its file.
absl::StatusOr<std::string> AddToRevoked(const std::string& directory, const Authority& authority,
                                         const std::vector<std::string>& serials);

}  // namespace reel::tools
