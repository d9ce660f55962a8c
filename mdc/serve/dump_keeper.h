// The dumps of a served volume's metadata: takes them, and keeps the marks on the LUNs and what the
// core knows of them in step (docs/backup.md).
//
//   begin    an earlier one that did not end is given up; the core begins one, and the store is
//            read as it was in that turn
//   read     block by block; before the end leaves, each mark names the new dump, too
//   keep     each mark names it alone; then the core lets go of what only others named
//   void     no mark names any; then the core lets go of all
// Invariants:
//   1. The core lets go of a dump's blocks only when, durably, no mark names that dump.
//   2. A mark names a dump only while the core durably holds that dump's blocks.
// All of it is done by one thread, one thing after the other; it begins with the first. At most
// kMaxJobs wait. Threads: all methods may be called concurrently, except that Stop comes last.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "mdc/backup/dump_writer.h"
#include "mdc/core/core.h"
#include "mdc/map/core_call.h"
#include "mdc/map/volume_maps.h"
#include "mdc/metafs/metafs.h"
#include "volume/base/mutex.h"
#include "volume/base/thread.h"
#include "volume/format/dump_mark.h"

namespace reel::mdc {

class DumpKeeper {
 public:
  static constexpr std::size_t kMaxJobs = 16;
  // So long a dump may be left alone before it is given up.
  static constexpr std::uint64_t kIdleMs = 60'000;

  struct Served {
    const VolumeMaps& maps;
    MetaDb& db;
    const metafs::MetaFs& fs;
    Epoch epoch;
    std::uint32_t lease_ms;
    std::function<absl::Status()> may_write;
    RunOnCore run_on_core;
  };
  struct Block {
    std::string bytes;
    bool last = false;
  };
  using Done = std::function<void(const absl::Status&)>;

  explicit DumpKeeper(Served served) : served_(std::move(served)) {}
  ~DumpKeeper() { Stop(); }

  // Each `done` runs once, on the thread of this object or within the call. UNAVAILABLE: this
  // controller is stopping, or has too much of that to do.
  // FAILED_PRECONDITION: metadata and files of the volume share LUNs.
  void Begin(std::function<void(const absl::StatusOr<Uuid>&)> done);
  // The block of that place in the file; the last one may be asked for once more. NOT_FOUND: no
  // such dump is being taken, or not any more. RESOURCE_EXHAUSTED: the store needs its room.
  void Read(const Uuid& dump, std::uint64_t index, std::function<void(absl::StatusOr<Block>)> done);
  // It is complete in a safe place. NOT_FOUND: it is not valid any more. May be said twice.
  void Keep(const Uuid& dump, Done done);
  void Release(Done done);
  // For the core, which needs the blocks: EndDumps follows, or OnVoidFailed.
  void Void();
  // At the start of an epoch in which dumps are valid: an earlier controller may have died between
  // two marks.
  void MarkAgain();

  void OnDurable(Sequence sequence);
  // What is wrong with the marks; empty: nothing.
  std::string Alarm() const;
  // Ends what is under way; what waits is answered so. REQUIRES: the core still runs.
  void Stop();

 private:
  // Runs with OK, or does nothing but answer.
  using Job = std::function<void(const absl::Status& may)>;
  struct Reading {
    DumpWriter writer;
    std::uint64_t next_index = 0;
    Block last{};
  };

  void Add(Job job);
  void Main();
  template <typename T>
  absl::StatusOr<T> OnCore(std::function<absl::StatusOr<T>(Core&)> ask) {
    return AskCore<T>(served_.run_on_core, std::move(ask));
  }
  const OpenVolume& volume() const { return served_.maps.now(); }
  absl::Status AwaitDurable(Sequence sequence);
  absl::StatusOr<Core::ValidDumps> Valid();
  absl::StatusOr<Uuid> DoBegin();
  absl::StatusOr<Block> DoRead(const Uuid& dump, std::uint64_t index);
  absl::Status MarkEnd(const Uuid& dump);
  absl::Status DoKeep(const Uuid& dump);
  absl::Status DoVoid();
  // Each LUN of a data pool names these dumps, durably, and no others.
  absl::Status Mark(const std::vector<Uuid>& dumps);
  absl::Status MarkLun(Lun& lun, const DumpMark& mark);
  absl::Status End(const std::optional<Uuid>& kept);

  const Served served_;
  std::unique_ptr<Reading> reading_;   // of the thread
  std::uint64_t mark_generation_ = 0;  // of the thread
  mutable Mutex mutex_;
  CondVar changed_;  // jobs_
  CondVar synced_;   // durable_
  std::deque<Job> jobs_ ABSL_GUARDED_BY(mutex_);
  Sequence durable_ ABSL_GUARDED_BY(mutex_);
  std::string alarm_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  Thread thread_;
};

}  // namespace reel::mdc
