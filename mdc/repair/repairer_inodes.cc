// The repairer's pass over inodes: each with its extents, attributes and orphan record; those
// whose record is lost are made anew from what is left of them.
#include <algorithm>
#include <optional>

#include "mdc/ops/acl.h"
#include "mdc/ops/small_content.h"
#include "mdc/repair/repairer_facts.h"
#include "proto/convert.h"
#include "proto/protocol.h"

namespace reel::mdc::repairer {
namespace {

bool IsKnownType(std::uint32_t type) {
  return type == S_IFREG || type == S_IFDIR || type == S_IFLNK || type == S_IFCHR ||
         type == S_IFBLK || type == S_IFIFO || type == S_IFSOCK;
}

// What is left of one inode, besides its names.
struct Remains {
  std::uint64_t inode = 0;
  v1::InodeRecord record{};
  bool stored = false, decoded = false;
  bool has_extents = false, has_entries = false, orphan = false;
  std::uint64_t xattr_name_bytes = 0;
  std::vector<std::string> xattr_keys{}, extent_keys{};
  std::vector<std::pair<std::string, std::string>> acls{};  // name, value
  std::uint32_t named_type = 0;  // what all names that lead here say; 0: none do, or they differ
  std::uint64_t names = 0;
};

class InodePass {
 public:
  explicit InodePass(State& state)
      : state_(state),
        inodes_(state, schema::Family::kInode),
        extents_(state, schema::Family::kExtent),
        extent_keys_(state, schema::Family::kExtent),
        xattrs_(state, schema::Family::kXattr),
        orphans_(state, schema::Family::kOrphan) {
    for (const NameFact& name : state.names) directories_.push_back(name.directory);
    std::sort(directories_.begin(), directories_.end());
    directories_.erase(std::unique(directories_.begin(), directories_.end()), directories_.end());
  }

  absl::Status Run() {
    bool root = false;
    while (const auto inode = NextInode()) {
      root |= *inode == kRoot;
      Remains remains = Take(*inode);
      if (!state_.changes.status().ok()) break;
      Mend(remains);
    }
    if (!root && state_.changes.status().ok()) {
      Remains remains{.inode = kRoot};
      Mend(remains);
    }
    std::sort(state_.inodes.begin(), state_.inodes.end(),
              [](const InodeFact& a, const InodeFact& b) { return a.inode < b.inode; });
    return state_.changes.Finish();
  }

 private:
  std::optional<std::uint64_t> NextInode() {
    std::optional<std::uint64_t> next;
    const auto offer = [&](std::uint64_t inode) { next = std::min(next.value_or(inode), inode); };
    for (const FamilyScan* scan : {&inodes_, &extents_, &xattrs_, &orphans_}) {
      if (scan->valid()) offer(scan->key().first);
    }
    if (directory_ < directories_.size()) offer(directories_[directory_]);
    return next;
  }

  Remains Take(std::uint64_t inode) {
    Remains remains{.inode = inode};
    for (; inodes_.valid() && inodes_.key().first == inode; inodes_.Next()) {
      remains.stored = true;
      remains.decoded = inodes_.Decode(remains.record);
      if (!remains.decoded) remains.record.Clear();
    }
    for (; extent_keys_.valid() && extent_keys_.key().first <= inode; extent_keys_.Next()) {
      if (extent_keys_.key().first == inode) remains.extent_keys.push_back(extent_keys_.raw_key());
    }
    remains.has_extents = !remains.extent_keys.empty();
    for (; xattrs_.valid() && xattrs_.key().first == inode; xattrs_.Next()) {
      remains.xattr_name_bytes += xattrs_.key().name.size() + 1;
      remains.xattr_keys.push_back(xattrs_.raw_key());
      const std::string name(xattrs_.key().name);
      if (name == kAccessAcl || name == kDefaultAcl)
        remains.acls.emplace_back(name, xattrs_.value());
    }
    for (; orphans_.valid() && orphans_.key().first == inode; orphans_.Next()) {
      remains.orphan = true;
    }
    if (directory_ < directories_.size() && directories_[directory_] == inode) {
      remains.has_entries = true;
      ++directory_;
    }
    TakeNames(remains);
    return remains;
  }

  void TakeNames(Remains& remains) {
    const auto& names = state_.names;
    auto name = std::lower_bound(
        names.begin(), names.end(), remains.inode,
        [](const NameFact& fact, std::uint64_t inode) { return fact.child < inode; });
    for (; name != names.end() && name->child == remains.inode; ++name) {
      if (remains.names++ == 0) remains.named_type = name->type;
      if (name->type != remains.named_type) remains.named_type = 0;
    }
  }

  void Mend(Remains& remains) {
    const bool possible = remains.inode != 0 && remains.inode < kEndOfNumbers;
    const bool unlinked = remains.orphan && (!remains.decoded || remains.record.nlink() == 0) &&
                          remains.names == 0 && !remains.has_entries && remains.inode != kRoot;
    if (!possible) return Remove(remains, "inode-number", "dropped: no inode has this number");
    if (unlinked) return Remove(remains, "orphan", "freed: it was unlinked");
    const std::uint32_t type = remains.decoded ? ResolveType(remains) : DeriveType(remains);
    if (type == 0) {
      return Remove(remains, remains.stored ? "record-damaged" : "stray-record",
                    "dropped: what is left of it says not what it was");
    }
    bool changed = !remains.decoded;
    if (!remains.decoded) {
      MakeRecord(remains, type);
    } else if ((remains.record.mode() & S_IFMT) != type) {
      state_.Did("inode-mode", InodeText(remains.inode),
                 absl::StrCat("its type is ", type >> 12, " now, as its names and content say"));
      remains.record.set_mode((remains.record.mode() & 07777) | type);
      changed = true;
    }
    if (type == S_IFLNK && remains.record.symlink().empty()) {
      return Remove(remains, "inode-size", "dropped: a symbolic link without a target");
    }
    Keep(remains, type, changed);
  }

  // Of an inode whose record is lost. 0: nothing to keep.
  std::uint32_t DeriveType(const Remains& remains) const {
    if (remains.inode == kRoot || remains.has_entries) return S_IFDIR;
    if (remains.has_extents) return S_IFREG;
    const bool can_be_made = remains.named_type == S_IFREG || remains.named_type == S_IFDIR ||
                             remains.named_type == S_IFIFO || remains.named_type == S_IFSOCK;
    const bool anything_left = remains.stored || !remains.xattr_keys.empty();
    return can_be_made && anything_left ? remains.named_type : 0;
  }

  // Content and names outvote the record.
  static std::uint32_t ResolveType(const Remains& remains) {
    const std::uint32_t type = remains.record.mode() & S_IFMT;
    if (remains.inode == kRoot) return S_IFDIR;
    const std::uint32_t content = remains.has_entries ? S_IFDIR : remains.has_extents ? S_IFREG : 0;
    if (content != 0 && type != content &&
        (remains.named_type == content || remains.names == 0 || !IsKnownType(type))) {
      return content;
    }
    if (IsKnownType(type)) return type;
    if (!remains.record.symlink().empty()) return S_IFLNK;
    return IsKnownType(remains.named_type) && remains.named_type != S_IFLNK ? remains.named_type
                                                                            : S_IFREG;
  }

  void MakeRecord(Remains& remains, std::uint32_t type) {
    v1::InodeRecord& record = remains.record;
    const v1::Time now = ToProto(state_.input.now);
    record.set_generation(1);
    record.set_mode(type | (remains.inode == kRoot ? 0755u : type == S_IFDIR ? 0700u : 0600u));
    record.set_nlink(type == S_IFDIR ? 2 : 1);
    *record.mutable_atime() = *record.mutable_mtime() = now;
    *record.mutable_ctime() = *record.mutable_btime() = now;
    record.set_change(1);
    if (type == S_IFDIR) record.set_next_cookie(kFirstCookie);
    size_is_lost_ = type == S_IFREG;
    state_.Did(
        remains.inode == kRoot ? "root"
        : remains.stored       ? "record-damaged"
                               : "stray-record",
        InodeText(remains.inode),
        "its record was made anew from what is left: root owns it, and only root may use it");
  }

  void Keep(Remains& remains, std::uint32_t type, bool changed) {
    v1::InodeRecord& record = remains.record;
    const std::string before = record.SerializeAsString();
    if (remains.orphan || record.truncated_from() != 0) EndOrphan(remains);
    MendFileExtents(remains, type);
    MendAcls(remains);
    if (record.xattr_name_bytes() != remains.xattr_name_bytes) {
      record.set_xattr_name_bytes(static_cast<std::uint32_t>(remains.xattr_name_bytes));
      if (remains.decoded) {
        state_.Did("xattr-count", InodeText(remains.inode), "its attributes are counted anew");
      }
    }
    MendSize(remains, type);
    MendContent(remains, type);
    MendTimes(remains);
    if (type == S_IFDIR && (record.next_cookie() < kFirstCookie || record.next_cookie() >> 63)) {
      record.set_next_cookie(kFirstCookie);  // MendCounts raises it to what is in use
      state_.Did("cookie", InodeText(remains.inode), "its next cookie was out of range");
    }
    if (changed || record.SerializeAsString() != before) {
      state_.changes.Put(schema::InodeKey(InodeNumber(remains.inode)), record.SerializeAsString());
    }
    state_.highest_inode = std::max(state_.highest_inode, remains.inode);
    state_.highest_sequence = std::max(state_.highest_sequence, record.generation());
    state_.inodes.push_back({.inode = remains.inode, .parent = record.parent(), .type = type});
  }

  // The list is of no use any more: truncations are ended here, and who has a name is no orphan.
  void EndOrphan(Remains& remains) {
    if (remains.orphan) state_.changes.Delete(schema::OrphanKey(InodeNumber(remains.inode)));
    if (remains.record.truncated_from() != 0) {
      state_.Did("orphan", InodeText(remains.inode), "its truncation was ended");
    } else {
      state_.Did("orphan", InodeText(remains.inode), "taken off the orphan list: it is in use");
    }
  }

  void MendFileExtents(Remains& remains, std::uint32_t type) {
    v1::InodeRecord& record = remains.record;
    const std::uint64_t cut = record.truncated_from();
    record.clear_truncated_from();
    bool changed = false;
    std::vector<ExtentPart> extent_parts = MendExtents(
        state_, extents_, remains.inode, cut == 0 ? ~std::uint64_t{0} : cut - 1, changed);
    if (type != S_IFREG && remains.has_extents) {
      state_.Did("extent", InodeText(remains.inode),
                 "its extents were freed: it is no regular file");
      extent_parts.clear();
      changed = true;
    }
    if (changed) {
      for (std::string& key : remains.extent_keys) state_.changes.Delete(std::move(key));
      for (const ExtentPart& extent_part : extent_parts) {
        state_.changes.Put(
            schema::ExtentKey(InodeNumber(remains.inode), FileBlock(extent_part.file_block)),
            EncodeExtentPart(extent_part));
      }
    }
    std::uint64_t blocks = 0;
    end_block_ = 0;
    for (const ExtentPart& extent_part : extent_parts) {
      blocks += extent_part.length_blocks;
      end_block_ = std::max(end_block_, extent_part.end());
      state_.highest_sequence = std::max(state_.highest_sequence, extent_part.birth_sequence);
    }
    if (record.allocated_blocks() != blocks) {
      record.set_allocated_blocks(blocks);
      if (remains.decoded) {
        state_.Did("block-count", InodeText(remains.inode),
                   absl::StrCat("it has ", blocks, " blocks"));
      }
    }
  }

  // Where ACL and mode differ, or one is all that is left, nobody gets what both do not grant.
  void MendAcls(Remains& remains) {
    v1::InodeRecord& record = remains.record;
    for (const auto& [name, value] : remains.acls) {
      const std::string fault = checker::AclFault(name, value, record.mode());
      if (fault.empty()) continue;
      const std::string key = schema::XattrKey(InodeNumber(remains.inode), name);
      absl::StatusOr<Acl> acl = Acl::Parse(value);
      const bool sound = acl.ok() && !acl->empty();
      const char* outcome = ": it was dropped";
      if (name == kAccessAcl && !S_ISLNK(record.mode())) {
        // Of one that is lost, the mode shows the mask: what the group had nobody knows.
        const std::uint32_t bits = sound ? acl->Inherit(record.mode()) : record.mode() & 0707;
        record.set_mode((record.mode() & ~0777u) | bits);
        outcome = sound ? "; both say what both granted"
                        : ": it was dropped, and its group may do nothing";
      }
      if (name == kAccessAcl && !S_ISLNK(record.mode()) && sound && !acl->IsMinimal()) {
        state_.changes.Put(key, acl->Serialize());
      } else {
        state_.changes.Delete(key);
        remains.xattr_name_bytes -= name.size() + 1;
        record.set_xattr_name_bytes(static_cast<std::uint32_t>(remains.xattr_name_bytes));
      }
      state_.Did("acl", InodeText(remains.inode), absl::StrCat(fault, outcome));
    }
  }

  void MendSize(Remains& remains, std::uint32_t type) {
    v1::InodeRecord& record = remains.record;
    std::uint64_t size = record.size_bytes();
    if (type == S_IFLNK) {
      size = record.symlink().size();
    } else if (std::exchange(size_is_lost_, false) || size > kMaxFileBytes) {
      const std::uint64_t end = end_block_ * state_.input.descriptor.block_bytes;
      size = type == S_IFREG ? std::max<std::uint64_t>(end, record.inline_data().size()) : 0;
    }
    if (size == record.size_bytes()) return;
    record.set_size_bytes(size);
    state_.Did("inode-size", InodeText(remains.inode),
               absl::StrCat("its size is ", size, " now, the end of what it holds"));
  }

  // After the size: what it says of the content counts.
  void MendContent(Remains& remains, std::uint32_t type) {
    v1::InodeRecord& record = remains.record;
    const std::size_t bytes = record.inline_data().size();
    if (type != S_IFREG) {
      ClearContent(record);
    } else {
      CutContent(record, std::min<std::uint64_t>(record.size_bytes(), kMaxSmallFileBytes));
    }
    const std::uint32_t before = record.flags();
    IsSmall(record) ? SetContent(record, std::string(record.inline_data())) : ClearContent(record);
    if (record.flags() == before && record.inline_data().size() == bytes) return;
    state_.Did("content", InodeText(remains.inode),
               absl::StrCat(record.inline_data().size(), " bytes are in its record now"));
  }

  void MendTimes(Remains& remains) {
    v1::InodeRecord& record = remains.record;
    bool mended = false;
    for (v1::Time* time : {record.mutable_atime(), record.mutable_mtime(), record.mutable_ctime(),
                           record.mutable_btime()}) {
      if (FromProto(*time).ok()) continue;
      time->set_nanoseconds(0);
      mended = true;
    }
    if (mended) state_.Did("inode-time", InodeText(remains.inode), "whole seconds in its times");
  }

  void Remove(Remains& remains, std::string_view code, std::string what) {
    for (; extents_.valid() && extents_.key().first == remains.inode; extents_.Next()) {
    }
    state_.Did(code, InodeText(remains.inode), std::move(what));
    for (std::string& key : remains.extent_keys) state_.changes.Delete(std::move(key));
    for (std::string& key : remains.xattr_keys) state_.changes.Delete(std::move(key));
    if (remains.orphan) state_.changes.Delete(schema::OrphanKey(InodeNumber(remains.inode)));
    if (remains.stored) state_.changes.Delete(schema::InodeKey(InodeNumber(remains.inode)));
    if (remains.inode < kEndOfNumbers) {
      state_.highest_inode = std::max(state_.highest_inode, remains.inode);
    }
  }

  State& state_;
  FamilyScan inodes_, extents_, extent_keys_, xattrs_, orphans_;
  std::vector<std::uint64_t> directories_;  // that have entries, by number
  std::size_t directory_ = 0;               // the next of them
  std::uint64_t end_block_ = 0;             // of the file in hand
  bool size_is_lost_ = false;               // of the inode in hand
};

}  // namespace

absl::Status MendInodes(State& state) {
  return InodePass(state).Run();
}

}  // namespace reel::mdc::repairer
