// What a full metadata store is filled by: each kind of change that may make it larger, for
// full_store_test.cc. Threads: any.
#pragma once

#include <linux/falloc.h>
#include <sys/stat.h>

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "mdc/ops/acl.h"
#include "mdc/testing/core_harness.h"

namespace reel::mdc {

inline constexpr int kNames = 5'000;
inline constexpr std::uint64_t kFileBlocks = 1 << 18;  // of each of the large files
inline constexpr int kRangesEach = 500;

inline std::string Noise(std::uint64_t seed, std::size_t bytes) {
  std::mt19937_64 random(seed);
  std::string noise(bytes, '\0');
  for (char& c : noise) c = static_cast<char>('a' + random() % 26);
  return noise;
}
inline std::string BinaryNoise(std::uint64_t seed, std::size_t bytes) {
  std::mt19937_64 random(seed);
  std::string noise(bytes, '\0');
  for (char& c : noise) c = static_cast<char>(random());
  return noise;
}

// What the files of a volume are that is about to be filled.
struct Files {
  std::vector<std::uint64_t> names;  // "n0", "n1", …: small ones
  std::vector<std::uint64_t> waste;  // "w0", …: whose removal makes room
  std::uint64_t unwritten = 0;       // one extent a region, of fallocate
  std::uint64_t written = 0;
  std::uint64_t sparse = 0;
};

// ---- the kinds of changes -----------------------------------------------------------------------

enum class End {
  kRefused,  // ENOSPC while commits are still taken
  kLast,     // ENOSPC when those wait too
  kHeld,     // waits, and goes on when there is room
  kNever,    // takes a bounded part of the store
};

struct Change {
  std::string name;
  End end;
  std::function<v1::Request(const Files&, int)> request;
};

inline v1::Request Symlink(const Files&, int i) {
  v1::Request request = Client::CreateOf(absl::StrCat("s", i));
  request.mutable_create()->set_mode(S_IFLNK | 0777);
  request.mutable_create()->set_symlink(Noise(static_cast<std::uint64_t>(i), 400));
  return request;
}

inline v1::Request Link(const Files& files, int i) {
  v1::Request request;
  request.mutable_link()->set_inode(files.names[0]);
  request.mutable_link()->set_parent(1);
  request.mutable_link()->set_name(Noise(static_cast<std::uint64_t>(i), 200));
  return request;
}

inline v1::Request LongerName(const Files&, int i) {
  v1::Request request;
  request.mutable_rename()->set_parent(1);
  request.mutable_rename()->set_name(absl::StrCat("n", i));
  request.mutable_rename()->set_new_parent(1);
  request.mutable_rename()->set_new_name(Noise(static_cast<std::uint64_t>(i), 255));
  return request;
}

inline v1::Request SetXattr(std::uint64_t inode, std::string_view name, std::string value) {
  v1::Request request;
  request.mutable_set_xattr()->set_inode(inode);
  request.mutable_set_xattr()->set_name(std::string(name));
  request.mutable_set_xattr()->set_value(std::move(value));
  return request;
}

// As the kernel hands it on: the owner, named users, group, mask and others.
inline v1::Request Acl(const Files& files, int i) {
  std::string acl("\2\0\0\0", 4);
  const auto add = [&](std::uint16_t tag, std::uint32_t id) {
    const std::uint16_t rights = 4;
    acl.append(reinterpret_cast<const char*>(&tag), 2);
    acl.append(reinterpret_cast<const char*>(&rights), 2);
    acl.append(reinterpret_cast<const char*>(&id), 4);
  };
  add(1, ~0u);
  for (std::uint32_t user = 0; user < 60; ++user) {
    add(2, 1'000'000 * (user + 1) + static_cast<std::uint32_t>(i) * 17);
  }
  add(4, ~0u);
  add(16, ~0u);
  add(32, ~0u);
  return SetXattr(files.names[static_cast<std::size_t>(i)], kAccessAcl, acl);
}

inline v1::Request Xattr(const Files& files, int i) {
  return SetXattr(files.names[static_cast<std::size_t>(i)], "user.noise",
                  BinaryNoise(static_cast<std::uint64_t>(i), 500));
}

// Every other block: nothing of it merges.
inline std::uint64_t Sparse(int i) {
  return static_cast<std::uint64_t>(i) * 2 * kBlock;
}

inline v1::Request Grant(const Files& files, int i) {
  return Client::LayoutOf(files.sparse, v1::TOKEN_EXCLUSIVE, /*allocate=*/true, Sparse(i), kBlock);
}

inline v1::Request Fallocate(std::uint64_t inode, int mode, std::uint64_t offset,
                             std::uint64_t length) {
  v1::Request request;
  request.mutable_allocate()->set_inode(inode);
  request.mutable_allocate()->set_mode(static_cast<std::uint32_t>(mode));
  request.mutable_allocate()->set_offset_bytes(offset);
  request.mutable_allocate()->set_length_bytes(length);
  return request;
}

inline v1::Request Allocation(const Files& files, int i) {
  return Fallocate(files.sparse, 0, Sparse(i), kBlock);
}

inline v1::Request Hole(const Files& files, int i) {
  return Fallocate(files.written, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, Sparse(i), kBlock);
}

inline v1::Request Zeros(const Files& files, int i) {
  return Fallocate(files.written, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, Sparse(i), kBlock);
}

inline v1::Request SplittingCommit(const Files& files, int i) {
  v1::Request request;
  v1::LayoutCommit& commit = *request.mutable_layout_commit();
  commit.set_inode(files.unwritten);
  for (int j = 0; j < kRangesEach; ++j) {
    v1::BlockRange& range = *commit.add_written();
    range.set_file_block(static_cast<std::uint64_t>(i * kRangesEach + j) * 2 % kFileBlocks);
    range.set_length_blocks(1);
  }
  return request;
}

inline v1::Request Truncation(const Files& files, int i) {
  v1::Request request;
  request.mutable_set_attr()->set_inode(files.written);
  request.mutable_set_attr()->set_fields(v1::SetAttr::SIZE);
  request.mutable_set_attr()->set_size_bytes((kFileBlocks - static_cast<std::uint64_t>(i)) *
                                             kBlock);
  return request;
}

inline v1::Request Owner(const Files& files, int i) {
  v1::Request request;
  v1::SetAttr& set = *request.mutable_set_attr();
  set.set_inode(files.names[static_cast<std::size_t>(i % kNames)]);
  set.set_fields(v1::SetAttr::UID | v1::SetAttr::GID | v1::SetAttr::MTIME);
  set.set_uid(0x7fff'0000 + static_cast<std::uint32_t>(i));
  set.set_gid(0x7fff'0000 - static_cast<std::uint32_t>(i));
  set.mutable_mtime()->set_seconds(1'700'000'000 + i);
  set.mutable_mtime()->set_nanoseconds(static_cast<std::uint32_t>(i) * 77'777 % 999'999'999);
  return request;
}

inline const std::vector<Change>& Changes() {
  static const std::vector<Change> changes = {
      {"create", End::kRefused,
       [](const Files&, int i) { return Client::CreateOf(absl::StrCat("c", i, Noise(i, 200))); }},
      {"symlink", End::kRefused, Symlink},
      {"link", End::kRefused, Link},
      {"xattr", End::kRefused, Xattr},
      {"ACL", End::kRefused, Acl},
      {"grant", End::kRefused, Grant},
      {"fallocate", End::kRefused, Allocation},
      {"zero range", End::kRefused, Zeros},
      {"longer name", End::kLast, LongerName},
      {"punched hole", End::kLast, Hole},
      {"splitting commit", End::kHeld, SplittingCommit},
      {"truncation", End::kNever, Truncation},
      {"owner", End::kNever, Owner},
      {"session", End::kNever, nullptr},
  };
  return changes;
}

}  // namespace reel::mdc
