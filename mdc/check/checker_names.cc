// The second pass of the checker: names against inodes, the way from the root, link counts. Only
// where the sums say that something is wrong are names and inodes looked at one by one, in rounds.
#include <sys/stat.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "mdc/check/checker_facts.h"

namespace reel::mdc::checker {
namespace {

constexpr std::uint64_t kRoot = kRootInode.value();

// A directory whose record names another parent than the one that it has.
struct WrongParent {
  std::uint64_t inode = 0;
  std::uint64_t parent = 0;
  std::uint64_t expected = 0;
};

// The inodes of some parts, and all names of them, wherever they are.
class NameGatherer final : public FactSink {
 public:
  NameGatherer(const State& state, const std::vector<bool>& parts)
      : state_(&state), parts_(&parts) {}
  void TakeInode(const InodeFact& fact) override {
    if ((*parts_)[state_->PartOf(fact.inode)]) inodes.push_back(fact);
  }
  void TakeName(const NameFact& name) override {
    if ((*parts_)[state_->PartOf(name.child)]) names.push_back(name);
  }
  void TakeRun(std::size_t, const OwnedRun&) override {}

  std::vector<InodeFact> inodes;
  std::vector<NameFact> names;

 private:
  const State* state_;
  const std::vector<bool>* parts_;
};

// All names of one inode: [first, last).
void CheckNamesOf(State& state, InodeFact* fact, const NameFact* first, const NameFact* last) {
  Report& report = state.report;
  for (const NameFact* at = first; at != last; ++at) {
    const NameFact& name = *at;
    const auto where = [&] { return EntryText(name.directory, state.NameOf(name)); };
    if (fact == nullptr) {
      report.Add("dangling-entry", where(),
                 absl::StrCat("it names inode ", name.child, ", which does not exist"));
      continue;
    }
    if (fact->type != 0 && name.type != fact->type) {
      report.Add("entry-type", where(),
                 absl::StrCat("it says type ", name.type, ", inode ", name.child, " is of type ",
                              fact->type));
    }
    if (fact->type != S_IFDIR) continue;
    if (name.child == kRoot) {
      report.Add("directory-loop", where(), "it names the root directory");
    } else if (fact->named_in != 0) {
      report.Add("directory-names", where(),
                 absl::StrCat("directory ", name.child, " has another name, in directory ",
                              fact->named_in));
    } else {
      fact->named_in = name.directory;
    }
  }
  if (fact == nullptr || fact->type == 0) return;

  const std::uint64_t found = static_cast<std::uint64_t>(last - first);
  const std::string where = InodeText(fact->inode);
  if (fact->type == S_IFDIR) {
    if (fact->inode != kRoot && found == 0 && fact->nlink != 0) {
      report.Add("unattached", where, "no entry names this directory");
    }
    const std::uint64_t expected = fact->ExpectedLinksOfDirectory();
    if (fact->nlink != expected) {
      report.Add("link-count", where,
                 absl::StrCat("its link count is ", fact->nlink, ", it should be ", expected));
    }
    if (fact->nlink == 0 && (found > 0 || fact->inode == kRoot)) {
      report.Add("link-count", where, "its link count is 0, but it has a name");
    }
  } else if (found == 0 && fact->nlink != 0) {
    report.Add("unattached", where,
               absl::StrCat("no entry names it, its link count is ", fact->nlink));
  } else if (found != fact->nlink) {
    report.Add("link-count", where,
               absl::StrCat("its link count is ", fact->nlink, ", it should be ", found));
  }
}

// What was gathered of some parts: each inode with its names, and each name with its inode.
void CheckGathered(State& state, std::vector<InodeFact>& inodes, std::vector<NameFact>& names) {
  std::sort(names.begin(), names.end(), [](const NameFact& a, const NameFact& b) {
    return a.child != b.child
               ? a.child < b.child
               : (a.directory != b.directory ? a.directory < b.directory : a.cookie < b.cookie);
  });
  const NameFact* name = names.data();
  const NameFact* const end = name + names.size();
  auto inode = inodes.begin();
  while (name != end || inode != inodes.end()) {
    if (name == end || (inode != inodes.end() && inode->inode < name->child)) {
      CheckNamesOf(state, &*inode++, name, name);
      continue;
    }
    const NameFact* last = name;
    while (last != end && last->child == name->child) ++last;
    const bool exists = inode != inodes.end() && inode->inode == name->child;
    CheckNamesOf(state, exists ? &*inode++ : nullptr, name, last);
    name = last;
  }
}

// What names have turned out to say of directories.
void NoteDirectories(State& state, const std::vector<InodeFact>& inodes,
                     std::vector<WrongParent>& wrong) {
  for (const InodeFact& fact : inodes) {
    if (fact.type != S_IFDIR) continue;
    if (DirectoryFact* directory = state.FindDirectory(fact.inode)) {
      directory->named_in = fact.named_in;
    }
    if (fact.nlink == 0) continue;
    const std::uint64_t expected = fact.inode == kRoot ? kRoot : fact.named_in;
    if (expected == 0 || fact.parent == expected) continue;
    wrong.push_back({fact.inode, fact.parent, expected});
    state.pace.Keeps(sizeof(WrongParent));
  }
}

void LookCloser(State& state, const std::vector<bool>& parts, std::vector<WrongParent>& wrong) {
  std::vector<InodeFact> inodes;
  std::vector<NameFact> names;
  const auto bytes = [&] {
    return inodes.size() * sizeof(InodeFact) + names.size() * sizeof(NameFact);
  };
  WalkAgain<NameGatherer>(state, NameGatherer(state, parts), [&](NameGatherer& part) {
    const std::size_t before = bytes();
    inodes.insert(inodes.end(), part.inodes.begin(), part.inodes.end());
    names.insert(names.end(), part.names.begin(), part.names.end());
    state.pace.Keeps(bytes() - before);
  });
  CheckGathered(state, inodes, names);
  NoteDirectories(state, inodes, wrong);
  state.pace.Drops(bytes());
}

// Looks closer at all parts whose sums do not agree, as many at a time as memory allows.
std::vector<WrongParent> CheckParts(State& state) {
  std::vector<WrongParent> wrong;
  const std::size_t parts = state.names.parts();
  for (std::size_t next = 0; next < parts;) {
    std::vector<bool> chosen(parts, false);
    std::uint64_t bytes = 0;
    bool any = false;
    for (; next < parts; ++next) {
      if (state.names.Agree(next)) continue;
      bytes += state.names.BytesOf(next);
      if (any && bytes > state.effort.round_bytes) break;
      any = chosen[next] = true;
    }
    if (any) LookCloser(state, chosen, wrong);
  }
  return wrong;
}

// Follows the names upwards from each directory; every directory is walked once.
void CheckConnectivity(State& state) {
  const auto& directories = state.directories;
  std::vector<bool> walked(directories.size(), false);
  const auto index = [&](std::uint64_t inode) {
    const auto found =
        std::lower_bound(directories.begin(), directories.end(), inode,
                         [](const DirectoryFact& fact, std::uint64_t n) { return fact.inode < n; });
    const bool exists = found != directories.end() && found->inode == inode;
    return exists ? static_cast<std::size_t>(found - directories.begin()) : directories.size();
  };
  std::vector<std::size_t> chain;
  for (std::size_t start = 0; start < directories.size(); ++start) {
    chain.clear();
    std::size_t at = start;
    while (at != directories.size() && !walked[at] && directories[at].inode != kRoot &&
           directories[at].named_in != 0) {
      walked[at] = true;
      chain.push_back(at);
      at = index(directories[at].named_in);
    }
    if (std::find(chain.begin(), chain.end(), at) != chain.end()) {
      state.report.Add("directory-loop", InodeText(directories[at].inode),
                       "it is its own ancestor and cannot be reached from the root");
    }
    // Where a chain ends short of the root, its end has been reported: unattached or missing.
  }
}

}  // namespace

void CheckNames(State& state) {
  if (!state.root_type) {
    state.report.Add("root", InodeText(kRoot), "the root directory is missing");
  } else if (*state.root_type != S_IFDIR) {
    state.report.Add("root", InodeText(kRoot), "the root is no directory");
  }
  const std::vector<WrongParent> wrong = CheckParts(state);
  CheckConnectivity(state);
  for (const WrongParent& fact : wrong) {
    state.report.Add("parent", InodeText(fact.inode),
                     absl::StrCat("its .. is ", fact.parent, ", it should be ", fact.expected));
  }
}

}  // namespace reel::mdc::checker
