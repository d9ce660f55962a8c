// The life of certificates after their issue: what an authority has issued, their renewal, and
// their revocation.
//
// DIR/issued holds a copy of each certificate; those that lie in DIR itself, or in a set's
// DIR/../hosts/HOST/tls, are found, too, and are the files that a renewal replaces. DIR/ca.crl
// is the list of those that were revoked: it alone says so. Threads: one at a time per directory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/tls/certificate.h"

namespace reel::tools {

inline constexpr std::uint32_t kRenewWithinDays = 30;

struct IssuedCertificate {
  std::string name;
  std::string role;  // "authority" of the authority's own
  std::string serial;
  std::string hosts;  // for which it is: "mdc1, 10.0.0.1", "none"
  std::string begins;
  std::string ends;               // "2028-02-27"
  std::int64_t seconds_left = 0;  // negative: since when it has expired
  std::string revoked{};          // since when; empty: it is not
  bool replaced = false;          // a later one of this name and role is there
  std::string file{};             // where the holder's copy lies; empty: not here

  bool in_use() const { return revoked.empty() && !replaced && seconds_left > 0; }
};

// By name, role and date, the authority first. NOT_FOUND: no authority; INVALID_ARGUMENT: a file is
// damaged.
absl::StatusOr<std::vector<IssuedCertificate>> ListCertificates(const std::string& directory);

struct Renewed {
  std::string name;
  std::string file;  // which is to be copied to the holder
  std::string ends;
};
// Makes the holders of `names` certificates that end later, each with the key that it has: the
// files are replaced. Without names: of all that end within `within_days`. NOT_FOUND: nothing was
// issued by that name; FAILED_PRECONDITION: it was revoked, and may not be renewed.
absl::StatusOr<std::vector<Renewed>> RenewCertificates(const std::string& directory,
                                                       const std::vector<std::string>& names,
                                                       std::uint32_t within_days,
                                                       std::uint32_t days);

struct Revoked {
  std::string list;                  // DIR/ca.crl, which is to be copied to the controllers
  std::vector<std::string> serials;  // what is new in it
};
// Revokes all certificates of that name, or the one of that number; takes the holder's files away,
// so that another one may be issued by the name. NOT_FOUND: there is none that is not revoked yet.
absl::StatusOr<Revoked> RevokeCertificates(const std::string& directory, const std::string& name,
                                           const std::string& serial);

}  // namespace reel::tools
