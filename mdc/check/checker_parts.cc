// How a check is parted: by inode numbers, so that each part is about as much work.
#include <algorithm>
#include <numeric>

#include "mdc/check/checker_facts.h"

namespace reel::mdc::checker {
namespace {

// Of the store, compressed: some ten thousand files.
constexpr std::uint64_t kPartBytes = 2 * kMiB;
constexpr std::uint64_t kMostParts = 2048;
constexpr std::uint64_t kLastInode = ~std::uint64_t{0};

class Cutter {
 public:
  explicit Cutter(const Snapshot& view) : view_(view) {}

  std::vector<std::uint64_t> Cut() {
    const std::uint64_t all = Weigh(0, kLastInode);
    most_ = std::max(kPartBytes, all / kMostParts);
    Halve(0, kLastInode, all);
    std::vector<std::uint64_t> starts{0};
    std::uint64_t weight = 0;  // of the last part
    for (const Piece& piece : pieces_) {
      if (weight > 0 && weight + piece.weight > most_) {
        starts.push_back(piece.from);
        weight = 0;
      }
      weight += piece.weight;
    }
    return starts;
  }

 private:
  struct Piece {
    std::uint64_t from = 0, weight = 0;
  };

  std::uint64_t Weigh(std::uint64_t from, std::uint64_t last) const {
    constexpr schema::Family kFamilies[] = {schema::Family::kInode,  schema::Family::kExtent,
                                            schema::Family::kDirent, schema::Family::kCookie,
                                            schema::Family::kXattr,  schema::Family::kOrphan};
    return std::accumulate(std::begin(kFamilies), std::end(kFamilies), std::uint64_t{0},
                           [&](std::uint64_t sum, schema::Family family) {
                             const std::string end = last == kLastInode
                                                         ? EndOfPrefix(schema::Prefix(family))
                                                         : FirstKeyOf(family, last + 1);
                             return sum + view_.ApproximateBytes(FirstKeyOf(family, from), end);
                           });
  }

  void Halve(std::uint64_t from, std::uint64_t last, std::uint64_t weight) {
    if (weight <= most_ || from == last) {
      if (weight > 0) pieces_.push_back({from, weight});
      return;
    }
    const std::uint64_t middle = from + (last - from) / 2;
    const std::uint64_t lower = Weigh(from, middle);
    Halve(from, middle, lower);
    Halve(middle + 1, last, Weigh(middle + 1, last));
  }

  const Snapshot& view_;
  std::uint64_t most_ = 0;
  std::vector<Piece> pieces_;
};

}  // namespace

std::vector<std::uint64_t> PartsOf(const Snapshot& view, const CheckEffort& effort) {
  if (!effort.borders) return Cutter(view).Cut();
  std::vector<std::uint64_t> starts{0};
  starts.insert(starts.end(), effort.borders->begin(), effort.borders->end());
  return starts;
}

}  // namespace reel::mdc::checker
