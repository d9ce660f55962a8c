#include "mdc/metafs/journal.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "volume/base/coding.h"

namespace reel::metafs {
namespace {

enum class RecordType : std::uint8_t {
  kFile = 1,
  kRemove = 2,
  kClaim = 3,
  kNextId = 4,
  kClean = 5,
  kSuperblock = 6
};

void PutType(std::string& out, RecordType type) {
  PutU8(out, static_cast<std::uint8_t>(type));
}

void PutRuns(std::string& out, const std::vector<ChunkRun>& runs) {
  PutU32(out, static_cast<std::uint32_t>(runs.size()));
  for (const ChunkRun& run : runs) {
    PutU64(out, run.first);
    PutU64(out, run.count);
  }
}

// False when the count or a run is out of all bounds.
bool ReadRuns(ByteReader& reader, std::vector<ChunkRun>& runs) {
  const std::uint32_t count = reader.U32();
  if (count > reader.remaining() / 16) return false;
  runs.reserve(runs.size() + count);
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint64_t first = reader.U64();
    const ChunkRun run{first, reader.U64()};
    if (run.count == 0 || run.first > kMaxVolumeBytes || run.count > kMaxVolumeBytes) return false;
    runs.push_back(run);
  }
  return true;
}

bool ReadFile(ByteReader& reader, FileRecord& file) {
  file.id = reader.U64();
  const std::uint8_t kind = reader.U8();
  file.kind = static_cast<FileKind>(kind);
  file.epoch = Epoch(reader.U64());
  file.size_bytes = reader.U64();
  file.checksum = reader.U32();
  file.name = std::string(reader.String());
  return ReadRuns(reader, file.runs) && reader.ok() && file.id != 0 && kind <= 1 &&
         !file.name.empty() && file.name.size() <= kMaxNameBytes &&
         file.runs.size() <= kMaxRunsPerFile && file.size_bytes <= kMaxVolumeBytes &&
         (file.kind == FileKind::kTable || file.size_bytes == 0);
}

// Trailing zeros are not there.
std::optional<Superblock> ReadSuperblockText(ByteReader& reader) {
  std::string text(reader.String());
  if (!reader.ok() || text.size() > kSuperblockBytes) return std::nullopt;
  text.resize(kSuperblockBytes);
  auto superblock = DecodeSuperblock(AsBytes(text));
  if (!superblock.ok()) return std::nullopt;
  return *std::move(superblock);
}

absl::Status Replay(std::span<const std::byte> stream, JournalState& state) {
  ByteReader reader(stream);
  while (reader.remaining() > 0) {
    const std::size_t at = stream.size() - reader.remaining();
    const auto type = static_cast<RecordType>(reader.U8());
    bool good = true;
    state.clean = false;
    switch (type) {
      case RecordType::kFile: {
        FileRecord file;
        good = ReadFile(reader, file);
        state.next_id = std::max(state.next_id, file.id + 1);
        const std::uint64_t id = file.id;
        if (good) state.files.insert_or_assign(id, std::move(file));
        break;
      }
      case RecordType::kRemove:
        // A file that was never synced may be unknown here.
        state.files.erase(reader.U64());
        break;
      case RecordType::kClaim:
        good = ReadRuns(reader, state.claims);
        break;
      case RecordType::kNextId:
        state.next_id = std::max(state.next_id, reader.U64());
        break;
      case RecordType::kClean:
        state.clean = true;
        break;
      case RecordType::kSuperblock: {
        std::optional<Superblock> superblock = ReadSuperblockText(reader);
        good = superblock.has_value();
        if (good) state.superblock = std::move(superblock);
        break;
      }
      default:
        good = false;
    }
    if (!good || !reader.ok()) {
      return absl::DataLossError(
          absl::StrCat("metadata journal: the record at byte ", at, " makes no sense"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

void PutFileRecord(std::string& out, const FileRecord& file) {
  PutType(out, RecordType::kFile);
  PutU64(out, file.id);
  PutU8(out, static_cast<std::uint8_t>(file.kind));
  PutU64(out, file.epoch.value());
  PutU64(out, file.size_bytes);
  PutU32(out, file.checksum);
  PutString(out, file.name);
  PutRuns(out, file.runs);
}

void PutRemoveRecord(std::string& out, std::uint64_t id) {
  PutType(out, RecordType::kRemove);
  PutU64(out, id);
}

void PutClaimRecord(std::string& out, const std::vector<ChunkRun>& runs) {
  PutType(out, RecordType::kClaim);
  PutRuns(out, runs);
}

void PutNextIdRecord(std::string& out, std::uint64_t next_id) {
  PutType(out, RecordType::kNextId);
  PutU64(out, next_id);
}

void PutCleanRecord(std::string& out) {
  PutType(out, RecordType::kClean);
}

void PutSuperblockRecord(std::string& out, const Superblock& superblock) {
  PutType(out, RecordType::kSuperblock);
  std::string text = EncodeSuperblock(superblock);
  text.resize(text.find_last_not_of('\0') + 1);
  PutString(out, text);
}

absl::StatusOr<Superblock> LeadingSuperblock(std::span<const std::byte> stream) {
  ByteReader reader(stream);
  if (static_cast<RecordType>(reader.U8()) == RecordType::kSuperblock) {
    if (auto superblock = ReadSuperblockText(reader)) return *std::move(superblock);
  }
  return absl::NotFoundError("no superblock at the beginning of a journal");
}

absl::StatusOr<JournalState> ReplayJournal(std::span<const std::byte> stream) {
  JournalState state;
  if (absl::Status s = Replay(stream, state); !s.ok()) return s;
  return state;
}

JournalState SalvageJournal(const std::vector<std::string>& writes) {
  JournalState state;
  for (const std::string& write : writes) Replay(AsBytes(write), state).IgnoreError();
  state.clean = false;
  return state;
}

}  // namespace reel::metafs
