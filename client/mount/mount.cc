#include "client/mount/mount.h"

#include <fstream>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/mount/mount_flags.h"
#include "client/mount/remount.h"
#include "client/mount/tables/mount_table.h"
#include "client/mount/tables/mount_watch.h"
#include "spdlog/spdlog.h"
#include "volume/base/host_name.h"

namespace reel::client {
namespace {

// For requests in progress when the file system goes away: first in peace, then with the session
// ended.
constexpr std::uint32_t kDrainMs = 3'000;
constexpr std::uint32_t kAbortedDrainMs = 2'000;
// For what is in memory where no controller answers: long enough for one to be started again, or
// for a standby, and well within what systemd grants.
constexpr std::uint32_t kWriteOutMs = 60'000;

constexpr std::uint32_t kReadAheadKib = 4 * kUsualFuseRequestBytes / 1024;

// The kernel starts a FUSE mount with 128 KiB of read-ahead, whatever the handshake says. Only
// reads through the page cache see it, and a mount without it is merely slower there.
void RaiseReadAhead(const std::string& mount_point) {
  const std::string device = DeviceOfMount(mount_point);
  if (device.empty()) return;
  std::ofstream(absl::StrCat("/sys/class/bdi/", device, "/read_ahead_kb")) << kReadAheadKib;
}

}  // namespace

Mount::~Mount() {
  // After a Start that failed half way; Stop has been called otherwise.
  pages_.reset();
  fuse_.reset();
  if (started_data_) (void)data_->Stop();
  if (session_ != nullptr) session_->Shutdown();
}

absl::Status Mount::Start(std::function<void()> on_end) {
  connector_ = MakeGrpcConnector(tls_, options_.mdcs.size() > 1);
  const FileDataOptions data{
      .atime = options_.NotedAtime(),
      .soft_timeout_ms = options_.soft_timeout_ms,
      .stop_timeout_ms = kWriteOutMs,
      .max_read_ahead_bytes = options_.read_ahead_bytes,
      .max_frame_bytes = options_.sequence_ahead_bytes,
      .max_write_behind_bytes = options_.write_behind_bytes,
      .flush_on_close = options_.flush_on_close,
      .notes_times = !options_.web_listen.empty(),
      .open_more = [this](const OpenVolume& open, const VolumeDescriptor& later) {
        return OpenMoreLuns(open, later, options_.luns,
                            writable_ ? LunAccess::kReadWrite : LunAccess::kReadOnly);
      }};
  const auto invalidate_pages = [this](std::uint64_t inode, const ByteRange& range) {
    FuseSession* fuse = invalidator_.load(std::memory_order_acquire);
    if (fuse == nullptr) return;
    if (range.to == 0) {
      (void)fuse->InvalidateAttributes(inode);
    } else {
      fuse->Invalidate(inode, range.from, range.to - range.from);
    }
  };
  const auto forget_attributes = [this](std::uint64_t inode) {
    FuseSession* fuse = invalidator_.load(std::memory_order_acquire);
    return fuse != nullptr && fuse->InvalidateAttributes(inode);
  };
  data_ = FileData::Create(data, SystemClock(), invalidate_pages, forget_attributes);
  events_ = std::make_unique<EventRouter>(*data_, names_, kernel_names_, locks_, session_,
                                          forget_attributes);

  Session::Options session;
  session.volume = options_.volume;
  session.mdcs = options_.mdcs;
  session.host = HostName();
  session.mount_point = options_.mount_point;
  session.soft_timeout_ms = options_.soft_timeout_ms;
  session.caches_attributes = true;
  session.early_replies = !options_.durable_names;
  session.program = REEL_VERSION;
  absl::StatusOr<std::unique_ptr<Session>> connected =
      Session::Connect(std::move(session), *connector_, *events_, SystemClock());
  if (!connected.ok()) {
    if (absl::IsUnavailable(connected.status())) awaited_ = Awaited::kController;
    return connected.status();
  }
  session_ = *std::move(connected);
  const bool read_only = options_.read_only || session_->read_only();
  if (read_only && !options_.read_only) {
    spdlog::info("{}: mounted read-only, as the controller exports it", options_.mount_point);
  }

  if (absl::Status status = OpenLuns(); !status.ok()) {
    awaited_ = AwaitedFor(status);
    return status;
  }
  locks_.Start(*session_);
  started_data_ = true;
  if (absl::Status status = data_->Start(*session_, volume_); !status.ok()) return status;

  vfs_ = std::make_unique<Vfs>(*session_, *data_, names_,
                               VfsOptions{.forget_attributes = forget_attributes,
                                          .kernel_names = &kernel_names_,
                                          .durable_metadata = options_.durable_names});
  if (absl::Status status = vfs_->LookAtRoot(); !status.ok()) {
    if (absl::IsUnavailable(status)) awaited_ = Awaited::kController;
    return status;
  }
  vfs_->NoteReads(options_.notes_reads(), options_.notes_listings(), options_.NotedAtime());
  file_system_.emplace(
      FuseFileSystem{*vfs_, locks_, options_.cache,
                     [this](std::string_view list, bool apply) { return Remount(list, apply); }});
  FuseSession::Options fuse;
  fuse.source = options_.volume;
  fuse.subtype = "reelfs";
  fuse.mount_point = options_.mount_point;
  fuse.mount_options = options_.KernelOptions(session_->squashed(), session_->read_only());
  fuse.mount_options.emplace_back("default_permissions");
  fuse.threads = options_.threads;
  fuse.direct_io_mmap = options_.direct_io_mmap;
  fuse.uring = options_.uring;
  fuse.awake = options_.awake;
  if (!options_.web_listen.empty()) times_ = std::make_unique<RequestTimes>();
  fuse.times = times_.get();
  fuse.on_end = std::move(on_end);
  absl::StatusOr<std::unique_ptr<FuseSession>> mounted =
      FuseSession::Mount(fuse, FuseCallTable(), &*file_system_);
  if (!mounted.ok()) return mounted.status();
  fuse_ = *std::move(mounted);
  spdlog::info("{}: FUSE by {}", options_.mount_point,
               fuse_->over_uring() ? "io_uring" : "/dev/fuse");
  events_->SetFuse(fuse_->over_uring() ? v1::FUSE_WAY_URING : v1::FUSE_WAY_DEVICE);
  if (absl::Status status = CompleteFlags(options_.mount_point, options_.flags); !status.ok()) {
    return status;
  }
  invalidator_.store(fuse_.get(), std::memory_order_release);
  RaiseReadAhead(options_.mount_point);
  if (options_.keep_names) KeepNames();
  if (!options_.web_listen.empty()) ServeMetrics();
  return absl::OkStatus();
}

void Mount::ServeMetrics() {
  auto pages = MountPages::Start({.listen = options_.web_listen,
                                  .program = REEL_VERSION,
                                  .descriptor = session_->descriptor(),
                                  .describe = [this] { return Describe(); }},
                                 tls_);
  if (pages.ok()) {
    pages_ = *std::move(pages);
  } else {
    spdlog::error("{}: no metrics are served: {}", options_.mount_point,
                  std::string(pages.status().message()));
  }
}

MountFacts Mount::Describe() const {
  MountFacts facts{.volume = options_.volume,
                   .mount_point = options_.mount_point,
                   .connected = !session_->Away(),
                   .lease_left_ms = session_->LeaseLeftMs(),
                   .session = session_->load(),
                   .data = data_->load(),
                   .prefetched = data_->prefetch_counts(),
                   .told = {},
                   .requests = times_->Kinds()};
  events_->Describe(facts.told);
  return facts;
}

// Also those of a mount that is read-only by its options are opened for writing, where that is
// possible: a remount may want it.
absl::Status Mount::OpenLuns() {
  const auto open = [this](LunAccess access) {
    return OpenVolumeLuns(session_->descriptor(), options_.luns, access);
  };
  writable_ = !session_->read_only();
  absl::StatusOr<OpenVolume> volume =
      open(writable_ ? LunAccess::kReadWrite : LunAccess::kReadOnly);
  if (!volume.ok() && writable_ && options_.read_only) {
    writable_ = false;
    volume = open(LunAccess::kReadOnly);
  }
  if (!volume.ok()) {
    return absl::Status(volume.status().code(),
                        absl::StrCat(volume.status().message(), " (looked in ",
                                     absl::StrJoin(options_.luns, ", ",
                                                   [](std::string* text, const std::string& name) {
                                                     text->append(LunNameForPeople(name));
                                                   }),
                                     ")"));
  }
  volume_ = *std::move(volume);
  for (const std::string& warning : volume_.warnings) spdlog::warn("{}", warning);
  return absl::OkStatus();
}

absl::Status Mount::Remount(std::string_view list, bool apply) {
  MutexLock lock(remount_mutex_);
  absl::StatusOr<MountOptions> wanted = Remounted(now_, {list.data(), list.size()});
  if (!wanted.ok()) return wanted.status();
  if (!wanted->read_only && now_.read_only && !writable_) {
    return absl::FailedPreconditionError(
        session_->read_only() ? "the controller exports the volume read-only to this host"
                              : "the LUNs can only be read: unmount, and mount anew");
  }
  if (!apply) return absl::OkStatus();
  now_ = *std::move(wanted);
  vfs_->NoteReads(now_.notes_reads(), now_.notes_listings(), now_.NotedAtime());
  data_->Change({.atime = now_.NotedAtime(),
                 .soft_timeout_ms = now_.soft_timeout_ms,
                 .flush_on_close = now_.flush_on_close,
                 .max_read_ahead_bytes = now_.read_ahead_bytes,
                 .max_frame_bytes = now_.sequence_ahead_bytes,
                 .max_write_behind_bytes = now_.write_behind_bytes});
  session_->SetSoftTimeout(now_.soft_timeout_ms);
  spdlog::info("{}: remounted with {}", options_.mount_point, list);
  return absl::OkStatus();
}

void Mount::KeepNames() {
  const std::string device = DeviceOfMount(options_.mount_point);
  const auto watch = std::make_shared<MountWatch>(device, SystemClock());
  const bool kept = !device.empty() &&
                    kernel_names_.Start({.forget =
                                             [this] {
                                               FuseSession* const fuse = invalidator_;
                                               return fuse != nullptr && fuse->ForgetNames();
                                             },
                                         .is_mounted_upon = [watch] { return watch->AnyUpon(); }});
  spdlog::info("{}: the kernel {}", options_.mount_point,
               kept ? "keeps names" : "asks for every name: it cannot be told to forget them");
}

// From where the kernel's requests are no longer read, nothing may wait for them: a recall would,
// if it invalidates a page that a program has locked for a read, and other hosts for the recall.
bool Mount::Stop() {
  pages_.reset();
  fuse_->Detach();
  if (!fuse_->StopWorkers(kDrainMs))
    spdlog::warn("requests in progress do not finish: giving them up");
  fuse_->Abort();
  outcome_ = data_->Stop();
  started_data_ = false;
  session_->Shutdown();
  if (!session_->Confirmed(session_->last_early_number())) {
    outcome_.Update(absl::DataLossError("changes of names may not be durable"));
  }
  events_->Stop();
  invalidator_.store(nullptr, std::memory_order_release);
  return fuse_->StopWorkers(kAbortedDrainMs);
}

}  // namespace reel::client
