#include "tests/sim/name_history.h"

#include <linux/fs.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

#include "absl/strings/str_cat.h"

namespace reel::sim {
namespace {

constexpr std::uint64_t kMaxSteps = 400'000;

bool IsRead(const NameOp& op) {
  return op.kind == NameOp::Kind::kLookup || op.kind == NameOp::Kind::kList ||
         op.kind == NameOp::Kind::kGetAttr;
}

// (The error that a lost session ends an operation with says nothing.)
bool MayBeDone(const NameOp& op) {
  return op.error == 0 || !op.known;
}

// The tree at one moment. Inodes are small numbers; whose number is not known stands for itself.
struct Tree {
  std::array<int, NameHistory::kSlots> slots{};  // 0: absent
};

class Search {
 public:
  explicit Search(const std::vector<NameOp>& ops);
  NameHistory::Verdict Run(std::string& why);

 private:
  struct Inode {
    bool directory = false;
    bool anonymous = false;  // made by an operation whose answer nobody got
    bool unnamed = false;    // to begin with
    std::uint32_t mode = 0;
  };
  // An operation that was put next, and what was before.
  struct Step {
    std::size_t at = 0;
    Tree tree;
    int inode = 0;  // whose mode it changed
    std::uint32_t mode = 0;
  };
  static constexpr std::size_t kHead = 0;  // of the list
  static constexpr std::uint64_t kListSalt = 0x1234567;

  int IndexOf(std::uint64_t number) const {
    const auto found = index_.find(number);
    return found == index_.end() ? 0 : found->second;
  }
  // Whether the inode in a slot can be the one of this number.
  bool Is(int inode, std::uint64_t number) const {
    const int known = IndexOf(number);
    return known != 0 ? inode == known : inode != 0 && inodes_[inode].anonymous;
  }
  int Links(int inode) const {
    return static_cast<int>(std::count(tree_.slots.begin(), tree_.slots.end(), inode));
  }
  bool AttrMatches(int inode, const NameOp& op) const;
  // False when the operation cannot have this answer now. Of one without, the effect it has.
  bool Apply(std::size_t number);
  int Effect(const NameOp& op, std::size_t number);  // the errno, having changed the tree
  int EffectOfRename(const NameOp& op);
  bool Answers(const NameOp& op, int error) const;
  bool Reads(const NameOp& op) const;
  std::uint64_t Hash() const;

  void Take(std::size_t at);
  void PutBack(std::size_t at);
  bool Advance();
  void PassOver();
  bool GoBack();
  void Restore(const Step& step);
  bool MayBeNext(std::size_t at, std::uint64_t earliest_end) const;
  std::string Stuck() const;
  bool LinksUnknown() const;

  const std::vector<NameOp>& ops_;
  std::unordered_map<std::uint64_t, int> index_;  // inode numbers whose making is known
  // [0]: none. [1]: any file of which nobody knows who made it, where it got another name.
  static constexpr int kSomeFile = 1;
  std::vector<Inode> inodes_{{}, {.anonymous = true}};
  std::vector<int> made_by_;  // per operation
  Tree tree_;
  int changed_inode_ = 0;
  std::uint32_t changed_mode_ = 0;

  std::vector<std::size_t> order_;          // by place, from 1 on: the operation
  std::vector<std::size_t> next_, before_;  // by place
  std::size_t left_ = 0;                    // with an answer, and not in the order yet
  std::size_t at_ = 0;
  std::uint64_t earliest_end_ = NameOp::kNever;  // of those passed over
  std::vector<Step> taken_;
  std::uint64_t set_hash_ = 0;  // of the places taken
  std::unordered_set<std::uint64_t> tried_;
};

Search::Search(const std::vector<NameOp>& ops) : ops_(ops), made_by_(ops.size()) {
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const NameOp& op = ops[i];
    if (op.kind != NameOp::Kind::kCreate && op.kind != NameOp::Kind::kMakeDir &&
        op.kind != NameOp::Kind::kMakeUnnamed) {
      continue;
    }
    if (op.known && op.error != 0) continue;
    Inode& made = inodes_.emplace_back();
    made.directory = op.kind == NameOp::Kind::kMakeDir;
    made.anonymous = !op.known;
    made.unnamed = op.kind == NameOp::Kind::kMakeUnnamed;
    made.mode = op.mode;
    made_by_[i] = static_cast<int>(inodes_.size() - 1);
    if (op.known) index_[op.inode] = made_by_[i];
  }
  order_.resize(ops.size() + 1);
  std::iota(order_.begin() + 1, order_.end(), std::size_t{0});
  std::stable_sort(order_.begin() + 1, order_.end(),
                   [&](std::size_t a, std::size_t b) { return ops_[a].began < ops_[b].began; });
  next_.resize(ops.size() + 2);
  before_.resize(ops.size() + 2);
  for (std::size_t i = 0; i <= ops.size(); ++i) {
    next_[i] = i + 1;
    before_[i + 1] = i;
  }
  at_ = next_[kHead];
  for (const NameOp& op : ops_) left_ += op.known ? 1 : 0;
}

std::uint64_t Search::Hash() const {
  std::uint64_t hash = 1;
  for (const int inode : tree_.slots) {
    hash = MixHash(hash, (static_cast<std::uint64_t>(inode) << 16) |
                             inodes_[static_cast<std::size_t>(inode)].mode);
  }
  return hash;
}

bool Search::AttrMatches(int inode, const NameOp& op) const {
  const Inode& i = inodes_[static_cast<std::size_t>(inode)];
  if (i.directory != S_ISDIR(op.mode)) return false;
  if (i.anonymous) return true;
  const bool permissions = (op.mode & ~S_IFMT) != 0;  // looked at with the name
  return (!permissions || op.mode == i.mode) &&
         (i.directory || op.nlink == 0 || static_cast<int>(op.nlink) == Links(inode));
}

bool Search::Reads(const NameOp& op) const {
  switch (op.kind) {
    case NameOp::Kind::kLookup: {
      const int inode = tree_.slots[op.slot];
      if (op.error == ENOENT) return inode == 0;
      return op.error == 0 && inode != 0 && Is(inode, op.inode) && AttrMatches(inode, op);
    }
    case NameOp::Kind::kGetAttr: {
      const int inode = IndexOf(op.inode);
      if (inode == 0) return true;
      const bool linked = Links(inode) > 0;
      if (op.error != 0) return !linked;
      return !linked || AttrMatches(inode, op);
    }
    case NameOp::Kind::kList: {
      if (op.one_name) {
        const int inode = tree_.slots[op.slot];
        return op.inode == 0 ? inode == 0 : inode != 0 && Is(inode, op.inode);
      }
      const int first = op.directory * NameHistory::kNames;
      std::size_t there = 0;
      for (int slot = first; slot < first + NameHistory::kNames; ++slot) {
        if (tree_.slots[slot] != 0) ++there;
      }
      if (there != op.listed.size()) return false;
      return std::all_of(op.listed.begin(), op.listed.end(), [&](const auto& entry) {
        const int inode = tree_.slots[entry.first];
        return inode != 0 && Is(inode, entry.second);
      });
    }
    default:
      return false;
  }
}

int Search::EffectOfRename(const NameOp& op) {
  int& from = tree_.slots[op.slot];
  int& to = tree_.slots[op.slot_to];
  if (from == 0) return ENOENT;
  if ((op.flags & RENAME_EXCHANGE) != 0) {
    if (to == 0) return ENOENT;
    std::swap(from, to);
    return 0;
  }
  if (to != 0) {
    if ((op.flags & RENAME_NOREPLACE) != 0) return EEXIST;
    if (from == to) return 0;  // two names of one file: nothing happens
    const bool from_dir = inodes_[static_cast<std::size_t>(from)].directory;
    const bool to_dir = inodes_[static_cast<std::size_t>(to)].directory;
    if (from_dir && !to_dir) return ENOTDIR;
    if (!from_dir && to_dir) return EISDIR;
  }
  to = std::exchange(from, 0);
  return 0;
}

int Search::Effect(const NameOp& op, std::size_t number) {
  int& slot = tree_.slots[op.slot];
  const bool directory = inodes_[static_cast<std::size_t>(slot)].directory;
  switch (op.kind) {
    case NameOp::Kind::kCreate:
    case NameOp::Kind::kMakeDir:
      if (slot != 0) return EEXIST;
      slot = made_by_[number];
      return 0;
    case NameOp::Kind::kUnlink:
      if (slot == 0) return ENOENT;
      if (directory) return EISDIR;
      slot = 0;
      return 0;
    case NameOp::Kind::kRemoveDir:
      if (slot == 0) return ENOENT;
      if (!directory) return ENOTDIR;
      slot = 0;
      return 0;
    case NameOp::Kind::kRename:
      return EffectOfRename(op);
    case NameOp::Kind::kLink: {
      const int inode = IndexOf(op.inode);
      // (Of one that begins without a name it is not known here whether it ever had one.)
      const bool linkable = inodes_[static_cast<std::size_t>(inode)].unnamed && MayBeDone(op);
      if (inode != 0 && Links(inode) == 0 && !linkable) return ESTALE;
      // (Of an inode whose making was not answered it is not known here when it lost its name.)
      if (inode == 0 && op.error == ENOENT) return ENOENT;
      if (tree_.slots[op.slot_to] != 0) return EEXIST;
      tree_.slots[op.slot_to] = inode != 0 ? inode : kSomeFile;
      return 0;
    }
    case NameOp::Kind::kChmod: {
      const int inode = IndexOf(op.inode);
      if (inode == 0) return op.error;
      // (What is open without a name, and may get one, can be changed as well.)
      if (Links(inode) == 0 && op.known && op.error != 0) return ESTALE;
      changed_inode_ = inode;
      changed_mode_ = inodes_[static_cast<std::size_t>(inode)].mode;
      inodes_[static_cast<std::size_t>(inode)].mode = (changed_mode_ & S_IFMT) | op.mode;
      return 0;
    }
    default:
      return 0;
  }
}

// Of what has no name any more a client may still know, and of what lies in the way there is more
// than one error to choose from.
bool Search::Answers(const NameOp& op, int error) const {
  if (op.error == error) return true;
  if (error == ESTALE) return true;  // a removed inode: ESTALE, ENOENT, or what is still known
  return false;
}

bool Search::Apply(std::size_t number) {
  const NameOp& op = ops_[number];
  changed_inode_ = 0;
  if (IsRead(op)) return Reads(op);
  if (op.known && op.error == ENOSPC) return true;  // nothing has happened
  const int error = Effect(op, number);
  if (!op.known) return error == 0;
  return Answers(op, error);
}

// Those not yet ordered are a list by the times of their calls; takes one out of it, and puts it
// back.
void Search::Take(std::size_t at) {
  next_[before_[at]] = next_[at];
  before_[next_[at]] = before_[at];
  if (ops_[order_[at]].known) --left_;
  set_hash_ ^= MixHash(kListSalt, at);
}

void Search::PutBack(std::size_t at) {
  next_[before_[at]] = at;
  before_[next_[at]] = at;
  if (ops_[order_[at]].known) ++left_;
  set_hash_ ^= MixHash(kListSalt, at);
}

// Orders the operation at `at_` next, if it can have had its answer then.
bool Search::Advance() {
  const Tree tree = tree_;
  bool fits = Apply(order_[at_]);
  if (fits) {
    Take(at_);
    if (tried_.insert(MixHash(set_hash_, Hash())).second) {
      taken_.push_back({at_, tree, changed_inode_, changed_mode_});
      at_ = next_[kHead];
      earliest_end_ = NameOp::kNever;
      return true;
    }
    PutBack(at_);
  }
  Restore({at_, tree, changed_inode_, changed_mode_});
  return false;
}

void Search::Restore(const Step& step) {
  tree_ = step.tree;
  if (step.inode != 0) inodes_[static_cast<std::size_t>(step.inode)].mode = step.mode;
}

// Goes on with the next one: this one is not first among those left.
void Search::PassOver() {
  const NameOp& op = ops_[order_[at_]];
  if (op.known) earliest_end_ = std::min(earliest_end_, op.ended);
  at_ = next_[at_];
}

// Takes the last one back. False when there is none.
bool Search::GoBack() {
  if (taken_.empty()) return false;
  const Step step = taken_.back();
  taken_.pop_back();
  PutBack(step.at);
  Restore(step);
  earliest_end_ = NameOp::kNever;
  for (at_ = next_[kHead]; at_ != step.at;) PassOver();
  PassOver();
  return true;
}

bool Search::MayBeNext(std::size_t at, std::uint64_t earliest_end) const {
  return at <= ops_.size() && ops_[order_[at]].began <= earliest_end;
}

std::string Search::Stuck() const {
  std::string text;
  std::uint64_t until = NameOp::kNever;
  for (std::size_t i = next_[kHead]; MayBeNext(i, until); i = next_[i]) {
    const NameOp& op = ops_[order_[i]];
    absl::StrAppend(&text, "    ", op.ToString(), "\n");
    if (op.known) until = std::min(until, op.ended);
  }
  absl::StrAppend(&text, "  where the names are:");
  for (int slot = 0; slot < NameHistory::kSlots; ++slot) {
    if (tree_.slots[slot] == 0) continue;
    const auto known = std::find_if(index_.begin(), index_.end(), [&](const auto& entry) {
      return entry.second == tree_.slots[slot];
    });
    absl::StrAppend(&text, " ", slot, "=",
                    known == index_.end() ? "?" : absl::StrCat(known->first));
  }
  return text + "\n";
}

// A file of which nobody knows who made it has got a second name: that the two are one file, which
// a rename between them shows, is more than this tree knows.
bool Search::LinksUnknown() const {
  return std::any_of(ops_.begin(), ops_.end(), [&](const NameOp& op) {
    return op.kind == NameOp::Kind::kLink && MayBeDone(op) && IndexOf(op.inode) == 0;
  });
}

NameHistory::Verdict Search::Run(std::string& why) {
  std::uint64_t steps = 0;
  std::size_t deepest = 0;
  std::string stuck;
  while (left_ > 0) {
    if (++steps > kMaxSteps) return NameHistory::Verdict::kUndecided;
    if (MayBeNext(at_, earliest_end_)) {
      if (!Advance()) PassOver();
      continue;
    }
    if (taken_.size() >= deepest) {
      deepest = taken_.size();
      stuck = Stuck();
    }
    if (!GoBack()) {
      if (LinksUnknown()) return NameHistory::Verdict::kUndecided;
      why = absl::StrCat("no order of the operations on names explains their answers; ", deepest,
                         " of ", ops_.size(), " fit, and then none of these:\n", stuck);
      return NameHistory::Verdict::kNoOrder;
    }
  }
  return NameHistory::Verdict::kExplained;
}

}  // namespace

void NameHistory::Synced(int host, std::uint64_t inode, std::uint64_t began) {
  kept_[host] = std::max(kept_[host], began);
  std::uint64_t& attributes = kept_attributes_[{host, inode}];
  attributes = std::max(attributes, began);
}

bool NameHistory::Keeps(const NameOp& op) const {
  const auto kept = kept_.find(op.host);
  return kept != kept_.end() && op.known && op.ended < kept->second;
}

bool NameHistory::KeepsAttributes(const NameOp& op) const {
  for (const std::uint64_t inode : {op.inode, std::uint64_t{0}}) {
    const auto kept = kept_attributes_.find({op.host, inode});
    if (kept != kept_attributes_.end() && op.known && op.ended < kept->second) return true;
  }
  return false;
}

void NameHistory::Lost(int host, std::uint64_t first_early) {
  ++losses_[host];
  for (NameOp& op : ops_) {
    if (op.host != host || op.early_number < first_early || Keeps(op)) continue;
    op.known = false;
    op.ended = NameOp::kNever;
  }
}

void NameHistory::SessionOver(int host, std::uint64_t since, std::uint64_t now) {
  std::map<std::uint64_t, std::uint64_t> set;  // inodes, and since when
  for (NameOp& op : ops_) {
    if (op.host != host || op.began < since) continue;
    const bool reads = op.kind == NameOp::Kind::kLookup || op.kind == NameOp::Kind::kGetAttr;
    const bool sets = op.kind == NameOp::Kind::kChmod && !KeepsAttributes(op);
    if (sets && op.known && op.error == 0) set.emplace(op.inode, op.began);
    const auto at = set.find(op.inode);
    if (at == set.end() || !(sets || reads) || op.ended < at->second) continue;
    op.known = false;
    op.ended = NameOp::kNever;
  }
  for (const auto& [inode, began] : set) unsynced_[{host, inode}] = now;
}

bool NameHistory::MayBeUnsynced(const NameOp& op) const {
  const auto found = unsynced_.find({op.host, op.inode});
  if (found != unsynced_.end() && found->second >= op.began) return true;
  // Who has missed the end of its session shows what it has set there, before and since.
  return !op.in_session && std::any_of(ops_.begin(), ops_.end(), [&](const NameOp& set) {
    return set.kind == NameOp::Kind::kChmod && set.host == op.host && set.inode == op.inode &&
           set.error == 0;
  });
}

NameHistory::Verdict NameHistory::Check(std::string& why) const {
  std::vector<NameOp> answered;  // a read without an answer tells nothing
  for (const NameOp& op : ops_) {
    if (op.known || !IsRead(op)) answered.push_back(op);
  }
  return Search(answered).Run(why);
}

std::string NameOp::ToString() const {
  static constexpr const char* kNames[] = {"lookup", "create",  "mkdir",       "unlink",
                                           "rmdir",  "rename",  "link",        "list",
                                           "chmod",  "getattr", "make unnamed"};
  std::string text = absl::StrCat("[", began, ", ", ended == kNever ? "?" : absl::StrCat(ended),
                                  "] host ", host, " ", kNames[static_cast<int>(kind)]);
  switch (kind) {
    case Kind::kLink:
      absl::StrAppend(&text, " inode ", inode, " as ", slot_to);
      break;
    case Kind::kRename:
      absl::StrAppend(&text, " ", slot, " to ", slot_to, " flags ", flags);
      break;
    case Kind::kChmod:
    case Kind::kGetAttr:
      absl::StrAppend(&text, " inode ", inode);
      break;
    case Kind::kList:
      absl::StrAppend(&text, " directory ", directory, ":");
      if (one_name) absl::StrAppend(&text, " ", slot, "=", inode, " in pages");
      for (const auto& [slot, number] : listed) absl::StrAppend(&text, " ", slot, "=", number);
      break;
    default:
      absl::StrAppend(&text, " ", slot);
      if (inode != 0) absl::StrAppend(&text, " = inode ", inode);
  }
  if (mode != 0) absl::StrAppend(&text, " mode ", absl::Hex(mode));
  if (nlink != 0) absl::StrAppend(&text, " nlink ", nlink);
  if (!known) return text + ": outcome unknown";
  return text + (error == 0 ? ": ok" : absl::StrCat(": ", strerror(error)));
}

}  // namespace reel::sim
