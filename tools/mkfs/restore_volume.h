// Restores a volume whose metadata LUNs are lost from a dump onto new LUNs: what mkfs.reelfs
// --restore does (docs/backup.md says why it is safe). LUNs of files keep their content.
//
// What refuses comes first, and writes nothing: a dump that is not whole, a mark that does not name
// it, a LUN that is missing, metadata LUNs that are still there. Then, so that a crash at any
// instant leaves no volume, and the same command may be given again (with --force for the new LUNs,
// which have labels by then):
//   1. The new LUNs are cleared and labelled; the seat is taken, old controllers are fenced.
//   2. Each mark names this dump alone.
//   3. The store is made, loaded and checked.
//   4. The descriptor: on the new LUNs, the seat last; then on the others.
// Threads: one.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "mdc/backup/dump_format.h"
#include "volume/format/descriptor.h"

namespace reel::tools {

struct RestoreOptions {
  std::string file;                   // the dump
  std::vector<std::string> metadata;  // the new LUNs: label names, or paths
  std::vector<std::string> patterns;  // where the LUNs of files are
  std::vector<std::string> force;     // paths of new LUNs that may be overwritten
  bool look_only = false;             // refuse or do nothing
  std::string program;                // this one's name and release, for people
};

struct Restored {
  mdc::DumpHead head;
  std::uint64_t records = 0;
  VolumeDescriptor descriptor;  // the new one
};

// Every error is one line that says what to do. DATA_LOSS: the dump is damaged.
// FAILED_PRECONDITION: it may not be restored.
absl::StatusOr<Restored> RestoreVolume(const RestoreOptions& options);

}  // namespace reel::tools
