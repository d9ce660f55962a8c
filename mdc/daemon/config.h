// The configuration of reel-mdcd: a TOML file of its own, and what all programs of the host share
// (volume/base/shared_config.h): luns and tls_ca, where its own does not say.
//
//   listen = "127.0.0.1:7440"      where clients and reeladm connect; without TLS, loopback only
//   advertise = "mdc1:7440"        by which clients reach it, where listen does not say
//                                  that (0.0.0.0:7440)
//   web_listen = "0.0.0.0:7443"    where metrics are served over HTTPS; "off": nowhere. By default,
//                                  with TLS, where listen says, on port 7443
//   tls_ca = "/etc/reelfs/tls/ca.crt"      whose certificates are believed
//   tls_cert = "/etc/reelfs/tls/mdc1.crt"  one's own, with the role mdc
//   tls_key = "/etc/reelfs/tls/mdc1.key"
//   luns = ["/dev/disk/by-id/*"]   where to look for LUNs: shell patterns
//   session_lease_ms = 10000
//   seat_ms = 1500                 term of the active controller (mdc/seat/seat_times.h)
//   cache_mib = 512                metadata cached in memory, per volume
//   quota_hook = ["/usr/local/sbin/quota-mail"]   a program, with arguments, that is run when an
//                                  owner comes to a limit (mdc/serve/beside/quota_hook.h)
//   space_low_percent = 10         below so much free space there is an alarm, …
//   space_critical_percent = 5     … and a graver one; 0: none
//   scrub_memory_mib = 1024        what a scrub may keep in memory, per volume
//   names = "delegated"                when a change of names is answered: when it is "durable", at
//                                  once ("early"), or at once by who works in a directory alone;
//                                  the latter two if all controllers know of that
//   log_level = "info"
//   [[volume]]
//   name = "reel"
//   luns = ["…"]                   instead of the ones above
//   scrub = "weekly"               how often the metadata are checked by themselves: "never",
//                                  "daily", "weekly", "monthly", hours ("36h") or days ("10d")
//   small_file_bytes = 4096        files of at most this size lie in the metadata; 0: none, up to
//                                  16384. Clients and controllers of releases that do not know
//                                  such files are refused once it was not 0. Without it: 4096
//                                  where mkfs has made the volume for such files, or it has
//                                  had some, else 0
//   [[volume.export]]              what some clients may do: mdc/tables/exports.h
//   clients = ["edit-*"]
//   access = "ro"
//   squash = "root"
//
// Unknown keys and wrong types are errors that name file and line. Threads: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "mdc/base/name_replies.h"
#include "mdc/seat/seat_times.h"
#include "mdc/space/space_watch.h"
#include "mdc/tables/exports.h"
#include "proto/tls/tls.h"
#include "volume/base/shared_config.h"

namespace reel::mdc {

inline constexpr char kDefaultConfig[] = "/etc/reelfs/mdc.toml";

struct Config {
  struct Volume {
    std::string name;
    std::vector<std::string> luns;  // patterns: its own, or the daemon's
    std::vector<Export> exports;    // in the file's order
    std::string scrub = "never";
    std::uint64_t scrub_every_seconds = 0;          // the same; 0: never
    std::optional<std::uint32_t> small_file_bytes;  // as CoreOptions
  };
  std::string listen;
  std::string advertise;
  std::string web_listen;  // empty: nowhere
  TlsFiles tls;
  std::vector<std::string> luns;
  std::uint32_t session_lease_ms = 10'000;
  NameReplies names = NameReplies::kDelegated;
  std::uint32_t seat_ms = kDefaultSeatMs;
  std::uint32_t cache_mib = 512;
  std::uint32_t scrub_memory_mib = 1024;
  SpaceLimits space_limits{};
  std::vector<std::string> quota_hook;
  std::string log_level = "info";
  std::vector<Volume> volumes;
};

// INVALID_ARGUMENT: `source`:line: what is wrong.
absl::StatusOr<Config> ParseConfig(std::string_view text, const std::string& source,
                                   const SharedConfig& shared = {});
// With the shared file beside it. NOT_FOUND, PERMISSION_DENIED, UNAVAILABLE, or as above.
absl::StatusOr<Config> ReadConfig(const std::string& path);

}  // namespace reel::mdc
