#include "mdc/backup/restore_records.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/records.pb.h"

namespace reel::mdc {
namespace {

constexpr std::size_t kRecordsPerBatch = 4096;
// Batches are synced now and then, so that the log stays short.
constexpr int kBatchesPerSync = 16;

class Restorer {
 public:
  Restorer(const DumpHead& head, const RestoreInput& input)
      : head_(head), input_(input), used_(input.regions) {}

  absl::Status Take(const schema::ParsedKey& key, std::string_view raw_key,
                    std::string_view value) {
    if (key.family == schema::Family::kVolume) return TakeVolume(value);
    if (key.family == schema::Family::kExtent) {
      if (absl::Status s = TakeExtent(key, value); !s.ok()) return s;
    }
    return Put(std::string(raw_key), std::string(value));
  }

  absl::Status Finish() {
    Allocator::Format(input_.descriptor, used_, batch_);
    batch_.Put(schema::VolumeKey(), volume_.SerializeAsString());
    if (absl::Status s = Apply(); !s.ok()) return s;
    return input_.db.Sync().status();
  }

 private:
  absl::Status TakeVolume(std::string_view value) {
    if (!volume_.ParseFromArray(value.data(), static_cast<int>(value.size())) ||
        volume_.volume() != input_.descriptor.volume.ToBytes() ||
        volume_.begun_dump().dump() != head_.dump.ToBytes()) {
      return absl::DataLossError("the dump is damaged: its volume record is not this volume's");
    }
    if (!schema::IsKnownFormat(volume_.format())) {
      return absl::UnimplementedError(
          absl::StrCat("the metadata in the dump have format ", volume_.format(),
                       ", which this program does not know; use a newer one"));
    }
    *volume_.mutable_kept_dump() = volume_.begun_dump();
    volume_.clear_begun_dump();
    volume_.set_epoch(input_.epoch.value());
    volume_.set_sequence_base(head_.sequence.value() + kNumbersSkippedByRestore);
    volume_.set_next_inode(volume_.next_inode() + kNumbersSkippedByRestore);
    volume_.set_next_session(volume_.next_session() + kNumbersSkippedByRestore);
    volume_.set_last_dump(volume_.last_dump() + kNumbersSkippedByRestore);
    volume_.set_clean(true);
    volume_.clear_open_blocks();  // all is free that no file has (Finish)
    return absl::OkStatus();
  }

  absl::Status TakeExtent(const schema::ParsedKey& key, std::string_view value) {
    const auto damaged = [&] {
      return absl::DataLossError(absl::StrCat("the dump does not fit the volume: inode ", key.first,
                                              " has blocks that are none of it"));
    };
    v1::ExtentRecord record;
    if (!record.ParseFromArray(value.data(), static_cast<int>(value.size())) ||
        record.places_size() != 1 || record.places(0).pool() >= input_.descriptor.pools.size()) {
      return damaged();
    }
    const v1::Place& place = record.places(0);
    const Pool& pool = input_.descriptor.pools[place.pool()];
    const std::uint64_t size = pool.size_blocks();
    if ((pool.flags & Pool::kData) == 0 || record.length_blocks() == 0 ||
        place.pool_block() > size || record.length_blocks() > size - place.pool_block()) {
      return damaged();
    }
    used_.push_back({PoolId(place.pool()), PoolBlock(place.pool_block()), record.length_blocks()});
    return absl::OkStatus();
  }

  absl::Status Put(std::string key, std::string value) {
    batch_.Put(std::move(key), std::move(value));
    return batch_.changes().size() < kRecordsPerBatch ? absl::OkStatus() : Apply();
  }

  absl::Status Apply() {
    const WriteBatch batch = std::exchange(batch_, {});
    if (batch.empty()) return absl::OkStatus();
    if (absl::Status s = input_.db.Apply(batch).status(); !s.ok()) return s;
    return ++batches_ % kBatchesPerSync == 0 ? input_.db.Sync().status() : absl::OkStatus();
  }

  const DumpHead& head_;
  const RestoreInput& input_;
  std::vector<Run> used_;
  v1::VolumeRecord volume_;
  WriteBatch batch_;
  int batches_ = 0;
};

}  // namespace

// The volume record comes last, with the free index: a store without it is not served.
absl::StatusOr<DumpEnd> RestoreRecords(const DumpHead& head, DumpReader& reader,
                                       const RestoreInput& input) {
  Restorer restorer(head, input);
  const auto end = reader.ReadRecords(
      [&](const schema::ParsedKey& key, std::string_view raw_key, std::string_view value) {
        return restorer.Take(key, raw_key, value);
      });
  if (!end.ok()) return end.status();
  if (absl::Status s = restorer.Finish(); !s.ok()) return s;
  return *end;
}

}  // namespace reel::mdc
