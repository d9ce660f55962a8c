// Any bytes as the metadata store's superblock: decoding never harms, and what decodes is valid and
// survives its encoding.
//
// The fuzzer cannot guess a checksum, so each input is tried with its checksum set right, too.
#include <cstddef>
#include <cstdint>
#include <string>

#include "mdc/metafs/superblock.h"
#include "volume/base/check.h"
#include "volume/base/coding.h"

namespace {

namespace metafs = reel::metafs;

constexpr std::size_t kCrcPlace = 12;

void Try(const std::string& bytes) {
  const absl::StatusOr<metafs::Superblock> superblock =
      metafs::DecodeSuperblock(reel::AsBytes(bytes));
  if (!superblock.ok()) return;
  REEL_CHECK(metafs::ValidateSuperblock(*superblock).ok(), "what decodes is valid");
  const absl::StatusOr<metafs::Superblock> again =
      metafs::DecodeSuperblock(reel::AsBytes(metafs::EncodeSuperblock(*superblock)));
  REEL_CHECK(again.ok() && *again == *superblock, "a superblock survives its encoding");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  Try(bytes);
  bytes.resize(metafs::kSuperblockBytes, '\0');
  const std::string_view whole = bytes;
  const std::uint32_t crc = reel::Crc32c(reel::AsBytes(whole.substr(0, kCrcPlace)));
  reel::StoreU32(bytes.data() + kCrcPlace,
                 reel::ExtendCrc32c(crc, reel::AsBytes(whole.substr(kCrcPlace + 4))));
  Try(bytes);
  return 0;
}
