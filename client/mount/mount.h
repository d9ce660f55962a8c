// A mounted volume: session, LUNs, file data, file system and FUSE connection, built in that order
// and taken down in the other, each step bounded in time.
//
// Threads: Start and Stop from one thread.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "client/data/file_data.h"
#include "client/fuse/connection/fuse_session.h"
#include "client/fuse/fuse_ops.h"
#include "client/locks/file_locks.h"
#include "client/mount/mount_options.h"
#include "client/mount/mount_retry.h"
#include "client/names/kernel_names.h"
#include "client/names/name_cache.h"
#include "client/session/mdc_stream.h"
#include "client/session/session.h"
#include "client/vfs/event_router.h"
#include "client/vfs/vfs.h"
#include "client/web/mount_pages.h"
#include "volume/base/mutex.h"
#include "volume/format/lun_scan.h"

namespace reel::client {

class Mount {
 public:
  // `tls`: of the options' files; null without.
  Mount(const MountOptions& options, std::shared_ptr<WatchedTls> tls)
      : options_(options), tls_(std::move(tls)), now_(options) {}
  Mount(const Mount&) = delete;
  Mount& operator=(const Mount&) = delete;
  ~Mount();

  // Returns when the mount is usable. `on_end` is called, from a thread of ours, when somebody has
  // unmounted it. The error says at which step it failed; what was built is taken down again.
  absl::Status Start(std::function<void()> on_end);
  // After a Start that failed: what another mount would have to wait for.
  Awaited awaited() const { return awaited_; }

  // Detaches the mount if it is still there, finishes what is in progress, commits everything, says
  // goodbye. False when something would not finish: then only the process's end can take it down.
  bool Stop();
  // After that: not OK where what was written is lost.
  const absl::Status& outcome() const { return outcome_; }

 private:
  void KeepNames();
  // A mount is no worse without its metrics.
  void ServeMetrics();
  MountFacts Describe() const;
  // Opens the volume's LUNs.
  absl::Status OpenLuns();
  // As FuseFileSystem::remount.
  absl::Status Remount(std::string_view list, bool apply);

  const MountOptions options_;
  const std::shared_ptr<WatchedTls> tls_;
  std::unique_ptr<MdcConnector> connector_;
  std::unique_ptr<FileData> data_;
  NameCache names_;
  KernelNames kernel_names_{names_, SystemClock()};
  FileLocks locks_;
  std::unique_ptr<EventRouter> events_;
  std::unique_ptr<Session> session_;
  OpenVolume volume_;
  std::unique_ptr<Vfs> vfs_;
  std::optional<FuseFileSystem> file_system_;
  std::unique_ptr<RequestTimes> times_;  // where metrics are served
  std::unique_ptr<FuseSession> fuse_;
  std::unique_ptr<MountPages> pages_;
  std::atomic<FuseSession*> invalidator_{nullptr};
  bool started_data_ = false;
  bool writable_ = false;  // the LUNs are open for it, and the controller's export allows it
  absl::Status outcome_;
  Awaited awaited_ = Awaited::kNothing;

  Mutex remount_mutex_;
  MountOptions now_ ABSL_GUARDED_BY(remount_mutex_);
};

}  // namespace reel::client
