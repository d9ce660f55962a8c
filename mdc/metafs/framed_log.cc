#include "mdc/metafs/framed_log.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "mdc/metafs/space.h"
#include "volume/base/coding.h"
#include "volume/lun/at_once.h"

namespace reel::metafs {
namespace {

constexpr std::uint64_t kReadBytes = 1 * kMiB;
// A scan reads so many of these at once: it is what a new controller's clients wait for.
constexpr std::uint64_t kScanReads = 4;
// More is read again by who wants it.
constexpr std::uint64_t kMostKept = 128 * kMiB;
constexpr std::uint64_t kFramesPerUnit = kSpaceUnitBytes / kFrameBytes;

enum class Unit { kNext, kOther, kDamaged };

// What the unit at place `index` is to the log `id`.
Unit Classify(std::span<const std::byte> bytes, LogId id, std::uint64_t index,
              FrameHeader& header) {
  switch (DecodeFrame(bytes, header)) {
    case FrameState::kBlank:
      return Unit::kOther;
    case FrameState::kDamaged:
      return Unit::kDamaged;
    case FrameState::kFrame:
      break;
  }
  if (header.file_id != id.file_id) return Unit::kOther;
  // A whole frame of this log at a wrong place, or of an epoch that did not write this log.
  if (header.epoch != id.epoch || header.sequence != index) return Unit::kDamaged;
  return Unit::kNext;
}

absl::Status Damage(LogId id, std::uint64_t frame, const std::string& what) {
  return absl::DataLossError(
      absl::StrCat("log ", id.file_id, ", frame ", frame, ": ", what, "; run fsck.reelfs"));
}

absl::Status ReadAtOnce(const LogSource& source, std::uint64_t at, std::span<std::byte> to) {
  std::vector<absl::Status> outcomes(DivideUp(to.size(), kReadBytes));
  DoAtOnce(outcomes.size(), [&](std::size_t part) {
    const auto rest = to.subspan(part * kReadBytes);
    outcomes[part] = source(at + part * kReadBytes,
                            rest.first(std::min<std::uint64_t>(rest.size(), kReadBytes)));
  });
  absl::Status first;
  for (const absl::Status& outcome : outcomes) first.Update(outcome);
  return first;
}

}  // namespace

std::uint64_t LogWriter::FramedBytes(std::uint64_t payload_bytes) {
  return RoundUp(
      std::max<std::uint64_t>(DivideUp(payload_bytes, kFramePayloadBytes), 1) * kFrameBytes,
      kSpaceUnitBytes);
}

AlignedBuffer LogWriter::Frame(std::string_view payload) {
  AlignedBuffer frames(FramedBytes(payload.size()));
  for (std::size_t at = 0; at < frames.size(); at += kFrameBytes) {
    const std::string_view part = payload.substr(0, kFramePayloadBytes);
    payload.remove_prefix(part.size());
    const FrameHeader header{.file_id = id_.file_id,
                             .epoch = id_.epoch,
                             .sequence = next_sequence_++,
                             .synced_through = synced_through_,
                             .stream_offset = stream_bytes_,
                             .length_bytes = static_cast<std::uint16_t>(part.size()),
                             .ends_write = at + kFrameBytes == frames.size()};
    EncodeFrame(header, part, frames.data() + at);
    stream_bytes_ += part.size();
  }
  return frames;
}

absl::StatusOr<LogEnd> ScanLog(const LogSource& source, std::uint64_t capacity_bytes, LogId id,
                               OnDamage on_damage, std::string* stream) {
  const bool refuse = on_damage == OnDamage::kRefuse;
  LogEnd end;                        // of whole writes
  std::uint64_t stream_offset = 0;   // of the next frame
  std::uint64_t synced_through = 0;  // the most that any frame of this log says
  bool continues = true, keeps = stream != nullptr;
  AlignedBuffer buffer(std::min(kScanReads * kReadBytes, capacity_bytes));
  for (std::uint64_t at = 0; at < capacity_bytes; at += buffer.size()) {
    const auto bytes = buffer.span().first(std::min(buffer.size(), capacity_bytes - at));
    if (absl::Status s = ReadAtOnce(source, at, bytes); !s.ok()) return s;
    for (std::uint64_t in = 0; in < bytes.size(); in += kFrameBytes) {
      const std::uint64_t index = (at + in) / kFrameBytes;
      FrameHeader header;
      const Unit unit = Classify(bytes.subspan(in, kFrameBytes), id, index, header);
      if (unit == Unit::kNext) synced_through = std::max(synced_through, header.synced_through);
      if (!continues) continue;
      if (unit == Unit::kDamaged && refuse) {
        return Damage(id, index, "damaged, and perhaps acknowledged");
      }
      continues = unit == Unit::kNext;
      if (!continues) continue;
      if (header.stream_offset != stream_offset) {
        if (refuse) return Damage(id, index, "does not continue the frame before it");
        continues = false;
        continue;
      }
      stream_offset += header.length_bytes;
      keeps = keeps && stream_offset <= kMostKept;
      if (keeps) stream->append(AsText(bytes.subspan(in + kFrameHeaderBytes, header.length_bytes)));
      if (header.ends_write) end = {index + 1, stream_offset};
    }
  }
  if (synced_through > end.frames && refuse) {
    return Damage(id, end.frames,
                  absl::StrCat("missing, but a later frame says that ", synced_through,
                               " frames were durable"));
  }
  if (stream != nullptr) stream->resize(keeps ? end.stream_bytes : 0);
  return end;
}

absl::StatusOr<std::vector<std::string>> SalvageWrites(const LogSource& source,
                                                       std::uint64_t capacity_bytes, LogId id) {
  std::vector<std::string> writes;
  std::string write;       // the one in hand, as far as it is whole
  bool at_damage = false;  // from there to the end of its write, frames are of no use
  AlignedBuffer buffer(std::min(kReadBytes, capacity_bytes));
  for (std::uint64_t at = 0; at < capacity_bytes; at += buffer.size()) {
    const auto bytes = buffer.span().first(std::min(buffer.size(), capacity_bytes - at));
    if (absl::Status s = source(at, bytes); !s.ok()) return s;
    for (std::uint64_t in = 0; in < bytes.size(); in += kFrameBytes) {
      FrameHeader header;
      const auto frame = bytes.subspan(in, kFrameBytes);
      if (Classify(frame, id, (at + in) / kFrameBytes, header) != Unit::kNext) {
        at_damage = true;
        continue;
      }
      // That a frame follows the damage tells it from a torn tail, which nobody was told of.
      if (at_damage && !write.empty()) writes.push_back(std::exchange(write, {}));
      if (!at_damage) write += AsText(frame.subspan(kFrameHeaderBytes, header.length_bytes));
      if (!header.ends_write) continue;
      if (!at_damage) writes.push_back(std::exchange(write, {}));
      at_damage = false;
    }
  }
  return writes;
}

absl::Status LogReader::LoadNextFrame() {
  if (next_frame_ >= buffer_end_) {
    const std::uint64_t first = RoundDown(next_frame_, kFramesPerUnit);
    const std::uint64_t count =
        std::min(kReadBytes / kFrameBytes, RoundUp(end_.frames - first, kFramesPerUnit));
    if (buffer_.size() < count * kFrameBytes) buffer_ = AlignedBuffer(count * kFrameBytes);
    if (absl::Status s = source_(first * kFrameBytes, buffer_.span().first(count * kFrameBytes));
        !s.ok()) {
      return s;
    }
    buffer_first_ = first;
    buffer_end_ = first + count;
  }
  const auto frame =
      buffer_.span().subspan((next_frame_ - buffer_first_) * kFrameBytes, kFrameBytes);
  FrameHeader header;
  if (Classify(frame, id_, next_frame_, header) != Unit::kNext ||
      header.stream_offset != stream_offset_) {
    return Damage(id_, next_frame_, "changed since the log was opened");
  }
  payload_ = AsText(frame.subspan(kFrameHeaderBytes, header.length_bytes));
  stream_offset_ += header.length_bytes;
  ++next_frame_;
  return absl::OkStatus();
}

absl::Status LogReader::Read(std::uint64_t size_bytes, std::string& out) {
  while (size_bytes > 0) {
    if (payload_.empty()) {
      if (next_frame_ >= end_.frames) return absl::OkStatus();
      if (absl::Status s = LoadNextFrame(); !s.ok()) return s;
      continue;
    }
    const std::string_view part = payload_.substr(0, size_bytes);
    out.append(part);
    payload_.remove_prefix(part.size());
    size_bytes -= part.size();
  }
  return absl::OkStatus();
}

}  // namespace reel::metafs
