// The vocabulary of tests of operations: a small volume in memory, and operations run on it as the
// core runs them, one at a time, each durable before the next.
#pragma once

#include <sys/stat.h>

#include <cerrno>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "mdc/metadb/rocks_memory.h"
#include "mdc/ops/operation.h"
#include "mdc/space/allocator.h"
#include "mdc/tables/lock_table.h"
#include "mdc/tables/lock_tokens.h"
#include "mdc/tables/token_table.h"
#include "proto/status.h"
#include "volume/format/descriptor.h"

namespace reel::mdc {

inline constexpr SessionId kMe{1}, kOther{2};
inline constexpr std::uint64_t kRoot = 1;

class OpFixture : public testing::Test {
 protected:
  // The data pool has so many stripes of 16 blocks of 4 KiB.
  explicit OpFixture(std::uint64_t data_stripes = 4096);

  // As after a crash: what is only in memory is gone.
  void Restart();

  // Runs `body` in a context of its own, and commits it when it returns OK.
  absl::Status InContext(SessionId session, absl::FunctionRef<absl::Status(OpContext&)> body);
  // Runs the operation, all its steps; its reply is in reply_. Returns the errno.
  int Do(Operation operation, const v1::Request& request, SessionId session = kMe);
  // Runs the steps of every orphan that nobody uses; returns how many steps it took.
  int Reap();

  // By their system calls' names; they return an errno.
  int Create(std::uint64_t parent, const std::string& name, std::uint32_t mode,
             std::uint64_t* made = nullptr, const std::string& target = {});
  int Lookup(std::uint64_t parent, const std::string& name, SessionId session = kMe);
  int Link(std::uint64_t inode, std::uint64_t parent, const std::string& name);
  int Unlink(std::uint64_t parent, const std::string& name);
  int Rmdir(std::uint64_t parent, const std::string& name);
  int Rename(std::uint64_t parent, const std::string& name, std::uint64_t new_parent,
             const std::string& new_name, std::uint32_t flags = 0);
  int GetAttr(std::uint64_t inode, SessionId session = kMe);
  int SetAttr(const v1::SetAttr& set);
  int Truncate(std::uint64_t inode, std::uint64_t size_bytes);
  int SetFlags(std::uint64_t inode, std::uint32_t flags);
  int SetXattr(std::uint64_t inode, const std::string& name, const std::string& value,
               std::uint32_t flags = 0);
  int GetXattr(std::uint64_t inode, const std::string& name);

  // These expect success.
  std::uint64_t MakeFile(std::uint64_t parent, const std::string& name);
  std::uint64_t MakeDir(std::uint64_t parent, const std::string& name);
  v1::Attr Attributes(std::uint64_t inode);
  // The whole directory, in pages of `limit_bytes`.
  std::vector<v1::ReadDirReply::Entry> List(std::uint64_t inode, std::uint32_t limit_bytes = 4096,
                                            bool attributes = false);
  // Gives the empty file `count` extents of one block each, a hole after each of them.
  void Scatter(std::uint64_t inode, std::uint64_t count, bool written = true);
  std::size_t ExtentCount(std::uint64_t inode);
  // Walks the whole store as fsck does, and compares the free space in memory with it.
  void ExpectSound();

  const VolumeDescriptor volume_;
  MemoryStore store_;
  InFlight in_flight_;
  std::unique_ptr<InodeNumbers> numbers_;
  std::unique_ptr<Allocator> allocator_;
  TokenTable tokens_;
  TokenTable attr_tokens_;
  OpenTable opens_;
  LockTable locks_;
  LockTokens lock_tokens_;
  v1::Credentials credentials_;
  WallTime now_{1'000'000, 0};
  v1::Reply reply_;
  std::optional<InodeNumber> blocked_;  // of the last operation
  std::string error_;                   // its message
  std::vector<InodeNumber> soon_wanted_;
  std::size_t last_batch_changes_ = 0;  // of the last commit
  std::set<InodeNumber> orphans_;
  std::uint64_t directory_moves_ = 0;
  int steps_ = 0;                        // of the last operation
  int dies_after_ = 0;                   // … of which only so many are done; 0: all
  std::size_t most_changes_ = 0;         // in a commit of one of them, or of Reap's
  std::uint64_t most_reads_ = 0;         // by one of them
  std::function<void()> between_steps_;  // what others do meanwhile

 private:
  v1::VolumeRecord ReadVolumeRecord();
};

}  // namespace reel::mdc
