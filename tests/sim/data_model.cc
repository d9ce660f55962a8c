#include "tests/sim/data_model.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "volume/base/types.h"

namespace reel::sim {
namespace {

constexpr std::uint32_t kForeign = std::numeric_limits<std::uint32_t>::max();

// A stamp stands eight times in its cell.
std::uint64_t StampOf(std::uint32_t write, std::uint64_t cell) {
  return (std::uint64_t{write} << 32) | (std::uint64_t{0x5eed} << 16) | cell;
}

}  // namespace

std::string DataModel::Describe(std::uint32_t write) const {
  if (write == 0) return "zeros";
  const Write& w = writes_[write];
  return absl::StrCat(w.zeros ? "zeroing " : "write ", write, " of host ", w.actor.host, " (inode ",
                      w.inode, ", cells ", w.first, "+", w.cells, ", ", w.began, " to ",
                      w.ended == kNever ? "?" : absl::StrCat(w.ended), w.lost ? ", lost" : "",
                      w.durable ? ", durable" : "", ")");
}

// ---- writing ----------------------------------------------------------------------------------

std::uint32_t DataModel::BeginWrite(std::uint64_t inode, Actor actor, Range range, bool zeros) {
  Write& write = writes_.emplace_back();
  write.inode = inode;
  write.actor = actor;
  write.began = scheduler_.now();
  write.cells = range.length_bytes / kCellBytes;
  write.zeros = zeros;
  const auto number = static_cast<std::uint32_t>(writes_.size() - 1);
  Place(number, range.offset_bytes / kCellBytes);
  if (!zeros) GrowsTo(number, range.offset_bytes + range.length_bytes);
  return number;
}

std::uint32_t DataModel::BeginAppend(std::uint64_t inode, Actor actor, std::uint64_t length_bytes) {
  Write& write = writes_.emplace_back();
  write.inode = inode;
  write.actor = actor;
  write.began = scheduler_.now();
  write.cells = length_bytes / kCellBytes;
  write.append = true;
  const auto number = static_cast<std::uint32_t>(writes_.size() - 1);
  GrowsTo(number, 0);  // as it is placed
  return number;
}

void DataModel::Place(std::uint32_t write, std::uint64_t first) {
  Write& w = writes_[write];
  w.first = first;
  w.placed = true;
  File& file = files_[w.inode];
  if (file.empty()) {
    file.resize(kMaxFileBytes / kCellBytes, {Version{.write = 0, .seen = 0, .shared = true}});
  }
  for (std::uint64_t cell = first; cell < std::min(first + w.cells, file.size()); ++cell) {
    file[cell].push_back({.write = write});
  }
  if (w.append) w.size_bytes = (first + w.cells) * kCellBytes;
}

void DataModel::Fill(std::uint32_t write, std::span<std::byte> data) const {
  for (std::size_t at = 0; at < data.size(); at += sizeof(std::uint64_t)) {
    const std::uint64_t stamp = StampOf(write, at / kCellBytes);
    std::memcpy(data.data() + at, &stamp, sizeof(stamp));
  }
}

void DataModel::EndAppend(std::uint32_t write, std::uint64_t offset_bytes) {
  Write& w = writes_[write];
  if (offset_bytes % kCellBytes != 0) {
    return Violate(absl::StrCat("append ", write, " went to byte ", offset_bytes));
  }
  const std::uint64_t first = offset_bytes / kCellBytes;
  if (!w.placed) Place(write, first);
  if (w.first != first) {
    Violate(absl::StrCat(Describe(write), " was seen elsewhere than at cell ", first));
  }
  CheckSize(w.inode, w.actor, w.began, {.bytes = offset_bytes, .itself = write});
  CheckApart(write);
}

void DataModel::CutShort(std::uint32_t write, std::uint64_t length_bytes) {
  Write& w = writes_[write];
  const std::uint64_t end = w.first + w.cells;
  w.cells = length_bytes / kCellBytes;
  if (!w.placed) return;
  File& file = files_[w.inode];
  for (std::uint64_t cell = w.first + w.cells; cell < std::min(end, file.size()); ++cell) {
    std::erase_if(file[cell], [&](const Version& version) { return version.write == write; });
  }
  w.size_bytes = (w.first + w.cells) * kCellBytes;
}

void DataModel::EndWrite(std::uint32_t write, bool ok, bool durable) {
  Write& w = writes_[write];
  w.returned = scheduler_.now();
  if (!ok && w.in_pages) ForgetSeen(write);
  if (!ok) return Lose(w);
  w.ended = w.returned;
  w.durable = durable;
  w.lost = false;
  DropOverlapping(write);
  // What it wrote before its session was lost is lost, too, where it returned after that.
  if (durable) return;
  const int host = w.actor.host;
  if (UnawareSince(host, w.began) || LostSessionSince(host, w.began)) return Lose(w);
  w.lost = FlushFailedSince(host, w.began);  // what becomes of it is open
}

// Behind a truncation or a punch, the kernel drops the pages of its range, and what was stored to
// them while the call was under way, although by then others may have written there.
void DataModel::DropOverlapping(std::uint32_t write) {
  const Write& w = writes_[write];
  for (std::uint32_t other = 1; other < writes_.size(); ++other) {
    if (writes_[other].inode != w.inode || writes_[other].zeros == w.zeros) continue;
    DropStore(w.zeros ? other : write, w.zeros ? w : writes_[other]);
  }
}

void DataModel::DropStore(std::uint32_t store, const Write& zeroing) {
  const Write& w = writes_[store];
  const bool overlaps = w.returned >= zeroing.began && w.began <= zeroing.returned;
  if (!w.in_pages || w.actor.host != zeroing.actor.host || !overlaps) return;
  File& file = files_[w.inode];
  const std::uint64_t end = std::min(zeroing.first + zeroing.cells, file.size());
  for (std::uint64_t cell = zeroing.first; cell < end; ++cell) {
    for (Version& version : file[cell]) {
      if (version.write != store) continue;
      version.dropped = true;
      if (!version.shared) version.seen = kNever;
    }
  }
}

void DataModel::ForgetSeen(std::uint32_t write) {
  for (std::vector<Version>& versions : files_[writes_[write].inode]) {
    for (Version& version : versions) {
      if (version.write == write && !version.shared) version.seen = kNever;
    }
  }
}

void DataModel::Lose(Write& write) {
  write.lost = true;
  write.lost_since = scheduler_.now();
}

void DataModel::Landed(int host, std::span<const std::byte> bytes) {
  for (std::size_t at = 0; at + kCellBytes <= bytes.size(); at += kCellBytes) {
    std::uint64_t stamp = 0;
    std::memcpy(&stamp, bytes.data() + at, sizeof(stamp));
    const std::uint64_t write = stamp >> 32;
    if (write == 0 || write >= writes_.size()) continue;
    Write& w = writes_[write];
    const bool its_own = stamp == StampOf(static_cast<std::uint32_t>(write), stamp & 0xffff);
    if (!its_own || w.actor.host != host || w.returned != kNever) continue;
    w.landed = std::min(w.landed, scheduler_.now());
  }
}

void DataModel::CheckDoneOnce(std::uint32_t write) {
  const auto noticed = last_noticed_.find(writes_[write].actor.host);
  if (noticed == last_noticed_.end() || noticed->second <= writes_[write].landed) return;
  Violate(absl::StrCat(Describe(write), " was done again after its session was over"));
}

// ---- reading ----------------------------------------------------------------------------------

Micros DataModel::Over(const Version& version) const {
  const Write& write = writes_[version.write];
  if (version.write == 0) return 0;
  return std::min(version.seen, write.lost || version.dropped ? kNever : write.ended);
}

Micros DataModel::Last(const Version& version) const {
  return std::min(Over(version), writes_[version.write].returned);
}

bool DataModel::Shows(const Version& version, std::uint32_t shown) const {
  return shown == 0 ? version.write == 0 || writes_[version.write].zeros : version.write == shown;
}

// (Whoever reads has got the token from the lost session, so when that was fenced and drained. But
// a host that has not noticed reads what it has in memory.)
void DataModel::Decide(std::vector<Version>& versions, Actor actor, Micros began,
                       std::uint32_t shown) {
  if (UnawareSince(actor.host, began) || LostSessionSince(actor.host, began)) return;
  Micros latest = 0;          // of what may have been shown
  Micros latest_losable = 0;  // of what of that may be lost yet: what it hides comes out again then
  for (const Version& version : versions) {
    if (!Shows(version, shown) || version.gone < began) continue;
    latest = std::max(latest, Last(version));
    const Write& write = writes_[version.write];
    const bool stays = version.write == 0 || write.durable || version.shared ||
                       (write.actor.host != actor.host && !write.lost);
    if (!stays) latest_losable = std::max(latest_losable, Last(version));
  }
  for (Version& version : versions) {
    Write& write = writes_[version.write];
    const bool decided = write.lost && write.lost_since < began && write.returned < began;
    if (!decided || Shows(version, shown) || latest_losable >= write.began) continue;
    version.gone = std::min(version.gone, scheduler_.now());
    if (latest < write.began) write.undone = true;
  }
}

std::uint32_t DataModel::WriteAt(std::uint64_t inode, std::uint64_t cell, const std::byte* bytes) {
  std::uint64_t stamp = 0;
  std::memcpy(&stamp, bytes, sizeof(stamp));
  for (std::size_t at = 0; at < kCellBytes; at += sizeof(stamp)) {
    if (std::memcmp(bytes, bytes + at, sizeof(stamp)) != 0) return kForeign;
  }
  if (stamp == 0) return 0;
  const auto write = static_cast<std::uint32_t>(stamp >> 32);
  if (write == 0 || write >= writes_.size() || writes_[write].zeros) return kForeign;
  const std::uint64_t place = stamp & 0xffff;
  if (stamp != StampOf(write, place) || writes_[write].inode != inode || place > cell) {
    return kForeign;
  }
  if (!writes_[write].placed) Place(write, cell - place);
  return writes_[write].first + place == cell ? write : kForeign;
}

void DataModel::CheckCell(std::uint64_t inode, Actor actor, Micros began, std::uint64_t cell,
                          std::uint32_t shown, bool suspect) {
  ++cells_checked_;
  std::vector<Version>& versions = files_[inode][cell];
  // The last beginning among what was over before the read began.
  Micros newest = 0;
  std::uint32_t newest_write = 0;
  for (const Version& version : versions) {
    if (Over(version) >= began || writes_[version.write].began < newest) continue;
    newest = writes_[version.write].began;
    newest_write = version.write;
  }
  Version* match = nullptr;
  bool many = false;
  bool present = false;
  for (Version& version : versions) {
    if (!Shows(version, shown)) continue;
    present = true;
    if (version.gone < began || Last(version) < newest) continue;
    many = match != nullptr;
    match = &version;
  }
  if (match != nullptr) {
    if (!suspect) Decide(versions, actor, began, shown);
    if (many || suspect) return;
    // Until it has noticed that its session is over, it sees what it wrote, which may be lost; and
    // what it has stored to a page since will be.
    const bool stored = writes_[match->write].in_pages && writes_[match->write].ended == kNever;
    if ((writes_[match->write].lost || stored) && Unaware(actor.host)) return;
    // Its own pages may keep what a failed flush has lost.
    if (writes_[match->write].lost && writes_[match->write].actor.host == actor.host &&
        FlushFailedSince(actor.host, writes_[match->write].began)) {
      return;
    }
    // What a read of many pages has copied may be gone by its end.
    const Write& write = writes_[match->write];
    if (write.in_pages && write.returned != kNever && write.ended == kNever) return;
    // The kernel zeroes its pages once more as the call returns, whatever came into them meanwhile.
    if (write.in_pages && write.zeros && write.returned == kNever) return;
    match->seen = std::min(match->seen, scheduler_.now());
    if (actor.host != writes_[match->write].actor.host && !writes_[match->write].lost) {
      match->shared = true;
    }
    return;
  }
  if (suspect && present) return;
  Violate(absl::StrCat("host ", actor.host, " read ", shown == 0 ? "zeros" : Describe(shown),
                       " in cell ", cell, " of inode ", inode, " from ", began, " to ",
                       scheduler_.now(), ", but ", Describe(newest_write), " is newer"));
}

void DataModel::EndRead(std::uint64_t inode, Actor actor, Micros began, Range range,
                        std::span<const std::byte> data, bool suspect) {
  if (!files_.contains(inode)) Place(BeginWrite(inode, actor, {0, 0}, true), 0);
  const std::size_t before = violations_.size();
  for (std::uint64_t at = 0; at < range.length_bytes; at += kCellBytes) {
    const std::uint64_t cell = (range.offset_bytes + at) / kCellBytes;
    std::uint32_t shown = 0;
    if (at + kCellBytes <= data.size()) {
      shown = WriteAt(inode, cell, data.data() + at);
    } else if (at < data.size()) {
      shown = kForeign;
    }
    if (shown == kForeign) {
      std::uint64_t stamp = 0;
      if (at + 8 <= data.size()) std::memcpy(&stamp, data.data() + at, 8);
      Violate(absl::StrCat("host ", actor.host, " read bytes in cell ", cell, " of inode ", inode,
                           " that no write put there: ", absl::Hex(stamp)));
    } else {
      CheckCell(inode, actor, began, cell, shown, suspect);
    }
    if (violations_.size() > before) return;  // one is enough
  }
}

void DataModel::EndStat(std::uint64_t inode, Actor actor, Micros began, std::uint64_t size_bytes) {
  constexpr std::uint64_t kLookedAtBytes = 16 * kCellBytes;
  CheckSize(inode, actor, began, {.bytes = size_bytes});
  const std::uint64_t from = RoundUp(size_bytes, kCellBytes);
  if (!files_.contains(inode) || from >= kMaxFileBytes) return;
  EndRead(inode, actor, began, {from, std::min(kLookedAtBytes, kMaxFileBytes - from)}, {}, false);
}

bool DataModel::MayReport(std::uint64_t inode, int host, Micros since) const {
  return UnawareSince(host, since) || LostSessionSince(host, since) ||
         unsynced_names_.contains(host) || unsynced_.contains({host, inode});
}

void DataModel::EndFsync(std::uint64_t inode, Actor actor, Micros began, bool ok, bool asks) {
  if (!UnawareSince(actor.host, began)) {
    // (What a close says of lost names says nothing of the file's bytes: they are told of later.)
    const bool of_names = !ok && unsynced_names_.contains(actor.host);
    if ((asks || !ok) && !of_names) unsynced_.erase({actor.host, inode});
    if (ok) made_.erase({actor.host, inode});
    if (ok)
      unsynced_names_.erase(actor.host);  // an error may have been told before it looked there
  }
  for (Write& write : writes_) {
    if (write.inode != inode || write.actor.host != actor.host || write.durable) continue;
    if (write.ended > began) continue;
    if (!ok) {
      // It was told, perhaps before the end of the session was seen here.
      (write.actor.handle == actor.handle ? write.forgiven : write.doubted) = true;
      continue;
    }
    const bool maybe_lost = write.lost || write.doubted;
    if (write.forgiven || (maybe_lost && write.actor.handle != actor.handle)) continue;
    if (Unaware(actor.host)) continue;
    if (write.lost && write.undone) {
      const auto number = static_cast<std::uint32_t>(&write - writes_.data());
      Violate(absl::StrCat("fsync of inode ", inode, " on host ", actor.host,
                           " told nothing of the loss of ", Describe(number)));
    }
    write.lost = false;
    write.durable = true;
  }
}

void DataModel::EndSyncAll(int host, Micros began, bool mapped) {
  if (!UnawareSince(host, began)) unsynced_names_.erase(host);
  if (Unaware(host)) return;
  for (Write& write : writes_) {
    if (write.actor.host != host || write.ended >= began || (mapped && write.in_pages)) continue;
    if (!write.lost && !write.forgiven && !write.doubted) write.durable = true;
  }
}

// ---- losses -----------------------------------------------------------------------------------

void DataModel::SessionOver(int host) {
  unaware_[host] = true;
  last_over_[host] = scheduler_.now();
  unsynced_names_.insert(host);
  LoseCreated(host);
  bool any = false;
  for (Write& write : writes_) {
    if (write.actor.host != host) continue;
    unsynced_.insert({host, write.inode});
    if (write.durable) continue;
    Lose(write);  // what is under way may have been seen, and be done again later
    any = true;
    if (crashed_.contains(host)) write.returned = std::min(write.returned, scheduler_.now());
  }
  if (any) ForgetSeen();
}

void DataModel::SessionNoticed(int host) {
  // (One that was over before it was stored, as slow LUNs have it, nobody else has seen.)
  last_noticed_[host] = scheduler_.now();
  if (unaware_.erase(host) == 0) return;
  LoseCreated(host);
}

void DataModel::LoseCreated(int host) {
  const auto first = made_.lower_bound({host, 0});
  const auto end = made_.lower_bound({host + 1, 0});
  unsynced_.insert(first, end);
  made_.erase(first, end);
}

bool DataModel::UnawareSince(int host, Micros time) const {
  const auto last = last_noticed_.find(host);
  return Unaware(host) || (last != last_noticed_.end() && last->second >= time);
}

void DataModel::PowerFailed() {
  for (Write& write : writes_) {
    if (!write.durable) Lose(write);
    write.undone = false;
  }
  for (auto& [inode, file] : files_) {
    for (std::vector<Version>& versions : file) {
      for (Version& version : versions) version.gone = kNever;
    }
  }
  ForgetShared(kAllHosts);
}

void DataModel::FlushFailed(int host) {
  last_flush_failed_[host] = scheduler_.now();
  for (Write& write : writes_) {
    if (write.actor.host == host && !write.durable) write.lost = true;
  }
  ForgetShared(host);
}

void DataModel::ForgetShared(int host) {
  for (auto& [inode, file] : files_) {
    for (std::vector<Version>& versions : file) {
      for (Version& version : versions) {
        const Write& write = writes_[version.write];
        if (version.write == 0 || write.durable) continue;
        if (host == kAllHosts || write.actor.host == host) version.shared = false;
      }
    }
  }
  ForgetSeen();
}

// What is lost may be gone, although it was seen.
void DataModel::ForgetSeen() {
  for (auto& [inode, file] : files_) {
    for (std::vector<Version>& versions : file) {
      for (Version& version : versions) {
        if (!version.shared && writes_[version.write].lost) version.seen = kNever;
      }
    }
  }
}

std::vector<std::uint64_t> DataModel::Files() const {
  std::vector<std::uint64_t> files;
  for (const auto& [inode, file] : files_) files.push_back(inode);
  return files;
}

}  // namespace reel::sim
