#include "tests/sim/machine.h"

#include "absl/strings/str_cat.h"

namespace reel::sim {
namespace {

constexpr int kTries = 100;

// The client's own router, and a look at what passes.
class WatchedRouter final : public client::EventRouter {
 public:
  WatchedRouter(client::EventRouter router, const std::function<void()>& on_noticed)
      : EventRouter(std::move(router)), on_noticed_(on_noticed) {}
  void OnEvicted() override {
    EventRouter::OnEvicted();
    if (on_noticed_) on_noticed_();
  }

 private:
  const std::function<void()>& on_noticed_;
};

}  // namespace

bool Machine::Start() {
  data_ = client::FileData::Create({.always_read_ahead = true}, clock_,
                                   [this](std::uint64_t inode) { pages_.Invalidate(inode); });
  events_ = std::make_unique<WatchedRouter>(client::EventRouter(*data_, names_, locks_, session_),
                                            on_noticed_);
  client::Session::Options options;
  options.volume = "reel";
  options.mdcs = {"mdc"};
  options.host = absl::StrCat(host_);
  options.mount_point = "/mnt";
  options.caches_attributes = true;
  for (int i = 0; session_ == nullptr; ++i) {
    if (i == kTries) return false;
    auto connected = client::Session::Connect(options, *connector_, *events_, clock_);
    if (connected.ok()) {
      session_ = *std::move(connected);
    } else {
      scheduler_.Sleep(300 * kMs);
    }
  }
  volume_.descriptor = session_->descriptor();
  for (Disk* disk : disks_) volume_.luns.push_back(std::make_unique<Path>(*disk, host_, weather_));
  locks_.Start(*session_);
  if (!data_->Start(*session_, volume_).ok()) return false;
  vfs_ = std::make_unique<client::Vfs>(*session_, *data_, names_, client::VfsOptions{});
  return true;
}

void Machine::Stop() {
  data_->Stop();
  session_->Shutdown();
}

}  // namespace reel::sim
