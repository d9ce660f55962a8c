#include "mdc/ops/bandwidth_settings.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "mdc/qos/bandwidth_book.h"
#include "proto/convert.h"
#include "proto/status.h"
#include "volume/bandwidth/stream_rate.h"

namespace reel::mdc {
namespace {

v1::ReservationRecord StreamOf(const OpContext& ctx, InodeNumber inode) {
  v1::ReservationRecord stream;
  stream.set_kind(v1::RESERVATION_STREAM);
  stream.set_inode(inode.value());
  stream.set_session(ctx.caller.session.value());
  return stream;
}

// Where the allocator may put what is written to the file.
void NamePools(const VolumeDescriptor& descriptor, const std::string& affinity,
               v1::ReservationRecord& stream) {
  for (std::uint32_t i = 0; i < descriptor.pools.size(); ++i) {
    const Pool& pool = descriptor.pools[i];
    const bool has_it = std::find(pool.affinities.begin(), pool.affinities.end(), affinity) !=
                        pool.affinities.end();
    if ((pool.flags & Pool::kData) == 0) continue;
    if (has_it || (pool.flags & Pool::kExclusive) == 0) stream.add_pools(i);
  }
}

}  // namespace

absl::Status GetRate(const OpContext& ctx, InodeNumber inode, std::string& value) {
  if (ctx.quota.bandwidth == nullptr) return ErrnoStatus(ENODATA);
  const std::uint64_t id = ctx.quota.bandwidth->Find(StreamOf(ctx, inode));
  if (id == 0) return ErrnoStatus(ENODATA);
  const v1::ReservationRecord& stream = ctx.quota.bandwidth->reservations().at(id);
  value = StreamRateText({.rate_bytes = stream.rate_bytes(),
                          .frames = stream.frames(),
                          .frame_bytes = stream.frame_bytes()});
  return absl::OkStatus();
}

absl::Status ChangeRate(OpContext& ctx, InodeNumber inode, const v1::InodeRecord& record,
                        std::string_view value) {
  if (ctx.quota.bandwidth == nullptr || !S_ISREG(record.mode())) {
    return ErrnoStatus(EOPNOTSUPP, absl::StrCat(std::string(kRateSetting), " is for files"));
  }
  BandwidthBook& book = *ctx.quota.bandwidth;
  v1::ReservationRecord stream = StreamOf(ctx, inode);
  BandwidthBook::Change change;
  if (value.empty()) {
    const std::uint64_t id = book.Find(stream);
    if (id == 0) return ErrnoStatus(ENODATA);
    change.reservations.emplace_back(id, std::nullopt);
  } else {
    const auto rate = ParseStreamRate(value);
    if (!rate.ok()) return ErrnoStatus(EINVAL, std::string(rate.status().message()));
    stream.set_rate_bytes(rate->rate_bytes);
    stream.set_frames(rate->frames);
    stream.set_frame_bytes(rate->frame_bytes);
    NamePools(ctx.descriptor, record.affinity(), stream);
    *stream.mutable_made() = ToProto(ctx.now);
    auto reserved = book.Reserve(ctx.descriptor, std::move(stream));
    if (!reserved.ok()) return ErrnoStatus(EBUSY, std::string(reserved.status().message()));
    change = *std::move(reserved);
  }
  change.Stage(ctx.txn);
  ctx.effects.on_commit.push_back([&book, change = std::move(change)] { book.Take(change); });
  return absl::OkStatus();
}

}  // namespace reel::mdc
