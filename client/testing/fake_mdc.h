// A metadata controller in the test's own process: sessions, slots, tokens with recall, extents.
//
// Much simpler than the real one, and stricter: it keeps a list of what a client did wrong. It
// hands out blocks in short runs and freed ones again soon, so that a client that shows another
// file's old bytes is found. Replies may be lost, streams end and epochs change on demand. Threads:
// all methods may be called concurrently; requests run on the sender's thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "client/session/mdc_stream.h"
#include "proto/token_ranges.h"
#include "volume/base/mutex.h"
#include "volume/format/descriptor.h"
#include "volume/format/extent_map.h"

namespace reel::client {

struct FakeMdcOptions {
  VolumeDescriptor descriptor{};
  std::uint32_t lease_ms = 10'000;
  std::uint32_t slots = 8;
  std::uint64_t run_blocks = 5;           // longest run of one allocation
  std::uint64_t preallocated_blocks = 4;  // given beyond what was asked for
  std::uint64_t max_blocks = 0;           // 0: as many as pool 0 has
  std::size_t max_extents = 500;          // in an answer, not counting holes
  std::uint32_t small_file_bytes = 0;
  bool knows_attributes_along = true;  // also where it has said that it does
  bool opens_grant = false;            // the token, where that costs nobody anything
  std::uint64_t features = v1::FEATURE_RECALL_WORK | v1::FEATURE_NEW_MAP | v1::FEATURE_ACCESSED;
};

class FakeMdc : public MdcConnector {
 public:
  explicit FakeMdc(FakeMdcOptions options);
  ~FakeMdc() override;
  absl::StatusOr<std::unique_ptr<MdcStream>> Connect(const std::string& address) override;

  // ---- what a test does to it
  void SetDown(bool down);      // refuses connections, and ends those that are
  void SetSilent(bool silent);  // takes requests and does nothing with them
  // From now on replies to `op` are lost; with the next DropStreams that ends.
  void LoseReplies(bool lose);
  // Replies to `op` stay on their way, overtaken by others, until ReleaseReplies; they are lost
  // with their stream.
  void HoldReplies(v1::Request::OpCase op);
  void ReleaseReplies();
  void DropStreams();
  // The next LayoutGet waits until a token of its file goes back, as one at a quota's limit.
  void ParkLayoutGet();
  // The next request of that kind is refused.
  void Refuse(v1::Request::OpCase op, int error);
  // So are the attributes that commits bring along.
  void RefuseAlong(int error);
  void Restart();  // a new epoch: streams end, tokens and opens are to be reclaimed
  void Evict(std::uint64_t session);
  // Its LUNs are those of this volume now, and nobody has a session. `compares`: it looks at which
  // volume a client says that it has mounted; releases of before did not.
  void Serve(const Uuid& volume, bool compares);
  // Streams end; the next so many Hellos find that volume in place of its own.
  void ShowInstead(const Uuid& volume, int hellos);
  // Streams end; Hellos are answered with that errno. 0: no longer.
  void ShutOut(int error);
  // The volume has that map; sessions are told. Blocks from `first` on of its pool 0 are given out
  // first.
  void ChangeMap(const VolumeDescriptor& map, std::uint64_t first);
  // As it says to renewals.
  void SetCommitsWait(bool wait) {
    MutexLock lock(mutex_);
    commits_wait_ = wait;
  }
  void SetSmallFileBytes(std::uint32_t bytes) {
    MutexLock lock(mutex_);
    small_file_bytes_ = bytes;
  }
  // From now on who gives up is evicted; before, nobody waits for it.
  void LetGiveUp();
  void Ping(std::uint64_t session, std::uint64_t number);

  // ---- what a test asks it
  std::uint64_t CreateFile(std::uint32_t mode = 0100644);
  v1::Attr AttrOf(std::uint64_t inode) const;
  std::vector<Extent> ExtentsOf(std::uint64_t inode) const;
  std::string ContentOf(std::uint64_t inode) const;
  std::uint64_t OpensOf(std::uint64_t inode) const;
  // How many requests wait for tokens of the file.
  std::uint64_t WaitingFor(std::uint64_t inode) const;
  // True when some session may write the file.
  bool HasWriter(std::uint64_t inode) const;
  // The last that any session has taken, and why not, as it said last.
  std::uint64_t taken_map() const;
  std::string map_problem() const;
  // How often it carried out an operation ("set_attr"), repetitions not counted.
  std::uint64_t CountOf(v1::Request::OpCase op) const;
  std::uint64_t received_bytes() const;
  std::uint64_t repetitions() const;
  // As the last renewal said.
  v1::RecallWork recall_work() const;
  v1::Renew last_renewal() const;
  std::vector<std::string> wrongs() const;

 private:
  class Stream;
  struct Slot {
    std::uint64_t sequence = 0;
    v1::Reply reply;
  };
  struct ClientSession {
    std::uint64_t id = 0;
    std::string client;
    Stream* stream = nullptr;
    bool evicted = false;
    bool must_reclaim = false;
    std::vector<Slot> slots;
    std::set<std::uint64_t> opens;
  };
  struct Recalled {
    TokenSpan span;
    v1::TokenMode mode = v1::TOKEN_NONE;
  };
  struct Holder {
    TokenRanges held;
    std::vector<Recalled> recalled;
  };
  struct Parked {
    std::uint64_t session;
    v1::Request request;
  };
  struct File {
    v1::Attr attr;
    ExtentMap extents;    // absent blocks are holes
    std::string content;  // of a small file, in place of its first blocks
    std::map<std::uint64_t, Holder> holders;
    std::deque<Parked> parked;
  };

  void Receive(Stream& stream, const v1::ClientFrame& frame);
  void Handle(Stream& stream, const v1::Request& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void HandleHello(Stream& stream, const v1::Request& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // False when it waits for tokens.
  bool Execute(ClientSession& session, const v1::Request& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool LayoutGet(ClientSession& session, const v1::Request& request, v1::Reply& reply)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Open(ClientSession& session, const v1::Open& open, v1::Reply& reply)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A file's name is its inode's number.
  void LookAhead(ClientSession& session, const v1::Lookup& lookup, v1::Reply& reply)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ListAhead(ClientSession& session, const v1::ReadDir& read, v1::Reply& reply)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A shared or exclusive token of all of it along, where that costs nobody anything.
  bool GrantAtOnce(ClientSession& session, File& file, v1::TokenMode mode,
                   std::uint64_t length_bytes, v1::Reply& reply)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Commit(ClientSession& session, const v1::LayoutCommit& commit, v1::Reply& reply)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // False: it was a mistake.
  bool CommitContent(const ClientSession& session, const v1::LayoutCommit& commit, File& file)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetAttr(ClientSession& session, const v1::SetAttr& set, v1::Reply& reply)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NoteReads(const v1::Accessed& accessed) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Allocate(ClientSession& session, const v1::Allocate& allocate, v1::Reply& reply)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool OthersAtMost(File& file, std::uint64_t session, v1::TokenMode allowed, const TokenSpan& span)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What the session may be granted around a span that it may be granted.
  TokenSpan WidestAround(const File& file, std::uint64_t session, v1::TokenMode allowed,
                         const TokenSpan& span) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Holds(const File& file, std::uint64_t session, const TokenSpan& span = kWholeFile) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RunParked(std::uint64_t inode) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Answer(ClientSession& session, const v1::Request& request, v1::Reply reply)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static void AddRecall(v1::ServerFrame& frame, std::uint64_t inode, const Recalled& recalled);
  void SendRecall(ClientSession& session, std::uint64_t inode, const Recalled& recalled)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndSession(ClientSession& session) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropSession(ClientSession& session) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool TakeBlocks(File& file, FileBlock start, std::uint64_t length_blocks)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FreeBlocks(File& file, FileBlock start, std::uint64_t length_blocks)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RecordMistake(std::string what) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    mistakes_.push_back(what);
  }

  VolumeDescriptor descriptor_ ABSL_GUARDED_BY(mutex_);
  v1::MapTaken map_taken_ ABSL_GUARDED_BY(mutex_);
  bool compares_volumes_ ABSL_GUARDED_BY(mutex_) = true;
  Uuid other_volume_ ABSL_GUARDED_BY(mutex_);
  int other_volume_hellos_ ABSL_GUARDED_BY(mutex_) = 0;
  int shut_out_ ABSL_GUARDED_BY(mutex_) = 0;  // errno of each Hello
  const FakeMdcOptions options_;
  const std::uint64_t block_bytes_;
  mutable Mutex mutex_;
  bool down_ ABSL_GUARDED_BY(mutex_) = false;
  bool silent_ ABSL_GUARDED_BY(mutex_) = false;
  bool lose_replies_ ABSL_GUARDED_BY(mutex_) = false;
  bool lets_give_up_ ABSL_GUARDED_BY(mutex_) = false;
  v1::RecallWork recall_work_ ABSL_GUARDED_BY(mutex_);
  v1::Renew last_renewal_ ABSL_GUARDED_BY(mutex_);
  bool commits_wait_ ABSL_GUARDED_BY(mutex_) = false;
  std::uint32_t small_file_bytes_ ABSL_GUARDED_BY(mutex_);
  v1::Request::OpCase held_op_ ABSL_GUARDED_BY(mutex_) = v1::Request::OP_NOT_SET;
  bool parks_layout_get_ ABSL_GUARDED_BY(mutex_) = false;
  v1::Request::OpCase refused_op_ ABSL_GUARDED_BY(mutex_) = v1::Request::OP_NOT_SET;
  int refusal_ ABSL_GUARDED_BY(mutex_) = 0;
  int refused_along_ ABSL_GUARDED_BY(mutex_) = 0;
  std::uint64_t epoch_ ABSL_GUARDED_BY(mutex_) = 1;
  std::uint64_t next_session_ ABSL_GUARDED_BY(mutex_) = 1;
  std::uint64_t next_inode_ ABSL_GUARDED_BY(mutex_) = 100;
  std::map<std::uint64_t, ClientSession> sessions_ ABSL_GUARDED_BY(mutex_);
  std::map<std::uint64_t, File> files_ ABSL_GUARDED_BY(mutex_);
  std::set<std::uint64_t> free_ ABSL_GUARDED_BY(mutex_);  // blocks of pool 0
  std::set<Stream*> streams_ ABSL_GUARDED_BY(mutex_);
  std::map<int, std::uint64_t> counts_ ABSL_GUARDED_BY(mutex_);
  std::uint64_t received_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::uint64_t repetitions_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::string> mistakes_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace reel::client
