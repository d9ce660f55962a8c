// Start, ticks, durability, the removal of orphans, and what administration sees.
#include "mdc/core/core.h"

#include <sys/stat.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "mdc/core/core_impl.h"
#include "mdc/metadb/schema.h"
#include "mdc/space/areas.h"
#include "mdc/space/open_space.h"
#include "mdc/space/units.h"
#include "proto/convert.h"
#include "proto/records.pb.h"
#include "proto/request_kind.h"
#include "proto/status.h"
#include "spdlog/spdlog.h"

namespace reel::mdc {
namespace {

// How long a known session may take to say what it holds, in its leases, however alive it seems.
constexpr std::uint64_t kReclaimLeases = 3;

template <typename Record>
absl::Status ParseRecord(std::string_view bytes, std::string_view what, std::uint64_t number,
                         Record& record) {
  if (record.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return absl::OkStatus();
  }
  return absl::DataLossError(
      absl::StrCat(std::string(what), " ", number, " cannot be decoded; run fsck.reelfs"));
}

// Visits every record of a family: f(parsed key, value).
template <typename F>
absl::Status ForEach(const MetaDb& db, schema::Family family, F f) {
  const std::string prefix = schema::Prefix(family);
  auto cursor = db.Scan(prefix, prefix, Tier::kAll);
  for (; cursor->Valid(); cursor->Next()) {
    auto key = schema::Parse(cursor->key());
    if (!key.ok()) return key.status();
    if (absl::Status s = f(*key, cursor->value()); !s.ok()) return s;
  }
  return cursor->status();
}

}  // namespace

CoreImpl::CoreImpl(MetaDb& db, const VolumeDescriptor& descriptor, const Clock& clock,
                   const CoreOptions& options)
    : db_(db), descriptor_(descriptor), clock_(clock), options_(options) {}

absl::StatusOr<std::unique_ptr<Core>> Core::Start(MetaDb& db, const VolumeDescriptor& descriptor,
                                                  const Clock& clock, const CoreOptions& options) {
  auto core = std::make_unique<CoreImpl>(db, descriptor, clock, options);
  if (absl::Status s = core->Begin(); !s.ok()) return s;
  return core;
}

absl::Status CoreImpl::Begin() {
  std::string bytes;
  auto found = db_.Get(schema::VolumeKey(), &bytes, Tier::kAll);
  if (!found.ok()) return found.status();
  v1::VolumeRecord volume;
  if (*found != Found::kYes || !volume.ParseFromString(bytes)) {
    return absl::DataLossError(absl::StrCat("volume ", descriptor_.name,
                                            ": the volume record is missing or cannot be decoded; "
                                            "run fsck.reelfs"));
  }
  const bool known = schema::IsKnownFormat(volume.format());
  if (!known || volume.volume() != descriptor_.volume.ToBytes()) {
    return absl::DataLossError(
        absl::StrCat("volume ", descriptor_.name, ": its metadata are of format ", volume.format(),
                     known ? std::string(", but of another volume")
                           : absl::StrCat("; this program knows 1 to ", schema::kLastFormat,
                                          "; use a newer one")));
  }

  term_.started_ms = clock_.NowMs();
  session_clock_.Start();
  term_.epoch = std::max(Epoch(volume.epoch() + 1), options_.epoch);
  fencing_.keys.emplace(descriptor_.volume, term_.epoch);
  holdings_.lock_tokens.Begin(term_.epoch);
  term_.sequence_base = volume.sequence_base();
  small_files_.allowed = volume.format() >= schema::kSmallFilesFormat;
  if (absl::Status s = LoadMap(volume); !s.ok()) return s;
  WriteBatch batch;
  volume.set_epoch(term_.epoch.value());
  volume.set_clean(false);
  volume.set_next_inode(volume.next_inode() + InodeNumbers::kMaxLost);
  batch.Put(schema::VolumeKey(), volume.SerializeAsString());
  if (absl::Status s = LoadSessions(batch); !s.ok()) return s;
  if (absl::Status s = LoadReplies(); !s.ok()) return s;
  if (absl::Status s = LoadOrphans(); !s.ok()) return s;
  if (absl::Status s = work_.bandwidth.book().Load(db_); !s.ok()) return s;
  if (absl::Status s = LoadQuotas(); !s.ok()) return s;
  if (absl::Status s = work_.moves.jobs.Load(db_); !s.ok()) return s;
  auto allocator = Allocator::Load(db_, OpenPart(descriptor_, volume));
  if (!allocator.ok()) return allocator.status();
  allocator_ = *std::move(allocator);
  allocator_->SetUnits(UnitsOf(volume));
  LoadDumps(volume);
  if (absl::Status s = ForgetGaps(); !s.ok()) return s;
  inode_numbers_ = std::make_unique<InodeNumbers>(volume.next_inode());

  auto applied = db_.Apply(batch);
  if (!applied.ok()) return applied.status();
  auto durable = db_.Sync();
  if (!durable.ok()) return durable.status();
  outbox_.queue.Durable(*durable);
  work_.scrub.changed = work_.moves.jobs.Scrub().has_value();
  spdlog::info("volume {}: epoch {}, {} sessions to reclaim, {} orphans", descriptor_.name,
               term_.epoch.value(), grace_.sessions(), work_.orphans.size());
  allocator_->SetGrace(grace_.on());
  term_.loaded_ms = clock_.NowMs();
  if (!grace_.on()) OnGraceOver();
  return absl::OkStatus();
}

// Sessions of earlier epochs may resume; those whose eviction had begun are fenced, again perhaps,
// or their lease is waited out. Nobody knows any more when that began, nor what they held: nothing
// is given away before they are off. Each keeps the lease that it was granted, and gets this
// controller's where that is longer: durably, before it is told.
absl::Status CoreImpl::LoadSessions(WriteBatch& batch) {
  return ForEach(db_, schema::Family::kSession,
                 [&](const schema::ParsedKey& key, std::string_view value) -> absl::Status {
                   const SessionId id(key.first);
                   Session session;
                   session.id = id;
                   if (absl::Status s = ParseRecord(value, "session", id.value(), session.record);
                       !s.ok()) {
                     return s;
                   }
                   auto client = Uuid::FromBytes(session.record.client());
                   if (!client.ok()) {
                     return absl::DataLossError(absl::StrCat("session ", id.value(),
                                                             " has no client identity; "
                                                             "run fsck.reelfs"));
                   }
                   session.client = *client;
                   session.phase = Session::Phase::kMustReclaim;
                   if (session.record.lease_ms() < options_.session_lease_ms) {
                     session.record.set_lease_ms(options_.session_lease_ms);
                     batch.Put(schema::SessionKey(id), session.record.SerializeAsString());
                   }
                   session_clock_.Knows(session.record.lease_ms());
                   session.lease_until_ms = session_clock_.NowMs() + session.record.lease_ms();
                   if (session.record.evicted()) {
                     session.phase = Session::Phase::kEnding;
                     session.ending = FenceOf(session, /*drain=*/true);
                     session.ending.stage = FenceRun::Stage::kDue;
                     fencing_.orders.Add(id);
                   }
                   session.slots.resize(options_.slots + 1);
                   for (Slot& slot : session.slots) slot.resumed = true;
                   grace_.HoldUp(id);
                   sessions_.Add(std::move(session));
                   return absl::OkStatus();
                 });
}

absl::Status CoreImpl::LoadReplies() {
  return ForEach(
      db_, schema::Family::kReply,
      [&](const schema::ParsedKey& key, std::string_view value) -> absl::Status {
        Session* session = sessions_.Find(SessionId(key.first));
        if (session == nullptr) return absl::OkStatus();  // nobody's; fsck.reelfs says so
        v1::StoredReply stored;
        if (absl::Status s = ParseRecord(value, "stored reply of session", key.first, stored);
            !s.ok()) {
          return s;
        }
        if (key.second == 0 || key.second > 65'536) {
          return absl::DataLossError(absl::StrCat("a stored reply of session ", key.first,
                                                  " is in slot ", key.second, "; run fsck.reelfs"));
        }
        // More slots than this start was told to give: the session keeps those that it has.
        if (key.second >= session->slots.size()) {
          Slot resumed;
          resumed.resumed = true;
          session->slots.resize(key.second + 1, resumed);
        }
        Slot& slot = session->slots[key.second];
        slot.resumed = true;
        slot.sequence = stored.sequence();
        slot.reply = std::move(*stored.mutable_reply());
        return absl::OkStatus();
      });
}

absl::Status CoreImpl::LoadOrphans() {
  return ForEach(db_, schema::Family::kOrphan,
                 [&](const schema::ParsedKey& key, std::string_view) -> absl::Status {
                   work_.orphans.Add(InodeNumber(key.first));
                   return absl::OkStatus();
                 });
}

bool CoreImpl::Apply(const WriteBatch& batch, Sequence* sequence, Haste haste, SessionId seen_by) {
  auto applied = db_.Apply(batch);
  if (!applied.ok()) {
    health_ = absl::Status(applied.status().code(),
                           absl::StrCat("volume ", descriptor_.name,
                                        ": a commit failed: ", applied.status().message()));
    return false;
  }
  *sequence = *applied;
  in_flight_.Applied(batch, *applied, seen_by);
  ++counters_.batches;
  outbox_.sync_wish.Applied(haste);
  return true;
}

void CoreImpl::OnTick() {
  if (!health_.ok()) return;
  session_clock_.Observe();
  const std::uint64_t now = session_clock_.NowMs();
  ResendRecalls(Resends::Turn::kBegin);
  std::vector<std::pair<Session*, std::string>> over;
  for (auto& [id, session] : sessions_.all()) {
    if (session->phase == Session::Phase::kEnding) continue;
    if (session->lease_until_ms < now) {
      over.emplace_back(session.get(), "its lease ran out");
    } else if (session->phase == Session::Phase::kMustReclaim &&
               now > kReclaimLeases * session->record.lease_ms()) {
      over.emplace_back(session.get(), "it did not say in time what it holds");
    } else if (holdings_.tokens.CountOf(id) > 2 * kMaxTokenRanges) {
      // By returns of single blocks, which are never refused.
      over.emplace_back(session.get(), "it holds tokens of too many pieces");
    } else if (std::string overdue = OverdueRecall(*session); !overdue.empty()) {
      NoteCutOff(*session, overdue);
      over.emplace_back(session.get(), std::move(overdue));
    }
  }
  for (const auto& [session, reason] : over) Evict(*session, reason);
  outbox_.times_unheard = TimesUnheard();
  outbox_.sync_wish.AskForAll();
  outbox_.queue.ReleaseIdle();
  AdvanceFences();
  ReleaseSome();
  holdings_.lock_queries.Advance(clock_.NowMs());
  EndLateOpens(work_.orphans.EndLateOpens(clock_.NowMs()));
  RecallIdle();
  Reap();
  FreeWaiting();
  CountQuotas();
  OpenNewSpace();
  DealBandwidth();
  RunUnfinished();
  RunScrubSchedule();
  WatchFreeSpace();
  RunJobs();
  RunWoken();
}

void CoreImpl::OnDurable(Sequence sequence) {
  if (!health_.ok()) return;
  in_flight_.Durable(sequence);
  allocator_->Durable(sequence);
  outbox_.queue.Durable(sequence);
  outbox_.waits.Durable(sequence);
  ResendRecalls(Resends::Turn::kGoOn);
  AdvanceFences();
  ReleaseSome();
  Reap();
  FreeWaiting();
  CountQuotas();
  RunUnfinished();
  RunJobs();
  RunWoken();
}

CoreOutputs CoreImpl::TakeOutputs() {
  work_.releases.BeginTurn();
  CoreOutputs outputs;
  outbox_.Take(outputs);
  outputs.void_dumps = work_.dumps.TakeAsked();
  outputs.quota_notices = work_.quotas.TakeNotices();
  outputs.scrub_changed = work_.scrub.TakeChanged();
  outputs.fetches = fetches_.TakeFetches();
  outputs.fences = fencing_.orders.Take();
  outputs.copies = std::exchange(work_.moves.orders, {});
  outputs.restripe = std::exchange(work_.moves.restripe, std::nullopt);
  return outputs;
}

void CoreImpl::RunWoken() {
  while (health_.ok()) {
    if (const auto woken = parked_.TakeWoken()) {
      RunParked(*woken);
    } else if (const auto unlocked = holdings_.lock_waits.TakeDue()) {
      RunLockWaits(*unlocked);
      RunLockTokenWaits(*unlocked);
      if (!holdings_.lock_waits.AnyDue()) holdings_.lock_queries.Advance(clock_.NowMs());
    } else if (const auto replayed = grace_.TakeDone()) {
      if (Session* const session = sessions_.Find(*replayed)) EndReclaim(*session);
    } else {
      return;
    }
  }
}

absl::StatusOr<Core::Region> CoreImpl::TakeRegion(PoolId pool, std::uint64_t least_blocks,
                                                  std::uint64_t most_blocks) {
  if (!health_.ok()) return health_;
  if (grace_.on()) {  // what is free may be a file's that is to be made again
    return absl::UnavailableError("not all sessions of the last epoch have said what they hold");
  }
  const std::uint64_t least = std::max<std::uint64_t>(least_blocks, 1);
  for (std::uint64_t length = most_blocks, next = 0; length >= least; length = next) {
    next = length > least ? std::max(length / 2, least) : 0;
    Txn txn(db_, in_flight_, Tier::kMemory);
    AllocationRequest request;
    request.length_blocks = length;
    request.goal_pool_only = true;
    request.goal_pool = pool;
    auto runs = allocator_->Allocate(txn, request);
    if (!runs.ok() || runs->size() != 1) {
      if (allocator_->lacks_waiting()) work_.dumps.AskForSpace(clock_.NowMs());
      allocator_->Abandon();
      continue;
    }
    Sequence sequence;
    if (!Apply(txn.TakeBatch(), &sequence)) return health_;
    allocator_->Committed(sequence);
    return Region{runs->front(), sequence};
  }
  return ErrnoStatus(
      ENOSPC, absl::StrCat("no run of ", least_blocks, " blocks is free in pool ", pool.value()));
}

absl::Status CoreImpl::PrepareStop() {
  if (!health_.ok() || sessions_.size() > 0) return health_;
  auto volume = ReadVolumeRecord();
  if (!volume.ok()) return volume.status();
  volume->set_clean(true);
  return CommitVolumeRecord(*volume).status();
}

void CoreImpl::Describe(v1::ShowReply& reply) const {
  reply.set_name(descriptor_.name);
  reply.set_volume(descriptor_.volume.ToBytes());
  reply.set_map_generation(descriptor_.generation);
  reply.set_maintenance(maintenance_);
  reply.set_block_bytes(descriptor_.block_bytes);
  constexpr const char* kStrategies[] = {"round", "fill", "balance"};
  reply.set_strategy(kStrategies[static_cast<int>(descriptor_.strategy)]);
  reply.mutable_created()->set_seconds(static_cast<std::int64_t>(descriptor_.created_seconds));
  for (std::uint32_t i = 0; i < descriptor_.pools.size(); ++i) {
    const Pool& pool = descriptor_.pools[i];
    v1::ShowReply::Pool& out = *reply.add_pools();
    out.set_name(pool.name);
    if ((pool.flags & Pool::kMetadata) != 0) out.add_flags("metadata");
    if ((pool.flags & Pool::kData) != 0) out.add_flags("data");
    if ((pool.flags & Pool::kExclusive) != 0) out.add_flags("exclusive");
    for (const std::string& affinity : pool.affinities) out.add_affinities(affinity);
    out.set_breadth_bytes(pool.breadth_blocks * descriptor_.block_bytes);
    out.set_block_bytes(allocator_->unit_blocks(PoolId(i)) * descriptor_.block_bytes);
    out.set_total_bytes(pool.capacity_blocks() * descriptor_.block_bytes);
    out.set_free_bytes(allocator_->free_blocks(PoolId(i)) * descriptor_.block_bytes);
    const std::vector<mdc::Run> areas = SetsOf(descriptor_, PoolId(i));
    for (std::uint32_t set = 0; set < pool.sets.size(); ++set) {
      for (const LunEntry& lun : pool.sets[set].luns) {
        v1::ShowReply::Lun& entry = *out.add_luns();
        entry.set_name(lun.name);
        entry.set_stripe_set(set);
        entry.set_closed(Covers(work_.map.closed(), areas[set]));
        if (lun.lun == descriptor_.seat_lun) reply.set_seat(lun.name);
      }
    }
  }
  DescribeDumps(reply);
  DescribeMap(reply);
  DescribeAlarms(reply);
}

void CoreImpl::Describe(v1::StatReply& reply) const {
  reply.set_epoch(term_.epoch.value());
  reply.set_sequence(term_.VolumeSequence(outbox_.queue.durable()).value());
  reply.set_uptime_ms(clock_.NowMs() - term_.started_ms);
  if (term_.serving_ms != 0) {
    v1::StatReply::Phase& reclaims = *reply.add_takeover();
    reclaims.set_name("reclaims");
    reclaims.set_ms(term_.serving_ms - term_.loaded_ms);
  }
  const auto add = [&](std::string name, std::uint64_t value) {
    v1::StatReply::Counter& counter = *reply.add_counters();
    counter.set_name(std::move(name));
    counter.set_value(value);
  };
  for (std::size_t i = 0; i < counters_.operations.size(); ++i) {
    if (counters_.operations[i] == 0) continue;
    const auto op = static_cast<v1::Request::OpCase>(i);
    if (OperationFor(op) == nullptr) continue;
    add(absl::StrCat("op.", NameOf(op)), counters_.operations[i]);
  }
  add("commit.batches", counters_.batches);
  add("operation.blocked", counters_.blocked);
  add("operation.errors", counters_.errors);
  add("job.broken_moves", counters_.broken_moves);
  for (std::size_t i = 0; i < counters_.moved_blocks.size(); ++i) {
    if (counters_.moved_blocks[i] == 0) continue;
    const std::string kind(JobTable::KindWord(static_cast<v1::JobKind>(i)));
    add(absl::StrCat("job.moved_blocks.", kind), counters_.moved_blocks[i]);
  }
  add("operation.inline_reads", counters_.inline_reads);
  add("operation.delegated", counters_.delegated);
  add("operation.replayed", counters_.replayed);
  add("operation.misses", counters_.misses);
  add("operation.repetitions", counters_.repetitions);
  add("orphans.now", work_.orphans.size());
  add("orphans.reaped", counters_.reaped);
  add("session.evictions", counters_.evictions);
  add("session.released", work_.releases.released());
  add("session.now", sessions_.size());
  add("session.refused", counters_.refused);
  add("token.recalls", counters_.recalls);
}

void CoreImpl::Describe(v1::WhoReply& reply) const {
  const std::uint64_t now = session_clock_.NowMs();
  for (const auto& [id, session] : sessions_.all()) {
    v1::WhoReply::Session& out = *reply.add_sessions();
    out.set_session(id.value());
    out.set_host(session->record.host());
    out.set_mount_point(session->record.mount_point());
    *out.mutable_registered() = session->record.registered();
    out.set_connected(session->stream != kNoStream);
    out.set_lease_left_ms(session->lease_until_ms - std::min(now, session->lease_until_ms));
    holdings_.Describe(id, out);
    out.set_operations(session->operations);
    out.set_certificate(session->record.certificate());
    out.set_exported(ExportText(session->exported));
    out.set_state(StateOf(*session));
    out.set_protocol(session->stream == kNoStream ? 0 : session->spoken.protocol);
    out.set_program(session->spoken.program);
    out.set_fuse(session->said.fuse);
    for (const v1::SessionKey& key : session->record.keys()) out.add_keys(key.key());
  }
}

absl::Status FormatVolume(MetaDb& db, const VolumeDescriptor& descriptor,
                          const std::vector<Run>& used, WallTime now, bool small_files) {
  v1::VolumeRecord volume;
  volume.set_format(small_files ? schema::kSmallFilesFormat : schema::kFormat);
  volume.set_volume(descriptor.volume.ToBytes());
  volume.set_next_inode(kRootInode.value() + 1);
  volume.set_next_session(1);
  volume.set_clean(true);
  volume.set_hosts_name_volume(true);

  v1::InodeRecord root;
  root.set_generation(1);
  root.set_mode(S_IFDIR | 0755);
  root.set_nlink(2);
  *root.mutable_atime() = ToProto(now);
  *root.mutable_mtime() = ToProto(now);
  *root.mutable_ctime() = ToProto(now);
  *root.mutable_btime() = ToProto(now);
  root.set_change(1);
  root.set_parent(kRootInode.value());
  root.set_next_cookie(3);

  WriteBatch batch;
  batch.Put(schema::VolumeKey(), volume.SerializeAsString());
  batch.Put(schema::InodeKey(kRootInode), root.SerializeAsString());
  Allocator::Format(descriptor, used, batch);
  if (auto applied = db.Apply(batch); !applied.ok()) return applied.status();
  return db.Sync().status();
}

}  // namespace reel::mdc
