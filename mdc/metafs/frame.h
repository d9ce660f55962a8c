// A frame: the 512-byte unit in which logs lie on the LUN, each whole in itself.
//
// A log (RocksDB's *.log and MANIFEST files, and metafs's own journal) is a stream of bytes cut
// into frames; one write lays down a whole number of 4 KiB blocks of them, the rest of the last
// block being empty frames. Chunks that hold a log hold only zeros and frames of this or earlier
// logs, so each unit is *blank*, a *frame*, or *damaged*, and a torn write (which shows old units)
// differs from damage. Byte layout: docs/format.md. Threads: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "volume/base/types.h"

namespace reel::metafs {

inline constexpr std::size_t kFrameBytes = 512;
inline constexpr std::size_t kFrameHeaderBytes = 56;
inline constexpr std::size_t kFramePayloadBytes = kFrameBytes - kFrameHeaderBytes;

struct FrameHeader {
  std::uint64_t file_id = 0;         // of the log; never reused within a store
  Epoch epoch;                       // that wrote it
  std::uint64_t sequence = 0;        // the frame's place in the log, from 0
  std::uint64_t synced_through = 0;  // frames below this were durable when this one was written
  std::uint64_t stream_offset = 0;   // of the payload in the log's bytes
  std::uint16_t length_bytes = 0;    // of the payload
  bool ends_write = false;           // the last frame of its write
  friend bool operator==(const FrameHeader&, const FrameHeader&) = default;
};

// Fills `to` (kFrameBytes). REQUIRES: payload.size() == header.length_bytes <= kFramePayloadBytes.
void EncodeFrame(const FrameHeader& header, std::string_view payload, std::byte* to);

enum class FrameState { kBlank, kFrame, kDamaged };

// Safe on any bytes. REQUIRES: kFrameBytes of them. The header is set for kFrame only; the payload
// begins at kFrameHeaderBytes.
FrameState DecodeFrame(std::span<const std::byte> bytes, FrameHeader& header);

}  // namespace reel::metafs
