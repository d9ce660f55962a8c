// Which versions of the session and administration protocol a program speaks, and which one two
// programs that meet use.
//
// Each says a range, from the oldest to the newest version that it speaks, and the newest that is
// in both is used. A release speaks the version of the release before it, too, so hosts can be
// upgraded one after the other in any order. The versions:
//   1  administration calls and arbitration blocks say no range: who says none speaks this one
//   2  ranges everywhere; features in Hello; the controller's farewell; stopped volumes and
//      maintenance, which only controllers of this version know
// Rules for whoever changes a message: a field that an older peer may ignore needs no version. What
// it must not ignore is sent only where the version, or a feature that both have, says that the
// peer knows it. A new version is one more line above and a newer SpokenProtocol; the oldest one
// goes when no release that speaks it alone is supported any more.
// Threads: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace reel {

struct ProtocolRange {
  std::uint32_t oldest = 1;
  std::uint32_t newest = 1;

  friend bool operator==(const ProtocolRange&, const ProtocolRange&) = default;
};

// Of this program (proto/spoken_protocol.cc; tests link another one in its place).
ProtocolRange SpokenProtocol();
// Feature bits (proto/session.proto) of this program, when it speaks that.
std::uint64_t SpokenFeatures(const ProtocolRange& range);

// As many numbers for files of one directory has a session reserved at most
// (Reply.reserved_inodes).
inline constexpr std::size_t kMaxReservedInodes = 64;
// Of so many files a request asks whether they are sole (Request.siblings).
inline constexpr int kMaxSiblings = 1024;
// Of an Accessed.
inline constexpr int kMaxReads = 64;
// The most that a new file gets before anything is written, in bytes.
inline constexpr std::uint64_t kMaxNewFileBytes = std::uint64_t{1} << 20;
// The largest file whose bytes lie in its inode's record.
inline constexpr std::uint32_t kMaxSmallFileBytes = 16 << 10;
// Where nobody has said otherwise: half of the files of a tree of sources, and small records beside
// footage. Larger ones would gain less for the room that they take in the metadata store
// (docs/performance.md, "Small files").
inline constexpr std::uint32_t kDefaultSmallFileBytes = 4 << 10;

// As a peer said it; who said nothing, or what cannot be, speaks version 1.
ProtocolRange ProtocolOf(std::uint32_t oldest, std::uint32_t newest);

// "2", "1 to 2": for people.
std::string ProtocolText(const ProtocolRange& range);
// "1-2": in metadata of administration calls, where it stands under kProtocolMetadata.
std::string EncodeProtocol(const ProtocolRange& range);
ProtocolRange DecodeProtocol(std::string_view text);
inline constexpr char kProtocolMetadata[] = "reel-protocol";

// One of two that meet.
struct ProtocolSpeaker {
  std::string program;  // and where it runs: "reel-mdcd on mdc1"
  ProtocolRange range;
};
// The newest version that both speak. UNIMPLEMENTED: there is none; in one line, both ranges and
// which program is to be upgraded.
absl::StatusOr<std::uint32_t> CommonProtocol(const ProtocolSpeaker& a, const ProtocolSpeaker& b);

}  // namespace reel
