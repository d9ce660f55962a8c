// What programs do on the machines of a history: names come and go, a few files are written and
// read by many, locks are taken. Every operation goes to the models with its time and its answer.
//
// A program is a fiber on its machine; its operations come from the history's chance alone.
// Threads: fibers.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "client/vfs/vfs.h"
#include "proto/byte_locks.h"
#include "tests/sim/cluster.h"
#include "tests/sim/name_history.h"

namespace reel::sim {

// Ranges of files are made of those.
inline constexpr std::uint64_t kCell = DataModel::kCellBytes;

// How often what is done, in parts.
struct Mix {
  int lookup = 4, create = 3, make_dir = 1, remove = 3, rename = 2, link = 1, list = 1, chmod = 1,
      get_attr = 1, use_file = 6;
  // Each of the first hosts works in a directory of its own, but for one operation in so many, and
  // the others seldom do anything. 0: they do not.
  int at_home = 0;
  int journal = 0;            // of those, one operation in so many; 0: none
  bool default_acls = false;  // of the directories, for a while
};

struct Shared {
  Cluster& cluster;
  NameHistory& names;
  std::uint64_t directories[NameHistory::kDirectories] = {};
  std::map<std::uint64_t, std::string> links{};  // symbolic links, and what they lead to
  Mix mix{};
  bool page_cache = false;   // machines with an even number read and write through it
  bool maps = false;         // the others map files
  std::int64_t left = 0;     // operations that are still to be begun
  std::uint64_t errors = 0;  // operations that a lost session ended
  std::uint64_t done = 0;
  std::uint64_t attributes_read = 0;
  std::uint64_t refused = 0;  // for want of space
};

class Program {
 public:
  Program(Shared& shared, Machine& machine) : shared_(shared), machine_(machine) {}

  // Until no operations are left.
  void Run();
  // Reads what every name in the directories leads to.
  void ReadAll();

 private:
  using Kind = NameOp::Kind;
  Random& random() { return shared_.cluster.random(); }
  Micros now() { return shared_.cluster.scheduler().now(); }
  DataModel& data() { return shared_.cluster.data(); }
  template <typename Text>
  void Log(Text text) {
    shared_.cluster.Log([&] {
      return "host " + std::to_string(machine_.host()) + "." + std::to_string(id_) + " " + text();
    });
  }
  void CheckPause(Micros began);
  // A call on a file that began then is over.
  void Done(Micros began) {
    ++shared_.done;
    CheckPause(began);
  }
  // As Done, of a wait for a lock. A lock is its program's, which may itself be waiting for the
  // SAN.
  void DoneLocking(Micros began);
  // Whether it ended for want of room, and there was none: of an operation that may need some.
  bool IsRefused(const absl::Status& status, Micros began);
  absl::Status NoteWritten(std::uint32_t number, const absl::Status& status,
                           std::uint64_t length_bytes, std::uint64_t asked_bytes, Micros began);
  // Whether an error that is no answer has a cause that this history knows of; `since`: when the
  // operation began, or what it builds on.
  bool IsExplained(const absl::Status& status, Micros since);
  void CheckError(const char* what, std::uint64_t inode, const absl::Status& status,
                  bool explained);
  bool Continue() { return shared_.left-- > 0; }

  int AnySlot();
  bool HasHome() const { return machine_.host() <= NameHistory::kDirectories; }
  client::NameIn At(int slot) const;
  Kind AnyKind();
  void NoteSize(const client::Attributes& attr, Micros began);
  // Begins an operation on names.
  std::size_t Begin(NameOp op);
  // Whether the answer says anything: after a lost session it does not.
  // `grows`: the metadata store, which a full one refuses.
  bool Ended(std::size_t number, const absl::Status& status, bool grows = false);

  void OneOperation();
  std::uint64_t Lookup(int slot, client::Attributes* attr = nullptr);
  // 0: none was made.
  std::uint64_t Create(int slot);
  void CreateAndUse(int slot);
  void KeepJournal(int slot);
  void MakeDirectory(int slot);
  void MakeSymlink(int slot);
  void CheckSymlink(std::uint64_t inode, Micros began);
  void Remove(int slot, bool directory);
  void Rename(int from, int to);
  void Link(int from, int to);
  void ListRoot();
  void List(int directory);
  // workload_listings.cc
  void ListInPages(int directory);
  bool MayHaveChanged(int slot, Micros since);
  void Chmod(int slot);
  void ChmodOf(std::uint64_t inode);
  void GetAttr(int slot);

  void OpenAndUse(int slot);
  // The number of the open file that comes next.
  void NextHandle();
  void UseFile(std::uint64_t inode);
  void ReadPages(std::uint64_t inode);
  void Close(std::uint64_t inode);
  void CheckOpened(std::uint64_t inode, const absl::Status& status, Micros began);
  bool IsLostFile(const absl::Status& status, Micros began);
  bool MayReportLoss(std::uint64_t inode, const absl::Status& status);
  void CloseCopy(std::uint64_t inode);
  void CheckReported(const char* what, std::uint64_t inode, const absl::Status& status);
  DataModel::Range AnyRange();
  DataModel::Actor Actor() const { return {machine_.host(), handle_}; }
  void Scan(std::uint64_t inode, DataModel::Range range);
  // How many bytes there were.
  std::uint64_t Read(std::uint64_t inode, DataModel::Range range);
  void Write(std::uint64_t inode, DataModel::Range range);
  void WriteOn(std::uint64_t inode, DataModel::Range range);
  void Append(std::uint64_t inode, std::uint64_t length_bytes);
  // From one end to the other (workload_streams.cc).
  void Stream(std::uint64_t inode);
  void StreamOut(std::uint64_t inode);
  void StreamIn(std::uint64_t inode, bool follows);
  void PauseInStream();
  // The files of a directory as frames, one after the other.
  void Play(int directory);
  bool PlayFrame(int slot);
  // Extents, holes and cut tails (workload_shapes.cc).
  void Reshape(std::uint64_t inode);
  int AnyAllocation();
  void Scatter(std::uint64_t inode);
  void CutAndShow(std::uint64_t inode);
  void Allocate(std::uint64_t inode, int mode, DataModel::Range range);
  // Registers of an inode (workload_attributes.cc), each in the model a file of one cell.
  enum class Register : std::uint8_t { kUser = 1, kAcl = 2, kTime = 3, kDefaultAcl = 4 };
  static std::uint64_t RegisterOf(std::uint64_t inode, Register which) {
    return inode | (static_cast<std::uint64_t>(which) << 48);
  }
  void UseAttributes(int slot);
  void SetRegister(std::uint64_t inode, Register which, bool directory);
  absl::Status SetXattr(std::uint64_t inode, Register which, std::uint32_t number);
  void ReadRegister(std::uint64_t inode, Register which, bool directory);
  // What a directory gives to what is made in it.
  void UseDefaultAcl(int directory);
  void CheckInherited(int directory, std::uint64_t inode, Micros began);
  void CheckRegister(std::uint64_t inode, const absl::Status& status, bool directory, Micros began);
  // Without names (workload_nameless.cc). `slot`: its name, or in which directory.
  void UseNameless(int slot);
  std::uint64_t CreateUnnamed(int slot);
  void CheckOpen(std::uint64_t inode, Micros opened, bool has_no_name);
  void Fsync(std::uint64_t inode);
  void SyncDirectory();
  void Synced(std::uint64_t inode, Micros began);
  void Truncate(std::uint64_t inode, std::uint64_t size_bytes);
  void Punch(std::uint64_t inode, DataModel::Range range);
  void LockAndHold(std::uint64_t inode);
  bool LockOnce(std::uint64_t inode);
  // workload_locks.cc
  std::vector<LockRange> AnyLockRanges();
  void CheckLocked(std::uint64_t inode, const absl::Status& status, bool wait, bool gives_up);
  void LockAtLength(std::uint64_t inode);
  void UseUnderLock(std::uint64_t inode);
  void LookForLocks();
  // Mapped: reads and stores by the kernel's pages, beside others that go past them.
  bool ByMap() { return !Cached() && shared_.maps && random().OneIn(3); }
  void Store(std::uint64_t inode, DataModel::Range range);
  std::uint32_t BeginInPages(std::uint64_t inode, DataModel::Range range);
  bool Cached() const { return shared_.page_cache && machine_.host() % 2 == 0; }

  Shared& shared_;
  Machine& machine_;
  const int id_ = next_id_++;
  std::uint64_t handle_ = 0;
  Micros opened_ = 0;          // the open file was
  Micros reported_since_ = 0;  // then, or when it was last told of a loss
  int reported_ = 0;           // of how many
  bool reads_pages_ = false;   // ReadPages
  client::Caller caller_;
  // An open directory, and how many losses of names its fsync(2) has told of.
  std::unique_ptr<client::DirHandle> open_directory_;
  std::uint64_t losses_reported_ = 0;
  static inline int next_id_ = 1;
};

}  // namespace reel::sim
