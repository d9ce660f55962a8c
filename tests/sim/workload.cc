// Operations on names; those on files are in workload_files.cc.
#include "tests/sim/workload.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/stat.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "proto/status.h"

namespace reel::sim {
namespace {

constexpr std::string_view kNames[NameHistory::kNames] = {"f1", "f2", "f3", "f4", "f5"};

// No fault but a client's lost SAN lasts longer than two leases, and few come at once. A client of
// before, or of a controller of before, does not give up by itself, and one with a longer lease
// later; each call may meet it some times.
constexpr Micros kLongestPause = 20 * Cluster::kLeaseMs * kMs;
constexpr Micros kLongestPauseOfSlow = 70 * Cluster::kLeaseMs * kMs;

constexpr std::uint64_t kJournalBytes = 16 * DataModel::kCellBytes;

bool IsAnswer(const absl::Status& status) {
  switch (ErrnoOf(status)) {
    case 0:
    case ENOENT:
    case EEXIST:
    case ENOTDIR:
    case EISDIR:
    case ENOTEMPTY:
    case EINVAL:
    case EPERM:
    case ENOSPC:
      return true;
    default:
      return false;  // ESTALE, EIO: a session that ended, or an inode that is gone
  }
}

void TakeAttr(const client::Attributes& attr, NameOp& op) {
  op.inode = attr.inode;
  op.mode = attr.mode;
  op.nlink = S_ISDIR(attr.mode) ? 0 : attr.nlink;
}

}  // namespace

client::NameIn Program::At(int slot) const {
  return {shared_.directories[slot / NameHistory::kNames], kNames[slot % NameHistory::kNames]};
}

std::size_t Program::Begin(NameOp op) {
  op.began = now();
  op.host = machine_.host();
  op.in_session = !data().Unaware(op.host);
  op.known = false;
  return shared_.names.Begin(std::move(op));
}

// A session that was lost, and that perhaps only this host knows of, or not even it.
bool Program::IsExplained(const absl::Status& status, Micros since) {
  const int error = ErrnoOf(status);
  if (error == EIO && data().FlushFailedSince(machine_.host(), since)) return true;
  if (error != EIO && error != ESTALE && error != ENOENT) return false;
  return data().UnawareSince(machine_.host(), since) ||
         data().LostSessionSince(machine_.host(), since);
}

void Program::CheckError(const char* what, std::uint64_t inode, const absl::Status& status,
                         bool explained) {
  if (status.ok() || explained) return;
  shared_.cluster.Violate(absl::StrCat("host ", machine_.host(), ": ", what, " of inode ", inode,
                                       " failed without a cause: ", status.ToString()));
}

bool Program::Ended(std::size_t number, const absl::Status& status, bool grows) {
  NameOp& op = shared_.names.at(number);
  const bool by_number =
      op.kind == Kind::kChmod || op.kind == Kind::kGetAttr || op.kind == Kind::kLink;
  const int error = status.ok() ? 0 : ErrnoOf(status);
  op.error = error;
  // (A file that is to be made needs no blocks.)
  if (error == ENOSPC && !(grows && shared_.cluster.StoreFullSince(op.began))) {
    shared_.cluster.Violate(absl::StrCat("names are refused for want of room: ", op.ToString()));
  }
  op.known = status.ok() || IsAnswer(status);
  // What it set goes with the session, if it was not told.
  if (op.kind == Kind::kChmod && data().LostSessionSince(op.host, op.began)) op.known = false;
  if (shared_.names.MayBeUnsynced(op)) op.known = false;
  // An inode that is gone; after a lost session the same errno says nothing.
  if (by_number && error == ESTALE) {
    op.known = op.kind != Kind::kLink && op.in_session &&
               !data().LostSessionSince(machine_.host(), op.began);
  }
  // (Of what has no name any more it is an answer.)
  const bool answers = IsAnswer(status) || (by_number && error == ESTALE);
  CheckError(op.kind == Kind::kChmod ? "chmod" : "an operation on names", op.inode, status,
             answers || IsExplained(status, op.began));
  CheckPause(op.began);
  op.early_number = machine_.session()->last_early_number();
  if (op.known) op.ended = now();
  if (!op.known) ++shared_.errors;
  shared_.cluster.scheduler().Trace(MixHash(number, static_cast<std::uint64_t>(error)));
  Log([&] { return op.ToString(); });
  return op.known;
}

// ---- one operation ----------------------------------------------------------------------------

int Program::AnySlot() {
  const int slot = static_cast<int>(random().Below(NameHistory::kSlots));
  const int at_home = shared_.mix.at_home;
  if (at_home == 0 || !HasHome() || random().OneIn(at_home)) return slot;
  return (machine_.host() - 1) * NameHistory::kNames + slot % NameHistory::kNames;
}

Program::Kind Program::AnyKind() {
  const Mix& mix = shared_.mix;
  const std::pair<int, Kind> parts[] = {
      {mix.lookup, Kind::kLookup}, {mix.create, Kind::kCreate}, {mix.make_dir, Kind::kMakeDir},
      {mix.remove, Kind::kUnlink}, {mix.rename, Kind::kRename}, {mix.link, Kind::kLink},
      {mix.list, Kind::kList},     {mix.chmod, Kind::kChmod},   {mix.get_attr, Kind::kGetAttr},
  };
  int all = 0;
  for (const auto& [part, kind] : parts) all += part;
  auto chosen = static_cast<int>(random().Below(static_cast<std::uint64_t>(all)));
  for (const auto& [part, kind] : parts) {
    if ((chosen -= part) < 0) return kind;
  }
  return Kind::kLookup;
}

void Program::OneOperation() {
  const Mix& mix = shared_.mix;
  if (random().Below(20) < static_cast<std::uint64_t>(mix.use_file)) return OpenAndUse(AnySlot());
  const int slot = AnySlot();
  if (random().OneIn(24)) return UseNameless(slot);
  if (random().OneIn(10)) return UseAttributes(slot);
  if (mix.default_acls && random().OneIn(16)) return UseDefaultAcl(slot / NameHistory::kNames);
  if (random().OneIn(14)) return Play(slot / NameHistory::kNames);
  if (random().OneIn(20)) return SyncDirectory();
  if (random().OneIn(20)) return LookForLocks();
  if (mix.journal > 0 && HasHome() && random().OneIn(mix.journal)) return KeepJournal(slot);
  switch (AnyKind()) {
    case Kind::kLookup:
      Lookup(slot);
      break;
    case Kind::kCreate:
      CreateAndUse(slot);
      break;
    case Kind::kMakeDir:
      random().OneIn(3) ? MakeSymlink(slot) : MakeDirectory(slot);
      break;
    case Kind::kUnlink:
    case Kind::kRemoveDir:
      Remove(slot, random().OneIn(4));
      break;
    case Kind::kRename:
      Rename(slot, AnySlot());
      break;
    case Kind::kLink:
      Link(slot, AnySlot());
      break;
    case Kind::kList:
      List(slot / NameHistory::kNames);
      break;
    case Kind::kChmod:
      Chmod(slot);
      break;
    case Kind::kGetAttr:
      GetAttr(slot);
      break;
    case Kind::kMakeUnnamed:
      break;  // (UseNameless)
  }
}

void Program::Run() {
  while (Continue()) {
    OneOperation();
    shared_.cluster.scheduler().Sleep(
        random().Between(50, random().OneIn(8) ? 400 * kMs : 8 * kMs));
    if (shared_.mix.at_home != 0 && !HasHome()) {
      shared_.cluster.scheduler().Sleep(random().Between(50, 1'000 * kMs));
    }
  }
}

// A host that is cut off the SAN may wait; the others wait for it no longer than it takes to find
// out and to cut it off for good.
void Program::CheckPause(Micros began) {
  const Micros pause = now() - began;
  const Micros longest = shared_.cluster.CutHostIsSlow() ? kLongestPauseOfSlow : kLongestPause;
  if (pause <= longest || machine_.fault_rates().cut_until > began) return;
  shared_.cluster.Violate(absl::StrCat("host ", machine_.host(), " has waited for ", pause / kMs,
                                       " ms for one operation"));
}

void Program::ReadAll() {
  for (int slot = 0; slot < NameHistory::kSlots; ++slot) {
    client::Attributes attr;
    const std::uint64_t inode = Lookup(slot, &attr);
    if (inode == 0 || !S_ISREG(attr.mode)) continue;
    if (!machine_.vfs().Open(inode, O_RDONLY, caller_).ok()) continue;
    Read(inode, {0, DataModel::kMaxFileBytes});
    machine_.vfs().Close(inode);
  }
  for (int directory = 0; directory < NameHistory::kDirectories; ++directory) List(directory);
}

// ---- names ------------------------------------------------------------------------------------

void Program::NoteSize(const client::Attributes& attr, Micros began) {
  if (!S_ISREG(attr.mode)) return;
  data().EndStat(attr.inode, Actor(), began, attr.size_bytes);
}

std::uint64_t Program::Lookup(int slot, client::Attributes* out) {
  const std::size_t number = Begin({.kind = Kind::kLookup, .slot = slot});
  const absl::StatusOr<client::Attributes> attr =
      machine_.kept_names().Lookup(machine_.vfs(), At(slot), caller_);
  if (attr.ok()) {
    NameOp& op = shared_.names.at(number);
    TakeAttr(*attr, op);
    // As on one machine: found first, looked at later, when a name of it may be gone and its mode
    // another. (What getattr says is of one moment.)
    op.nlink = 0;
    op.mode &= S_IFMT;
  }
  if (!Ended(number, attr.status()) || !attr.ok()) return 0;
  NoteSize(*attr, shared_.names.at(number).began);
  if (out != nullptr) *out = *attr;
  return attr->inode;
}

std::uint64_t Program::Create(int slot) {
  const std::uint32_t mode = 0600 + static_cast<std::uint32_t>(random().Below(64));
  const std::size_t number = Begin({.kind = Kind::kCreate, .slot = slot, .mode = S_IFREG | mode});
  NextHandle();
  const absl::StatusOr<v1::Attr> attr =
      machine_.vfs().Create(At(slot), mode, O_CREAT | O_EXCL | O_RDWR, caller_);
  machine_.NameChanged(At(slot), attr.ok());
  if (attr.ok()) {
    shared_.names.at(number).inode = attr->inode();
    data().Made(machine_.host(), attr->inode());
  }
  Ended(number, attr.status(), /*grows=*/true);
  if (!attr.ok()) return 0;
  CheckInherited(slot / NameHistory::kNames, attr->inode(), shared_.names.at(number).began);
  return attr->inode();
}

void Program::CreateAndUse(int slot) {
  const std::uint64_t inode = Create(slot);
  if (inode == 0) return;
  UseFile(inode);
  Close(inode);
}

// As a database does, in a directory where nobody else is: a file for each transaction, written at
// once, mostly synced, and removed.
void Program::KeepJournal(int slot) {
  const std::uint64_t times = random().Between(2, 10);
  for (std::uint64_t i = 0; i < times && Continue(); ++i) {
    if (const std::uint64_t inode = Create(slot); inode != 0) {
      Write(inode, {0, kJournalBytes * random().Between(1, 4)});
      if (!random().OneIn(3)) random().OneIn(4) ? SyncDirectory() : Fsync(inode);
      Close(inode);
    }
    Remove(slot, /*directory=*/false);
  }
}

void Program::MakeDirectory(int slot) {
  const std::uint32_t mode = 0700 + static_cast<std::uint32_t>(random().Below(64));
  const std::size_t number = Begin({.kind = Kind::kMakeDir, .slot = slot, .mode = S_IFDIR | mode});
  const absl::StatusOr<v1::Attr> attr = machine_.vfs().Make(At(slot), S_IFDIR | mode, 0, caller_);
  machine_.NameChanged(At(slot), attr.ok());
  if (attr.ok()) shared_.names.at(number).inode = attr->inode();
  Ended(number, attr.status(), /*grows=*/true);
}

// Of names it is what a file is: something that is no directory.
void Program::MakeSymlink(int slot) {
  const std::size_t number = Begin({.kind = Kind::kCreate, .slot = slot, .mode = S_IFLNK | 0777});
  const std::string target = absl::StrCat("target", number);
  const absl::StatusOr<v1::Attr> attr = machine_.vfs().Symlink(At(slot), target, caller_);
  machine_.NameChanged(At(slot), attr.ok());
  if (attr.ok()) {
    shared_.names.at(number).inode = attr->inode();
    shared_.links[attr->inode()] = target;
  }
  Ended(number, attr.status(), /*grows=*/true);
}

void Program::CheckSymlink(std::uint64_t inode, Micros began) {
  const absl::StatusOr<std::string> target = machine_.vfs().ReadLink(inode, caller_);
  const auto known = shared_.links.find(inode);  // not where its making was not answered
  if (target.ok() && known != shared_.links.end() && *target != known->second) {
    shared_.cluster.Violate(
        absl::StrCat("symbolic link ", inode, " leads to ", *target, ", not ", known->second));
  }
  const bool gone = ErrnoOf(target.status()) == ESTALE || ErrnoOf(target.status()) == ENOENT;
  CheckError("readlink", inode, target.status(), gone || IsExplained(target.status(), began));
}

void Program::Remove(int slot, bool directory) {
  const std::size_t number =
      Begin({.kind = directory ? Kind::kRemoveDir : Kind::kUnlink, .slot = slot});
  const absl::Status status = machine_.vfs().Unlink(At(slot), directory, caller_);
  machine_.NameChanged(At(slot), status.ok());
  machine_.attributes().AnyChanged();
  Ended(number, status);
}

void Program::Rename(int from, int to) {
  constexpr std::uint32_t kFlags[] = {0, 0, 0, RENAME_NOREPLACE, RENAME_EXCHANGE};
  const std::uint32_t flags = kFlags[random().Below(std::size(kFlags))];
  if (from == to) return;
  const std::size_t number =
      Begin({.kind = Kind::kRename, .slot = from, .slot_to = to, .flags = flags});
  const absl::Status status = machine_.vfs().Rename(At(from), At(to), flags, caller_);
  machine_.NameChanged(At(from), status.ok());
  machine_.NameChanged(At(to), status.ok());
  machine_.attributes().AnyChanged();
  Ended(number, status);
}

void Program::Link(int from, int to) {
  client::Attributes attr;
  if (Lookup(from, &attr) == 0 || S_ISDIR(attr.mode)) return;
  const std::size_t number = Begin({.kind = Kind::kLink, .slot_to = to, .inode = attr.inode});
  const absl::Status status = machine_.vfs().Link(attr.inode, At(to), caller_).status();
  machine_.NameChanged(At(to), status.ok());
  machine_.attributes().Changed(attr.inode);
  Ended(number, status, /*grows=*/true);
}

// What is above the directories: whoever lists them behind it walks the tree.
void Program::ListRoot() {
  client::DirHandle handle(kRootInode.value());
  (void)machine_.vfs().GetAttr(handle.inode(), caller_);  // its listing is kept with its attributes
  for (std::uint64_t cookie = 0;;) {
    const auto entry = machine_.vfs().NextEntry(handle, cookie, caller_);
    if (!entry.ok() || *entry == nullptr) return;
    cookie = (*entry)->cookie();
  }
}

void Program::List(int directory) {
  if (machine_.lists_in_pages()) return ListInPages(directory);
  const std::size_t number = Begin({.kind = Kind::kList, .directory = directory});
  if (number % 2 == 0) ListRoot();
  const absl::StatusOr<ListingKeeper::Names> names =
      machine_.kept_listings().List(machine_.vfs(), shared_.directories[directory], caller_);
  for (int slot = 0; names.ok() && slot < NameHistory::kNames; ++slot) {
    for (const auto& [name, inode] : *names) {
      if (name != kNames[slot]) continue;
      shared_.names.at(number).listed.emplace_back(directory * NameHistory::kNames + slot, inode);
    }
  }
  Ended(number, names.status());
}

void Program::Chmod(int slot) {
  client::Attributes attr;
  if (Lookup(slot, &attr) != 0 && !S_ISLNK(attr.mode)) ChmodOf(attr.inode);
}

void Program::ChmodOf(std::uint64_t inode) {
  const std::uint32_t mode = 0600 + static_cast<std::uint32_t>(random().Below(64));
  const std::size_t number = Begin({.kind = Kind::kChmod, .inode = inode, .mode = mode});
  v1::SetAttr set;
  set.set_inode(inode);
  set.set_fields(v1::SetAttr::MODE);
  set.set_mode(mode);
  const absl::Status status = machine_.vfs().SetAttr(set, caller_).status();
  machine_.attributes().Changed(inode);
  if (status.ok()) data().Made(machine_.host(), inode);
  Ended(number, status);
}

// By number, as of an open file; some look again and again.
void Program::GetAttr(int slot) {
  client::Attributes found;
  const Micros began = now();
  if (Lookup(slot, &found) == 0) return;
  if (S_ISLNK(found.mode)) CheckSymlink(found.inode, began);
  const std::uint64_t times = random().OneIn(2) ? 1 : random().Between(2, 6);
  for (std::uint64_t i = 0; i < times && Continue(); ++i) {
    const std::size_t number = Begin({.kind = Kind::kGetAttr, .inode = found.inode});
    const absl::StatusOr<client::Attributes> attr =
        machine_.attributes().Get(machine_.vfs(), found.inode, caller_);
    if (attr.ok()) TakeAttr(*attr, shared_.names.at(number));
    Ended(number, attr.status());
    if (!attr.ok()) return;
    NoteSize(*attr, shared_.names.at(number).began);
    shared_.cluster.scheduler().Sleep(random().Between(10, 3 * kMs));
  }
}

}  // namespace reel::sim
