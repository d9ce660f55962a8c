// Operations on the bytes of files, and locks.
#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "proto/status.h"
#include "tests/sim/workload.h"
#include "volume/base/aligned_buffer.h"

namespace reel::sim {
namespace {

constexpr std::uint64_t kLockUnit = 16;  // ranges of locks are a few of these
std::uint64_t g_last_handle = 0;

}  // namespace

// Small and large ranges, at the edges of pages and blocks and in the middle of them: where all
// meet, at the beginning. Streams alone go beyond.
DataModel::Range Program::AnyRange() {
  constexpr std::uint64_t kPage = 4096;
  constexpr std::uint64_t kMax = 6 * kPage;
  std::uint64_t offset = random().Below(kMax / kCell) * kCell;
  if (random().OneIn(2)) offset = offset / kPage * kPage;
  std::uint64_t length = kCell * random().Between(1, 16);
  if (random().OneIn(2)) length = kPage * random().Between(1, 3);
  return {offset, length};
}

void Program::OpenAndUse(int slot) {
  client::Attributes attr;
  if (Lookup(slot, &attr) == 0 || !S_ISREG(attr.mode)) return;
  const bool to_read = random().OneIn(8);
  NextHandle();
  const Micros began = now();
  const absl::StatusOr<v1::Attr> opened =
      machine_.vfs().Open(attr.inode, to_read ? O_RDONLY : O_RDWR, caller_);
  CheckPause(began);
  CheckOpened(attr.inode, opened.status(), began);
  if (!opened.ok()) return;
  const bool keeps_pages = to_read && machine_.vfs().PagesAreGood(attr.inode);
  if (!keeps_pages) machine_.pages().Drop(attr.inode, 0, DataModel::kMaxFileBytes);
  to_read ? ReadPages(attr.inode) : UseFile(attr.inode);
  Close(attr.inode);
}

// As a small file is read: through the kernel's pages.
void Program::ReadPages(std::uint64_t inode) {
  reads_pages_ = true;
  const std::uint64_t times = random().Between(1, 3);
  for (std::uint64_t i = 0; i < times && Continue(); ++i) {
    (void)Read(inode, AnyRange());
    if (random().OneIn(3)) shared_.cluster.scheduler().Sleep(random().Between(10, 5 * kMs));
  }
  reads_pages_ = false;
}

// It may have been removed since its name was looked up.
void Program::CheckOpened(std::uint64_t inode, const absl::Status& status, Micros began) {
  const int error = ErrnoOf(status);
  const bool gone = error == ENOENT || error == ESTALE;
  CheckError("open", inode, status, gone || IsExplained(status, began));
  Log([&] { return absl::StrCat("open inode ", inode, ": ", status.ToString()); });
}

void Program::NextHandle() {
  handle_ = caller_.handle = ++g_last_handle;
  opened_ = reported_since_ = now();
  reported_ = 0;
}

// close(2): it tells of losses, and with the mount's option it syncs.
void Program::Close(std::uint64_t inode) {
  const Micros began = now();
  machine_.pages().WriteBack(inode, 0, DataModel::kMaxFileBytes);
  const absl::Status status = machine_.vfs().Flush(inode, caller_);
  CheckReported("close", inode, status);
  if (!status.ok() || machine_.flush_on_close()) {
    data().EndFsync(inode, Actor(), began, status.ok(), /*asks=*/false);
  }
  if (status.ok() && machine_.flush_on_close()) Synced(inode, began);
  Log([&] {
    return absl::StrCat("[", began, ", ", now(), "] close inode ", inode, ": ", status.ToString());
  });
  machine_.vfs().Close(inode);
  CheckPause(began);
}

// An open file keeps its inode, as long as the session that opened it is there.
bool Program::IsLostFile(const absl::Status& status, Micros began) {
  return IsExplained(status, ErrnoOf(status) == EIO ? began : opened_);
}

bool Program::MayReportLoss(std::uint64_t inode, const absl::Status& status) {
  // (A page of a lost session that goes back late is one more.)
  const bool pages_late = shared_.maps && data().LastSessionOver(Actor().host) != 0;
  const bool flush_failed = data().FlushFailedSince(Actor().host, 0);  // told to whoever asks first
  // (Bytes and names of one lost session are two losses, and the names may be known of later.)
  const bool second = reported_ == 1 && data().LostSessionSince(Actor().host, opened_);
  return ErrnoOf(status) == EIO && (pages_late || flush_failed || second ||
                                    data().MayReport(inode, Actor().host, reported_since_));
}

// A loss is told to each open file, and once.
void Program::CheckReported(const char* what, std::uint64_t inode, const absl::Status& status) {
  CheckError(what, inode, status, MayReportLoss(inode, status));
  if (status.ok()) return;
  reported_since_ = now();
  ++reported_;
}

// By a process that begins another program: what it is told counts for nothing.
void Program::CloseCopy(std::uint64_t inode) {
  const absl::Status status = machine_.vfs().Flush(inode, caller_);
  CheckError("close of a copy", inode, status, MayReportLoss(inode, status));
}

void Program::UseFile(std::uint64_t inode) {
  const std::uint64_t times = random().Between(1, 5);
  for (std::uint64_t i = 0; i < times && Continue(); ++i) {
    if (random().OneIn(16)) {
      Stream(inode);
      continue;
    }
    if (random().OneIn(10)) {
      Reshape(inode);
      continue;
    }
    const std::uint64_t what = random().Below(35);
    if (what < 11) {
      random().OneIn(4) ? Scan(inode, AnyRange()) : (void)Read(inode, AnyRange());
    } else if (what < 21) {
      random().OneIn(3) ? WriteOn(inode, AnyRange()) : Write(inode, AnyRange());
    } else if (what < 24) {
      Append(inode, kCell * random().Between(1, 40));
    } else if (what < 27) {
      Fsync(inode);
    } else if (what < 28) {
      Truncate(inode, AnyRange().offset_bytes);
    } else if (what < 29) {
      Punch(inode, AnyRange());
    } else if (what < 32) {
      random().OneIn(3) ? LockAtLength(inode) : LockAndHold(inode);
    } else {
      ChmodOf(inode);
    }
    if (random().OneIn(3)) shared_.cluster.scheduler().Sleep(random().Between(10, 5 * kMs));
  }
}

std::uint64_t Program::Read(std::uint64_t inode, DataModel::Range range) {
  AlignedBuffer buffer(RoundUp(range.length_bytes, kIoAlignment));
  const Micros began = now();
  absl::StatusOr<PageCache::ReadResult> result;
  const std::span<std::byte> wanted = buffer.span().first(range.length_bytes);
  if (reads_pages_ || Cached() || ByMap()) {
    result = machine_.pages().Read(machine_.vfs(), inode, range.offset_bytes, wanted, caller_);
    // Page by page: the first of them may have been looked at before the session was lost.
    if (result.ok() && data().LostSessionSince(Actor().host, began)) result->suspect = true;
  } else {
    machine_.pages().WriteBack(inode, range.offset_bytes, range.length_bytes);
    const absl::StatusOr<std::size_t> length =
        machine_.vfs().Read(inode, range.offset_bytes, wanted, 0, false, caller_);
    result =
        length.ok() ? absl::StatusOr<PageCache::ReadResult>({*length, false}) : length.status();
  }
  Log([&] {
    return absl::StrCat("[", began, ", ", now(), "] read inode ", inode, " at ", range.offset_bytes,
                        "+", range.length_bytes, ": ",
                        result.ok() ? absl::StrCat(result->length) : result.status().ToString());
  });
  shared_.cluster.scheduler().Trace(result.ok() ? result->length : 1);
  Done(began);
  CheckError("read", inode, result.status(), IsLostFile(result.status(), began));
  if (!result.ok()) return 0;
  data().EndRead(inode, Actor(), began, range, wanted.first(result->length), result->suspect);
  if (!result->suspect) data().EndLength(inode, Actor(), began, range, result->length);
  return result->length;
}

// Reads that continue each other, which the client reads ahead of.
void Program::Scan(std::uint64_t inode, DataModel::Range range) {
  const std::uint64_t parts = random().Between(3, 8);
  range.length_bytes = std::max(RoundDown(range.length_bytes / parts, kCell), kCell);
  for (std::uint64_t i = 0; i < parts; ++i, range.offset_bytes += range.length_bytes) {
    Read(inode, range);
  }
}

// Small writes that continue each other, which the client sends on together.
void Program::WriteOn(std::uint64_t inode, DataModel::Range range) {
  const std::uint64_t parts = random().Between(3, 8);
  range.length_bytes = std::max(RoundDown(range.length_bytes / parts, kCell), kCell);
  for (std::uint64_t i = 0; i < parts; ++i, range.offset_bytes += range.length_bytes) {
    Write(inode, range);
  }
}

// A write that the kernel makes page by page.
std::uint32_t Program::BeginInPages(std::uint64_t inode, DataModel::Range range) {
  const std::uint32_t number = data().BeginWrite(inode, Actor(), range, false);
  data().GoesThroughPages(number);
  const std::uint64_t last = range.offset_bytes + range.length_bytes - 1;
  if (range.offset_bytes / PageCache::kPageBytes != last / PageCache::kPageBytes) {
    data().GoesInParts(number);
  }
  return number;
}

void Program::Store(std::uint64_t inode, DataModel::Range range) {
  const std::uint32_t number = BeginInPages(inode, range);
  AlignedBuffer buffer(range.length_bytes);
  data().Fill(number, buffer.span());
  const Micros began = now();
  const absl::StatusOr<bool> suspect =
      machine_.pages().Store(machine_.vfs(), inode, range.offset_bytes, buffer.span(), caller_);
  // Into a page of a lost session: it will be lost with that. (What a store has left in pages
  // before it failed may go back at any time.)
  CheckError("store", inode, suspect.status(),
             absl::IsOutOfRange(suspect.status()) || IsRefused(suspect.status(), began) ||
                 IsLostFile(suspect.status(), began));
  if (suspect.ok() && !*suspect) data().EndWrite(number, true, false);
  Done(began);
  Log([&] {
    return absl::StrCat("[", began, ", ", now(), "] store ", number, " to inode ", inode, " at ",
                        range.offset_bytes, "+", range.length_bytes, ": ",
                        suspect.status().ToString());
  });
}

void Program::Write(std::uint64_t inode, DataModel::Range range) {
  if (ByMap()) return Store(inode, range);
  const std::uint32_t number =
      Cached() ? BeginInPages(inode, range) : data().BeginWrite(inode, Actor(), range, false);
  AlignedBuffer buffer(range.length_bytes);
  data().Fill(number, buffer.span());
  const Micros began = now();
  Log([&] {
    return absl::StrCat("begins write ", number, " of inode ", inode, " at ", range.offset_bytes,
                        "+", range.length_bytes);
  });
  absl::Status status;
  if (Cached()) {
    status =
        machine_.pages().Write(machine_.vfs(), inode, range.offset_bytes, buffer.span(), caller_);
  } else {
    const int flags = random().OneIn(8) ? O_DIRECT : 0;
    machine_.pages().Drop(inode, range.offset_bytes, range.length_bytes);
    const auto written = machine_.vfs().Write(inode, range.offset_bytes, buffer.span(), flags,
                                              client::PageCacheWrite::kNone, caller_);
    status = NoteWritten(number, written.status(), written.value_or(0), range.length_bytes, began);
  }
  machine_.attributes().Changed(inode);
  CheckError("write", inode, status, IsRefused(status, began) || IsLostFile(status, began));
  if (status.ok() && !Cached()) data().CheckDoneOnce(number);
  data().EndWrite(number, status.ok(), false);
  shared_.cluster.scheduler().Trace(static_cast<std::uint64_t>(ErrnoOf(status)));
  Done(began);
  Log([&] {
    return absl::StrCat("[", began, ", ", now(), "] write ", number, ": ", status.ToString());
  });
}

// Fewer bytes than asked are as good as all, but only where there is no space for the rest.
absl::Status Program::NoteWritten(std::uint32_t number, const absl::Status& status,
                                  std::uint64_t length_bytes, std::uint64_t asked_bytes,
                                  Micros began) {
  if (!status.ok() || length_bytes == asked_bytes) return status;
  if (length_bytes == 0 || length_bytes > asked_bytes || length_bytes % kCell != 0) {
    return absl::InternalError(absl::StrCat(length_bytes, " of ", asked_bytes, " bytes written"));
  }
  const absl::Status cut = ErrnoStatus(ENOSPC, absl::StrCat(length_bytes, " bytes written"));
  if (!IsRefused(cut, began)) return cut;
  data().CutShort(number, length_bytes);
  return absl::OkStatus();
}

// There is none only while somebody fills the pool, or the store.
bool Program::IsRefused(const absl::Status& status, Micros began) {
  if (ErrnoOf(status) != ENOSPC) return false;
  ++shared_.refused;
  return shared_.cluster.FullSince(began) || shared_.cluster.StoreFullSince(began);
}

void Program::Append(std::uint64_t inode, std::uint64_t length_bytes) {
  if (Cached()) return;  // (the kernel does it there, with the size that it knows)
  const std::uint32_t number = data().BeginAppend(inode, Actor(), length_bytes);
  AlignedBuffer buffer(length_bytes);
  data().Fill(number, buffer.span());
  const Micros began = now();
  client::IoContext io;
  io.credentials = &caller_.credentials;
  io.append = true;
  io.handle = handle_;
  const auto written = machine_.data().Write(inode, 0, buffer.span(), io);
  const client::ByteRange at = written.value_or(client::ByteRange{});
  const absl::Status status =
      NoteWritten(number, written.status(), at.to - at.from, length_bytes, began);
  machine_.attributes().Changed(inode);
  CheckError("append", inode, status, IsRefused(status, began) || IsLostFile(status, began));
  if (status.ok()) data().EndAppend(number, at.from);
  if (status.ok()) data().CheckDoneOnce(number);
  data().EndWrite(number, status.ok(), false);
  Done(began);
  Log([&] {
    return absl::StrCat("[", began, ", ", now(), "] append ", number, " to inode ", inode, ", ",
                        length_bytes, ": ",
                        status.ok() ? absl::StrCat("at ", at.from) : status.ToString());
  });
}

void Program::Fsync(std::uint64_t inode) {
  if (handle_ % 4 == 0) CloseCopy(inode);
  const Micros began = now();
  machine_.pages().WriteBack(inode, 0, DataModel::kMaxFileBytes);
  const absl::Status status = machine_.vfs().Fsync(inode, false, caller_);
  CheckReported("fsync", inode, status);
  data().EndFsync(inode, Actor(), began, status.ok());
  if (status.ok()) Synced(inode, began);
  Done(began);
  Log([&] {
    return absl::StrCat("[", began, ", ", now(), "] fsync inode ", inode, ": ", status.ToString());
  });
}

// `inode`: the file, or 0: a directory. A power failure that waits for this strikes at once.
void Program::Synced(std::uint64_t inode, Micros began) {
  shared_.names.Synced(machine_.host(), inode, began);
  shared_.cluster.moments().Note(Moment::kSynced, machine_.host());
}

// As sync(1) of the mount does: all names, and all that was written.
void Program::SyncDirectory() {
  const int host = machine_.host();
  if (open_directory_ == nullptr || random().OneIn(4)) {
    open_directory_ = std::make_unique<client::DirHandle>(
        shared_.directories[random().Below(NameHistory::kDirectories)], false,
        client::NameCache::Listing{}, machine_.vfs().losses());
    losses_reported_ = shared_.names.losses(host);
  }
  const Micros began = now();
  const std::uint64_t losses = shared_.names.losses(host);
  const absl::Status status = machine_.vfs().SyncDirectory(*open_directory_, caller_);
  const bool lost = data().LostSessionSince(host, 0) || data().FlushFailedSince(host, 0);
  CheckError("fsync of a directory", open_directory_->inode(), status,
             ErrnoOf(status) == EIO ? lost || data().Unaware(host) : IsExplained(status, began));
  if (status.ok() && losses != losses_reported_) {
    shared_.cluster.Violate(absl::StrCat("host ", host, " was told nothing of names that it lost"));
  }
  losses_reported_ = status.ok() ? losses : shared_.names.losses(host);
  if (status.ok()) {
    data().EndSyncAll(host, began, /*mapped=*/shared_.maps && !Cached());
    Synced(0, began);
  }
  Done(began);
  Log([&] {
    return absl::StrCat("[", began, ", ", now(), "] fsync of a directory: ", status.ToString());
  });
}

void Program::Truncate(std::uint64_t inode, std::uint64_t size_bytes) {
  machine_.pages().BeginChange(inode);
  const std::uint64_t length = DataModel::kToEnd - size_bytes;
  const std::uint32_t number = data().BeginWrite(inode, Actor(), {size_bytes, length}, true);
  data().SetsSize(number, size_bytes);
  const Micros began = now();
  v1::SetAttr set;
  set.set_inode(inode);
  set.set_fields(v1::SetAttr::SIZE);
  set.set_size_bytes(size_bytes);
  machine_.pages().HoldBack(inode);
  const absl::Status status = machine_.vfs().SetAttr(set, caller_).status();
  machine_.attributes().Changed(inode);
  machine_.pages().LetGo(inode, status.ok() ? size_bytes : DataModel::kToEnd);
  CheckError("truncate", inode, status, IsLostFile(status, began));
  machine_.pages().EndChange(inode, size_bytes, status.ok() ? length : 0);
  if (status.ok()) machine_.pages().Drop(inode, 0, DataModel::kMaxFileBytes);
  data().EndWrite(number, status.ok(), true);
  Done(began);
  Log([&] {
    return absl::StrCat("[", began, ", ", now(), "] truncate ", number, " of inode ", inode, " to ",
                        size_bytes, ": ", status.ToString());
  });
}

void Program::Punch(std::uint64_t inode, DataModel::Range range) {
  machine_.pages().BeginChange(inode);
  const std::uint32_t number = data().BeginWrite(inode, Actor(), range, true);
  if (Cached() || shared_.maps) data().GoesThroughPages(number);
  const Micros began = now();
  machine_.pages().WriteBack(inode, range.offset_bytes, range.length_bytes);
  const absl::Status status =
      machine_.vfs().Allocate(inode, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, range.offset_bytes,
                              range.length_bytes, caller_);
  machine_.attributes().Changed(inode);
  // (One that cuts an extent in two needs room in the metadata store.)
  const bool full = ErrnoOf(status) == ENOSPC && shared_.cluster.StoreFullSince(began);
  CheckError("punch", inode, status, full || IsLostFile(status, began));
  machine_.pages().EndChange(inode, range.offset_bytes, status.ok() ? range.length_bytes : 0);
  // Parts of blocks are zeroed by writes of the client's, and synced like those.
  data().EndWrite(number, status.ok(), false);
  Done(began);
  Log([&] {
    return absl::StrCat("[", began, ", ", now(), "] punch ", number, " of inode ", inode, " at ",
                        range.offset_bytes, "+", range.length_bytes, ": ", status.ToString());
  });
}

// Each open file is an owner of its own, as with locks of open file descriptions. Some lock again
// and again, as a database does: most of that is decided without the controller.
void Program::LockAndHold(std::uint64_t inode) {
  const std::uint64_t times = random().OneIn(2) ? 1 : random().Between(2, 8);
  for (std::uint64_t i = 0; i < times && LockOnce(inode); ++i) {
  }
}

// False: it was not granted.
bool Program::LockOnce(std::uint64_t inode) {
  const std::uint64_t first = random().Below(4) * kLockUnit;
  client::FileLocks::Lock lock{.inode = inode,
                               .kind = v1::LOCK_RANGES,
                               .owner = handle_,
                               .handle = handle_,
                               .range = {first, first + kLockUnit * random().Between(1, 3) - 1},
                               .type = random().OneIn(3) ? v1::LOCK_SHARED : v1::LOCK_EXCLUSIVE,
                               .pid = 1};
  const Micros began = now();
  const bool wait = random().OneIn(2);
  const absl::Status status = machine_.locks().Set(lock, wait, nullptr);
  CheckLocked(inode, status, wait, /*gives_up=*/false);
  Log([&] {
    return absl::StrCat("[", began, ", ", now(), "] lock of inode ", inode, " by ", handle_, ": ",
                        status.ToString());
  });
  DoneLocking(began);
  if (!status.ok()) {
    machine_.locks().Release(inode, handle_, nullptr);
    return false;
  }
  shared_.cluster.moments().Note(Moment::kLocked, machine_.host());
  LockModel& model = shared_.cluster.locks();
  if (!data().Unaware(machine_.host())) {
    model.Granted({.inode = inode,
                   .host = machine_.host(),
                   .owner = handle_,
                   .first = lock.range.first,
                   .last = lock.range.last,
                   .exclusive = lock.type == v1::LOCK_EXCLUSIVE});
  }
  shared_.cluster.scheduler().Sleep(random().Between(10, 10 * kMs));
  model.GivenUp(inode, machine_.host(), handle_);
  if (random().OneIn(2)) {
    machine_.locks().Release(inode, handle_, nullptr);
  } else {
    lock.type = v1::LOCK_NONE;
    lock.range = {0, client::FileLocks::kToEnd};
    const absl::Status unlocked = machine_.locks().Set(lock, /*wait=*/false, nullptr);
    CheckError("unlock", inode, unlocked, IsLostFile(unlocked, opened_));
  }
  return true;
}

}  // namespace reel::sim
