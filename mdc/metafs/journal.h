// What metafs's journal says: the files, the chunks they lie in, and the chunks this epoch may
// write to.
//
// The journal is a log (framed_log.h). Its first write is a checkpoint, everything that holds at
// that moment, the superblock that points to this journal first; each later write is one atomic
// change. A record names a file by id and says all of
// it, so that replaying is plain replacement. Byte layout: docs/format.md. Threads: plain values,
// pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "mdc/metafs/chunks.h"
#include "mdc/metafs/superblock.h"
#include "volume/base/types.h"

namespace reel::metafs {

enum class FileKind : std::uint8_t {
  kTable = 0,  // plain bytes in chunks; size and checksum stand in the journal
  kLog = 1,    // framed (frame.h); the size is found by reading
};

inline constexpr std::size_t kMaxNameBytes = 255;
inline constexpr std::uint32_t kMaxRunsPerFile = 1 << 16;

struct FileRecord {
  std::uint64_t id = 0;  // never reused within a store; 0 is none
  FileKind kind = FileKind::kTable;
  Epoch epoch;                   // that made the file; the only one that writes to it
  std::uint64_t size_bytes = 0;  // kTable only
  std::uint32_t checksum = 0;    // CRC32C of the bytes; kTable only
  std::string name;
  std::vector<ChunkRun> runs;
  friend bool operator==(const FileRecord&, const FileRecord&) = default;
};

void PutFileRecord(std::string& out, const FileRecord& file);  // made, renamed, grown, synced
void PutRemoveRecord(std::string& out, std::uint64_t id);
void PutClaimRecord(std::string& out, const std::vector<ChunkRun>& runs);  // adds to the claims
void PutNextIdRecord(std::string& out, std::uint64_t next_id);
// The store was closed in order: nobody writes to claimed chunks any more.
void PutCleanRecord(std::string& out);
// A copy, from which repair makes the two in the head anew. REQUIRES: valid.
void PutSuperblockRecord(std::string& out, const Superblock& superblock);

struct JournalState {
  std::map<std::uint64_t, FileRecord> files;
  std::vector<ChunkRun> claims;
  std::uint64_t next_id = 1;
  bool clean = false;  // the last record says so
  std::optional<Superblock> superblock;
};

// What the records of a journal amount to. DATA_LOSS for anything that the functions above do not
// make; chunk numbers are not checked here. Safe on any bytes.
absl::StatusOr<JournalState> ReplayJournal(std::span<const std::byte> stream);
// The superblock with which a journal begins, from the beginning of its stream. NOT_FOUND: there is
// none.
absl::StatusOr<Superblock> LeadingSuperblock(std::span<const std::byte> stream);
// For repair: what the records of these writes amount to, each up to the first that makes no sense.
JournalState SalvageJournal(const std::vector<std::string>& writes);

}  // namespace reel::metafs
