// Changes of the volume's map while it is in use: sessions are told, and what pools have gained is
// given to files when all of them know it (docs/failover.md, "A map that grows").
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "mdc/base/alarm.h"
#include "mdc/core/core_impl.h"
#include "mdc/metadb/schema.h"
#include "mdc/space/areas.h"
#include "mdc/space/open_space.h"
#include "mdc/space/units.h"
#include "proto/records.pb.h"
#include "spdlog/spdlog.h"
#include "volume/base/size.h"

namespace reel::mdc {
namespace {

constexpr std::size_t kMaxProblemBytes = 256;
// A session that has been told for so long, and has said nothing, is worth an alarm.
constexpr std::uint64_t kUntakenAlarmMs = 10'000;

bool KnowsMaps(const Session& session) {
  return (session.spoken.features & v1::FEATURE_NEW_MAP) != 0;
}

// Without its lease it does nothing any more, whatever map it has.
bool Counts(const Session& session) {
  return session.phase != Session::Phase::kEnding;
}

}  // namespace

absl::Status CoreImpl::LoadMap(v1::VolumeRecord& volume) {
  auto framed = EncodeDescriptor(descriptor_);
  if (!framed.ok()) return framed.status();
  // Of an earlier release, or as it was made: no map had come later.
  if (volume.open_blocks().empty()) SetAllOpen(descriptor_, volume);
  for (std::uint32_t i = 0; i < descriptor_.pools.size(); ++i) {
    for (const mdc::Run& gap : GapsOf(descriptor_, PoolId(i))) {
      RemoveFrom(*volume.mutable_closed(), gap);
    }
    const bool has_unit = static_cast<int>(i) < volume.unit_blocks_size();
    if (has_unit && descriptor_.pools[i].is_removed()) SetUnit(PoolId(i), 0, volume);
  }
  work_.map.Begin(*std::move(framed), !UnopenedRuns(descriptor_, volume).empty(), clock_.NowMs());
  work_.map.SetClosed(volume);
  return absl::OkStatus();
}

absl::Status CoreImpl::MayGrow() const {
  std::vector<std::string> hosts;
  for (const auto& [id, session] : sessions_.all()) {
    const bool known = session->phase != Session::Phase::kMustReclaim || session->reclaim.done;
    if (Counts(*session) && known && !KnowsMaps(*session)) {
      hosts.push_back(absl::StrCat(session->record.host(), " (session ", id.value(), ", ",
                                   session->record.mount_point(), ")"));
    }
  }
  if (hosts.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the volume cannot grow while it is mounted by an earlier release, which would not see what "
      "is added: unmount it, or upgrade it, at ",
      absl::StrJoin(hosts, ", ")));
}

absl::Status CoreImpl::TakeMap(const VolumeDescriptor& next, std::uint64_t keyless_quarantine_ms) {
  if (!health_.ok()) return health_;
  auto volume = ReadVolumeRecord();
  if (!volume.ok()) return volume.status();
  descriptor_ = next;
  options_.keyless_quarantine_ms = keyless_quarantine_ms;
  if (absl::Status s = LoadMap(*volume); !s.ok()) return s;
  Txn txn(db_, in_flight_, Tier::kMemory);
  DropGaps(txn);
  txn.Put(schema::VolumeKey(), volume->SerializeAsString());
  Sequence sequence;
  if (!Apply(txn.TakeBatch(), &sequence)) return health_;
  allocator_->TakeMap(OpenPart(descriptor_, *volume));
  allocator_->SetUnits(UnitsOf(*volume));
  ApplyClosed();
  spdlog::info("volume {}: map generation {}", descriptor_.name, descriptor_.generation);
  for (const auto& [id, session] : sessions_.all()) TellMap(*session);
  OpenNewSpace();
  RunWoken();
  return absl::OkStatus();
}

void CoreImpl::TellMap(const Session& session) {
  if (session.stream == kNoStream || !Counts(session) || !KnowsMaps(session)) return;
  v1::Callback callback;
  callback.mutable_new_map()->set_volume_descriptor(work_.map.framed());
  outbox_.queue.Emit(session.stream, std::move(callback), Sequence());
}

// One that has mounted nothing yet opens the LUNs of the map that it is answered, or ends.
void CoreImpl::NoteMapOf(Session& session, const v1::Hello& hello) const {
  const bool mounts =
      hello.resume_session() == 0 && hello.mounted_volume().empty() && hello.map_generation() == 0;
  session.spoken.map_generation = mounts ? descriptor_.generation : hello.map_generation();
  session.spoken.map_problem.clear();
}

void CoreImpl::OnMapTaken(Session& session, const v1::Request& request) {
  const v1::MapTaken& taken = request.map_taken();
  v1::Reply reply;
  if (taken.generation() > descriptor_.generation) {
    reply.set_error(EINVAL);
    reply.set_message(absl::StrCat("the volume's map has generation ", descriptor_.generation));
    return Answer(session, request, std::move(reply), Sequence());
  }
  session.spoken.map_problem = taken.problem().substr(0, kMaxProblemBytes);
  if (session.spoken.map_problem.empty()) {
    session.spoken.map_generation = std::max(session.spoken.map_generation, taken.generation());
  }
  Answer(session, request, std::move(reply), Sequence());
  OpenNewSpace();
}

// The blocks become free as those of a file that is removed: in a commit, and not before that is
// durable. In the same commit they are open, so that no crash loses them, or opens them twice.
void CoreImpl::OpenNewSpace() {
  if (!work_.map.waits() || grace_.on() || !health_.ok()) return;
  for (const auto& [id, session] : sessions_.all()) {
    if (Counts(*session) && session->spoken.map_generation < descriptor_.generation) return;
  }
  auto volume = ReadVolumeRecord();
  absl::Status problem = volume.status();
  Txn txn(db_, in_flight_, Tier::kMemory);
  if (problem.ok()) {
    const std::vector<mdc::Run> runs = UnopenedRuns(descriptor_, *volume);
    SetAllOpen(descriptor_, *volume);
    volume->set_grown(true);
    allocator_->TakeMap(descriptor_);
    const Sequence birth = term_.VolumeSequence(db_.last_applied() + 1);
    for (const mdc::Run& run : runs) {
      if (problem.ok()) problem = allocator_->Free(txn, run, birth);
    }
  }
  work_.map.Opened();
  if (!problem.ok()) {
    allocator_->Abandon();
    spdlog::error("volume {}: what was added stays unused: {}; run fsck.reelfs", descriptor_.name,
                  std::string(problem.message()));
    return;
  }
  txn.Put(schema::VolumeKey(), volume->SerializeAsString());
  Sequence opened;
  if (!Apply(txn.TakeBatch(), &opened)) return allocator_->Abandon();
  allocator_->Committed(opened);
  ApplyClosed();
  outbox_.sync_wish.Ask();
  spdlog::info("volume {}: all sessions have map generation {}: what was added is in use",
               descriptor_.name, descriptor_.generation);
}

// ---- areas in which nothing is allocated ------------------------------------------------------

absl::Status CoreImpl::ChangeClosed(const std::vector<mdc::Run>& areas, bool closed,
                                    v1::VolumeRecord& volume) const {
  if (const auto job = EmptiedBy(areas); job && !closed) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", job->value(), " empties some of it; cancel that first"));
  }
  for (const mdc::Run& area : areas) {
    closed ? AddTo(*volume.mutable_closed(), area) : RemoveFrom(*volume.mutable_closed(), area);
  }
  if (!closed) return absl::OkStatus();
  for (std::uint32_t i = 0; i < descriptor_.pools.size(); ++i) {
    if ((descriptor_.pools[i].flags & Pool::kData) == 0) continue;
    const std::vector<mdc::Run> sets = LiveSetsOf(descriptor_, PoolId(i));
    const bool covered =
        std::ranges::all_of(sets, [&](const auto& set) { return Covers(volume.closed(), set); });
    if (!covered) return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      "nothing would be left where files can be written; add LUNs first");
}

absl::StatusOr<Sequence> CoreImpl::SetClosed(const std::vector<mdc::Run>& areas, bool closed) {
  if (!health_.ok()) return health_;
  auto volume = ReadVolumeRecord();
  if (!volume.ok()) return volume.status();
  if (absl::Status s = ChangeClosed(areas, closed, *volume); !s.ok()) return s;
  const auto committed = CommitVolumeRecord(*volume);
  if (!committed.ok()) return committed.status();
  work_.map.SetClosed(*volume);
  ApplyClosed();
  outbox_.sync_wish.Ask();
  return *committed;
}

// In a new epoch, blocks that the last one had reserved are claimed first, wherever they lie.
void CoreImpl::ApplyClosed() {
  if (!grace_.on()) allocator_->SetClosed(ToRuns(work_.map.closed()));
}

// ---- what administration sees -----------------------------------------------------------------

void CoreImpl::DescribeMap(v1::ShowReply& reply) const {
  if (!work_.map.waits()) return;
  std::size_t taken = 0, all = 0;
  const std::uint64_t waited_ms = clock_.NowMs() - work_.map.since_ms();
  for (const auto& [id, session] : sessions_.all()) {
    if (!Counts(*session)) continue;
    ++all;
    if (session->spoken.map_generation >= descriptor_.generation) {
      ++taken;
      continue;
    }
    const std::string& problem = session->spoken.map_problem;
    if (problem.empty() && waited_ms < kUntakenAlarmMs) continue;
    AddAlarm(reply, v1::ALARM_MAP_NOT_TAKEN,
             absl::StrCat(
                 "session ", id.value(), " of ", session->record.host(), " at ",
                 session->record.mount_point(), " has not taken the volume's new map",
                 problem.empty() ? "" : ": ", problem,
                 "; until it does, what was added stays unused: connect the LUNs to that host, or "
                 "unmount there"));
  }
  reply.add_notes(absl::StrCat("what map generation ", descriptor_.generation,
                               " added is used when all clients have taken it: ", taken, " of ",
                               all, " have"));
}

}  // namespace reel::mdc
