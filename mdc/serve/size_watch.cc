#include "mdc/serve/size_watch.h"

#include <chrono>

#include "absl/strings/str_cat.h"
#include "spdlog/spdlog.h"
#include "volume/base/size.h"
#include "volume/format/label.h"
#include "volume/scsi/lun_times.h"

namespace reel::mdc {

SizeWatch::SizeWatch(OpenVolume& volume) : volume_(volume) {
  const VolumeDescriptor& descriptor = volume.descriptor;
  MutexLock lock(mutex_);
  for (const Pool& pool : descriptor.pools) {
    for (const StripeSet& set : pool.sets) {
      const std::uint64_t used = set.rows * pool.BreadthOf(set) * descriptor.block_bytes;
      for (const LunEntry& entry : set.luns) {
        if (luns_.size() == volume.luns.size()) break;
        const Lun& lun = *volume.luns[luns_.size()];
        luns_.push_back({.name = absl::StrCat("LUN ", entry.name, " (", lun.name(), ")"),
                         .metadata = (pool.flags & Pool::kMetadata) != 0,
                         .used_bytes = entry.data_start_bytes + used,
                         .now_bytes = lun.size_bytes()});
      }
    }
  }
  thread_ = Thread([this] { Main(); });
}

SizeWatch::~SizeWatch() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    wake_.NotifyAll();
  }
  thread_.Join();
}

bool SizeWatch::stopping() const {
  MutexLock lock(mutex_);
  return stopping_;
}

std::string SizeWatch::Watched::Text() const {
  if (cut()) {
    return absl::StrCat(name, ": holds ", FormatSize(now_bytes), " now, and the volume uses ",
                        FormatSize(used_bytes),
                        " of it; what lies beyond is lost to it: set its size back at the target");
  }
  return absl::StrCat(name, ": has grown by ", FormatSize(now_bytes - labelled_bytes), ", to ",
                      FormatSize(now_bytes), "; the volume goes on to use the first ",
                      FormatSize(labelled_bytes), ", until \"reeladm lun grow\" of its pool");
}

// What does not answer is not known to have changed. Of a LUN for data a controller needs nothing
// but answers like these: so it is here that one is opened anew whose device was removed.
void SizeWatch::LookAt(std::size_t index) {
  Lun& lun = *volume_.luns[index];
  bool labelled = false, metadata = false;
  {
    MutexLock lock(mutex_);
    labelled = luns_[index].labelled_bytes != 0;
    metadata = luns_[index].metadata;
  }
  std::uint64_t labelled_bytes = 0;
  if (!labelled) {
    const auto reading = ReadLabel(lun);
    if (reading.ok()) labelled_bytes = reading->label.size_bytes;
  }
  const auto size = lun.SizeNow();
  if (!size.ok() && !metadata) (void)lun.Reopen();
  MutexLock lock(mutex_);
  Watched& watched = luns_[index];
  const bool grown = watched.grown(), cut = watched.cut();
  if (!labelled) watched.labelled_bytes = labelled_bytes;
  if (size.ok()) watched.now_bytes = *size;
  if (watched.cut() && !cut) {
    spdlog::error("{}", watched.Text());
  } else if (watched.grown() && !grown) {
    spdlog::info("{}", watched.Text());
  } else if (cut && !watched.cut()) {
    spdlog::info("{}: has its size again", watched.name);
  }
}

void SizeWatch::Look() {
  MutexLock turn(looking_);
  for (std::size_t i = 0; i < volume_.luns.size() && !stopping(); ++i) LookAt(i);
}

std::vector<std::string> SizeWatch::Grown() const {
  std::vector<std::string> lines;
  MutexLock lock(mutex_);
  for (const Watched& lun : luns_) {
    if (lun.grown() && !lun.cut()) lines.push_back(lun.Text());
  }
  return lines;
}

std::vector<std::string> SizeWatch::Cut() const {
  std::vector<std::string> lines;
  MutexLock lock(mutex_);
  for (const Watched& lun : luns_) {
    if (lun.cut()) lines.push_back(lun.Text());
  }
  return lines;
}

std::uint64_t SizeWatch::SizeOf(std::size_t index) const {
  MutexLock lock(mutex_);
  return luns_[index].now_bytes;
}

void SizeWatch::Main() {
  while (!stopping()) {
    Look();
    MutexLock lock(mutex_);
    if (!stopping_) wake_.WaitFor(mutex_, std::chrono::milliseconds(SizeWatchMs()));
  }
}

}  // namespace reel::mdc
