// The metadata store of a simulated volume: what MetaDb keeps, in memory, with a crash. Linked in
// place of mdc/meta_db.cc (meta_store.cc), so a history needs neither RocksDB nor metafs, which
// have crash tests of their own.
//
// It keeps MetaDb's promise and no more: after a crash it holds some prefix of the batches applied,
// at least those that were durable. A read that is content with memory is sometimes told that the
// key is not there. Threads: one.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mdc/meta_db.h"
#include "tests/sim/random.h"

namespace reel::sim {

class MetaStore {
 public:
  explicit MetaStore(Random& random) : random_(random) {}

  // The controller's view; one at a time.
  std::unique_ptr<mdc::MetaDb> Open();

  std::uint64_t last_applied() const { return last_; }
  // Everything up to this sequence is durable.
  void MakeDurable(std::uint64_t sequence);
  // Batches that are not durable are lost from some point on. Returns how many.
  std::size_t Crash();
  // Reads of memory always find what is there: while a controller starts or stops, and for checks.
  void set_all_in_memory(bool all) { all_in_memory_ = all; }

  // ---- for the MetaDb
  void Apply(const mdc::WriteBatch& batch);
  bool MissesNow() { return !all_in_memory_ && random_.OneIn(64); }
  const std::map<std::string, std::string, std::less<>>& records() const { return records_; }

 private:
  struct Undo {
    std::uint64_t sequence;
    std::string key;
    std::optional<std::string> value;
  };
  Random& random_;
  std::map<std::string, std::string, std::less<>> records_;
  std::deque<Undo> undo_;  // of what is not durable, in order
  std::uint64_t last_ = 0;
  bool all_in_memory_ = true;
};

}  // namespace reel::sim
