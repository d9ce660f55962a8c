// Fills a volume that no MDC serves with files, for measuring what grows with their number: their
// records go straight into the metadata store, as clients would have had them made.
//
//   scale_volume --luns '/dev/shm/x/*.img' --volume reel --files 1000000
//
// "directory.N" in the root has a thousand files "file.M" each, of one extent; after the extents of
// a directory some blocks stay free, so that free space is in many pieces. It prints the first
// inode number that is a file's, and how many files there are, for scale_client.
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "mdc/metadb/schema.h"
#include "mdc/space/allocator.h"
#include "mdc/store/store.h"
#include "proto/convert.h"
#include "volume/base/env.h"
#include "volume/format/lun_scan.h"

namespace reel {
namespace {

constexpr std::uint64_t kFilesInDirectory = 1000;
constexpr std::uint64_t kFirstCookie = 3;
constexpr std::uint64_t kEntryBytes = 32;
constexpr std::uint64_t kFreeAfterDirectory = 16;  // blocks
constexpr std::size_t kChangesPerBatch = 4096;
constexpr int kBatchesPerSync = 16;

struct Settings {
  std::vector<std::string> luns;
  std::string volume = "reel";
  std::uint64_t files = 1'000'000;
  std::uint64_t blocks = 1;  // of each
};

[[noreturn]] void Die(const absl::Status& status) {
  std::fprintf(stderr, "scale_volume: %s\n", status.ToString().c_str());
  std::exit(1);
}

class Filler {
 public:
  Filler(const Settings& settings, const VolumeDescriptor& descriptor, mdc::Store& store)
      : settings_(settings), descriptor_(descriptor), store_(store), db_(store.db()) {}

  void Fill() {
    v1::VolumeRecord volume = Read<v1::VolumeRecord>(mdc::schema::VolumeKey());
    v1::InodeRecord root = Read<v1::InodeRecord>(mdc::schema::InodeKey(kRootInode));
    next_inode_ = volume.next_inode();
    FindSpace();
    for (std::uint64_t made = 0; made < settings_.files; made += kFilesInDirectory) {
      MakeDirectory(root, made / kFilesInDirectory,
                    std::min(kFilesInDirectory, settings_.files - made));
    }
    Put(mdc::schema::InodeKey(kRootInode), root);
    volume.set_inodes(volume.inodes() + next_inode_ - volume.next_inode());
    volume.set_next_inode(next_inode_);
    Put(mdc::schema::VolumeKey(), volume);
    mdc::Allocator::Format(descriptor_, used_, batch_);
    Apply();
    if (auto s = db_.Sync(); !s.ok()) Die(s.status());
  }

 private:
  template <typename Record>
  Record Read(const std::string& key) {
    std::string value;
    const auto found = db_.Get(key, &value, mdc::Tier::kAll);
    Record record;
    if (!found.ok()) Die(found.status());
    if (*found != mdc::Found::kYes || !record.ParseFromString(value)) {
      Die(absl::DataLossError("a record is missing"));
    }
    return record;
  }

  // An empty volume: of the pool, what the store does not have. The free index is made anew.
  void FindSpace() {
    while ((descriptor_.pools[pool_].flags & Pool::kData) == 0) ++pool_;
    used_ = store_.regions();
    for (const mdc::Run& run : used_) {
      if (run.pool == PoolId(pool_)) {
        next_block_ = std::max(next_block_, (run.start + run.length_blocks).value());
      }
    }
    for (const mdc::Run& run : used_) batch_.Delete(mdc::schema::FreeKey(run.pool, run.start));
    const auto cursor = db_.Scan("F", "F", mdc::Tier::kAll);
    for (; cursor->Valid(); cursor->Next()) batch_.Delete(std::string(cursor->key()));
    const std::uint64_t needed = settings_.files * settings_.blocks +
                                 settings_.files / kFilesInDirectory * kFreeAfterDirectory;
    if (next_block_ + needed > descriptor_.pools[pool_].size_blocks()) {
      Die(absl::ResourceExhaustedError("the data pool is too small for so many files"));
    }
  }

  v1::InodeRecord NewInode(std::uint32_t mode, std::uint32_t links) {
    v1::InodeRecord record;
    record.set_generation(next_inode_);
    record.set_mode(mode);
    record.set_nlink(links);
    record.set_uid(1000);
    record.set_gid(1000);
    record.set_change(1);
    const v1::Time now = ToProto(SystemClock().WallNow());
    *record.mutable_atime() = *record.mutable_mtime() = now;
    *record.mutable_ctime() = *record.mutable_btime() = now;
    return record;
  }

  void AddEntry(std::uint64_t directory, v1::InodeRecord& record, const std::string& name,
                std::uint64_t inode, std::uint32_t type) {
    const std::uint64_t cookie = record.next_cookie();
    record.set_next_cookie(cookie + 1);
    record.set_entries(record.entries() + 1);
    record.set_size_bytes(record.entries() * kEntryBytes);
    if (type == S_IFDIR) record.set_nlink(record.nlink() + 1);
    v1::DirentRecord entry;
    entry.set_inode(inode);
    entry.set_type(type);
    entry.set_cookie(cookie);
    Put(mdc::schema::DirentKey(InodeNumber(directory), name), entry);
    entry.clear_cookie();
    entry.set_name(name);
    Put(mdc::schema::CookieKey(InodeNumber(directory), cookie), entry);
  }

  void MakeDirectory(v1::InodeRecord& root, std::uint64_t number, std::uint64_t files) {
    v1::InodeRecord record = NewInode(S_IFDIR | 0755, 2);
    record.set_parent(kRootInode.value());
    record.set_next_cookie(kFirstCookie);
    const std::uint64_t directory = next_inode_++;
    AddEntry(kRootInode.value(), root, absl::StrCat("directory.", number), directory, S_IFDIR);
    const std::uint64_t first_block = next_block_;
    for (std::uint64_t i = 0; i < files; ++i) MakeFile(directory, record, i);
    used_.push_back({PoolId(pool_), PoolBlock(first_block), next_block_ - first_block});
    next_block_ += kFreeAfterDirectory;
    Put(mdc::schema::InodeKey(InodeNumber(directory)), record);
  }

  void MakeFile(std::uint64_t directory, v1::InodeRecord& parent, std::uint64_t number) {
    v1::InodeRecord record = NewInode(S_IFREG | 0644, 1);
    record.set_directory(directory);
    record.set_size_bytes(settings_.blocks * descriptor_.block_bytes);
    record.set_allocated_blocks(settings_.blocks);
    const std::uint64_t inode = next_inode_++;
    Put(mdc::schema::InodeKey(InodeNumber(inode)), record);
    AddEntry(directory, parent, absl::StrCat("file.", number), inode, S_IFREG);
    v1::ExtentRecord extent;
    extent.set_length_blocks(settings_.blocks);
    extent.set_state(v1::EXTENT_WRITTEN);
    extent.set_birth_sequence(inode);
    extent.add_places()->set_pool(pool_);
    extent.mutable_places(0)->set_pool_block(next_block_);
    next_block_ += settings_.blocks;
    Put(mdc::schema::ExtentKey(InodeNumber(inode), FileBlock(0)), extent);
  }

  template <typename Record>
  void Put(std::string key, const Record& record) {
    batch_.Put(std::move(key), record.SerializeAsString());
    if (batch_.changes().size() >= kChangesPerBatch) Apply();
  }

  void Apply() {
    const mdc::WriteBatch batch = std::exchange(batch_, {});
    if (auto s = db_.Apply(batch); !s.ok()) Die(s.status());
    if (++batches_ % kBatchesPerSync != 0) return;
    if (auto s = db_.Sync(); !s.ok()) Die(s.status());
  }

  const Settings& settings_;
  const VolumeDescriptor& descriptor_;
  mdc::Store& store_;
  mdc::MetaDb& db_;
  std::uint32_t pool_ = 0;
  std::uint64_t next_inode_ = 0, next_block_ = 0;
  std::vector<mdc::Run> used_;
  mdc::WriteBatch batch_;
  int batches_ = 0;
};

void Main(const Settings& settings) {
  auto volume = OpenVolumeByName(settings.volume, settings.luns, LunAccess::kReadWrite);
  if (!volume.ok()) Die(volume.status());
  if (auto s = volume->seat_lun().ClaimForThisProcess(); !s.ok()) Die(s);
  auto store = mdc::Store::Open(*volume, {});
  if (!store.ok()) Die(store.status());
  Filler(settings, volume->descriptor, **store).Fill();
}

}  // namespace
}  // namespace reel

int main(int argc, char** argv) {
  reel::Settings settings;
  CLI::App app("Fills an empty volume that no MDC serves with files", "scale_volume");
  app.add_option("--luns", settings.luns, "GLOB of paths where its LUNs are")->required();
  app.add_option("--volume", settings.volume, "its name")->capture_default_str();
  app.add_option("--files", settings.files, "so many")->capture_default_str();
  app.add_option("--blocks", settings.blocks, "of each file, in one extent")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  reel::Main(settings);
  return 0;
}
