#include "client/mount/start_mount.h"

#include "absl/strings/str_cat.h"
#include "client/fuse/exit_signals.h"
#include "client/mount/mount_retry.h"
#include "volume/base/env.h"
#include "volume/format/lun_scan.h"

namespace reel::client {
namespace {

// Without the controller, so that it does not get a new session every few seconds while LUNs are
// missing. What else may be wrong with them the next start says.
absl::Status LookForLuns(const MountOptions& options) {
  absl::Status status =
      OpenVolumeByName(options.volume, options.luns, LunAccess::kReadOnly).status();
  return AwaitedFor(status) == Awaited::kLuns ? status : absl::OkStatus();
}

struct Try {
  absl::Status status;
  Awaited awaited = Awaited::kNothing;
  std::unique_ptr<Mount> mount{};
};

Try TryOnce(const MountOptions& options, const std::shared_ptr<WatchedTls>& tls, Awaited awaited) {
  if (awaited == Awaited::kLuns) {
    if (absl::Status missing = LookForLuns(options); !missing.ok()) return {missing, awaited};
  }
  auto mount = std::make_unique<Mount>(options, tls);
  absl::Status status = mount->Start(ExitSignals::Raise);
  const Awaited next = mount->awaited();
  if (!status.ok()) return {std::move(status), next};
  return {.status = absl::OkStatus(), .mount = std::move(mount)};
}

}  // namespace

absl::StatusOr<std::unique_ptr<Mount>> StartMount(const MountOptions& options,
                                                  const std::shared_ptr<WatchedTls>& tls,
                                                  std::uint64_t limit_ms, const StartSteps& steps) {
  MountRetry retry(limit_ms, SystemClock().NowMs());
  Awaited awaited = Awaited::kNothing;
  for (;;) {
    if (absl::Status status = steps.check_free(); !status.ok()) return status;
    Try tried = TryOnce(options, tls, awaited);
    if (tried.mount != nullptr) return std::move(tried.mount);
    awaited = tried.awaited;
    if (awaited == Awaited::kNothing) return tried.status;
    const std::string why(tried.status.message());
    const std::optional<std::uint32_t> pause_ms = retry.Pause(SystemClock().NowMs());
    if (!pause_ms) return tried.status;
    if (retry.IsNews(awaited, why)) {
      const char* const what = awaited == Awaited::kController ? "a controller" : "LUNs";
      steps.say(absl::StrCat("waiting for ", what, retry.Limit(), ": ", why));
    }
    if (!steps.pause(*pause_ms)) return absl::CancelledError(absl::StrCat("not mounted: ", why));
  }
}

}  // namespace reel::client
