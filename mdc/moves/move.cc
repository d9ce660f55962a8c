#include "mdc/moves/move.h"

namespace reel::mdc {

std::vector<BlockCopy> CopiesOf(const Move& move) {
  std::vector<BlockCopy> copies;
  (void)ForEachPiece(move, [&](const Extent& piece, const Run& to) {
    if (piece.state == ExtentState::kWritten) {
      copies.push_back({{piece.pool, piece.pool_block, piece.length_blocks}, to});
    }
    return absl::OkStatus();
  });
  return copies;
}

}  // namespace reel::mdc
