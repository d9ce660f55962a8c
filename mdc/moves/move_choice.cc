#include "mdc/moves/move_choice.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "mdc/moves/fullness.h"
#include "mdc/space/areas.h"

namespace reel::mdc {
namespace {

// Pieces of a file that are as long as that are long enough: a stream reads at full speed.
constexpr std::uint64_t kGoodPieceBytes = 64 * kMiB;
// Of a range that is moved at once; each is a record to change in one commit.
constexpr std::size_t kMaxPieces = 256;

std::uint64_t Sum(const std::vector<Run>& runs) {
  return std::accumulate(runs.begin(), runs.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const Run& run) { return sum + run.length_blocks; });
}

// The first extents, as many as sum to `length_blocks`, the last one cut.
std::vector<Extent> Front(const std::vector<Extent>& extents, std::uint64_t length_blocks) {
  std::vector<Extent> front;
  for (const Extent& extent : extents) {
    if (length_blocks == 0 || front.size() == kMaxPieces) break;
    front.push_back(extent);
    front.back().length_blocks = std::min(extent.length_blocks, length_blocks);
    length_blocks -= front.back().length_blocks;
  }
  return front;
}

// An extent from that block of it on.
Extent From(Extent extent, std::uint64_t blocks) {
  extent.file_block = extent.file_block + blocks;
  extent.pool_block = extent.pool_block + blocks;
  extent.length_blocks -= blocks;
  return extent;
}

// The extent's first part that lies in one of the areas (which one), or in none, whole.
struct Part {
  Extent extent;
  std::optional<int> area;
};
Part FirstPart(Extent extent, const Areas& areas) {
  for (int i = 0; i < areas.size(); ++i) {
    const Run area = ToRun(areas[i]);
    const PoolBlock end = area.start + area.length_blocks;
    if (area.pool != extent.pool || end <= extent.pool_block) continue;
    if (area.start <= extent.pool_block) {
      extent.length_blocks = std::min(extent.length_blocks, end - extent.pool_block);
      return {extent, i};
    }
    extent.length_blocks = std::min(extent.length_blocks, area.start - extent.pool_block);
  }
  return {extent, std::nullopt};
}

// The same extents, each of which lies whole in one area, or in none.
std::vector<Part> PartsOf(const std::vector<Extent>& extents, const Areas& areas) {
  std::vector<Part> parts;
  for (Extent rest : extents) {
    while (rest.length_blocks > 0) {
      parts.push_back(FirstPart(rest, areas));
      rest = From(rest, parts.back().extent.length_blocks);
    }
  }
  return parts;
}

class Chooser {
 public:
  Chooser(const v1::JobRecord& job, MoveWindow window, const MoveLimits& limits,
          const VolumeDescriptor& descriptor, Allocator& allocator)
      : job_(job),
        window_(std::move(window)),
        limits_(limits),
        descriptor_(descriptor),
        allocator_(allocator) {}

  absl::StatusOr<MoveChoice> Choose(const std::optional<MovePlan>& plan) {
    switch (job_.kind()) {
      case v1::JOB_DEFRAGMENT:
        Defragment(plan);
        break;
      case v1::JOB_DRAIN:
        MoveParts([](const Part& part) { return part.area.has_value(); });
        break;
      case v1::JOB_RESTRIPE:
        choice_.request.goal_pool_only = !job_.without_pool();
        choice_.request.goal_pool = PoolId(job_.only_pool() - 1);
        MoveParts([](const Part& part) { return part.area.has_value(); });
        break;
      case v1::JOB_REBALANCE:
        Rebalance();
        break;
      case v1::JOB_PLACE:
        choice_.request.affinity_only = true;
        MoveParts([this](const Part& part) {
          return !allocator_.Belongs(window_.affinity, part.extent.pool);
        });
        break;
      default:
        return absl::UnimplementedError("a job of a kind that this controller does not know");
    }
    choice_.request.length_blocks = SumOf(choice_.piece);
    choice_.request.max_runs = kMaxPieces;
    choice_.request.affinity = window_.affinity;
    return std::move(choice_);
  }

 private:
  void Pass() { choice_.passed = window_.extents; }

  // The first parts of the window that `is_moved` names, behind each other; what is before them is
  // passed. They are to continue what lies before them.
  template <typename IsMoved>
  void MoveParts(IsMoved is_moved) {
    std::vector<Extent> moved;
    for (const Part& part : PartsOf(window_.extents, job_.areas())) {
      const bool wanted = is_moved(part);
      if (!wanted && !moved.empty()) break;
      (wanted ? moved : choice_.passed).push_back(part.extent);
    }
    choice_.piece = Front(moved, limits_.piece_blocks);
    if (choice_.passed.empty()) return;
    const Extent& before = choice_.passed.back();
    if (choice_.request.goal_pool_only && before.pool != choice_.request.goal_pool) return;
    choice_.request.has_goal = true;
    choice_.request.goal_pool = before.pool;
    choice_.request.goal_block = before.pool_block + before.length_blocks;
  }

  // Of each area its share: by the place in the file, so that it is the same pieces after a
  // failover, and each piece is long enough to be read at full speed.
  void Rebalance() {
    const Fullness fullness(allocator_.sets(), job_.areas());
    const std::uint64_t good =
        std::max<std::uint64_t>(1, kGoodPieceBytes / descriptor_.block_bytes);
    MoveParts([&](const Part& part) {
      return part.area && fullness.IsAbove(*part.area) &&
             ChanceOf(window_.inode, part.extent.file_block.value() / good, job_.passes()) <
                 job_.shares(*part.area);
    });
    if (choice_.piece.empty()) return;
    const auto target = fullness.Emptiest(choice_.piece.front().pool, choice_.request);
    if (!target) return Pass(), choice_.piece.clear();
    choice_.request.within = *target;
  }

  void Defragment(const std::optional<MovePlan>& last) {
    const Extent& first = window_.extents.front();
    const bool follows = last && last->inode == window_.inode && !last->runs.empty() &&
                         last->span.Contains({first.file_block, first.end()});
    std::optional<MovePlan> plan = follows ? last : Plan();
    if (!plan) return Pass();
    Run& run = plan->runs.front();
    choice_.piece = Front(window_.extents, std::min(limits_.piece_blocks, run.length_blocks));
    choice_.request.has_goal = true;
    choice_.request.goal_pool = run.pool;
    choice_.request.goal_block = run.start;
    const std::uint64_t length = SumOf(choice_.piece);
    run.start = run.start + length;
    run.length_blocks -= length;
    if (run.length_blocks == 0) plan->runs.erase(plan->runs.begin());
    choice_.plan = std::move(plan);
  }

  // Nothing where it lies well, or where there is no better place.
  std::optional<MovePlan> Plan() {
    const std::uint64_t length = SumOf(window_.extents);
    const std::uint64_t pieces = PiecesOf(window_.extents);
    const std::uint64_t good = kGoodPieceBytes / descriptor_.block_bytes;
    if (pieces <= 1 + length / good) return std::nullopt;
    AllocationRequest request;
    request.length_blocks = length;
    request.max_runs = std::min<std::uint64_t>(pieces / 2, kMaxPieces);
    request.affinity = window_.affinity;
    absl::StatusOr<std::vector<Run>> runs = allocator_.Look(request);
    if (!runs.ok() || Sum(*runs) < length) {
      choice_.kept_blocks += length;
      return std::nullopt;
    }
    return MovePlan{window_.inode,
                    {window_.extents.front().file_block, window_.extents.back().end()},
                    *std::move(runs)};
  }

  const v1::JobRecord& job_;
  const MoveWindow window_;
  const MoveLimits& limits_;
  const VolumeDescriptor& descriptor_;
  Allocator& allocator_;
  MoveChoice choice_;
};

}  // namespace

absl::StatusOr<MoveChoice> ChooseMove(const v1::JobRecord& job, MoveWindow window,
                                      const std::optional<MovePlan>& plan, const MoveLimits& limits,
                                      const VolumeDescriptor& descriptor, Allocator& allocator) {
  return Chooser(job, std::move(window), limits, descriptor, allocator).Choose(plan);
}

std::vector<Run> ReserveTargets(Allocator& allocator, AllocationRequest request, bool may_shorten,
                                std::vector<Extent>& extents) {
  request.for_move = true;
  for (;;) {
    absl::StatusOr<std::vector<Run>> targets = allocator.Reserve(request);
    if (targets.ok() && Sum(*targets) == request.length_blocks) return *std::move(targets);
    if (targets.ok()) {  // in more pieces than one commit takes
      for (const Run& run : *targets) allocator.Unreserve(run);
    }
    if (!may_shorten || request.length_blocks == 1) return {};
    request.length_blocks /= 2;
    extents = Front(extents, request.length_blocks);
  }
}

std::uint64_t PiecesOf(const std::vector<Extent>& extents) {
  std::uint64_t pieces = 0;
  const Extent* last = nullptr;
  for (const Extent& extent : extents) {
    const bool continues = last != nullptr && last->pool == extent.pool &&
                           last->pool_block + last->length_blocks == extent.pool_block;
    if (!continues) ++pieces;
    last = &extent;
  }
  return pieces;
}

std::uint64_t SumOf(const std::vector<Extent>& extents) {
  return std::accumulate(extents.begin(), extents.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const Extent& e) { return sum + e.length_blocks; });
}

}  // namespace reel::mdc
