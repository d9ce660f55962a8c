// Any bytes as the metadata store's journal: as records, and as the frames that carry them.
//
// Replaying and finding the end of a log never harm; what replays, replays the same from a
// checkpoint made of it.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "mdc/metafs/framed_log.h"
#include "mdc/metafs/journal.h"
#include "mdc/metafs/space.h"
#include "volume/base/check.h"
#include "volume/base/coding.h"

namespace {

namespace metafs = reel::metafs;

void TryRecords(std::span<const std::byte> bytes) {
  metafs::SalvageJournal({std::string(reel::AsText(bytes))});
  metafs::LeadingSuperblock(bytes).status().IgnoreError();
  const absl::StatusOr<metafs::JournalState> state = metafs::ReplayJournal(bytes);
  if (!state.ok()) return;
  std::string checkpoint;
  if (state->superblock) metafs::PutSuperblockRecord(checkpoint, *state->superblock);
  metafs::PutNextIdRecord(checkpoint, state->next_id);
  metafs::PutClaimRecord(checkpoint, state->claims);
  for (const auto& [id, file] : state->files) metafs::PutFileRecord(checkpoint, file);
  const absl::StatusOr<metafs::JournalState> again =
      metafs::ReplayJournal(reel::AsBytes(checkpoint));
  REEL_CHECK(again.ok() && again->files == state->files && again->claims == state->claims &&
                 again->next_id == state->next_id && again->superblock == state->superblock,
             "a checkpoint says what the journal said");
}

// The input scribbles over a log of three writes: what is found is a beginning of it, or an error.
void TryFrames(const std::uint8_t* data, std::size_t size) {
  const metafs::LogId id{3, reel::Epoch(2)};
  metafs::LogWriter writer(id);
  const std::string whole = std::string(1000, 'a') + std::string(5000, 'b') + "c";
  std::string medium;
  for (const auto& [at, length] : {std::pair(0, 1000), {1000, 5000}, {6000, 1}}) {
    const reel::AlignedBuffer frames = writer.Frame(std::string_view(whole).substr(at, length));
    medium.append(reinterpret_cast<const char*>(frames.data()), frames.size());
    writer.Synced(writer.frames());
  }
  medium.resize(medium.size() + metafs::kSpaceUnitBytes);
  for (std::size_t i = 0; i + 3 <= size; i += 3) {
    medium[(data[i] << 8 | data[i + 1]) % medium.size()] ^= static_cast<char>(data[i + 2]);
  }
  const metafs::LogSource source = [&](std::uint64_t offset, std::span<std::byte> to) {
    REEL_CHECK(offset + to.size() <= medium.size(), "reads stay within the log's chunks");
    std::memcpy(to.data(), medium.data() + offset, to.size());
    return absl::OkStatus();
  };
  REEL_CHECK(metafs::SalvageWrites(source, medium.size(), id).ok(), "damage is no error to it");
  absl::StatusOr<metafs::LogEnd> end = metafs::ScanLog(source, medium.size(), id);
  if (!end.ok()) end = metafs::ScanLog(source, medium.size(), id, metafs::OnDamage::kCut);
  std::string read;
  REEL_CHECK(metafs::LogReader(source, id, *end).Read(1 << 20, read).ok(), "what was found reads");
  REEL_CHECK(read == whole.substr(0, read.size()) && read.size() == end->stream_bytes,
             "a log is read as it was written");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  TryRecords({reinterpret_cast<const std::byte*>(data), size});
  TryFrames(data, size);
  return 0;
}
