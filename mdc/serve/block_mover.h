// Copies blocks of a volume from one place to another, on a thread of its own: for the core, which
// moves the data of files (docs/internals/moves.md).
//
// What is copied is read back and compared before it counts. Reads and writes go to all LUNs of a
// stripe at once. Invariant: nothing is sent to a LUN once the term in the seat is over
// (`may_write` is asked before each batch), and nothing is sent again. Threads: all methods may be
// called concurrently, except that Stop comes last; `done` is called on this thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "mdc/map/volume_maps.h"
#include "mdc/moves/move.h"
#include "volume/base/aligned_buffer.h"
#include "volume/base/mutex.h"
#include "volume/base/thread.h"
#include "volume/format/stripe_map.h"
#include "volume/lun/io_batch.h"

namespace reel::mdc {

class BlockMover {
 public:
  // `may_land`: some of the new blocks may yet change, as a LUN did not answer what was sent.
  using Done = std::function<void(CopyId copy, const absl::Status& outcome, bool may_land)>;

  // The maps outlive it; each order goes by the newest.
  BlockMover(const VolumeMaps& maps, std::function<absl::Status()> may_write, Done done);
  ~BlockMover() { Stop(); }

  // OK: all of it is durable. DATA_LOSS: what was read back is not what was written.
  void Order(CopyOrder order);
  // Of the orders that are out, the one under way ends; `done` is not called any more.
  void Stop();

 private:
  void Main();
  absl::Status Copy(const CopyOrder& order, bool& may_land);
  absl::Status CopyPiece(const BlockCopy& piece, std::vector<bool>& written, bool& may_land);
  absl::Status Transfer(const Run& run, LunRequest::Kind kind, const AlignedBuffer& buffer,
                        std::vector<bool>* touched, bool* may_land);
  absl::Status FlushAll(const std::vector<bool>& written);

  const VolumeMaps& maps_;
  const std::function<absl::Status()> may_write_;
  const Done done_;
  // Of the thread.
  const OpenVolume* volume_;
  StripeMap map_;  // its
  AlignedBuffer buffer_, compared_;

  Mutex mutex_;
  CondVar wake_;
  std::deque<CopyOrder> orders_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  Thread thread_;
};

}  // namespace reel::mdc
