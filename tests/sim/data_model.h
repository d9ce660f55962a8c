// What reads of files may return: a register for each cell of each file, checked byte for byte.
//
// Every write fills its cells with stamps that name the write and the cell, so that a read knows
// where each byte comes from. A cell may show a write that began before the read ended, unless
// another one that began after it had ended was itself over when the read began; once a read has
// shown a write, it counts as over. What a host wrote and did not sync may be lost with its
// session; what was synced, or what another host has read, may not. With power, and by a flush that
// fails, whatever nobody has synced may be lost, read or not: on a local file system, too, who has
// synced work of its own may find gone what it was made from. (Blocks are flushed before they are
// shown for the first time; of what is overwritten in them nothing is promised before its writer's
// fsync, or each token that changes hands would cost a flush.) What is lost is decided once:
// nothing of a write lands after it has returned and its session is over, so what a read has not
// shown then is never shown (unless power fails, which takes cells back to what was safe before).
// A hole and what lies beyond the end read as zeros: punch and truncate are writes of zeros.
// A size is what some write, append or truncation made it, and no such one that is over makes it
// another; an append goes where the file ends at some moment between its call and its return.
// Threads: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/scheduler.h"

namespace reel::sim {

class DataModel {
 public:
  static constexpr std::uint64_t kCellBytes = 64;
  static constexpr std::uint64_t kMaxFileBytes = 96 << 10;
  static constexpr std::uint64_t kToEnd = kMaxFileBytes;

  struct Actor {
    int host = 0;
    std::uint64_t handle = 0;  // the open file
  };
  struct Range {
    std::uint64_t offset_bytes = 0;
    std::uint64_t length_bytes = 0;
  };

  explicit DataModel(Scheduler& scheduler) : scheduler_(scheduler) {}

  // ---- what the workload does; all ranges are of whole cells
  std::uint32_t BeginWrite(std::uint64_t inode, Actor actor, Range range, bool zeros);
  std::uint32_t BeginAppend(std::uint64_t inode, Actor actor, std::uint64_t length_bytes);
  // The bytes that a write of this number has.
  void Fill(std::uint32_t write, std::span<std::byte> data) const;
  void EndAppend(std::uint32_t write, std::uint64_t offset_bytes);
  // There was no space for more than that, which is less than all of it: the rest never happens.
  void CutShort(std::uint32_t write, std::uint64_t length_bytes);
  // What it makes of the file's size, where that is not what a write of bytes does: grows it, or
  // sets it (a truncation).
  void GrowsTo(std::uint32_t write, std::uint64_t size_bytes);
  void SetsSize(std::uint32_t write, std::uint64_t size_bytes);
  // It goes through pages that this host's programs see at once, and that are dropped where it
  // fails.
  void GoesThroughPages(std::uint32_t write) { writes_[write].in_pages = true; }
  // It reaches the client page by page: the first of it may be lost with a session, and the last
  // be written in the next one.
  void GoesInParts(std::uint32_t write) { writes_[write].in_parts = true; }
  // `durable`: it was an operation of the controller's.
  void EndWrite(std::uint32_t write, bool ok, bool durable);
  // Bytes of a host's have landed on a LUN.
  void Landed(int host, std::span<const std::byte> bytes);
  // A write that goes to the LUNs as one is over, and well: not under a later session than that in
  // which it had begun to land, for others may have seen it and written there since.
  void CheckDoneOnce(std::uint32_t write);
  // `data` is what came back, `range` what was asked for; the rest lies beyond the end. With
  // `suspect` only where the bytes come from is checked.
  void EndRead(std::uint64_t inode, Actor actor, Micros began, Range range,
               std::span<const std::byte> data, bool suspect);
  // A file's size was told: nothing may have to be seen beyond it, and something has made it so.
  void EndStat(std::uint64_t inode, Actor actor, Micros began, std::uint64_t size_bytes);
  // So many bytes of a range came back, which the file then has, and no more if they are fewer.
  void EndLength(std::uint64_t inode, Actor actor, Micros began, Range range, std::uint64_t length);
  void EndFsync(std::uint64_t inode, Actor actor, Micros began, bool ok, bool asks = true);
  // fsync(2) of a directory went well: what its host had written to any file by then is safe. (What
  // its mapped pages hold, where there are such, the kernel has not told.)
  void EndSyncAll(int host, Micros began, bool mapped);
  // A host has made a file, or set attributes of it: until that is synced it may go with the host's
  // session.
  void Made(int host, std::uint64_t inode) { made_.insert({host, inode}); }
  // Whether fsync(2) or close(2) of an open file may tell of a loss: one that came since `since`,
  // when it was opened or last told, or one that nobody was told of.
  bool MayReport(std::uint64_t inode, int host, Micros since) const;

  // ---- what befalls hosts
  // Others may get what it held. Until it has noticed, what it takes for done may be lost, too.
  void SessionOver(int host);
  void SessionNoticed(int host);
  // Its programs never go on.
  void HostCrashed(int host) { crashed_[host] = true; }
  bool Unaware(int host) const { return unaware_.contains(host); }
  Micros LastSessionOver(int host) const {
    const auto last = last_over_.find(host);
    return last == last_over_.end() ? 0 : last->second;
  }
  // Whether it has missed the end of its session at some time since then.
  bool UnawareSince(int host, Micros time) const;
  // Whether it has lost a session since then.
  bool LostSessionSince(int host, Micros time) const {
    const auto last = last_over_.find(host);
    return last != last_over_.end() && last->second >= time;
  }
  void PowerFailed();
  // A flush of a LUN failed on it: what it wrote and did not sync may be lost, and it knows of it.
  void FlushFailed(int host);
  bool FlushFailedSince(int host, Micros time) const {
    const auto last = last_flush_failed_.find(host);
    return last != last_flush_failed_.end() && last->second >= time;
  }

  const std::vector<std::string>& violations() const { return violations_; }
  std::uint64_t cells_checked() const { return cells_checked_; }
  std::vector<std::uint64_t> Files() const;

 private:
  // Of a file, by what is done to it.
  enum class Size : std::uint8_t { kKept, kGrown, kSet };
  struct Write {
    std::uint64_t inode = 0;
    Actor actor;
    Micros began = 0;
    Micros ended = kNever;     // as its caller was told
    Micros returned = kNever;  // also with an error
    Micros lost_since = kNever;
    Micros landed = kNever;  // the first of it, while it was under way
    std::uint64_t first = 0, cells = 0;
    Size size = Size::kKept;
    std::uint64_t size_bytes = 0;  // what it grows to, or is set to
    bool zeros = false;
    bool append = false;
    bool in_pages = false;
    bool in_parts = false;
    bool placed = false;    // `first` is known
    bool lost = false;      // its session ended, and nobody has synced it since
    bool forgiven = false;  // fsync told of the loss
    bool doubted = false;   // … of another open file, which may have lost less
    bool durable = false;
    bool undone = false;  // a read has shown what was there before it
  };
  // Of one write in one cell. It may be over there before its caller knows.
  struct Version {
    std::uint32_t write = 0;
    Micros seen = kNever;
    bool shared = false;   // another host has seen it: it goes with no session
    Micros gone = kNever;  // lost, and since then known not to be there
    // It went into a page that the kernel drops behind a zeroing that is under way: nothing of it
    // is promised but what others have seen.
    bool dropped = false;
  };
  using File = std::vector<std::vector<Version>>;

  // ---- sizes (data_model_sizes.cc)
  struct SizeSeen {
    std::uint64_t bytes = 0;
    bool exactly = true;       // else it is at least that
    std::uint32_t itself = 0;  // the append that found it so
  };
  void NoteSize(std::uint32_t write, Size size, std::uint64_t size_bytes);
  void CheckSize(std::uint64_t inode, Actor actor, Micros began, const SizeSeen& seen);
  void CheckApart(std::uint32_t append);
  bool MayBeCut(const Write& write, std::uint64_t to_bytes, Micros before) const;
  bool WasCut(const Write& write, std::uint64_t to_bytes, Micros before) const;
  std::set<std::uint64_t> SizesFrom(const Write& write) const;
  // Null: too many to tell.
  std::optional<std::set<std::uint64_t>> SizesOf(std::uint64_t inode, Micros began,
                                                 std::uint32_t itself) const;
  // ----

  Micros Over(const Version& version) const;
  // Nothing of it happens later, whatever became of it.
  Micros Last(const Version& version) const;
  bool Shows(const Version& version, std::uint32_t shown) const;
  void Lose(Write& write);
  void DropOverlapping(std::uint32_t write);
  void DropStore(std::uint32_t store, const Write& zeroing);
  void LoseCreated(int host);
  // A read that began then, and may be trusted, has shown one of these: what is lost and not that
  // one is gone.
  void Decide(std::vector<Version>& versions, Actor actor, Micros began, std::uint32_t shown);
  void ForgetSeen();
  void ForgetSeen(std::uint32_t write);  // of this one
  // Also what others have seen, of the writes of a host, or of all.
  static constexpr int kAllHosts = 0;
  void ForgetShared(int host);
  void Place(std::uint32_t write, std::uint64_t first);
  std::uint32_t WriteAt(std::uint64_t inode, std::uint64_t cell, const std::byte* bytes);
  void CheckCell(std::uint64_t inode, Actor actor, Micros began, std::uint64_t cell,
                 std::uint32_t shown, bool suspect);
  void Violate(std::string text) { violations_.push_back(std::move(text)); }
  std::string Describe(std::uint32_t write) const;

  Scheduler& scheduler_;
  std::vector<Write> writes_{1};  // [0]: what every file begins with
  std::map<std::uint64_t, File> files_;
  std::map<std::uint64_t, std::vector<std::uint32_t>> sizes_;  // what changes them, by inode
  std::map<int, bool> unaware_;
  std::map<int, Micros> last_flush_failed_;
  std::map<int, bool> crashed_;
  // Of lost sessions, of which no program was told: changes of names, and writes of files.
  std::set<int> unsynced_names_;
  std::set<std::pair<int, std::uint64_t>> unsynced_;  // host, inode
  std::set<std::pair<int, std::uint64_t>> made_;      // as those
  std::map<int, Micros> last_over_, last_noticed_;
  std::vector<std::string> violations_;
  std::uint64_t cells_checked_ = 0;
};

}  // namespace reel::sim
