// The frame of the repairer: its passes, and what belongs to no inode.
#include "mdc/repair/repairer.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "mdc/repair/repairer_facts.h"
#include "mdc/space/open_space.h"
#include "proto/folded_name.h"

namespace reel::mdc {
namespace repairer {
namespace {

constexpr std::size_t kChangesPerBatch = 4096;
// What is skipped of numbers whose record was lost, so that none is given out twice.
constexpr std::uint64_t kNumbersSkipped = 1 << 20;

bool IsKnownFamily(char family) {
  return std::string_view("VIDCEXFWOSRJQB").find(family) != std::string_view::npos;
}

}  // namespace

void Changes::Put(std::string key, std::string value) {
  batch_.Put(std::move(key), std::move(value));
  if (batch_.changes().size() >= kChangesPerBatch) Apply();
}

void Changes::Delete(std::string key) {
  batch_.Delete(std::move(key));
  if (batch_.changes().size() >= kChangesPerBatch) Apply();
}

void Changes::Apply() {
  const WriteBatch batch = std::exchange(batch_, {});
  if (!status_.ok() || batch.empty()) return;
  Fail(db_.Apply(batch).status());
}

absl::Status Changes::Finish() {
  Apply();
  if (status_.ok()) Fail(db_.Sync().status());
  return status_;
}

InodeFact* State::Find(std::uint64_t inode) {
  const auto found =
      std::lower_bound(inodes.begin(), inodes.end(), inode,
                       [](const InodeFact& fact, std::uint64_t n) { return fact.inode < n; });
  return found != inodes.end() && found->inode == inode ? &*found : nullptr;
}

std::uint32_t State::FlagsOf(std::uint64_t inode) {
  v1::InodeRecord record;
  return Get(schema::InodeKey(InodeNumber(inode)), record) ? record.flags() : 0;
}

std::string State::DirentKey(std::uint64_t directory, std::string_view name) {
  return schema::DirentKey(InodeNumber(directory), NameKey(FlagsOf(directory), name).view());
}

FamilyScan::FamilyScan(State& state, schema::Family family)
    : state_(state),
      cursor_(state.db().Scan(schema::Prefix(family), schema::Prefix(family), Tier::kAll)) {
  SkipUnreadable();
}

void FamilyScan::Next() {
  cursor_->Next();
  SkipUnreadable();
}

void FamilyScan::SkipUnreadable() {
  for (; cursor_->Valid(); cursor_->Next()) {
    auto key = schema::Parse(cursor_->key());
    if (!key.ok()) continue;  // MendKeys has seen it
    key_ = *key;
    valid_ = state_.changes.status().ok();
    return;
  }
  valid_ = false;
  state_.changes.Fail(cursor_->status());
}

absl::Status MendKeys(State& state) {
  const auto cursor = state.db().Scan("", "", Tier::kAll);
  for (; cursor->Valid(); cursor->Next()) {
    const std::string_view key = cursor->key();
    if (!key.empty() && IsKnownFamily(key[0]) && schema::Parse(key).ok()) continue;
    state.Did("key-unknown",
              absl::StrCat("key ", absl::BytesToHexString(std::string(key.substr(0, 32)))),
              absl::StrCat("the record of ", cursor->value().size(),
                           " bytes was dropped: it has no known form"));
    state.changes.Delete(std::string(key));
  }
  state.changes.Fail(cursor->status());
  return state.changes.Finish();
}

absl::Status MendVolume(State& state) {
  const std::string uuid = state.input.descriptor.volume.ToBytes();
  v1::VolumeRecord& volume = state.volume;
  // Without a format it is what a rebuild of the store left: the sequence base alone.
  const bool decoded = state.Get(schema::VolumeKey(), volume);
  if (!decoded || volume.format() == 0) {
    if (!state.changes.status().ok()) return state.changes.status();
    state.volume_lost = true;
    const std::uint64_t sequence_base = decoded ? volume.sequence_base() : 0;
    volume.Clear();
    volume.set_epoch(state.input.epoch.value());
    volume.set_sequence_base(sequence_base);
  }
  if (volume.format() > schema::kLastFormat) {
    return absl::FailedPreconditionError(absl::StrCat("the records have format ", volume.format(),
                                                      "; this program knows ", schema::kLastFormat,
                                                      "; use a newer one"));
  }
  const auto other = Uuid::FromBytes(volume.volume());
  if (other.ok() && !other->is_nil() && volume.volume() != uuid) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the records belong to volume ", other->ToString(), ", not to ",
        state.input.descriptor.volume.ToString(), "; is a LUN of another volume in its place?"));
  }
  if (state.volume_lost || volume.volume() != uuid) {
    state.Did("volume-record", "volume record",
              state.volume_lost ? "made anew from the other records" : "made right");
  }
  // (Where it was lost, there may be anything that any format has.)
  if (state.volume_lost) volume.set_format(schema::kLastFormat);
  // What a repair makes free may be what the last dump names: that is void (RepairInput).
  volume.clear_kept_dump();
  volume.clear_begun_dump();
  volume.set_volume(uuid);
  state.changes.Put(schema::VolumeKey(), volume.SerializeAsString());
  return state.changes.Finish();
}

absl::Status EndSessions(State& state) {
  std::uint64_t replies = 0, highest = 0;
  for (FamilyScan scan(state, schema::Family::kReply); scan.valid(); scan.Next()) {
    ++replies;
    highest = std::max(highest, scan.key().first);
    state.changes.Delete(scan.raw_key());
  }
  std::uint64_t sessions = 0;
  for (FamilyScan scan(state, schema::Family::kSession); scan.valid(); scan.Next()) {
    ++sessions;
    highest = std::max(highest, scan.key().first);
    v1::SessionRecord record;
    const bool decoded = scan.Decode(record);
    state.Did(
        "session", absl::StrCat("session ", scan.key().first),
        absl::StrCat("ended",
                     decoded && !record.host().empty()
                         ? absl::StrCat(" (host ", record.host(), " at ", record.mount_point(), ")")
                         : "",
                     ": its client has to mount again"));
    state.changes.Delete(scan.raw_key());
  }
  if (replies > 0) {
    state.Did("reply", "stored replies", absl::StrCat(replies, " dropped with their sessions"));
  }
  v1::VolumeRecord& volume = state.volume;
  const v1::VolumeRecord before = volume;
  const std::uint64_t skipped = state.volume_lost ? kNumbersSkipped : 0;
  if (highest < kEndOfNumbers) {
    volume.set_next_session(
        std::max({volume.next_session(), std::uint64_t{1}, highest + 1 + skipped}));
  }
  volume.set_inodes(state.inodes.size() - 1);
  volume.set_next_inode(std::max(volume.next_inode(), state.highest_inode + 1 + skipped));
  if (state.volume_lost) {
    // Sequences never go back: no record may be younger than the next commit.
    const std::uint64_t own = state.db().last_applied().value();
    if (state.highest_sequence > own + volume.sequence_base()) {
      volume.set_sequence_base(state.highest_sequence - own);
    }
  } else {
    if (volume.inodes() != before.inodes()) {
      state.Did("inode-count", "volume record",
                absl::StrCat("counts ", volume.inodes(), " inodes now, not ", before.inodes()));
    }
    if (volume.next_inode() != before.next_inode() && before.next_inode() <= state.highest_inode) {
      state.Did("inode-number", "volume record",
                absl::StrCat("the next inode number is ", volume.next_inode(), " now, not ",
                             before.next_inode()));
    }
  }
  volume.set_clean(true);
  state.changes.Put(schema::VolumeKey(), volume.SerializeAsString());
  return state.changes.Finish();
}

// What a job has moved stays where it is; somebody may begin another one.
absl::Status MendJobs(State& state) {
  for (FamilyScan scan(state, schema::Family::kJob); scan.valid(); scan.Next()) {
    v1::JobRecord record;
    if (scan.Decode(record)) continue;
    state.Did("record-damaged", absl::StrCat("job ", scan.key().first), "dropped");
    state.changes.Delete(scan.raw_key());
  }
  return state.changes.Finish();
}

// Somebody may measure, and reserve, again.
absl::Status MendBandwidth(State& state) {
  for (FamilyScan scan(state, schema::Family::kBandwidth); scan.valid(); scan.Next()) {
    v1::CapacityRecord capacity;
    v1::ReservationRecord reservation;
    const bool of_set =
        scan.key().first == static_cast<std::uint64_t>(schema::BandwidthKind::kCapacity);
    if (of_set ? scan.Decode(capacity) : scan.Decode(reservation)) continue;
    state.Did("record-damaged",
              absl::StrCat(of_set ? "capacity of set " : "reservation ", scan.key().second),
              "dropped");
    state.changes.Delete(scan.raw_key());
  }
  return state.changes.Finish();
}

}  // namespace repairer

absl::StatusOr<std::uint64_t> RepairVolume(const RepairInput& whole, const RepairSink& sink) {
  const VolumeDescriptor open = OpenPart(whole.descriptor, whole.db);
  const RepairInput input{whole.db, open, whole.regions, whole.epoch, whole.now};
  repairer::State state{.input = input, .sink = sink, .changes = repairer::Changes(input.db)};
  struct Pass {
    std::string_view phase;
    absl::Status (*run)(repairer::State&);
  };
  // MendVolume comes first: it is the one that may refuse.
  constexpr Pass kPasses[] = {
      {"records", repairer::MendVolume},
      {"", repairer::MendKeys},
      {"directories", repairer::MendEntries},
      {"", repairer::GatherNames},
      {"inodes and extents", repairer::MendInodes},
      {"space", repairer::MendSpace},
      {"names and links", repairer::MendTree},
      {"", repairer::MendCounts},
      {"quotas", repairer::MendQuotas},
      {"sessions", repairer::EndSessions},
      {"", repairer::MendJobs},
      {"", repairer::MendBandwidth},
  };
  for (const Pass& pass : kPasses) {
    if (!pass.phase.empty()) state.Phase(pass.phase);
    if (absl::Status status = pass.run(state); !status.ok()) return status;
  }
  return state.actions;
}

}  // namespace reel::mdc
