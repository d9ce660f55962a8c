// The name of an iSCSI LUN:
//   iscsi://[USER[%SECRET]@]HOST[:PORT][,HOST[:PORT]…]/TARGET/LUN[?OPTION=VALUE&…]
//
// HOST is a name, an IPv4 address or an IPv6 address in brackets; PORT is 3260 unless given; TARGET
// is the target's name (iqn., eui. or naa.); LUN is a number. Each HOST[:PORT] is a portal of the
// target: the first one that answers is used, and the next one when that is lost. Between them may
// stand a ';' too, where a ',' has another meaning (a mount's -o luns=). Options:
//   header_digest=auto|crc32c|none   auto (the default) takes CRC32C where the target has it;
//                                    crc32c offers nothing else
//   chap_secret_file=PATH            its first line is USER's CHAP secret
//   chap_secret_env=NAME             the variable that holds it
//   initiator=IQN                    this host's name to the target (default: as open-iscsi's, in
//                                    /etc/iscsi/initiatorname.iscsi, else made of the host name)
//   timeout_ms=N                     how long a command may take before its path counts as lost
// A secret in the URL itself can be seen wherever the URL can; none is ever printed by this
// program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "volume/scsi/lun_times.h"

namespace reel {

inline constexpr std::uint32_t kMaxIscsiLun = 16383;  // flat space addressing
inline constexpr std::size_t kMaxIscsiPortals = 8;

struct IscsiUrl {
  enum class HeaderDigest { kAuto, kCrc32c, kNone };

  std::string shown;                 // the URL without its secret, for messages
  std::vector<std::string> portals;  // HOST:PORT, an IPv6 address in brackets; in order, each once
  std::string target;
  std::uint32_t lun = 0;
  std::string user;  // empty: no CHAP
  std::string secret;
  std::string secret_file, secret_variable;
  std::string initiator;
  HeaderDigest header_digest = HeaderDigest::kAuto;
  std::uint32_t timeout_ms = kIscsiCommandTimeoutMs;
};

bool IsIscsiUrl(const std::string& name);

// INVALID_ARGUMENT, on one line that shows the URL without its secret.
absl::StatusOr<IscsiUrl> ParseIscsiUrl(const std::string& text);

// USER's secret: from the URL, the file or the variable that it names, else from
// $REELFS_CHAP_SECRET. Empty when there is no USER. FAILED_PRECONDITION when there is none, and
// INVALID_ARGUMENT when it is longer than CHAP's 255 bytes; neither shows it.
absl::StatusOr<std::string> ChapSecret(const IscsiUrl& url);

// The name by which this host is known to the target.
std::string InitiatorName(const IscsiUrl& url);

}  // namespace reel
