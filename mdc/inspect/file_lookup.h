// What administration asks of a volume's files: where one lies, and what it is called.
//
// It reads the store as it is, beside the core: what changes meanwhile may be told half. A name is
// searched among the entries of its directory, of which no more than kMostEntries are looked at for
// one question; what was not found by then is told without a name. Threads: any, one at a time.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mdc/metadb/meta_db.h"
#include "proto/admin.pb.h"
#include "proto/records.pb.h"
#include "volume/format/descriptor.h"
#include "volume/format/stripe_map.h"

namespace reel::mdc {

class FileLookup {
 public:
  static constexpr std::size_t kMostEntries = 500'000;
  static constexpr int kMostExtents = 4096;

  // Both outlive it.
  FileLookup(const MetaDb& db, const VolumeDescriptor& descriptor);

  // NOT_FOUND: no such file. DATA_LOSS: its records are damaged.
  absl::Status Report(const v1::FileRequest& request, v1::FileReply& reply);
  // Completes what the core knows of open files.
  void Name(v1::OpenFilesReply& reply);

 private:
  absl::StatusOr<v1::InodeRecord> Inode(InodeNumber inode) const;
  absl::StatusOr<InodeNumber> Find(std::string_view path) const;
  // From the root; empty: not found.
  std::string PathOf(InodeNumber inode);
  // What the directory calls the inode; empty: it does not.
  std::string NameIn(InodeNumber directory, InodeNumber inode);
  absl::Status AddExtents(InodeNumber inode, std::uint64_t from_block, std::uint64_t end_block,
                          v1::FileReply& reply) const;
  void AddPieces(PoolId pool, PoolBlock block, std::uint64_t length_blocks,
                 v1::FileReply::Extent& extent) const;

  const MetaDb& db_;
  const VolumeDescriptor& descriptor_;
  const StripeMap stripes_;
  const std::vector<std::string> lun_names_;  // by the stripe map's number
  std::size_t entries_ = 0;                   // looked at
  std::map<InodeNumber, std::string> directories_;
};

}  // namespace reel::mdc
