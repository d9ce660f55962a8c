#include "mdc/inspect/file_lookup.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "mdc/metadb/schema.h"
#include "proto/folded_name.h"

namespace reel::mdc {
namespace {

constexpr int kMostDeep = 4096;

absl::Status Damaged(InodeNumber inode) {
  return absl::DataLossError(
      absl::StrCat("the records of inode ", inode.value(), " are damaged; run fsck.reelfs"));
}

const char* TypeOf(std::uint32_t mode) {
  if (S_ISREG(mode)) return "file";
  if (S_ISDIR(mode)) return "directory";
  return S_ISLNK(mode) ? "symlink" : "other";
}

std::vector<std::string> LunNames(const VolumeDescriptor& descriptor) {
  std::vector<std::string> names;
  for (const Pool& pool : descriptor.pools) {
    for (const StripeSet& set : pool.sets) {
      for (const LunEntry& lun : set.luns) names.push_back(lun.name);
    }
  }
  return names;
}

}  // namespace

FileLookup::FileLookup(const MetaDb& db, const VolumeDescriptor& descriptor)
    : db_(db), descriptor_(descriptor), stripes_(descriptor), lun_names_(LunNames(descriptor)) {}

absl::StatusOr<v1::InodeRecord> FileLookup::Inode(InodeNumber inode) const {
  std::string bytes;
  const auto found = db_.Get(schema::InodeKey(inode), &bytes, Tier::kAll);
  if (!found.ok()) return found.status();
  if (*found != Found::kYes) {
    return absl::NotFoundError(absl::StrCat("there is no inode ", inode.value()));
  }
  v1::InodeRecord record;
  if (!record.ParseFromString(bytes)) return Damaged(inode);
  return record;
}

absl::StatusOr<InodeNumber> FileLookup::Find(std::string_view path) const {
  InodeNumber at = kRootInode;
  for (const absl::string_view name :
       absl::StrSplit(absl::string_view(path.data(), path.size()), '/', absl::SkipEmpty())) {
    const auto directory = Inode(at);
    if (!directory.ok()) return directory.status();
    const std::string_view wanted(name.data(), name.size());
    std::string bytes;
    const NameKey key(directory->flags(), wanted);
    const auto found = db_.Get(schema::DirentKey(at, key.view()), &bytes, Tier::kAll);
    if (!found.ok()) return found.status();
    v1::DirentRecord entry;
    if (*found != Found::kYes) {
      return absl::NotFoundError(absl::StrCat("the volume has no file ", std::string(path)));
    }
    if (!entry.ParseFromString(bytes)) return Damaged(at);
    at = InodeNumber(entry.inode());
  }
  return at;
}

std::string FileLookup::NameIn(InodeNumber directory, InodeNumber inode) {
  const std::string prefix = schema::DirentKey(directory, "");
  auto cursor = db_.Scan(prefix, prefix, Tier::kAll);
  for (; cursor->Valid() && entries_ < kMostEntries; cursor->Next()) {
    ++entries_;
    v1::DirentRecord entry;
    const auto key = schema::Parse(cursor->key());
    if (!key.ok() ||
        !entry.ParseFromArray(cursor->value().data(), static_cast<int>(cursor->value().size()))) {
      continue;
    }
    if (entry.inode() != inode.value()) continue;
    return entry.name().empty() ? std::string(key->name) : entry.name();
  }
  return {};
}

std::string FileLookup::PathOf(InodeNumber inode) {
  std::string path;
  InodeNumber at = inode;
  for (int depth = 0; at != kRootInode; ++depth) {
    const auto known = directories_.find(at);
    if (known != directories_.end()) return known->second.empty() ? "" : known->second + path;
    const auto record = Inode(at);
    if (!record.ok() || depth == kMostDeep) return {};
    const InodeNumber parent(S_ISDIR(record->mode()) ? record->parent() : record->directory());
    const std::string name = NameIn(parent, at);
    if (name.empty()) return {};
    path = absl::StrCat("/", name, path);
    at = parent;
  }
  return path.empty() ? "/" : path;
}

void FileLookup::Name(v1::OpenFilesReply& reply) {
  for (v1::OpenFilesReply::File& file : *reply.mutable_files()) {
    const auto record = Inode(InodeNumber(file.inode()));
    if (!record.ok()) continue;
    file.set_size_bytes(record->size_bytes());
    const InodeNumber directory(record->directory());
    if (S_ISREG(record->mode()) && directory != kRootInode && !directories_.contains(directory)) {
      std::string path = PathOf(directory);
      directories_[directory] = std::move(path);
    }
    file.set_path(PathOf(InodeNumber(file.inode())));
  }
}

void FileLookup::AddPieces(PoolId pool, PoolBlock block, std::uint64_t length_blocks,
                           v1::FileReply::Extent& extent) const {
  const std::uint64_t blocks = std::min(length_blocks, stripes_.stripe_blocks(pool, block));
  std::vector<LunRange> ranges;
  if (!stripes_.Map(pool, block, 0, blocks * descriptor_.block_bytes, ranges).ok()) return;
  std::vector<std::uint32_t> seen;
  for (const LunRange& range : ranges) {
    if (std::find(seen.begin(), seen.end(), range.lun) != seen.end()) continue;
    seen.push_back(range.lun);
    v1::FileReply::Piece& piece = *extent.add_pieces();
    piece.set_lun(lun_names_[range.lun]);
    piece.set_offset_bytes(range.offset_bytes);
  }
}

absl::Status FileLookup::AddExtents(InodeNumber inode, std::uint64_t from_block,
                                    std::uint64_t end_block, v1::FileReply& reply) const {
  auto cursor =
      db_.Scan(schema::ExtentPrefix(inode), schema::ExtentKey(inode, FileBlock(from_block)),
               Tier::kAll, ScanFrom::kAtOrBefore);
  for (; cursor->Valid(); cursor->Next()) {
    v1::ExtentRecord record;
    const auto key = schema::Parse(cursor->key());
    const bool parsed =
        record.ParseFromArray(cursor->value().data(), static_cast<int>(cursor->value().size()));
    if (!key.ok() || !parsed || record.places_size() != 1 ||
        record.places(0).pool() >= descriptor_.pools.size() ||
        record.places(0).pool_block() >= descriptor_.pools[record.places(0).pool()].size_blocks()) {
      return Damaged(inode);
    }
    if (key->second + record.length_blocks() <= from_block) continue;
    if (key->second >= end_block) break;
    if (reply.extents_size() == kMostExtents) {
      reply.set_more(true);
      break;
    }
    const v1::Place& place = record.places(0);
    v1::FileReply::Extent& extent = *reply.add_extents();
    extent.set_file_block(key->second);
    extent.set_length_blocks(std::min(record.length_blocks(), end_block - key->second));
    extent.set_pool(descriptor_.pools[place.pool()].name);
    extent.set_pool_block(place.pool_block());
    extent.set_state(record.state() == v1::EXTENT_WRITTEN ? "written" : "unwritten");
    AddPieces(PoolId(place.pool()), PoolBlock(place.pool_block()), extent.length_blocks(), extent);
  }
  return cursor->status();
}

absl::Status FileLookup::Report(const v1::FileRequest& request, v1::FileReply& reply) {
  InodeNumber inode(request.inode());
  if (request.inode() == 0) {
    const auto found = Find(request.path());
    if (!found.ok()) return found.status();
    inode = *found;
  }
  const auto record = Inode(inode);
  if (!record.ok()) return record.status();
  reply.set_inode(inode.value());
  reply.set_path(PathOf(inode));
  reply.set_type(TypeOf(record->mode()));
  reply.set_size_bytes(record->size_bytes());
  reply.set_allocated_bytes(record->allocated_blocks() * descriptor_.block_bytes);
  reply.set_mode(record->mode());
  reply.set_uid(record->uid());
  reply.set_gid(record->gid());
  reply.set_nlink(record->nlink());
  *reply.mutable_mtime() = record->mtime();
  reply.set_affinity(record->affinity());
  reply.set_layout("plain");
  reply.set_block_bytes(descriptor_.block_bytes);
  reply.set_entries(record->entries());
  // What is being freed from there on is no part of it any more.
  const std::uint64_t end_block =
      record->truncated_from() == 0 ? UINT64_MAX : record->truncated_from() - 1;
  return AddExtents(inode, request.from_block(), end_block, reply);
}

}  // namespace reel::mdc
