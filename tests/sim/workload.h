// What programs do on the machines of a history: names come and go, a few files are written and
// read by many, locks are taken. Every operation goes to the models with its time and its answer.
//
// A program is a fiber on its machine; its operations come from the history's chance alone.
// Threads: fibers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/vfs.h"
#include "tests/sim/cluster.h"
#include "tests/sim/name_history.h"

namespace reel::sim {

// How often what is done, in parts.
struct Mix {
  int lookup = 4, create = 3, make_dir = 1, remove = 3, rename = 2, link = 1, list = 1, chmod = 1,
      get_attr = 1, use_file = 6;
  // Each of the first hosts works in a directory of its own, but for one operation in so many, and
  // the others seldom do anything. 0: they do not.
  int at_home = 0;
  int journal = 0;  // of those, one operation in so many; 0: none
};

struct Shared {
  Cluster& cluster;
  NameHistory& names;
  std::uint64_t directories[NameHistory::kDirectories] = {};
  Mix mix{};
  bool page_cache = false;   // machines with an even number read and write through it
  bool maps = false;         // the others map files
  std::int64_t left = 0;     // operations that are still to be begun
  std::uint64_t errors = 0;  // operations that a lost session ended
  std::uint64_t done = 0;
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
  // Whether an error that is no answer has a cause that this history knows of; `since`: when the
  // operation began, or what it builds on.
  bool Explained(const absl::Status& status, Micros since);
  void CheckError(const char* what, std::uint64_t inode, const absl::Status& status,
                  bool explained);
  bool Continue() { return shared_.left-- > 0; }

  int AnySlot();
  bool HasHome() const { return machine_.host() <= NameHistory::kDirectories; }
  client::NameIn At(int slot) const;
  Kind AnyKind();
  void NoteSize(const v1::Attr& attr, Micros began);
  // Begins an operation on names.
  std::size_t Begin(NameOp op);
  // Whether the answer says anything: after a lost session it does not.
  bool Ended(std::size_t number, const absl::Status& status);

  void OneOperation();
  std::uint64_t Lookup(int slot, v1::Attr* attr = nullptr);
  // 0: none was made.
  std::uint64_t Create(int slot);
  void CreateAndUse(int slot);
  void KeepJournal(int slot);
  void MakeDirectory(int slot);
  void Remove(int slot, bool directory);
  void Rename(int from, int to);
  void Link(int from, int to);
  void ListRoot();
  void List(int directory);
  void Chmod(int slot);
  void ChmodOf(std::uint64_t inode);
  void GetAttr(int slot);

  void OpenAndUse(int slot);
  // The number of the open file that comes next.
  void NextHandle();
  void UseFile(std::uint64_t inode);
  void Close(std::uint64_t inode);
  bool IsLostFile(const absl::Status& status, Micros began);
  void CheckTold(const char* what, std::uint64_t inode, const absl::Status& status);
  DataModel::Range AnyRange();
  DataModel::Who Who() const { return {machine_.host(), handle_}; }
  void Scan(std::uint64_t inode, DataModel::Range range);
  void Read(std::uint64_t inode, DataModel::Range range);
  void Write(std::uint64_t inode, DataModel::Range range);
  void WriteOn(std::uint64_t inode, DataModel::Range range);
  void Append(std::uint64_t inode, std::uint64_t length_bytes);
  void Fsync(std::uint64_t inode);
  void Truncate(std::uint64_t inode, std::uint64_t size_bytes);
  void Punch(std::uint64_t inode, DataModel::Range range);
  void LockAndHold(std::uint64_t inode);
  bool LockOnce(std::uint64_t inode);
  // Mapped: reads and stores by the kernel's pages, beside others that go past them.
  bool ByMap() { return !Cached() && shared_.maps && random().OneIn(3); }
  void Store(std::uint64_t inode, DataModel::Range range);
  bool Cached() const { return shared_.page_cache && machine_.host() % 2 == 0; }

  Shared& shared_;
  Machine& machine_;
  const int id_ = next_id_++;
  std::uint64_t handle_ = 0;
  Micros opened_ = 0;      // the open file was
  Micros told_since_ = 0;  // then, or when it was last told of a loss
  client::Caller caller_;
  static inline int next_id_ = 1;
};

}  // namespace reel::sim
