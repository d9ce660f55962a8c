// Which files programs will open next, because they go through a directory: the policy.
//
// grep, git, rsync, a compiler or an indexer open many files of a directory soon after each other,
// mostly in the order in which they were made, and so are listed. Where the controller had to be
// asked for kColdOpens of them, those that are listed behind the last one are worth fetching, and
// more of them when a quarter of these has been opened. A *walk* goes on in the next directory with
// its first file. Invariants:
//   1. Of a directory one fetch is under way at a time, of at most kMostFiles.
//   2. Where nobody opens what was fetched, or nothing came, it takes four times as many cold opens
//      each time until more of that directory is.
//   3. Nothing is kept of more than kMaxDirectories, nor of one in which nobody has opened anything
//      for kPauseMs.
// Threads: externally synchronised; `now_ms` never goes back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_set.h"

namespace reel::client {

class DirectoryOpens {
 public:
  static constexpr std::size_t kMaxDirectories = 64;
  static constexpr std::uint32_t kColdOpens = 3;
  static constexpr std::uint32_t kMostColdOpens = 192;
  static constexpr std::uint32_t kFirstFiles = 16;
  static constexpr std::uint32_t kMostFiles = 128;
  static constexpr std::uint64_t kPauseMs = 3'000;
  static constexpr std::uint64_t kWalkMs = 1'000;  // since what was fetched was of use

  // So many files of the directory are wanted, from behind that name on.
  struct Fetch {
    std::uint64_t directory = 0;
    std::string behind;
    std::uint32_t files = 0;
    bool bytes = false;  // whoever opens them reads them, too
  };
  struct Opened {
    std::uint64_t directory = 0;
    std::string_view name;
    std::uint64_t inode = 0;
    bool cold = false;  // the controller has to be asked
    std::uint64_t now_ms = 0;
  };
  // What has come: inodes that can be opened now, and the last name of that part of the directory,
  // which may be its end.
  struct Fetched {
    std::vector<std::uint64_t> inodes{};
    std::string last{};
    bool end = true;
  };

  // A file is being opened to be read.
  std::optional<Fetch> Open(const Opened& opened);
  // Directories in which nobody has opened anything for long are forgotten.
  void Forget(std::uint64_t now_ms);
  // However a fetch ended, this follows it.
  void Answer(std::uint64_t directory, const Fetched& fetched);
  // A file that was opened so is closed; whether anything was read of it.
  void Close(std::uint64_t directory, bool read);
  bool Knows(std::uint64_t directory) const;
  bool knows_any() const { return !directories_.empty(); }
  // Whether some of what was fetched may be opened yet.
  bool waits() const;

 private:
  struct Directory {
    std::uint64_t inode = 0;
    absl::flat_hash_set<std::uint64_t> waiting;  // fetched, and not opened
    std::size_t fetched = 0;                     // as many were fetched at once
    std::string last;
    bool end = true;
    bool asking = false;
    bool asked = false;  // for some of it, ever
    bool used = false;   // some of what was fetched has been opened, since OpenCold last looked
    bool reads = false;
    std::uint32_t cold = 0;
    std::uint32_t needed = kColdOpens;
    std::uint32_t files = kFirstFiles;
    std::uint64_t opened_ms = 0;
  };
  Directory& Find(std::uint64_t inode, std::uint64_t now_ms);
  std::optional<Fetch> OpenFetched(Directory& directory, std::uint64_t now_ms);
  std::optional<Fetch> OpenCold(Directory& directory, const Opened& opened);
  static Fetch Ask(Directory& directory, std::string behind);
  static void BeOfNoUse(Directory& directory);

  std::list<Directory> directories_;        // the last used is in front
  std::optional<std::uint64_t> walked_ms_;  // when what was fetched was of use
};

}  // namespace reel::client
