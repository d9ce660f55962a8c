// Dumps of the metadata (docs/backup.md): which are valid, and how blocks come back that waited for
// others. The marks on the LUNs are the server's.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "mdc/core/core_impl.h"
#include "mdc/metadb/schema.h"
#include "proto/convert.h"
#include "spdlog/spdlog.h"

namespace reel::mdc {
namespace {

struct WaitingRun {
  Run run;
  std::uint64_t dump = 0;
};

absl::StatusOr<WaitingRun> DecodeWaiting(std::string_view key, std::string_view value) {
  const auto parsed = schema::Parse(key);
  if (!parsed.ok()) return parsed.status();
  v1::WaitingRecord record;
  if (!record.ParseFromArray(value.data(), static_cast<int>(value.size()))) {
    return absl::DataLossError(absl::StrCat("the record of waiting blocks at pool ", parsed->first,
                                            " block ", parsed->second, " is damaged"));
  }
  const PoolId pool(static_cast<std::uint32_t>(parsed->first));
  return WaitingRun{{pool, PoolBlock(parsed->second), record.length_blocks()}, record.dump()};
}

}  // namespace

void CoreImpl::LoadDumps(const v1::VolumeRecord& volume) {
  work_.dumps.Load(volume, allocator_->waiting_blocks() > 0);
  allocator_->SetPin(work_.dumps.pin());
}

absl::StatusOr<v1::VolumeRecord> CoreImpl::ReadVolumeRecord() {
  Txn txn(db_, in_flight_, Tier::kAll);
  auto bytes = txn.Get(schema::VolumeKey());
  if (!bytes.ok()) return bytes.status();
  v1::VolumeRecord volume;
  if (!bytes->has_value() || !volume.ParseFromString(**bytes)) {
    return absl::DataLossError("the volume record is damaged; run fsck.reelfs");
  }
  return volume;
}

absl::StatusOr<Sequence> CoreImpl::CommitVolumeRecord(const v1::VolumeRecord& volume) {
  WriteBatch batch;
  batch.Put(schema::VolumeKey(), volume.SerializeAsString());
  Sequence sequence;
  if (!Apply(batch, &sequence)) return health_;
  return sequence;
}

Core::ValidDumps CoreImpl::valid_dumps() const {
  const auto id = [](const std::optional<DumpPins::Dump>& dump) {
    return dump ? std::optional(Uuid::FromBytes(dump->dump()).value_or(Uuid())) : std::nullopt;
  };
  return {id(work_.dumps.kept()), id(work_.dumps.begun())};
}

// All that was allocated before was born by then: an allocation's birth is the number that the next
// commit has at least, and it is in a commit. What is allocated after this one is born later.
absl::StatusOr<Core::BegunDump> CoreImpl::BeginDump(const Uuid& dump) {
  if (!health_.ok()) return health_;
  if (work_.dumps.begun()) {
    return absl::FailedPreconditionError("a dump that was begun before has not ended");
  }
  if (const auto job = work_.moves.jobs.Restriping()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "job ", job->value(), " moves what a dump would name; wait for its end, or ", "cancel it"));
  }
  auto volume = ReadVolumeRecord();
  if (!volume.ok()) return volume.status();
  const Sequence sequence = term_.VolumeSequence(db_.last_applied() + 1);
  volume->set_format(std::max(volume->format(), schema::kDumpedFormat));
  volume->set_last_dump(volume->last_dump() + 1);
  v1::VolumeRecord::Dump& begun = *volume->mutable_begun_dump();
  begun.set_dump(dump.ToBytes());
  begun.set_number(volume->last_dump());
  begun.set_sequence(sequence.value());
  const WallTime now = clock_.WallNow();
  *begun.mutable_taken() = ToProto(now);
  const auto committed = CommitVolumeRecord(*volume);
  if (!committed.ok()) return committed.status();
  LoadDumps(*volume);
  return BegunDump{.applied = *committed, .sequence = sequence, .taken = now};
}

absl::StatusOr<Sequence> CoreImpl::EndDumps(const std::optional<Uuid>& kept) {
  if (!health_.ok()) return health_;
  auto volume = ReadVolumeRecord();
  if (!volume.ok()) return volume.status();
  if (kept && volume->begun_dump().dump() == kept->ToBytes()) {
    *volume->mutable_kept_dump() = volume->begun_dump();
  } else if (!kept || volume->kept_dump().dump() != kept->ToBytes()) {
    if (kept) return absl::NotFoundError("that dump is not valid any more; take another one");
    volume->clear_kept_dump();
  }
  volume->clear_begun_dump();
  const auto committed = CommitVolumeRecord(*volume);
  if (!committed.ok()) return committed.status();
  LoadDumps(*volume);
  outbox_.sync_wish.Ask();
  return *committed;
}

void CoreImpl::OnVoidFailed() {
  work_.dumps.VoidFailed(clock_.NowMs());
  WakeForSpace();
  RunWoken();
}

void CoreImpl::FreeWaiting() {
  if (!work_.dumps.next() || grace_.on() || !health_.ok()) return;
  Txn txn(db_, in_flight_, Tier::kMemory);
  std::vector<mdc::Run> runs;
  std::optional<std::string> next;
  std::size_t looked = 0;
  absl::Status problem;
  const absl::Status scanned =
      txn.Scan(schema::Prefix(schema::Family::kWaiting), *work_.dumps.next(),
               [&](std::string_view key, std::string_view value) {
                 if (++looked > options_.steps.reaped) {
                   next = std::string(key);
                   return false;
                 }
                 const auto waiting = DecodeWaiting(key, value);
                 problem = waiting.status();
                 if (waiting.ok() && work_.dumps.MayFree(waiting->dump)) {
                   runs.push_back(waiting->run);
                 }
                 return problem.ok();
               });
  if (txn.missed()) return Fetch(*txn.missed(), nullptr);
  if (problem.ok()) problem = scanned;
  for (const mdc::Run& run : runs) {
    if (problem.ok()) problem = allocator_->FreeWaiting(txn, run);
  }
  if (!problem.ok()) {
    allocator_->Abandon();
    work_.dumps.Looked(std::nullopt, Sequence());
    spdlog::error("volume {}: blocks that waited for a dump stay unused: {}; run fsck.reelfs",
                  descriptor_.name, std::string(problem.message()));
    return;
  }
  Sequence freed;
  if (!runs.empty()) {
    if (!Apply(txn.TakeBatch(), &freed, Haste::kWhenAsked)) return allocator_->Abandon();
    allocator_->Committed(freed);
  }
  work_.dumps.Looked(std::move(next), freed);
  outbox_.sync_wish.Ask();  // the next step follows it
}

void CoreImpl::DescribeDumps(v1::ShowReply& reply) const {
  const auto describe = [](const DumpPins::Dump& dump, v1::ShowReply::Dump& out) {
    out.set_dump(dump.dump());
    *out.mutable_taken() = dump.taken();
  };
  if (work_.dumps.kept()) describe(*work_.dumps.kept(), *reply.mutable_kept_dump());
  if (work_.dumps.begun()) describe(*work_.dumps.begun(), *reply.mutable_begun_dump());
  reply.set_waiting_bytes(allocator_->waiting_blocks() * descriptor_.block_bytes);
}

}  // namespace reel::mdc
