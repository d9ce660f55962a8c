// The second pass of the checker: names against inodes, the way from the root, link counts.
#include <sys/stat.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "mdc/check/checker_facts.h"

namespace reel::mdc::checker {
namespace {

constexpr std::uint64_t kRoot = kRootInode.value();

// All names of one inode: names[first, last).
void CheckNamesOf(State& state, InodeFact* fact, std::size_t first, std::size_t last) {
  Report& report = state.report;
  for (std::size_t i = first; i < last; ++i) {
    const NameFact& name = state.names[i];
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

  const std::uint64_t found = last - first;
  const std::string where = InodeText(fact->inode);
  if (fact->type == S_IFDIR) {
    if (fact->inode != kRoot && found == 0 && fact->nlink != 0) {
      report.Add("unattached", where, "no entry names this directory");
    }
    const std::uint64_t expected = fact->nlink == 0 ? 0 : 2 + std::uint64_t{fact->subdirectories};
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

// Follows the names upwards from each directory; every directory is walked once.
void CheckConnectivity(State& state) {
  std::vector<InodeFact*> chain;
  for (InodeFact& start : state.inodes) {
    if (start.type != S_IFDIR || start.walked || start.inode == kRoot || start.named_in == 0)
      continue;
    chain.clear();
    InodeFact* at = &start;
    while (at != nullptr && !at->walked && at->inode != kRoot && at->named_in != 0) {
      at->walked = true;
      chain.push_back(at);
      at = state.Find(at->named_in);
    }
    const bool loop = at != nullptr && std::find(chain.begin(), chain.end(), at) != chain.end();
    if (loop) {
      state.report.Add("directory-loop", InodeText(at->inode),
                       "it is its own ancestor and cannot be reached from the root");
    }
    // Where a chain ends short of the root, its end has been reported: unattached or missing.
  }
}

void CheckParents(State& state) {
  for (const InodeFact& fact : state.inodes) {
    if (fact.type != S_IFDIR || fact.nlink == 0) continue;
    const std::uint64_t expected = fact.inode == kRoot ? kRoot : fact.named_in;
    if (expected == 0 || fact.parent == expected) continue;
    state.report.Add("parent", InodeText(fact.inode),
                     absl::StrCat("its .. is ", fact.parent, ", it should be ", expected));
  }
}

}  // namespace

void CheckNames(State& state) {
  const InodeFact* root = state.Find(kRoot);
  if (root == nullptr) {
    state.report.Add("root", InodeText(kRoot), "the root directory is missing");
  } else if (root->type != S_IFDIR) {
    state.report.Add("root", InodeText(kRoot), "the root is no directory");
  }
  std::sort(state.names.begin(), state.names.end(), [](const NameFact& a, const NameFact& b) {
    return a.child != b.child
               ? a.child < b.child
               : (a.directory != b.directory ? a.directory < b.directory : a.cookie < b.cookie);
  });
  auto inode = state.inodes.begin();
  for (std::size_t first = 0; first < state.names.size() || inode != state.inodes.end();) {
    if (first == state.names.size() ||
        (inode != state.inodes.end() && inode->inode < state.names[first].child)) {
      CheckNamesOf(state, &*inode++, first, first);
      continue;
    }
    std::size_t last = first;
    while (last < state.names.size() && state.names[last].child == state.names[first].child) ++last;
    const bool exists = inode != state.inodes.end() && inode->inode == state.names[first].child;
    CheckNamesOf(state, exists ? &*inode++ : nullptr, first, last);
    first = last;
  }
  CheckConnectivity(state);
  CheckParents(state);
}

}  // namespace reel::mdc::checker
