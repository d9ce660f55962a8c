// One operation's view of the metadata store: reads from memory, writes staged until it is applied.
//
// A read that memory cannot answer makes the transaction *missed*: the read returns kMissStatus,
// the operation gives up at once, and the core runs it again from the start when a reader thread
// has fetched the key. So an operation is a pure function of the store and never waits. It also
// notes the highest not yet durable sequence among all it read, which its reply has to wait for:
// of changes that others made, or were not told of yet; what its own session was told of
// early, that session may see.
// Invariants: an operation scans before it stages changes to what it scans (scans see the store
// only). Threads: the core thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/container/node_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mdc/base/ids.h"
#include "mdc/base/quota_id.h"
#include "mdc/metadb/meta_db.h"
#include "proto/records.pb.h"
#include "volume/base/types.h"

namespace reel::mdc {

// Keys changed by batches that are applied but not yet durable.
class InFlight {
 public:
  // `seen_by`: the session that learns of it at once, by an early reply; 0: nobody does.
  void Applied(const WriteBatch& batch, Sequence sequence, SessionId seen_by = SessionId());
  void Durable(Sequence sequence);
  // The sequence of the last change of `key` that is not durable, and that this session was not
  // told of; 0 when there is none.
  Sequence SequenceOf(std::string_view key, SessionId viewer = SessionId()) const;

 private:
  struct Change {
    Sequence sequence;
    SessionId seen_by;
  };
  absl::flat_hash_map<std::string, Change> by_key_;
  // … and the order in which they become durable (implementation's own)
  std::vector<std::pair<Sequence, std::string>> order_;
  std::size_t order_head_ = 0;
};

// What a miss asks the reader threads to fetch.
struct Miss {
  std::string key;
  bool scan = false;  // a prefix scan from `key` on, while keys begin with `prefix`
  std::string prefix;
  ScanFrom from = ScanFrom::kAt;
  // What was missed besides, by an operation that went on to find out what else it lacks.
  std::vector<Miss> also{};
};

// A miss that a reader thread is to answer.
struct Fetch {
  TicketId ticket;
  Miss miss;
};

class Txn {
 public:
  Txn(const MetaDb& db, const InFlight& in_flight, Tier tier, SessionId viewer = SessionId())
      : db_(db), in_flight_(in_flight), tier_(tier), viewer_(viewer) {}
  Txn(const Txn&) = delete;
  Txn& operator=(const Txn&) = delete;

  // The staged or stored value; nullopt when absent.
  absl::StatusOr<std::optional<std::string>> Get(const std::string& key);
  // The same of what operations only count in: its changes change places, so nobody waits for them.
  absl::StatusOr<std::optional<std::string>> GetCounts(const std::string& key);
  void Put(std::string key, std::string value);
  void Delete(std::string key);
  // With the staged changes, no key from `from` on and before `to` is in the store.
  void Cleared(std::string from, std::string to);

  // The inode's record, loaded once and changed in place; ESTALE when there is none. The pointer
  // holds until the transaction ends. After a change, call Changed.
  absl::StatusOr<v1::InodeRecord*> Inode(InodeNumber inode);
  void Changed(InodeNumber inode);
  // A record for a new inode. REQUIRES: never used.
  v1::InodeRecord* NewInode(InodeNumber inode);
  void DeleteInode(InodeNumber inode);
  // Inodes whose records are to be stored, those deleted excepted; by number.
  std::vector<InodeNumber> ChangedInodes() const;
  std::vector<InodeNumber> DeletedInodes() const;

  // What was charged for an inode, and will be, where that is something else. Absent: the inode was
  // not there, or will not be. By number.
  struct InodeUse {
    QuotaOwner owner;
    std::uint64_t blocks = 0;
    friend bool operator==(const InodeUse&, const InodeUse&) = default;
  };
  struct UseChange {
    InodeNumber inode;
    std::optional<InodeUse> before, after;
  };
  std::vector<UseChange> UseChanges() const;

  // Visits the store's entries from `start` on (inclusive) while their key begins with `prefix`,
  // until `visit` returns false. Staged changes are not seen.
  template <typename Visit>
  absl::Status Scan(std::string_view prefix, std::string_view start, Visit visit,
                    ScanFrom from = ScanFrom::kAt);

  // Set when a read missed: the operation's status means nothing then.
  const std::optional<Miss>& missed() const { return miss_; }
  // The highest not yet durable sequence among all that was read and the viewer was not told of; 0
  // when there is none.
  Sequence seen() const { return seen_; }
  // Keys that were looked up, and entries that were scanned: tests count them.
  std::uint64_t reads() const { return reads_; }
  // The staged changes, changed inodes included. Empties the transaction.
  WriteBatch TakeBatch();

 private:
  struct CachedInode {
    v1::InodeRecord record;
    std::optional<InodeUse> before{};  // as it is stored
    bool changed = false;
    bool deleted = false;
  };
  static InodeUse UseOf(const v1::InodeRecord& record);
  absl::Status Missed(Miss miss);
  void Saw(std::string_view key);

  const MetaDb& db_;
  const InFlight& in_flight_;
  Tier tier_;
  SessionId viewer_;
  std::optional<Miss> miss_;
  Sequence seen_;
  std::uint64_t reads_ = 0;
  absl::flat_hash_map<std::string, std::optional<std::string>> staged_;
  absl::node_hash_map<InodeNumber, CachedInode> inodes_;
  std::vector<WriteBatch::Range> cleared_;
};

template <typename Visit>
absl::Status Txn::Scan(std::string_view prefix, std::string_view start, Visit visit,
                       ScanFrom from) {
  auto cursor = db_.Scan(prefix, start, tier_, from);
  for (; cursor->Valid(); cursor->Next()) {
    Saw(cursor->key());
    if (!visit(cursor->key(), cursor->value())) return absl::OkStatus();
  }
  if (cursor->not_in_memory()) {
    return Missed({std::string(start), true, std::string(prefix), from});
  }
  return cursor->status();
}

}  // namespace reel::mdc
