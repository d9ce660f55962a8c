#include "mdc/testing/op_fixture.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "mdc/check/checker.h"
#include "mdc/core/core.h"
#include "mdc/metadb/schema.h"
#include "mdc/ops/attributes.h"
#include "mdc/ops/extents.h"
#include "mdc/ops/names.h"
#include "mdc/ops/orphans.h"
#include "mdc/ops/read_dir.h"
#include "mdc/ops/xattrs.h"

namespace reel::mdc {
namespace {

Pool MakePool(const std::string& name, std::uint32_t flags, std::uint8_t id,
              std::uint64_t stripes) {
  LunEntry lun;
  lun.lun.bytes[0] = id;
  lun.name = name + "0";
  lun.data_start_bytes = kMiB;
  Pool pool;
  pool.name = name;
  pool.flags = flags;
  pool.breadth_blocks = 16;
  pool.sets = {StripeSet{{lun}, stripes}};
  return pool;
}

VolumeDescriptor MakeVolume(std::uint64_t data_stripes) {
  VolumeDescriptor volume;
  volume.volume.bytes[0] = 7;
  volume.name = "test";
  volume.generation = 1;
  volume.block_bytes = 4096;
  volume.pools = {MakePool("meta", Pool::kMetadata, 1, 4096),
                  MakePool("data", Pool::kData, 2, data_stripes)};
  volume.pools[1].affinities = {"fast"};
  volume.seat_lun = volume.pools[0].sets[0].luns[0].lun;
  return volume;
}

}  // namespace

OpFixture::OpFixture(std::uint64_t data_stripes) : volume_(MakeVolume(data_stripes)) {
  const absl::Status formatted = FormatVolume(store_.db(), volume_, {}, WallTime{1'000, 0});
  EXPECT_TRUE(formatted.ok()) << formatted;
  Restart();
}

v1::VolumeRecord OpFixture::ReadVolumeRecord() {
  std::string bytes;
  v1::VolumeRecord record;
  EXPECT_TRUE(store_.db().Get(schema::VolumeKey(), &bytes, Tier::kAll).ok());
  EXPECT_TRUE(record.ParseFromString(bytes));
  return record;
}

void OpFixture::Restart() {
  numbers_ = std::make_unique<InodeNumbers>(ReadVolumeRecord().next_inode());
  auto allocator = Allocator::Load(store_.db(), volume_);
  ASSERT_TRUE(allocator.ok()) << allocator.status();
  allocator_ = *std::move(allocator);
  tokens_ = TokenTable();
  opens_ = OpenTable();
}

absl::Status OpFixture::InContext(SessionId session,
                                  absl::FunctionRef<absl::Status(OpContext&)> body) {
  Txn txn(store_.db(), in_flight_, Tier::kAll);
  ++now_.seconds;
  OpContext ctx{.txn = txn,
                .caller = {.session = session, .credentials = credentials_},
                .now = now_,
                .next_sequence = store_.db().last_applied() + 1,
                .descriptor = volume_,
                .inode_numbers = *numbers_,
                .allocator = *allocator_,
                .tokens = tokens_,
                .attr_tokens = attr_tokens_,
                .opens = opens_,
                .locks = locks_,
                .lock_tokens = lock_tokens_,
                .directory_moves = &directory_moves_};
  const absl::Status status = body(ctx);
  blocked_ = ctx.blocked.on;
  error_ = std::string(status.message());
  soon_wanted_ = ctx.effects.soon_wanted;
  if (!status.ok()) {
    allocator_->Abandon();
    return status;
  }
  const WriteBatch batch = txn.TakeBatch();
  last_batch_changes_ = batch.changes().size();
  Sequence sequence;
  if (!batch.empty()) sequence = store_.db().Apply(batch).value();
  allocator_->Committed(sequence);
  allocator_->Durable(sequence);
  for (const auto& action : ctx.effects.on_commit) action();
  for (const InodeNumber inode : ctx.effects.orphans) orphans_.insert(inode);
  return status;
}

int OpFixture::Do(Operation operation, const v1::Request& request, SessionId session) {
  Progress progress;
  LoopWalks walks;
  steps_ = 0;
  most_changes_ = 0;
  most_reads_ = 0;
  for (;;) {
    bool unfinished = false;
    reply_.Clear();
    const absl::Status status = InContext(session, [&](OpContext& ctx) {
      ctx.progress = progress;
      ctx.walks = &walks;
      absl::Status done = operation(ctx, request, reply_);
      unfinished = done.ok() && ctx.unfinished;
      progress = ctx.progress;
      most_reads_ = std::max(most_reads_, ctx.txn.reads());
      return done;
    });
    ++steps_;
    most_changes_ = std::max(most_changes_, last_batch_changes_);
    if (unfinished && between_steps_) {
      const int steps = steps_;
      const auto meanwhile = std::exchange(between_steps_, nullptr);
      meanwhile();
      between_steps_ = meanwhile;
      steps_ = steps;
    }
    if (!unfinished || (dies_after_ != 0 && steps_ == dies_after_)) return ErrnoOf(status);
  }
}

int OpFixture::Reap() {
  int steps = 0;
  most_changes_ = 0;
  most_reads_ = 0;
  for (auto it = orphans_.begin(); it != orphans_.end();) {
    const InodeNumber inode = *it;
    for (bool done = false; !done; ++steps) {
      const absl::Status status = InContext(SessionId(0), [&](OpContext& ctx) {
        const absl::StatusOr<Reaped> reaped = ReapOrphan(ctx, inode);
        done = !reaped.ok() || *reaped != Reaped::kMore;
        most_reads_ = std::max(most_reads_, ctx.txn.reads());
        return reaped.status();
      });
      most_changes_ = std::max(most_changes_, last_batch_changes_);
      EXPECT_TRUE(status.ok() || blocked_) << status;
    }
    it = opens_.IsOpen(inode) || blocked_ ? std::next(it) : orphans_.erase(it);
  }
  return steps;
}

int OpFixture::Create(std::uint64_t parent, const std::string& name, std::uint32_t mode,
                      std::uint64_t* made, const std::string& target) {
  v1::Request request;
  request.mutable_create()->set_parent(parent);
  request.mutable_create()->set_name(name);
  request.mutable_create()->set_mode(mode);
  request.mutable_create()->set_symlink(target);
  const int error = Do(mdc::Create, request);
  if (error == 0 && made != nullptr) *made = reply_.entry().attr().inode();
  return error;
}

int OpFixture::Lookup(std::uint64_t parent, const std::string& name, SessionId session) {
  v1::Request request;
  request.mutable_lookup()->set_parent(parent);
  request.mutable_lookup()->set_name(name);
  return Do(mdc::Lookup, request, session);
}

int OpFixture::Link(std::uint64_t inode, std::uint64_t parent, const std::string& name) {
  v1::Request request;
  request.mutable_link()->set_inode(inode);
  request.mutable_link()->set_parent(parent);
  request.mutable_link()->set_name(name);
  return Do(mdc::Link, request);
}

int OpFixture::Unlink(std::uint64_t parent, const std::string& name) {
  v1::Request request;
  request.mutable_unlink()->set_parent(parent);
  request.mutable_unlink()->set_name(name);
  return Do(mdc::Unlink, request);
}

int OpFixture::Rmdir(std::uint64_t parent, const std::string& name) {
  v1::Request request;
  request.mutable_unlink()->set_parent(parent);
  request.mutable_unlink()->set_name(name);
  request.mutable_unlink()->set_directory(true);
  return Do(mdc::Unlink, request);
}

int OpFixture::Rename(std::uint64_t parent, const std::string& name, std::uint64_t new_parent,
                      const std::string& new_name, std::uint32_t flags) {
  v1::Request request;
  v1::Rename& rename = *request.mutable_rename();
  rename.set_parent(parent);
  rename.set_name(name);
  rename.set_new_parent(new_parent);
  rename.set_new_name(new_name);
  rename.set_flags(flags);
  return Do(mdc::Rename, request);
}

int OpFixture::GetAttr(std::uint64_t inode, SessionId session) {
  v1::Request request;
  request.mutable_get_attr()->set_inode(inode);
  return Do(mdc::GetAttr, request, session);
}

int OpFixture::SetAttr(const v1::SetAttr& set) {
  v1::Request request;
  *request.mutable_set_attr() = set;
  return Do(mdc::SetAttr, request);
}

int OpFixture::Truncate(std::uint64_t inode, std::uint64_t size_bytes) {
  v1::SetAttr set;
  set.set_inode(inode);
  set.set_fields(v1::SetAttr::SIZE);
  set.set_size_bytes(size_bytes);
  return SetAttr(set);
}

int OpFixture::SetFlags(std::uint64_t inode, std::uint32_t flags) {
  v1::SetAttr set;
  set.set_inode(inode);
  set.set_fields(v1::SetAttr::FLAGS);
  set.set_flags(flags);
  return SetAttr(set);
}

int OpFixture::SetXattr(std::uint64_t inode, const std::string& name, const std::string& value,
                        std::uint32_t flags) {
  v1::Request request;
  request.mutable_set_xattr()->set_inode(inode);
  request.mutable_set_xattr()->set_name(name);
  request.mutable_set_xattr()->set_value(value);
  request.mutable_set_xattr()->set_flags(flags);
  return Do(mdc::SetXattr, request);
}

int OpFixture::GetXattr(std::uint64_t inode, const std::string& name) {
  v1::Request request;
  request.mutable_get_xattr()->set_inode(inode);
  request.mutable_get_xattr()->set_name(name);
  return Do(mdc::GetXattr, request);
}

std::uint64_t OpFixture::MakeFile(std::uint64_t parent, const std::string& name) {
  std::uint64_t made = 0;
  EXPECT_EQ(Create(parent, name, S_IFREG | 0644, &made), 0);
  return made;
}

std::uint64_t OpFixture::MakeDir(std::uint64_t parent, const std::string& name) {
  std::uint64_t made = 0;
  EXPECT_EQ(Create(parent, name, S_IFDIR | 0755, &made), 0);
  return made;
}

v1::Attr OpFixture::Attributes(std::uint64_t inode) {
  EXPECT_EQ(GetAttr(inode), 0) << "inode " << inode;
  return reply_.attr().attr();
}

std::vector<v1::ReadDirReply::Entry> OpFixture::List(std::uint64_t inode, std::uint32_t limit_bytes,
                                                     bool attributes) {
  std::vector<v1::ReadDirReply::Entry> entries;
  v1::Request request;
  request.mutable_read_dir()->set_inode(inode);
  request.mutable_read_dir()->set_limit_bytes(limit_bytes);
  request.mutable_read_dir()->set_attributes(attributes);
  do {
    const int error = Do(ReadDir, request);
    EXPECT_EQ(error, 0);
    if (error != 0) break;
    for (const auto& entry : reply_.read_dir().entries()) entries.push_back(entry);
    if (!entries.empty()) request.mutable_read_dir()->set_cookie(entries.back().cookie());
  } while (!reply_.read_dir().end());
  return entries;
}

void OpFixture::Scatter(std::uint64_t inode, std::uint64_t count, bool written) {
  constexpr std::uint64_t kAtOnce = 10'000;
  for (std::uint64_t done = 0; done < count; done += kAtOnce) {
    const absl::Status status = InContext(kMe, [&](OpContext& ctx) -> absl::Status {
      const std::uint64_t some = std::min(kAtOnce, count - done);
      ExtentEdit edit(ctx, InodeNumber(inode));
      FileBlock next(2 * done);
      if (absl::Status s = edit.Load(next, 2 * some).status(); !s.ok()) return s;
      AllocationRequest request;
      request.length_blocks = some;
      request.max_runs = some;
      const auto runs = ctx.allocator.Allocate(ctx.txn, request);
      if (!runs.ok()) return runs.status();
      for (const auto& run : *runs) {
        for (std::uint64_t i = 0; i < run.length_blocks; ++i, next = next + 2) {
          absl::Status s = edit.InsertUnwritten(next, {run.pool, run.start + i, 1});
          if (s.ok() && written) s = edit.MarkWritten(next, 1);
          if (!s.ok()) return s;
        }
      }
      (*ctx.txn.Inode(InodeNumber(inode)))->set_size_bytes(next.value() * volume_.block_bytes);
      return edit.Store();
    });
    EXPECT_TRUE(status.ok()) << status;
  }
}

std::size_t OpFixture::ExtentCount(std::uint64_t inode) {
  std::size_t count = 0;
  const std::string prefix = schema::ExtentPrefix(InodeNumber(inode));
  auto cursor = store_.db().Scan(prefix, prefix, Tier::kAll);
  for (; cursor->Valid(); cursor->Next()) ++count;
  return count;
}

void OpFixture::ExpectSound() {
  CheckSink sink;
  sink.on_phase = [](std::string_view) {};
  sink.on_problem = [](const Problem& problem) {
    ADD_FAILURE() << problem.code << ": " << problem.where << ": " << problem.what;
  };
  const CheckTotals totals = CheckVolume({store_.db(), volume_, {}}, sink);
  EXPECT_TRUE(allocator_->Check().ok()) << allocator_->Check();
  EXPECT_EQ(totals.free_blocks, allocator_->total_free_blocks());
  EXPECT_EQ(ReadVolumeRecord().inodes() + 1, totals.inodes);
}

}  // namespace reel::mdc
