// Quotas in the core: the hook that charges what operations change, what is reserved for sessions,
// the count of what there was before, and what administration sets (docs/internals/quotas.md).
#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "mdc/core/core_impl.h"
#include "mdc/metadb/schema.h"
#include "mdc/ops/quota.h"
#include "mdc/ops/quota_admin.h"
#include "proto/protocol.h"
#include "spdlog/spdlog.h"

namespace reel::mdc {
namespace {

using Event = OpContext::Effects::QuotaEvent;

QuotaNotice NoticeOf(const Event& event, std::uint32_t block_bytes) {
  const std::uint64_t unit = event.of_space ? block_bytes : 1;
  const auto of = [&](std::uint64_t count) {
    return count > kNoQuotaLimit / unit ? kNoQuotaLimit : count * unit;
  };
  return {.event = event.what == Event::What::kOverSoft ? "soft"
                   : event.what == Event::What::kAtHard ? "hard"
                                                        : "grace",
          .kind = std::string(QuotaKindText(event.id.kind)),
          .id = event.id.id,
          .name = event.tree,
          .of = event.of_space ? "space" : "files",
          .used = of(event.usage.used),
          .soft = of(event.usage.soft),
          .hard = of(event.usage.hard),
          .grace_seconds = event.usage.grace_seconds,
          .text = event.text};
}

// Who is as near to a limit gets no numbers reserved, so that others have what is left.
constexpr std::uint64_t kReservesLeft = 8;

// What root does to owners and trees is done whatever the limits are, as on XFS.
bool IsRootsChange(const v1::Request& request) {
  return (request.has_set_attr() || request.has_set_xattr() || request.has_remove_xattr() ||
          request.layout_commit().has_attributes()) &&
         request.credentials().uid() == 0;
}

// What the inodes from one number on are charged with, as far as a step goes.
struct CountedPart {
  std::map<QuotaId, QuotaAmount> amounts;
  std::uint64_t next = QuotaDesk::kAll;  // inode number; kAll: there are no more
};

absl::StatusOr<CountedPart> CountSome(Txn& txn, std::uint64_t from, std::size_t most) {
  CountedPart counted;
  std::size_t looked = 0;
  absl::Status damage;
  const absl::Status scanned = txn.Scan(
      schema::Prefix(schema::Family::kInode), schema::InodeKey(InodeNumber(from)),
      [&](std::string_view key, std::string_view value) {
        const auto parsed = schema::Parse(key);
        v1::InodeRecord record;
        if (!parsed.ok() || !record.ParseFromArray(value.data(), static_cast<int>(value.size()))) {
          damage = absl::DataLossError("an inode's record cannot be decoded; run fsck.reelfs");
          return false;
        }
        if (looked++ == most) {
          counted.next = parsed->first;
          return false;
        }
        const QuotaAmount amount{.blocks = static_cast<std::int64_t>(record.allocated_blocks()),
                                 .files = 1};
        for (const QuotaId& id : OwnerOf(record).ids()) counted.amounts[id].Add(amount);
        return true;
      });
  if (!damage.ok()) return damage;
  if (!scanned.ok()) return scanned;
  return counted;
}

}  // namespace

absl::Status CoreImpl::LoadQuotas() {
  std::string bytes;
  const auto found = db_.Get(schema::QuotaStateKey(), &bytes, Tier::kAll);
  if (!found.ok()) return found.status();
  if (*found != Found::kYes) return absl::OkStatus();
  v1::QuotaStateRecord state;
  if (!state.ParseFromString(bytes)) {
    return absl::DataLossError("the state of quotas cannot be decoded; run fsck.reelfs");
  }
  work_.quotas.Load(std::move(state));
  return absl::OkStatus();
}

absl::Status CoreImpl::ChargeQuotas(const Pending& op, OpContext& ctx) {
  const bool granted = ctx.decided.replay != nullptr || ctx.decided.delegated != nullptr;
  const bool own = op.reap != InodeNumber(0) || op.job != JobId(0);  // the controller's
  const bool forced = granted || own || IsRootsChange(op.request);
  return mdc::ChargeQuotas(ctx, forced);
}

void CoreImpl::TellQuotaEvents(const OpContext& ctx, bool committed) {
  for (const Event& event : ctx.effects.quota_events) {
    if (!committed && event.what != Event::What::kGraceOver) continue;
    if (event.what == Event::What::kBelowSoft)
      work_.quotas.ForgetGraceOver(event.id, event.of_space);
    if (event.what == Event::What::kGraceOver &&
        !work_.quotas.TellGraceOver(event.id, event.of_space)) {
      continue;
    }
    if (options_.quota_notices && event.what != Event::What::kBelowSoft) {
      work_.quotas.Notify(NoticeOf(event, descriptor_.block_bytes));
    }
    const auto rest = work_.quotas.lines().Admit(clock_.NowMs());
    if (rest) spdlog::warn("volume {}: quota: {}{}", descriptor_.name, event.text, *rest);
  }
}

// The operation that has just made a file of the same owner has read the records.
std::optional<std::uint64_t> CoreImpl::ReservableFiles(OpContext& ctx, const QuotaOwner& owner,
                                                       std::uint64_t blocks_each) {
  const absl::StatusOr<QuotaRoom> room = RoomFor(ctx, owner);
  if (!room.ok()) return std::nullopt;
  std::uint64_t files = room->files_ahead;
  if (blocks_each > 0 && room->blocks_ahead != kNoQuotaLimit) {
    files = std::min(files, room->blocks_ahead / blocks_each);
  }
  return files == kNoQuotaLimit ? files : files / (kReservesLeft * kMaxReservedWithRoom);
}

void CoreImpl::CountQuotas() {
  if (!work_.quotas.counting() || !health_.ok()) return;
  Txn txn(db_, in_flight_, work_.quotas.reads_for_itself() ? Tier::kAll : Tier::kMemory);
  v1::QuotaStateRecord state = work_.quotas.state();
  const auto counted = CountSome(txn, state.counted_below(), options_.steps.reaped);
  absl::Status problem = counted.status();
  const auto now = static_cast<std::uint64_t>(clock_.WallNow().seconds);
  if (counted.ok()) {
    for (const auto& [id, amount] : counted->amounts) {
      problem = AddToQuota(txn, state, id, amount, now);
      if (!problem.ok()) break;
    }
  }
  if (txn.missed()) {
    work_.quotas.Missed();
    return Fetch(*txn.missed(), nullptr);
  }
  if (!problem.ok()) {
    spdlog::error("volume {}: quotas are not counted on: {}", descriptor_.name,
                  std::string(problem.message()));
    state.set_counted_below(0);
  } else {
    state.set_counted_below(counted->next);
  }
  txn.Put(schema::QuotaStateKey(), state.SerializeAsString());
  Sequence sequence;
  if (!Apply(txn.TakeBatch(), &sequence, Haste::kWhenAsked)) return;
  work_.quotas.Load(std::move(state));
  work_.quotas.Stepped();
  outbox_.sync_wish.Ask();  // the next step follows it
  if (problem.ok() && !work_.quotas.counting()) {
    spdlog::info("volume {}: all files are counted: quotas hold from now on", descriptor_.name);
  }
}

QuotaView CoreImpl::ViewOfQuotas() const {
  return {.state = work_.quotas.state(),
          .block_bytes = descriptor_.block_bytes,
          .now_seconds = static_cast<std::uint64_t>(clock_.WallNow().seconds)};
}

void CoreImpl::SetQuotas(const v1::SetQuotasRequest& request, v1::SetQuotasReply& reply,
                         std::function<void(const absl::Status&)> then) {
  if (!health_.ok()) return then(health_);
  Txn txn(db_, in_flight_, Tier::kAll);
  v1::QuotaStateRecord state = work_.quotas.state();
  absl::Status staged = StageQuotas(txn, request, ViewOfQuotas(), state, reply);
  absl::StatusOr<v1::VolumeRecord> volume = ReadVolumeRecord();
  if (staged.ok()) staged = volume.status();
  if (!staged.ok()) return then(staged);
  if (volume->format() < schema::kQuotaFormat) {
    volume->set_format(schema::kQuotaFormat);
    txn.Put(schema::VolumeKey(), volume->SerializeAsString());
  }
  txn.Put(schema::QuotaStateKey(), state.SerializeAsString());
  Sequence sequence;
  if (!Apply(txn.TakeBatch(), &sequence)) return then(health_);
  const bool begins = !work_.quotas.counts() && state.counted_below() != 0;
  work_.quotas.Load(std::move(state));
  if (begins) {
    spdlog::info("volume {}: files are being counted for quotas", descriptor_.name);
    // What was reserved before is charged to nobody.
    for (const InodeNumber directory : delegations_.reserved().Directories()) {
      SendAttrRecalls(
          holdings_.attr_tokens.RecallOthers(SessionId(0), directory, v1::TOKEN_SHARED));
    }
  }
  outbox_.waits.Await(sequence, [then = std::move(then)](bool durable) {
    then(durable ? absl::OkStatus() : absl::UnavailableError("the controller is stopping"));
  });
}

absl::Status CoreImpl::Describe(const v1::QuotasRequest& request, v1::QuotasReply& reply) const {
  Txn txn(db_, in_flight_, Tier::kAll);
  if (work_.quotas.counting()) reply.set_inodes_end(inode_numbers_->next());
  return DescribeQuotas(txn, request, ViewOfQuotas(), reply);
}

}  // namespace reel::mdc
