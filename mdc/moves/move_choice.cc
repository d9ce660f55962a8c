#include "mdc/moves/move_choice.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "mdc/moves/align.h"
#include "mdc/moves/compact.h"
#include "mdc/moves/fullness.h"
#include "mdc/moves/pieces.h"
#include "mdc/space/areas.h"

namespace reel::mdc {
namespace {

// Pieces of a file that are as long as that are long enough: a stream reads at full speed.
constexpr std::uint64_t kGoodPieceBytes = 64 * kMiB;
// Gaps are looked for so often before the search goes on in its next step.
constexpr int kMaxLooks = 8;

std::uint64_t Sum(const std::vector<Run>& runs) {
  return std::accumulate(runs.begin(), runs.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const Run& run) { return sum + run.length_blocks; });
}

class Chooser {
 public:
  Chooser(const v1::JobRecord& job, MoveWindow window, const MoveLimits& limits,
          const VolumeDescriptor& descriptor, Allocator& allocator)
      : job_(job),
        window_(std::move(window)),
        limits_(limits),
        descriptor_(descriptor),
        allocator_(allocator) {
    const std::uint64_t unit = allocator.largest_unit_blocks();
    if (unit > 1) window_.extents = UntilOddHole(std::move(window_.extents), unit);
  }

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
      case v1::JOB_ALIGN:
        Align();
        break;
      case v1::JOB_COMPACT:
        Compact(plan);
        break;
      default:
        return absl::UnimplementedError("a job of a kind that this controller does not know");
    }
    choice_.request.length_blocks = SumOf(choice_.piece);
    choice_.request.max_runs = job_.kind() == v1::JOB_COMPACT ? 1 : kMaxPieces;
    choice_.request.affinity = window_.affinity;
    if (!choice_.piece.empty()) choice_.request.file_block = choice_.piece.front().file_block;
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
    ContinuePassed();
  }

  void ContinuePassed() {
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

  // What units of the pool have in them, in pieces that end with a unit.
  void Align() {
    const PoolId pool(job_.only_pool() - 1);
    const std::uint64_t unit = allocator_.unit_blocks(pool);
    const auto misplaced = FirstMisplaced(window_.extents, pool, unit);
    if (!misplaced) return PassUnits(unit);
    choice_.passed = PartOf(window_.extents, {FileBlock(0), misplaced->first});
    std::vector<Extent> moved;
    for (const Extent& extent : PartOf(window_.extents, *misplaced)) {
      const bool wanted =
          extent.pool == pool && (moved.empty() || moved.back().end() == extent.file_block);
      if (!wanted && !moved.empty()) break;
      (wanted ? moved : choice_.passed).push_back(extent);
    }
    choice_.piece = Front(moved, std::max(limits_.piece_blocks, unit));
    const std::uint64_t over = choice_.piece.back().end().value() % unit;
    const std::uint64_t length = SumOf(choice_.piece);
    if (length < SumOf(moved) && over < length) choice_.piece = Front(moved, length - over);
    choice_.request.goal_pool_only = true;
    choice_.request.goal_pool = pool;
    choice_.request.in_units = true;
    ContinuePassed();
  }

  // A window may end within a unit, of which the rest is looked at with it.
  void PassUnits(std::uint64_t unit) {
    const FileBlock end = window_.extents.back().end();
    if (window_.extents.size() >= limits_.extents) {
      choice_.passed =
          PartOf(window_.extents, {FileBlock(0), FileBlock(end.value() / unit * unit)});
    }
    if (choice_.passed.empty()) Pass();
  }

  void Compact(const std::optional<MovePlan>& last) {
    int looks = 0;
    for (const std::vector<Part>& piece : InPieces(PartsOf(window_.extents, job_.areas()))) {
      std::vector<Extent> extents;
      for (const Part& part : piece) extents.push_back(part.extent);
      const std::optional<int> area = piece.front().area;
      const auto front = area ? FrontOf(allocator_, ToRun(job_.areas(*area))) : std::nullopt;
      if (front) {
        const FileBlock first = extents.front().file_block;
        const bool follows = Follows(last, {first, first + 1});
        if (!follows && ++looks > kMaxLooks) return;
        std::optional<MovePlan> plan = follows ? last : GapFor(extents, *front);
        choice_.request.within = front;
        if (plan) return MoveByPlan(PartOf(extents, plan->span), *std::move(plan));
        choice_.kept_blocks += SumOf(extents);
      }
      choice_.passed.insert(choice_.passed.end(), extents.begin(), extents.end());
    }
  }

  // For all of a piece, or for a good part of a long one.
  std::optional<MovePlan> GapFor(const std::vector<Extent>& piece, const Run& front) {
    const FileBlock first = piece.front().file_block;
    AllocationRequest request;
    request.length_blocks = std::min(SumOf(piece), kGoodPieceBytes / descriptor_.block_bytes);
    request.max_runs = 1;
    request.within = front;
    request.file_block = first;
    request.in_units = true;
    absl::StatusOr<std::vector<Run>> runs = allocator_.Look(request);
    if (!runs.ok() || Sum(*runs) < request.length_blocks) return std::nullopt;
    return MovePlan{window_.inode, {first, first + request.length_blocks}, *std::move(runs)};
  }

  bool Follows(const std::optional<MovePlan>& last, TokenSpan span) const {
    return last && last->inode == window_.inode && !last->runs.empty() && last->span.Contains(span);
  }

  void Defragment(const std::optional<MovePlan>& last) {
    const Extent& first = window_.extents.front();
    const bool follows = Follows(last, {first.file_block, first.end()});
    std::optional<MovePlan> plan = follows ? last : Plan();
    if (!plan) return Pass();
    MoveByPlan(window_.extents, *std::move(plan));
  }

  // The first of the extents go to the first of the plan's runs.
  void MoveByPlan(const std::vector<Extent>& extents, MovePlan plan) {
    Run& run = plan.runs.front();
    choice_.piece = Front(extents, std::min(limits_.piece_blocks, run.length_blocks));
    choice_.request.has_goal = true;
    choice_.request.goal_pool = run.pool;
    choice_.request.goal_block = run.start;
    const std::uint64_t length = SumOf(choice_.piece);
    run.start = run.start + length;
    run.length_blocks -= length;
    if (run.length_blocks == 0) plan.runs.erase(plan.runs.begin());
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
    request.file_block = window_.extents.front().file_block;
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
  MoveWindow window_;
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
    const std::uint64_t unit = request.in_units ? allocator.unit_blocks(request.goal_pool) : 1;
    request.length_blocks /= 2;
    const std::uint64_t over = (request.file_block.value() + request.length_blocks) % unit;
    if (over >= request.length_blocks) return {};
    request.length_blocks -= over;
    extents = Front(extents, request.length_blocks);
  }
}

}  // namespace reel::mdc
