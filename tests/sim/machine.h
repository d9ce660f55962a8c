// One client of the simulated cluster: the real client's parts from the session to the file system,
// wired as the mount wires them, with a model of the kernel's page cache in place of FUSE.
// Threads: fibers of its host.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/vfs/event_router.h"
#include "client/vfs/vfs.h"
#include "tests/sim/attr_cache.h"
#include "tests/sim/host_clock.h"
#include "tests/sim/listing_keeper.h"
#include "tests/sim/luns.h"
#include "tests/sim/name_keeper.h"
#include "tests/sim/network.h"
#include "tests/sim/page_cache.h"

namespace reel::sim {

class Machine {
 public:
  // `controllers`: their addresses; `may_be_old`: it may be of an earlier release;
  // `small_file_bytes`: the volume's.
  Machine(int host, Scheduler& scheduler, Network& network, std::vector<Disk*> disks,
          std::vector<std::string> controllers, bool may_be_old, std::uint32_t small_file_bytes)
      : host_(host),
        may_be_old_(may_be_old),
        small_file_bytes_(small_file_bytes),
        scheduler_(scheduler),
        clock_(scheduler, scheduler.random()),
        connector_(network.ConnectorOf(host)),
        disks_(std::move(disks)),
        controllers_(std::move(controllers)),
        attributes_(scheduler),
        kept_names_(scheduler, attributes_),
        kept_listings_(scheduler, attributes_),
        kernel_names_(names_, clock_, scheduler.random().OneIn(2) ? 0 : 500) {}

  // Registers, until a controller answers; gives up after a while.
  bool Start();
  // As an unmount.
  void Stop();

  int host() const { return host_; }
  bool flush_on_close() const { return flush_on_close_; }
  // Of a release before versions were negotiated.
  bool speaks_old() const { return may_be_old_ && host_ % 3 == 0; }
  // Of a few names each.
  bool lists_in_pages() const { return listing_bytes_ < client::kReadDirBytes; }
  bool mounted() const { return vfs_ != nullptr; }
  client::Vfs& vfs() { return *vfs_; }  // REQUIRES: mounted()
  client::FileData& data() { return *data_; }
  client::FileLocks& locks() { return locks_; }
  client::Session* session() { return session_.get(); }
  PageCache& pages() { return pages_; }
  AttrCache& attributes() { return attributes_; }
  NameKeeper& kept_names() { return kept_names_; }
  ListingKeeper& kept_listings() { return kept_listings_; }
  // The end of a change of a name that this host has asked for.
  void NameChanged(const client::NameIn& at, bool well) {
    kept_names_.Changed(at);
    if (well) kept_listings_.Changed(at.parent);
  }
  Path::FaultRates& fault_rates() { return fault_rates_; }
  // Told when the client has noticed that its session is over, and has let go of all it held.
  void SetOnNoticed(std::function<void()> on_noticed) { on_noticed_ = std::move(on_noticed); }
  // Told from which number on what the client got as early replies may be lost.
  void SetOnEarlyLost(std::function<void(std::uint64_t first)> on_early_lost) {
    on_early_lost_ = std::move(on_early_lost);
  }
  // With the machine goes what only it could have made good.
  void Crashed();

 private:
  // On this host's paths: what `open` has is shared.
  absl::StatusOr<OpenVolume> OpenLuns(const OpenVolume& open, const VolumeDescriptor& map);

  const int host_;
  const bool may_be_old_;
  const std::uint32_t small_file_bytes_;
  Scheduler& scheduler_;
  const HostClock clock_;
  const std::unique_ptr<client::MdcConnector> connector_;
  const std::vector<Disk*> disks_;
  const std::vector<std::string> controllers_;
  Path::FaultRates fault_rates_;
  PageCache pages_;
  AttrCache attributes_;
  NameKeeper kept_names_;
  ListingKeeper kept_listings_;
  bool flush_on_close_ = false;
  std::uint32_t listing_bytes_ = client::kReadDirBytes;
  std::unique_ptr<client::FileData> data_;
  client::NameCache names_;
  client::KernelNames kernel_names_;
  client::FileLocks locks_;
  std::function<void()> on_noticed_;
  std::function<void(std::uint64_t)> on_early_lost_;
  std::unique_ptr<client::SessionEvents> events_;
  std::unique_ptr<client::Session> session_;
  OpenVolume volume_;
  std::unique_ptr<client::Vfs> vfs_;
};

}  // namespace reel::sim
