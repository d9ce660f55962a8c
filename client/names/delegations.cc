#include "client/names/delegations.h"

#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "proto/convert.h"
#include "proto/protocol.h"
#include "proto/times.h"

namespace reel::client {
namespace {

// So many at first, and for each that is used up, until there are kMaxReservedInodes.
constexpr std::uint32_t kFirstReserved = 32;
constexpr std::uint32_t kMoreReserved = 3;
constexpr std::uint32_t kMostPasses = 4095;
// Of a file that another session knew the first question has it forget.
constexpr std::uint32_t kTimesAsked = 2;
constexpr int kMostFound = 5;  // then kMaxSiblings are asked about at a time

v1::LayoutReply LayoutOf(const v1::ReservedInode& reserved, const v1::Attr& attr) {
  v1::LayoutReply layout;
  layout.set_mode(v1::TOKEN_EXCLUSIVE);
  *layout.mutable_extents() = reserved.extents();
  std::uint64_t length_blocks = 0;
  for (const v1::Extent& extent : reserved.extents()) length_blocks += extent.length_blocks();
  if (length_blocks == 0) {  // there is nothing: a small file need not ask
    length_blocks = kMaxSmallFileBytes / kMinBlockBytes;
    v1::Extent& hole = *layout.add_extents();
    hole.set_length_blocks(length_blocks);
    hole.set_state(v1::EXTENT_HOLE);
  }
  layout.set_length_blocks(length_blocks);
  *layout.mutable_attr() = attr;
  return layout;
}

}  // namespace

std::uint32_t Delegations::Directory::WantedByDelegated() const {
  const std::size_t left = reserved_.empty() ? 0 : reserved_.size() - 1;
  const std::size_t missing = kMaxReservedInodes - std::min<std::size_t>(kMaxReservedInodes, left);
  return std::min(static_cast<std::uint32_t>(missing), kMoreReserved);
}

std::uint32_t Delegations::Directory::WantedByWaiting() const {
  return reserved_.empty() ? kFirstReserved : 0;
}

bool Delegations::Directory::MayAsk() {
  if (passed_ < passes_) {
    ++passed_;
    return false;
  }
  passed_ = 0;
  return true;
}

void Delegations::Directory::NoteAsked(bool found) {
  passes_ = found ? 0 : std::min(2 * passes_ + 1, kMostPasses);
  if (found && delegated()) found_ = std::min(found_ + 1, kMostFound);
}

void Delegations::Begin(Directory& directory) {
  if (directory.number_ != 0) return;
  directory.number_ = ++last_number_;
  directory.passes_ = directory.passed_ = 0;
  directory.found_ = 0;
}

void Delegations::End(Directory& directory) {
  directory.number_ = 0;
  directory.reserved_.clear();
}

void Delegations::Reserve(Directory& directory, bool anew,
                          const google::protobuf::RepeatedPtrField<v1::ReservedInode>& reserved) {
  if (!directory.delegated()) return;
  if (anew) directory.reserved_.clear();
  directory.reserved_.insert(directory.reserved_.end(), reserved.begin(), reserved.end());
}

void Delegations::TakeReserved(Directory& directory) {
  directory.reserved_.pop_front();
}

void Delegations::NoteSole(const Directory& directory, File& file) {
  file.sole_in_ = directory.number_;
}

void Delegations::NoteMade(const Directory& directory, File& file) {
  NoteSole(directory, file);
  file.made_in_ = directory.number_;
}

bool Delegations::IsOnlyHere(const Directory& directory, const File& file) {
  return IsSole(directory, file) && file.made_in_ == directory.number_;
}

bool Delegations::IsSole(const Directory& directory, const File& file) {
  return directory.delegated() && file.sole_in_ == directory.number_;
}

bool Delegations::MayAskAbout(const Directory& directory, const File& file) {
  if (!directory.delegated()) return true;
  if (IsSole(directory, file)) return false;
  return file.asked_in_ != directory.number_ || file.asked_ < kTimesAsked;
}

void Delegations::NoteAskedAbout(const Directory& directory, File& file) {
  if (!directory.delegated()) return;
  if (std::exchange(file.asked_in_, directory.number_) != directory.number_) file.asked_ = 0;
  ++file.asked_;
}

void Delegations::NoteAnswered(std::uint64_t inode) {
  const auto found = unanswered_.find(inode);
  if (found != unanswered_.end() && --found->second == 0) unanswered_.erase(found);
}

// Small steps back of the hosts' clocks do not show; but a clock that was far ahead is no reason
// for others to date what they make in the future, too.
v1::Time DelegatedTime(const WallTime& than, const v1::Time& now) {
  constexpr std::int64_t kSkewSeconds = 10;
  return than.seconds > now.seconds() + kSkewSeconds ? now : LaterThan(ToProto(than), now);
}

DelegatedFile MakeDelegated(const v1::ReservedInode& reserved, const v1::Create& create,
                            const v1::Credentials& owner, const Attributes& parent,
                            const v1::Time& now) {
  DelegatedFile file;
  const v1::Time time = DelegatedTime(parent.ctime, now);
  v1::Attr& attr = *file.made.mutable_attr();
  attr.set_inode(reserved.inode());
  attr.set_generation(reserved.generation());
  const std::uint32_t type = create.mode() & S_IFMT;
  attr.set_mode(type | (create.mode() & 07777 & ~create.umask()));
  attr.set_nlink(type == S_IFDIR ? 2 : 1);
  attr.set_uid(owner.uid());
  attr.set_gid(owner.gid());
  attr.set_change(1);
  attr.set_project(parent.project);
  for (v1::Time* of :
       {attr.mutable_atime(), attr.mutable_mtime(), attr.mutable_ctime(), attr.mutable_btime()}) {
    *of = time;
  }
  *file.decided.mutable_time() = time;
  file.decided.set_inode(reserved.inode());
  file.decided.set_generation(reserved.generation());
  if (type == S_IFLNK) {
    attr.set_mode(S_IFLNK | 0777);
    attr.set_size_bytes(create.symlink().size());
  } else if (type == S_IFREG) {
    attr.set_directory(create.parent());
    attr.set_allocated_bytes(reserved.allocated_bytes());
    *file.made.mutable_layout() = LayoutOf(reserved, attr);
    *file.decided.mutable_extents() = reserved.extents();
  }
  return file;
}

}  // namespace reel::client
