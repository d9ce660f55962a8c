// What mount.reelfs was asked to do: its command line, as mount(8) hands it over or as typed, and
// the client's configuration file.
//
// Commas separate options and also the controllers of `mdc=HOST,HOST`: a word without '=' that
// follows `mdc=` or another of its hosts, and is no known option, is one more host. Threads: pure
// functions, but for LoadClientConfig, which reads a file.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/fuse/open_mode.h"
#include "client/fuse/request/fuse_choices.h"
#include "client/inode/atime_policy.h"
#include "client/mount/mount_flags.h"
#include "proto/tls/tls.h"
#include "volume/base/shared_config.h"
#include "volume/base/types.h"

namespace reel::client {

inline constexpr char kDefaultConfigFile[] = "/etc/reelfs/client.toml";
// How long calls wait for a controller when `soft` gives no time of its own.
inline constexpr std::uint32_t kDefaultSoftTimeoutMs = 30'000;

struct MountOptions {
  enum class Action { kMount, kHelp, kVersion };
  Action action = Action::kMount;

  std::string volume;
  std::string mount_point;
  std::vector<std::string> mdcs;  // HOST:PORT
  std::vector<std::string> luns;  // glob patterns
  TlsFiles tls;
  std::string config_file;  // empty: the default one, if it is there
  std::string log_file;     // empty: the system's log
  std::vector<std::string>
      kernel_options;  // "ro", "nosuid", "allow_other", … as given, for libfuse
  // "suid", "dev": what root's mounts honour, unless the volume is exported to this host squashed.
  std::vector<std::string> root_options;
  std::vector<std::string> given;  // each list of options, as given
  MountFlags flags;                // of mount(2), as the options name them
  CacheChoice cache = CacheChoice::kAuto;
  AtimePolicy atime = AtimePolicy::kRelative;
  bool directory_atime = true;
  std::uint32_t threads = 16;                  // idle workers kept
  std::uint32_t soft_timeout_ms = 0;           // 0: wait for ever
  std::optional<std::uint32_t> retry_minutes;  // nothing: as who mounts would have it
  std::uint64_t read_ahead_bytes = 256 * kMiB;
  std::uint64_t sequence_ahead_bytes = 256 * kMiB;
  std::uint64_t write_behind_bytes = 64 * kMiB;
  bool flush_on_close = false;
  bool durable_names = false;  // changes of names and attributes are durable when a call returns
  bool keep_names = true;      // by the kernel, where it can forget them
  bool read_only = false;
  bool allow_other = false;
  bool direct_io_mmap = true;  // false: behave as on kernels before 6.6
  UringChoice uring = UringChoice::kAuto;
  AwakeChoice awake = AwakeChoice::kAuto;
  std::string web_listen;  // HOST:PORT, where metrics are served over HTTPS; empty: nowhere
  bool netdev = false;     // it says so itself that it is of the network (_netdev)
  bool remount = false;    // what is mounted there changes; named options alone
  bool foreground = false;
  bool verbose = false;

  // Of mount(2), for a volume that is exported so.
  std::vector<std::string> KernelOptions(bool squashed, bool exported_read_only) const;
  // How reading is noted where it is.
  AtimePolicy NotedAtime() const {
    return atime == AtimePolicy::kNone ? AtimePolicy::kRelative : atime;
  }
  bool notes_reads() const { return !read_only && atime != AtimePolicy::kNone; }
  bool notes_listings() const { return notes_reads() && directory_atime; }
};

// `arguments` without the program's name. INVALID_ARGUMENT names the word that is wrong.
absl::StatusOr<MountOptions> ParseMountOptions(std::span<const std::string> arguments,
                                               bool as_root);

// Applies a list of options (`ro,soft,mdc=HOST`) to others that were given before.
absl::Status ApplyOptionList(absl::string_view list, MountOptions& options);

// Fills in controllers, LUNs and TLS files that the command line did not name, from the
// configuration file's text. INVALID_ARGUMENT: FILE:LINE: what is wrong.
absl::Status ApplyClientConfig(std::string_view text, const std::string& file,
                               MountOptions& options);
// The same from what all programs of the host share (volume/base/shared_config.h).
absl::Status ApplySharedConfig(const SharedConfig& shared, MountOptions& options);

// Reads the configuration file and the shared one beside it, and applies them; then checks that a
// mount has all it needs.
absl::Status LoadClientConfig(MountOptions& options);

std::string MountUsage();

}  // namespace reel::client
