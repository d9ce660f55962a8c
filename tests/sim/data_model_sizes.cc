// Which sizes a file may have.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tests/sim/data_model.h"

namespace reel::sim {
namespace {

constexpr std::uint64_t kPageBytes = 4096;
constexpr std::size_t kMostSizes = 4096;

}  // namespace

void DataModel::NoteSize(std::uint32_t write, Size size, std::uint64_t size_bytes) {
  Write& w = writes_[write];
  if (w.size == Size::kKept) sizes_[w.inode].push_back(write);
  w.size = size;
  w.size_bytes = size_bytes;
}

void DataModel::GrowsTo(std::uint32_t write, std::uint64_t size_bytes) {
  NoteSize(write, Size::kGrown, size_bytes);
}

void DataModel::SetsSize(std::uint32_t write, std::uint64_t size_bytes) {
  NoteSize(write, Size::kSet, size_bytes);
}

// By a truncation that may have come later, and has begun before then.
bool DataModel::MayBeCut(const Write& write, std::uint64_t to_bytes, Micros before) const {
  const std::vector<std::uint32_t>& changes = sizes_.at(write.inode);
  return std::any_of(changes.begin(), changes.end(), [&](std::uint32_t number) {
    const Write& cut = writes_[number];
    return cut.size == Size::kSet && cut.size_bytes < to_bytes && cut.began <= before &&
           cut.returned >= write.began;
  });
}

// By a truncation that came later, and was over before then.
bool DataModel::WasCut(const Write& write, std::uint64_t to_bytes, Micros before) const {
  const std::vector<std::uint32_t>& changes = sizes_.at(write.inode);
  return std::any_of(changes.begin(), changes.end(), [&](std::uint32_t number) {
    const Write& cut = writes_[number];
    return cut.size == Size::kSet && cut.size_bytes < to_bytes && cut.ended < before &&
           cut.began > write.returned;
  });
}

// One that goes page by page shows the end of each.
std::set<std::uint64_t> DataModel::SizesFrom(const Write& write) const {
  std::set<std::uint64_t> sizes{write.size_bytes};
  const std::uint64_t from = write.first * kCellBytes;
  for (std::uint64_t at = (from / kPageBytes + 1) * kPageBytes; at < write.size_bytes;
       at += kPageBytes) {
    if (write.in_parts) sizes.insert(at);
  }
  return sizes;
}

std::optional<std::set<std::uint64_t>> DataModel::SizesOf(std::uint64_t inode, Micros began,
                                                          std::uint32_t itself) const {
  std::set<std::uint64_t> sizes{0};
  std::vector<std::uint64_t> somewhere;  // appends of which nobody knows where they went
  for (const std::uint32_t number : sizes_.at(inode)) {
    const Write& write = writes_[number];
    if (number == itself) continue;
    if (write.append && !write.placed) {
      if (!WasCut(write, kToEnd, began)) somewhere.push_back(write.cells * kCellBytes);
      continue;
    }
    for (const std::uint64_t size : SizesFrom(write)) {
      if (!WasCut(write, size, began)) sizes.insert(size);
    }
  }
  for (const std::uint64_t length : somewhere) {
    if (sizes.size() > kMostSizes) return std::nullopt;
    for (const std::uint64_t size : std::vector(sizes.begin(), sizes.end())) {
      sizes.insert(size + length);
    }
  }
  return sizes;
}

void DataModel::CheckSize(std::uint64_t inode, Actor actor, Micros began, const SizeSeen& seen) {
  if (UnawareSince(actor.host, began) || LostSessionSince(actor.host, began)) return;
  static_cast<void>(sizes_[inode]);
  const auto wrong = [&](const std::string& why) {
    Violate(absl::StrCat("host ", actor.host, " finds ", seen.exactly ? "" : "at least ",
                         seen.bytes, " bytes in inode ", inode, " from ", began, " to ",
                         scheduler_.now(), ", ", why));
  };
  const auto sizes = SizesOf(inode, began, seen.itself);
  if (sizes) {
    const auto at = sizes->lower_bound(seen.bytes);
    if (at == sizes->end() || (seen.exactly && *at != seen.bytes)) {
      return wrong("which nothing has made so");
    }
  }
  if (!seen.exactly) return;
  for (const std::uint32_t number : sizes_.at(inode)) {
    const Write& write = writes_[number];
    const bool over = write.ended < began && !write.lost;
    if (!over || write.size_bytes <= seen.bytes || number == seen.itself) continue;
    if (MayBeCut(write, write.size_bytes, scheduler_.now())) continue;
    return wrong(absl::StrCat("but ", Describe(number), " made it ", write.size_bytes));
  }
}

// Appends that both went well lie apart, unless a truncation came between them.
void DataModel::CheckApart(std::uint32_t append) {
  const Write& write = writes_[append];
  if (UnawareSince(write.actor.host, write.began)) return;
  for (const std::uint32_t number : sizes_.at(write.inode)) {
    const Write& other = writes_[number];
    if (number == append || !other.append || other.ended == kNever || other.lost) continue;
    if (other.first >= write.first + write.cells || write.first >= other.first + other.cells) {
      continue;
    }
    const Write& earlier = other.began < write.began ? other : write;
    const std::uint64_t end = std::min(other.size_bytes, write.size_bytes);
    if (MayBeCut(earlier, end, scheduler_.now())) continue;
    Violate(absl::StrCat(Describe(append), " and ", Describe(number), " are appends to one place"));
  }
}

void DataModel::EndLength(std::uint64_t inode, Actor actor, Micros began, Range range,
                          std::uint64_t length) {
  if (length == 0) return;
  CheckSize(inode, actor, began,
            {.bytes = range.offset_bytes + length, .exactly = length < range.length_bytes});
}

}  // namespace reel::sim
