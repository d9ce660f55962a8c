// The repairer's passes over names: every entry leads to an inode, every inode is reached from the
// root, and what is counted is right.
#include <algorithm>
#include <set>

#include "mdc/ops/inode.h"
#include "mdc/repair/repairer_facts.h"
#include "proto/convert.h"

namespace reel::mdc::repairer {
namespace {

constexpr char kLostAndFound[] = "lost+found";

class TreePass {
 public:
  explicit TreePass(State& state) : state_(state) {}

  absl::Status Run() {
    for (NameFact& name : state_.names) CheckName(name);
    OneNameEach();
    for (InodeFact& fact : state_.inodes) {
      if (fact.type == S_IFDIR && fact.inode != kRoot) BreakLoop(fact);
    }
    if (!state_.changes.status().ok()) return state_.changes.status();
    RescueUnnamed();
    return state_.changes.Finish();
  }

 private:
  std::string NameOf(const NameFact& name) {
    v1::DirentRecord record;
    const InodeNumber directory(name.directory);
    return state_.Get(schema::CookieKey(directory, name.cookie), record) ? record.name() : "";
  }

  void Drop(NameFact& name, std::string_view code, std::string why) {
    const std::string text = NameOf(name);
    state_.Did(code, EntryText(name.directory, text), absl::StrCat("dropped: ", why));
    const InodeNumber directory(name.directory);
    if (!text.empty()) state_.changes.Delete(state_.DirentKey(name.directory, text));
    state_.changes.Delete(schema::CookieKey(directory, name.cookie));
    name.dropped = true;
  }

  void CheckName(NameFact& name) {
    const InodeFact* directory = state_.Find(name.directory);
    const InodeFact* child = state_.Find(name.child);
    if (directory == nullptr || directory->type != S_IFDIR) {
      return Drop(name, "not-a-directory",
                  absl::StrCat(InodeText(name.directory), " is no directory"));
    }
    if (child == nullptr) {
      return Drop(name, "dangling-entry", absl::StrCat("there is no ", InodeText(name.child)));
    }
    if (child->inode == kRoot) return Drop(name, "directory-loop", "it named the root directory");
    if (name.type != child->type) RewriteType(name, child->type);
  }

  void RewriteType(NameFact& name, std::uint32_t type) {
    const InodeNumber directory(name.directory);
    const std::string text = NameOf(name);
    for (const std::string& key :
         {state_.DirentKey(name.directory, text), schema::CookieKey(directory, name.cookie)}) {
      v1::DirentRecord record;
      if (!state_.Get(key, record)) continue;
      record.set_type(type);
      state_.changes.Put(key, record.SerializeAsString());
    }
    state_.Did("entry-type", EntryText(name.directory, text),
               absl::StrCat("says type ", type >> 12, " now, as ", InodeText(name.child), " does"));
    name.type = type;
  }

  // A directory keeps the name in the directory that it holds for its parent, else its first.
  void OneNameEach() {
    auto& names = state_.names;
    for (std::size_t first = 0; first < names.size();) {
      std::size_t last = first;
      while (last < names.size() && names[last].child == names[first].child) ++last;
      InodeFact* child = state_.Find(names[first].child);
      if (child != nullptr) OneNameOf(*child, first, last);
      first = last;
    }
  }
  void OneNameOf(InodeFact& child, std::size_t first, std::size_t last) {
    NameFact* keeper = nullptr;
    for (std::size_t i = first; i < last; ++i) {
      NameFact& name = state_.names[i];
      if (name.dropped) continue;
      child.named = true;
      if (child.type != S_IFDIR) return;
      if (keeper == nullptr ||
          (name.directory == child.parent && keeper->directory != child.parent))
        keeper = &name;
    }
    if (keeper == nullptr) return;
    child.named_in = keeper->directory;
    for (std::size_t i = first; i < last; ++i) {
      NameFact& name = state_.names[i];
      if (name.dropped || &name == keeper) continue;
      Drop(name, "directory-names",
           absl::StrCat("directory ", child.inode, " keeps its name in directory ",
                        keeper->directory));
    }
  }

  // Where the way up comes back to itself, the directory there loses its name.
  void BreakLoop(InodeFact& start) {
    std::vector<InodeFact*> path;
    InodeFact* at = &start;
    while (at != nullptr && !at->rooted && at->inode != kRoot && at->named_in != 0) {
      if (at->on_path) {
        Unname(*at);
        break;
      }
      at->on_path = true;
      path.push_back(at);
      at = state_.Find(at->named_in);
    }
    for (InodeFact* fact : path) {
      fact->rooted = true;  // or leads to where RescueUnnamed hangs it in
      fact->on_path = false;
    }
  }
  void Unname(InodeFact& directory) {
    auto& names = state_.names;
    auto name = std::lower_bound(
        names.begin(), names.end(), directory.inode,
        [](const NameFact& fact, std::uint64_t inode) { return fact.child < inode; });
    for (; name != names.end() && name->child == directory.inode; ++name) {
      if (!name->dropped) {
        Drop(*name, "directory-loop",
             absl::StrCat("directory ", directory.inode, " was its own ancestor"));
      }
    }
    directory.named = false;
    directory.named_in = 0;
  }

  void RescueUnnamed() {
    std::vector<std::uint64_t> unnamed;
    for (const InodeFact& fact : state_.inodes) {
      if (!fact.named && fact.inode != kRoot) unnamed.push_back(fact.inode);
    }
    if (unnamed.empty()) return;
    const std::uint64_t refuge = LostAndFound();
    for (const std::uint64_t inode : unnamed) {
      InodeFact& fact = *state_.Find(inode);
      std::string name = absl::StrCat("#", inode);
      while (EntryExists(refuge, name)) name += "+";
      AddEntry(refuge, name, fact);
      state_.Did("unattached", InodeText(inode),
                 absl::StrCat("no name led to it: it is /", kLostAndFound, "/", name, " now"));
    }
  }

  bool EntryExists(std::uint64_t directory, const std::string& name) {
    v1::DirentRecord record;
    return state_.Get(state_.DirentKey(directory, name), record) ||
           added_.contains({directory, name});
  }

  // The directory of that name in the root, made where there is none.
  std::uint64_t LostAndFound() {
    std::string name = kLostAndFound;
    for (;; name += "+") {
      v1::DirentRecord record;
      if (!state_.Get(state_.DirentKey(kRoot, name), record)) break;
      const InodeFact* fact = state_.Find(record.inode());
      if (fact != nullptr && fact->type == S_IFDIR && fact->named) return fact->inode;
    }
    const std::uint64_t inode = std::max(state_.volume.next_inode(), state_.highest_inode + 1);
    state_.highest_inode = inode;
    state_.volume.set_next_inode(inode + 1);
    v1::InodeRecord record;
    const v1::Time now = ToProto(state_.input.now);
    record.set_generation(1);
    record.set_mode(S_IFDIR | 0700);
    record.set_nlink(2);
    *record.mutable_atime() = *record.mutable_mtime() = now;
    *record.mutable_ctime() = *record.mutable_btime() = now;
    record.set_change(1);
    record.set_parent(kRoot);
    record.set_next_cookie(kFirstCookie);
    state_.changes.Put(schema::InodeKey(InodeNumber(inode)), record.SerializeAsString());
    next_cookies_[inode] = kFirstCookie;
    state_.inodes.push_back({.inode = inode, .parent = kRoot, .type = S_IFDIR});
    AddEntry(kRoot, name, state_.inodes.back());
    state_.Did("unattached", "root directory", absl::StrCat("/", name, " was made"));
    return inode;
  }

  void AddEntry(std::uint64_t directory, const std::string& name, InodeFact& child) {
    const std::uint64_t cookie = NextCookie(directory)++;
    v1::DirentRecord record;
    record.set_inode(child.inode);
    record.set_type(child.type);
    record.set_cookie(cookie);
    state_.changes.Put(state_.DirentKey(directory, name), record.SerializeAsString());
    record.clear_cookie();
    record.set_name(name);
    state_.changes.Put(schema::CookieKey(InodeNumber(directory), cookie),
                       record.SerializeAsString());
    state_.names.push_back({child.inode, directory, cookie, child.type});
    added_.insert({directory, name});
    child.named = true;
    if (child.type == S_IFDIR) child.named_in = directory;
  }

  std::uint64_t& NextCookie(std::uint64_t directory) {
    const auto known = next_cookies_.find(directory);
    if (known != next_cookies_.end()) return known->second;
    v1::InodeRecord record;
    state_.Get(schema::InodeKey(InodeNumber(directory)), record);
    std::uint64_t next = std::max(record.next_cookie(), kFirstCookie);
    for (const NameFact& name : state_.names) {
      if (name.directory == directory) next = std::max(next, name.cookie + 1);
    }
    return next_cookies_[directory] = next;
  }

  State& state_;
  std::map<std::uint64_t, std::uint64_t> next_cookies_;    // of directories that got entries
  std::set<std::pair<std::uint64_t, std::string>> added_;  // not yet seen by Get
};

// What the names amount to for one directory.
struct DirectoryCounts {
  std::uint64_t directory = 0;
  std::uint64_t entries = 0;
  std::uint32_t subdirectories = 0;
  std::uint64_t next_cookie = kFirstCookie;
};

class CountPass {
 public:
  explicit CountPass(State& state) : state_(state) {
    auto& names = state.names;
    std::erase_if(names, [](const NameFact& name) { return name.dropped; });
    std::sort(names.begin(), names.end(),
              [](const NameFact& a, const NameFact& b) { return a.directory < b.directory; });
    for (const NameFact& name : names) {
      if (counts_.empty() || counts_.back().directory != name.directory) {
        counts_.push_back({.directory = name.directory});
      }
      DirectoryCounts& counts = counts_.back();
      ++counts.entries;
      if (name.type == S_IFDIR) ++counts.subdirectories;
      counts.next_cookie = std::max(counts.next_cookie, name.cookie + 1);
    }
    std::sort(names.begin(), names.end(),
              [](const NameFact& a, const NameFact& b) { return a.child < b.child; });
  }

  absl::Status Run() {
    auto name = state_.names.begin();
    auto counts = counts_.begin();
    for (FamilyScan scan(state_, schema::Family::kInode); scan.valid(); scan.Next()) {
      const std::uint64_t inode = scan.key().first;
      v1::InodeRecord record;
      if (!scan.Decode(record)) continue;
      std::uint32_t links = 0;
      for (; name != state_.names.end() && name->child <= inode; ++name) {
        if (name->child == inode) ++links;
      }
      while (counts != counts_.end() && counts->directory < inode) ++counts;
      bool changed = false;
      if (S_ISDIR(record.mode())) {
        const bool any = counts != counts_.end() && counts->directory == inode;
        const DirectoryCounts own = any ? *counts : DirectoryCounts{.directory = inode};
        changed = MendDirectory(own, record);
        links = 2 + own.subdirectories;
      }
      if (record.nlink() != links) {
        state_.Did("link-count", InodeText(inode),
                   absl::StrCat("its link count is ", links, " now, not ", record.nlink()));
        record.set_nlink(links);
        changed = true;
      }
      if (changed) state_.changes.Put(scan.raw_key(), record.SerializeAsString());
    }
    return state_.changes.Finish();
  }

 private:
  bool MendDirectory(const DirectoryCounts& own, v1::InodeRecord& record) {
    const std::string before = record.SerializeAsString();
    const std::string where = absl::StrCat("directory ", own.directory);
    if (record.entries() != own.entries || record.size_bytes() != own.entries * kEntryBytes) {
      state_.Did("entry-count", where, absl::StrCat("it counts ", own.entries, " entries now"));
    }
    record.set_entries(own.entries);
    record.set_size_bytes(own.entries * kEntryBytes);
    if (record.next_cookie() < own.next_cookie) {
      state_.Did("cookie", where, absl::StrCat("its next cookie is ", own.next_cookie, " now"));
      record.set_next_cookie(own.next_cookie);
    }
    const InodeFact* fact = state_.Find(own.directory);
    const std::uint64_t parent = own.directory == kRoot || fact == nullptr ? kRoot : fact->named_in;
    if (record.parent() != parent) {
      state_.Did("parent", InodeText(own.directory),
                 absl::StrCat("its .. is ", parent, " now, not ", record.parent()));
      record.set_parent(parent);
    }
    return record.SerializeAsString() != before;
  }

  State& state_;
  std::vector<DirectoryCounts> counts_;  // of those with entries, by number
};

}  // namespace

absl::Status MendTree(State& state) {
  return TreePass(state).Run();
}

absl::Status MendCounts(State& state) {
  return CountPass(state).Run();
}

}  // namespace reel::mdc::repairer
