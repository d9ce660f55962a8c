#include "tests/sim/machine.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace reel::sim {
namespace {

constexpr int kTries = 100;

// Little memory, small windows and short ages, so that writes take all the ways there are; and
// streams that begin early.
client::FileDataOptions AnyOptions(Random& random, std::uint32_t small_file_bytes) {
  client::FileDataOptions options{.always_read_ahead = true};
  options.max_write_behind_bytes = random.OneIn(5) ? 0 : 4 * kKiB << random.Below(6);
  options.max_behind_write_bytes = kKiB << random.Below(5);
  options.write_behind_buffer_bytes =
      std::max<std::uint64_t>(4 * kKiB << random.Below(4), small_file_bytes);
  options.write_behind_age_ms = static_cast<std::uint32_t>(random.Between(5, 3000));
  options.flush_on_close = random.OneIn(4);
  options.stream_bytes = 512 << random.Below(5);
  options.least_prefetch_bytes = 4 * kKiB << random.Below(5);
  options.read_chunk_bytes = 4 * kKiB << random.Below(3);
  options.max_frame_bytes = random.OneIn(3) ? 0 : 8 * kKiB << random.Below(6);
  options.max_read_ahead_bytes = random.OneIn(8) ? 0 : 8 * kKiB << random.Below(4);
  return options;
}

// The client's own router, and a look at what passes.
class WatchedRouter final : public client::EventRouter {
 public:
  WatchedRouter(client::FileData& data, client::NameCache& names, client::KernelNames& kernel_names,
                client::FileLocks& locks, const std::unique_ptr<client::Session>& session,
                std::function<bool(std::uint64_t)> forget_attributes,
                const std::function<void()>& on_noticed,
                const std::function<void(std::uint64_t)>& on_early_lost)
      : EventRouter(data, names, kernel_names, locks, session, std::move(forget_attributes)),
        on_noticed_(on_noticed),
        on_early_lost_(on_early_lost) {}
  void OnEarlyLost(std::uint64_t first) override {
    EventRouter::OnEarlyLost(first);
    if (on_early_lost_) on_early_lost_(first);
  }
  void OnEvicted() override {
    EventRouter::OnEvicted();
    if (on_noticed_) on_noticed_();
  }

 private:
  const std::function<void()>& on_noticed_;
  const std::function<void(std::uint64_t)>& on_early_lost_;
};

}  // namespace

absl::StatusOr<OpenVolume> Machine::OpenLuns(const OpenVolume& open, const VolumeDescriptor& map) {
  reel::OpenLuns added;
  for (const Pool& pool : map.pools) {
    for (const StripeSet& set : pool.sets) {
      for (const LunEntry& lun : set.luns) {
        const auto disk = std::ranges::find(disks_, lun.name, &Disk::name);
        if (disk == disks_.end()) return absl::NotFoundError(lun.name);
        added.try_emplace(lun.lun,
                          NamedLun{std::make_shared<Path>(**disk, host_, fault_rates_), lun.name});
      }
    }
  }
  return OpenMoreLuns(open, map, std::move(added));
}

bool Machine::Start() {
  client::FileDataOptions data = AnyOptions(scheduler_.random(), small_file_bytes_);
  data.open_more = [this](const OpenVolume& open, const VolumeDescriptor& later) {
    return OpenLuns(open, later);
  };
  flush_on_close_ = data.flush_on_close;
  if (scheduler_.random().OneIn(2)) {
    listing_bytes_ = static_cast<std::uint32_t>(40 * scheduler_.random().Between(1, 3));
  }
  data_ = client::FileData::Create(data, clock_,
                                   [this](std::uint64_t inode, const client::ByteRange& range) {
                                     pages_.Invalidate(inode, range);
                                   });
  const auto forget_attributes = [this](std::uint64_t inode) { return attributes_.Forget(inode); };
  events_ = std::make_unique<WatchedRouter>(*data_, names_, kernel_names_, locks_, session_,
                                            forget_attributes, on_noticed_, on_early_lost_);
  if (host_ % 4 != 0) {
    // Somebody may have mounted something within: the kernel is not told then.
    const bool mounted_upon = scheduler_.random().OneIn(8);
    kernel_names_.Start({.forget =
                             [this] {
                               kept_names_.Forget();
                               return true;
                             },
                         .is_mounted_upon = [mounted_upon] { return mounted_upon; }});
  }
  client::Session::Options options;
  options.volume = "reel";
  options.mdcs = controllers_;
  options.host = absl::StrCat(host_);
  options.mount_point = "/mnt";
  options.caches_attributes = true;
  if (speaks_old()) options.protocol = {.oldest = 1, .newest = 1};
  for (int i = 0; session_ == nullptr; ++i) {
    if (i == kTries) return false;
    auto connected = client::Session::Connect(options, *connector_, *events_, clock_);
    if (connected.ok()) {
      session_ = *std::move(connected);
    } else {
      scheduler_.Sleep(300 * kMs);
    }
  }
  auto opened = OpenLuns(OpenVolume(), session_->descriptor());
  if (!opened.ok()) return false;
  volume_ = *std::move(opened);
  locks_.Start(*session_);
  if (!data_->Start(*session_, volume_).ok()) return false;
  vfs_ = std::make_unique<client::Vfs>(*session_, *data_, names_,
                                       client::VfsOptions{.forget_attributes = forget_attributes,
                                                          .kernel_names = &kernel_names_,
                                                          .listing_bytes = listing_bytes_,
                                                          .clock = &clock_});
  pages_.SetVfs(vfs_.get());
  return true;
}

void Machine::Crashed() {
  if (session_ == nullptr || !on_early_lost_) return;
  std::uint64_t first = session_->last_early_number() + 1;
  while (first > 1 && !session_->Confirmed(first - 1)) --first;
  if (first <= session_->last_early_number()) on_early_lost_(first);
}

void Machine::Stop() {
  (void)data_->Stop();
  session_->Shutdown();
}

}  // namespace reel::sim
