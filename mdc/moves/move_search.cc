#include "mdc/moves/move_search.h"

#include <algorithm>
#include <utility>

#include "mdc/metadb/schema.h"
#include "mdc/ops/extents.h"
#include "mdc/ops/inode.h"
#include "proto/status.h"

namespace reel::mdc {
namespace {

class Search {
 public:
  Search(OpContext& ctx, const v1::JobRecord& job, const std::optional<MovePlan>& plan,
         const MoveLimits& limits)
      : ctx_(ctx), job_(job), plan_(plan), limits_(limits) {
    found_.next_inode = InodeNumber(job.next_inode());
    found_.next_block = FileBlock(job.next_block());
    if (job.inode() > job.next_inode()) {
      found_.next_inode = InodeNumber(job.inode());
      found_.next_block = FileBlock(0);
    }
  }

  absl::StatusOr<MoveFound> Run() {
    std::size_t looked = 0;
    while (found_.extents.empty() && !found_.ended && looked < limits_.extents) {
      absl::StatusOr<std::vector<Extent>> window = Window();
      if (!window.ok()) return window.status();
      looked += window->size() + 1;
      if (window->empty()) {
        if (absl::Status s = GoToNextExtent(); !s.ok()) return s;
        continue;
      }
      if (absl::Status s = Look(*std::move(window)); !s.ok()) return s;
    }
    return std::move(found_);
  }

 private:
  FileBlock WindowEnd() const {
    const FileBlock at = found_.next_block;
    return at + std::min(limits_.window_blocks, kEndOfFileBlocks - at);
  }

  // Of the file that it has come to, from there on; nothing where it has no blocks there.
  absl::StatusOr<std::vector<Extent>> Window() {
    const absl::StatusOr<v1::InodeRecord*> record = ctx_.txn.Inode(found_.next_inode);
    if (!record.ok()) {
      if (ctx_.txn.missed() || ErrnoOf(record.status()) != ESTALE) return record.status();
      return std::vector<Extent>();
    }
    if ((*record)->removing()) return std::vector<Extent>();
    affinity_ = (*record)->affinity();
    return ReadExtents(ctx_.txn, found_.next_inode, found_.next_block,
                       WindowEnd() - found_.next_block, limits_.extents);
  }

  // Past a window in which the file has nothing: to its next extent, or another file's.
  absl::Status GoToNextExtent() {
    std::optional<schema::ParsedKey> next;
    absl::Status damage;
    const FileBlock from = WindowEnd();
    const std::string key = from < kEndOfFileBlocks ? schema::ExtentKey(found_.next_inode, from)
                                                    : schema::ExtentPrefix(found_.next_inode + 1);
    const absl::Status scanned = ctx_.txn.Scan(
        schema::Prefix(schema::Family::kExtent), key, [&](std::string_view key, std::string_view) {
          const absl::StatusOr<schema::ParsedKey> parsed = schema::Parse(key);
          if (parsed.ok()) next = *parsed;
          damage = parsed.status();
          return false;
        });
    if (!damage.ok()) return damage;
    if (!scanned.ok()) return scanned;
    const bool other = next && job_.inode() != 0 && next->first != job_.inode();
    found_.ended = !next || other;
    if (found_.ended) return absl::OkStatus();
    found_.next_inode = InodeNumber(next->first);
    found_.next_block = FileBlock(next->second);
    return absl::OkStatus();
  }

  void PassOver(const std::vector<Extent>& extents) {
    if (extents.empty()) return;
    found_.looked_blocks += SumOf(extents);
    found_.next_block = extents.back().end();
  }

  absl::Status Look(std::vector<Extent> extents) {
    MoveWindow window{found_.next_inode, affinity_, std::move(extents)};
    absl::StatusOr<MoveChoice> choice =
        ChooseMove(job_, std::move(window), plan_, limits_, ctx_.descriptor, ctx_.allocator);
    if (!choice.ok()) return choice.status();
    PassOver(choice->passed);
    PassOver(choice->piece);
    found_.kept_blocks += choice->kept_blocks;
    found_.inode = found_.next_inode;
    found_.extents = std::move(choice->piece);
    found_.request = std::move(choice->request);
    found_.plan = std::move(choice->plan);
    return absl::OkStatus();
  }

  OpContext& ctx_;
  const v1::JobRecord& job_;
  const std::optional<MovePlan>& plan_;
  const MoveLimits& limits_;
  std::string affinity_;
  MoveFound found_;
};

}  // namespace

absl::StatusOr<MoveFound> FindMove(OpContext& ctx, const v1::JobRecord& job,
                                   const std::optional<MovePlan>& plan, const MoveLimits& limits) {
  return Search(ctx, job, plan, limits).Run();
}

}  // namespace reel::mdc
