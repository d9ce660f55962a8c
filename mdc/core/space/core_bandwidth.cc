// Guaranteed bandwidth in the core: what administration reserves, what sessions say that they send,
// and what they are dealt (docs/internals/bandwidth.md).
#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "mdc/core/core_impl.h"
#include "mdc/metadb/schema.h"
#include "mdc/ops/quota.h"
#include "mdc/space/areas.h"
#include "proto/convert.h"
#include "spdlog/spdlog.h"
#include "volume/bandwidth/lun_sets.h"

namespace reel::mdc {
namespace {

// By which name a host has reservations: as with exports.
const std::string& NameOfClient(const Session& session) {
  return session.record.certificate().empty() ? session.record.host()
                                              : session.record.certificate();
}

bool KnowsDeals(const Session& session) {
  return (session.spoken.features & v1::FEATURE_BANDWIDTH) != 0;
}

bool IsServed(const Session& session) {
  return session.stream != kNoStream && session.phase == Session::Phase::kServing;
}

}  // namespace

void CoreImpl::OnTraffic(Session& session, const v1::Request& request) {
  v1::Reply reply;
  if (!work_.bandwidth.OnTraffic(session.id, request.traffic(), clock_.NowMs())) {
    reply.set_error(EINVAL);
    reply.set_message(absl::StrCat("it says more than ", BandwidthDesk::kMostShares, " shares"));
  } else {
    EndStreams(work_.bandwidth.Closed(session.id, request.traffic()));
  }
  Answer(session, request, std::move(reply), Sequence());
}

void CoreImpl::EndStreams(const std::vector<std::uint64_t>& reservations) {
  if (reservations.empty() || !health_.ok()) return;
  BandwidthBook::Change change;
  for (const std::uint64_t id : reservations) change.reservations.emplace_back(id, std::nullopt);
  WriteBatch batch;
  change.Stage(batch);
  Sequence sequence;
  if (!Apply(batch, &sequence, Haste::kWhenAsked)) return;
  work_.bandwidth.book().Take(change);
}

void CoreImpl::DealBandwidth() {
  if (grace_.on()) return;
  std::vector<std::uint64_t> over;
  for (const auto& [id, record] : work_.bandwidth.book().reservations()) {
    const bool stream = record.kind() == v1::RESERVATION_STREAM;
    if (stream && sessions_.Find(SessionId(record.session())) == nullptr) over.push_back(id);
  }
  EndStreams(over);
  std::vector<BandwidthDesk::Peer> peers;
  for (const auto& [id, session] : sessions_.all()) {
    if (IsServed(*session) && KnowsDeals(*session)) peers.push_back({id, NameOfClient(*session)});
  }
  for (auto& [id, deal] : work_.bandwidth.Round(descriptor_, peers, clock_.NowMs())) {
    v1::Callback callback;
    *callback.mutable_deal() = std::move(deal);
    outbox_.queue.Emit(sessions_.Find(id)->stream, std::move(callback), Sequence());
  }
}

void CoreImpl::PaceMover(const Move& move) {
  if (work_.bandwidth.book().reservations().empty()) return;
  std::map<LunSetId, std::uint64_t> bytes;
  for (const BlockCopy& copy : CopiesOf(move)) {
    for (const mdc::Run& run : {copy.from, copy.to}) {
      bytes[LunSetAt(descriptor_, run.pool, run.start)] +=
          run.length_blocks * descriptor_.block_bytes;
    }
  }
  std::uint64_t pause_ms = 0;
  for (const auto& [set, moved] : bytes) {
    pause_ms = std::max(pause_ms, work_.bandwidth.NoteMoved(set, moved, clock_.NowMs()));
  }
  work_.moves.not_before_ms = std::max(work_.moves.not_before_ms, work_.moves.began_ms + pause_ms);
}

// ---- administration ---------------------------------------------------------------------------

absl::StatusOr<BandwidthBook::Change> CoreImpl::ChangeOf(
    const v1::SetBandwidthRequest& request) const {
  const BandwidthBook& book = work_.bandwidth.book();
  if (request.has_capacity()) {
    const v1::SetBandwidthRequest::Capacity& asked = request.capacity();
    const auto pool = PoolNamed(descriptor_, asked.pool());
    if (!pool.ok()) return pool.status();
    const auto job = work_.moves.jobs.Restriping();
    if (job && work_.moves.jobs.all().at(*job).only_pool() == pool->value() + 1) {
      return absl::FailedPreconditionError(absl::StrCat("job ", job->value(), " gives pool ",
                                                        asked.pool(),
                                                        " another breadth; wait for its end"));
    }
    v1::CapacityRecord capacity;
    capacity.set_rate_bytes(asked.rate_bytes());
    capacity.set_rate_requests(asked.rate_requests());
    std::optional<std::uint32_t> set;
    if (asked.has_stripe_set()) set = asked.stripe_set();
    return book.SetCapacity(descriptor_, *pool, set, capacity);
  }
  const bool releases = request.has_release();
  v1::ReservationRecord record;
  record.set_kind(releases ? request.release().kind() : request.reserve().kind());
  record.set_name(releases ? request.release().name() : request.reserve().name());
  record.set_inode(releases ? request.release().inode() : request.reserve().inode());
  if (releases && request.release().reservation() != 0) {
    const std::uint64_t id = request.release().reservation();
    if (!book.reservations().contains(id))
      return absl::NotFoundError(absl::StrCat("there is no reservation ", id));
    return BandwidthBook::Change{.reservations = {{id, std::nullopt}}};
  }
  const bool of_client = record.kind() == v1::RESERVATION_CLIENT;
  if (of_client ? record.name().empty()
                : record.kind() != v1::RESERVATION_TREE && record.kind() != v1::RESERVATION_FILE) {
    return absl::InvalidArgumentError("a client, a tree or a file is to be named");
  }
  Txn txn(db_, in_flight_, Tier::kAll);
  if (record.kind() == v1::RESERVATION_TREE) {
    const auto tree = FindTree(txn, record.name());
    if (!tree.ok()) return tree.status();
    record.set_tree(*tree);
  } else if (record.kind() == v1::RESERVATION_FILE && !releases &&
             !txn.Inode(InodeNumber(record.inode())).ok()) {
    return absl::NotFoundError(absl::StrCat("there is no file ", record.name()));
  }
  if (releases) {
    const std::uint64_t id = book.Find(record);
    if (id == 0)
      return absl::NotFoundError(absl::StrCat("nothing is reserved for ", ReservationText(record)));
    return BandwidthBook::Change{.reservations = {{id, std::nullopt}}};
  }
  const v1::SetBandwidthRequest::Reserve& asked = request.reserve();
  record.set_rate_bytes(asked.frames() == 0 ? asked.rate_bytes()
                                            : asked.frames() * asked.frame_bytes());
  record.set_frames(asked.frames());
  record.set_frame_bytes(asked.frame_bytes());
  for (const std::string& name : asked.pools()) {
    const auto pool = PoolNamed(descriptor_, name);
    if (!pool.ok()) return pool.status();
    record.add_pools(pool->value());
  }
  *record.mutable_made() = ToProto(clock_.WallNow());
  return book.Reserve(descriptor_, std::move(record));
}

void CoreImpl::SetBandwidth(const v1::SetBandwidthRequest& request, v1::SetBandwidthReply& reply,
                            std::function<void(const absl::Status&)> then) {
  if (!health_.ok()) return then(health_);
  if (store_room_.full() && !request.has_release()) return then(StoreIsFull());
  if (!request.has_capacity() && !request.has_reserve() && !request.has_release())
    return then(absl::InvalidArgumentError("nothing to set"));
  const auto change = ChangeOf(request);
  auto volume = ReadVolumeRecord();
  if (!change.ok()) return then(change.status());
  if (!volume.ok()) return then(volume.status());
  WriteBatch batch;
  change->Stage(batch);
  volume->set_format(std::max(volume->format(), schema::kBandwidthFormat));
  batch.Put(schema::VolumeKey(), volume->SerializeAsString());
  Sequence sequence;
  if (!Apply(batch, &sequence)) return then(health_);
  work_.bandwidth.book().Take(*change);
  for (const auto& [id, record] : change->reservations) {
    reply.set_reservation(id);
    spdlog::info("volume {}: reservation {} {}", descriptor_.name, id,
                 record ? absl::StrCat("is for ", ReservationText(*record), ", of ",
                                       record->rate_bytes(), " bytes/s")
                        : "is released");
  }
  outbox_.waits.Await(sequence, [then = std::move(then)](bool durable) {
    then(durable ? absl::OkStatus() : absl::UnavailableError("the controller is stopping"));
  });
}

void CoreImpl::Describe(v1::BandwidthReply& reply) const {
  std::map<SessionId, std::string> hosts;
  const bool reserved = !work_.bandwidth.book().reservations().empty();
  for (const auto& [id, session] : sessions_.all()) {
    hosts[id] = NameOfClient(*session);
    if (reserved && IsServed(*session) && !KnowsDeals(*session)) reply.add_unpaced(hosts[id]);
  }
  work_.bandwidth.Describe(descriptor_, hosts, reply);
}

}  // namespace reel::mdc
