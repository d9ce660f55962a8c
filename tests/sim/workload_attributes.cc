// Extended attributes, ACLs and times: each is a register of its inode, judged as a cell of a
// file's bytes is. What is set is unique: it names the write that set it.
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/status.h"
#include "tests/sim/workload.h"

namespace reel::sim {
namespace {

constexpr char kUserName[] = "user.sim";
constexpr char kAclName[] = "system.posix_acl_access";
constexpr char kDefaultAclName[] = "system.posix_acl_default";
// Users that a default ACL names are none that an ACL names which was set.
constexpr std::uint32_t kInherited = 1u << 30;
constexpr std::int64_t kFirstSecond = 4'000'000'000;  // of the times that are set

// As setxattr(2) has them.
struct AclEntry {
  std::uint16_t tag, permissions;
  std::uint32_t id;
};
constexpr std::uint32_t kAclVersion = 2;
constexpr std::uint32_t kNoId = ~0U;
constexpr std::uint16_t kOwner = 1, kUser = 2, kGroup = 4, kMask = 0x10, kOthers = 0x20;

std::string AclFor(std::uint32_t user, std::uint32_t mode) {
  const auto bits = [mode](int shift) { return static_cast<std::uint16_t>((mode >> shift) & 7); };
  const std::array<AclEntry, 5> entries{{{kOwner, bits(6), kNoId},
                                         {kUser, 4, user},
                                         {kGroup, 4, kNoId},
                                         {kMask, bits(3), kNoId},
                                         {kOthers, bits(0), kNoId}}};
  std::string acl(sizeof(kAclVersion) + sizeof(entries), '\0');
  std::memcpy(acl.data(), &kAclVersion, sizeof(kAclVersion));
  std::memcpy(acl.data() + sizeof(kAclVersion), entries.data(), sizeof(entries));
  return acl;
}

// 0: it names none.
std::uint32_t UserOf(const std::string& acl) {
  AclEntry entry;
  for (std::size_t at = sizeof(kAclVersion); at + sizeof(entry) <= acl.size();
       at += sizeof(entry)) {
    std::memcpy(&entry, acl.data() + at, sizeof(entry));
    if (entry.tag == kUser) return entry.id;
  }
  return 0;
}

}  // namespace

void Program::UseAttributes(int slot) {
  client::Attributes attr;
  const std::uint64_t inode = Lookup(slot, &attr);
  if (inode == 0 || S_ISLNK(attr.mode)) return;
  // (Of what nobody has open a name's end is the end of its extended attributes.)
  const bool directory = S_ISDIR(attr.mode);
  client::NameCache::Listing listing;
  if (directory) {
    listing = machine_.vfs().OpenDirectory(inode);
  } else {
    NextHandle();
    const Micros began = now();
    const absl::Status opened = machine_.vfs().Open(inode, O_RDONLY, caller_).status();
    CheckOpened(inode, opened, began);
    if (!opened.ok()) return;
  }
  const std::uint64_t times = random().Between(1, 4);
  for (std::uint64_t i = 0; i < times && Continue(); ++i) {
    // Who writes a file changes its time; in these directories nobody makes anything.
    const auto which = static_cast<Register>(random().Between(1, directory ? 3 : 2));
    const Micros began = now();
    random().OneIn(2) ? SetRegister(inode, which, directory)
                      : ReadRegister(inode, which, directory);
    Done(began);
    shared_.cluster.scheduler().Sleep(random().Between(10, 3 * kMs));
  }
  if (directory) {
    machine_.vfs().CloseDirectory(inode, listing);
  } else {
    machine_.vfs().Close(inode);
  }
}

// A directory may be removed while it is being opened.
void Program::CheckRegister(std::uint64_t inode, const absl::Status& status, bool directory,
                            Micros began) {
  const bool gone = directory && (ErrnoOf(status) == ESTALE || ErrnoOf(status) == ENOENT);
  const bool full = ErrnoOf(status) == ENOSPC && shared_.cluster.StoreFullSince(began);
  CheckError("use of attributes", inode, status, gone || full || IsLostFile(status, began));
}

void Program::SetRegister(std::uint64_t inode, Register which, bool directory) {
  const bool removes = which == Register::kUser && random().OneIn(3);
  const std::uint32_t number =
      data().BeginWrite(RegisterOf(inode, which), Actor(), {0, kCell}, removes);
  const Micros began = now();
  absl::Status status;
  if (removes) {
    status = machine_.vfs().RemoveXattr(inode, kUserName, caller_);
    if (ErrnoOf(status) == ENODATA) status = absl::OkStatus();
  } else if (which == Register::kTime) {
    v1::SetAttr set;
    set.set_inode(inode);
    set.set_fields(v1::SetAttr::MTIME);
    set.mutable_mtime()->set_seconds(kFirstSecond + number);
    status = machine_.vfs().SetAttr(set, caller_).status();
  } else {
    status = SetXattr(inode, which, number);
  }
  machine_.attributes().Changed(inode);
  CheckRegister(inode, status, directory, began);
  data().EndWrite(number, status.ok(), /*durable=*/false);
  Log([&] {
    return absl::StrCat("[", began, ", ", now(), "] sets register ", static_cast<int>(which),
                        " of inode ", inode, " to ", removes ? 0 : number, ": ", status.ToString());
  });
}

absl::Status Program::SetXattr(std::uint64_t inode, Register which, std::uint32_t number) {
  v1::SetXattr set;
  set.set_inode(inode);
  if (which == Register::kUser) {
    std::string value(kCell, '\0');
    data().Fill(number, std::as_writable_bytes(std::span(value)));
    set.set_name(kUserName);
    set.set_value(value);
    return machine_.vfs().SetXattr(std::move(set), caller_);
  }
  // It is a chmod(2), too.
  const std::uint32_t mode = 0600 + static_cast<std::uint32_t>(random().Below(64));
  set.set_name(kAclName);
  set.set_value(AclFor(number, mode));
  const std::size_t change = Begin({.kind = Kind::kChmod, .inode = inode, .mode = mode});
  absl::Status status = machine_.vfs().SetXattr(std::move(set), caller_);
  machine_.attributes().Changed(inode);
  Ended(change, status, /*grows=*/true);
  return status;
}

void Program::ReadRegister(std::uint64_t inode, Register which, bool directory) {
  std::array<std::byte, kCell> cell{};
  const Micros began = now();
  std::uint32_t number = 0;
  absl::Status status;
  if (which == Register::kTime) {
    const absl::StatusOr<client::Attributes> attr =
        machine_.attributes().Get(machine_.vfs(), inode, caller_);
    status = attr.status();
    if (attr.ok() && attr->mtime.seconds > kFirstSecond) {
      number = static_cast<std::uint32_t>(attr->mtime.seconds - kFirstSecond);
    }
  } else {
    const absl::StatusOr<std::string> value =
        machine_.vfs().GetXattr(inode, which == Register::kUser ? kUserName : kAclName, caller_);
    status = value.status();
    if (value.ok() && which == Register::kAcl) number = UserOf(*value);
    if ((number & kInherited) != 0) number = 0;  // nobody has set one since the file was made
    if (value.ok() && which == Register::kUser) {
      std::memcpy(cell.data(), value->data(), std::min(value->size(), cell.size()));
    }
    if (ErrnoOf(status) == ENODATA) {
      // (Of a directory that was removed here its client keeps those alone that were set since.)
      const absl::StatusOr<client::Attributes> attr = machine_.vfs().GetAttr(inode, caller_);
      if (attr.ok() && S_ISDIR(attr->mode) && attr->nlink == 0) return;
      status = absl::OkStatus();
    }
  }
  if (number != 0) data().Fill(number, cell);
  Log([&] {
    return absl::StrCat("[", began, ", ", now(), "] reads register ", static_cast<int>(which),
                        " of inode ", inode, ": ", number, " ", status.ToString());
  });
  CheckRegister(inode, status, directory, began);
  if (!status.ok()) return;
  data().EndRead(RegisterOf(inode, which), Actor(), began, {0, kCell}, cell, /*suspect=*/false);
  ++shared_.attributes_read;
}

// ---- default ACLs -----------------------------------------------------------------------------

void Program::UseDefaultAcl(int directory) {
  constexpr std::uint32_t kAllBits = 0777;  // so that it takes nothing from a mode
  const std::uint64_t inode = shared_.directories[directory];
  const bool removes = random().OneIn(2);
  const std::uint32_t number =
      data().BeginWrite(RegisterOf(inode, Register::kDefaultAcl), Actor(), {0, kCell}, removes);
  const Micros began = now();
  absl::Status status;
  if (removes) {
    status = machine_.vfs().RemoveXattr(inode, kDefaultAclName, caller_);
    if (ErrnoOf(status) == ENODATA) status = absl::OkStatus();
  } else {
    v1::SetXattr set;
    set.set_inode(inode);
    set.set_name(kDefaultAclName);
    set.set_value(AclFor(kInherited | number, kAllBits));
    status = machine_.vfs().SetXattr(std::move(set), caller_);
  }
  machine_.attributes().Changed(inode);
  CheckRegister(inode, status, /*directory=*/false, began);
  data().EndWrite(number, status.ok(), /*durable=*/false);
  Done(began);
  Log([&] {
    return absl::StrCat("[", began, ", ", now(), "] sets the default ACL of directory ", directory,
                        " to ", removes ? 0 : number, ": ", status.ToString());
  });
}

// Of a file that was made there since `began`, and is open.
void Program::CheckInherited(int directory, std::uint64_t inode, Micros began) {
  if (!shared_.mix.default_acls || !random().OneIn(2)) return;
  const absl::StatusOr<std::string> acl = machine_.vfs().GetXattr(inode, kAclName, caller_);
  if (!acl.ok() && ErrnoOf(acl.status()) != ENODATA) return;
  const std::uint32_t user = acl.ok() ? UserOf(*acl) : 0;
  if (user != 0 && (user & kInherited) == 0) return;  // somebody has set another one
  const std::uint32_t number = user & ~kInherited;
  std::array<std::byte, kCell> cell{};
  if (number != 0) data().Fill(number, cell);
  Log([&] {
    return absl::StrCat("[", began, ", ", now(), "] inode ", inode, " has the default ACL ", number,
                        " of directory ", directory);
  });
  data().EndRead(RegisterOf(shared_.directories[directory], Register::kDefaultAcl), Actor(), began,
                 {0, kCell}, cell, /*suspect=*/false);
}

}  // namespace reel::sim
