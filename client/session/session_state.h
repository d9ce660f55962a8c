// What is known of a session as a whole: its terms at the controller, and how far it is to its end.
//
// Invariants:
//   1. The terms are those of one registration, set by the receiving thread before requests may go;
//   `key` stays that of the session's first.
//   2. A session that closes takes no calls, and never takes any again. One that is shut out of its
//   volume takes none until it is let in again.
// Threads: any may read the terms. The phase is externally synchronised.
#pragma once

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "proto/mdc.pb.h"
#include "proto/protocol.h"
#include "proto/status.h"

namespace reel::client {

// What the controller has granted this session, and who it is there, by its last HelloReply.
class SessionTerms {
 public:
  // True: the export has become squashed, and was not before.
  bool Take(const v1::HelloReply& hello) {
    read_only_.store(hello.read_only());
    checks_opens_.store(hello.check_opens());
    const bool was_squashed = squashed_.exchange(hello.squashed());
    delegates_.store((hello.features() & v1::FEATURE_DELEGATION) != 0);
    constexpr std::uint64_t kNames = v1::FEATURE_DELEGATION | v1::FEATURE_DELEGATED_NAMES;
    delegates_names_.store((hello.features() & kNames) == kNames);
    commits_wait_.store(false);
    delays_attributes_.store((hello.features() & v1::FEATURE_DELAYED_ATTRIBUTES) != 0);
    SetSmallFileBytes(hello.small_file_bytes());
    looks_ahead_.store((hello.features() & v1::FEATURE_LOOK_AHEAD) != 0);
    lists_layouts_.store((hello.features() & v1::FEATURE_LISTED_LAYOUTS) != 0);
    takes_reads_together_.store((hello.features() & v1::FEATURE_ACCESSED) != 0);
    commits_attributes_.store((hello.features() & v1::FEATURE_COMMIT_ATTRIBUTES) != 0);
    return hello.squashed() && !was_squashed;
  }
  void SetSession(std::uint64_t id) { session_id_.store(id); }
  void SetKey(std::uint64_t key) { key_.store(key); }
  // By the answer to Renew.
  void Renewed(const v1::Reply& reply) {
    commits_wait_.store(reply.commits_wait());
    if (reply.has_small_file_bytes()) SetSmallFileBytes(reply.small_file_bytes());
  }

  // The map by which this host reaches the LUNs; it never goes back.
  void TookMap(std::uint64_t generation) {
    map_generation_.store(std::max(map_generation_.load(), generation));
  }
  std::uint64_t map_generation() const { return map_generation_.load(); }

  std::uint64_t session_id() const { return session_id_.load(); }
  std::uint64_t key() const { return key_.load(); }
  bool read_only() const { return read_only_.load(); }
  bool delays_attributes() const { return delays_attributes_.load(); }
  bool looks_ahead() const { return looks_ahead_.load(); }
  bool lists_layouts() const { return lists_layouts_.load(); }
  bool takes_reads_together() const { return takes_reads_together_.load(); }
  bool commits_attributes() const { return commits_attributes_.load(); }
  std::uint32_t small_file_bytes() const { return small_file_bytes_.load(); }
  bool commits_wait() const { return commits_wait_.load(); }
  bool delegates() const { return delegates_.load(); }
  bool delegates_names() const { return delegates_names_.load(); }
  bool checks_opens() const { return checks_opens_.load(); }
  bool squashed() const { return squashed_.load(); }

 private:
  void SetSmallFileBytes(std::uint32_t bytes) {
    small_file_bytes_.store(std::min(bytes, kMaxSmallFileBytes));
  }

  std::atomic<std::uint64_t> session_id_{0};
  std::atomic<std::uint64_t> key_{0};
  std::atomic<std::uint64_t> map_generation_{0};
  std::atomic<std::uint32_t> small_file_bytes_{0};
  std::atomic<bool> read_only_{false};
  std::atomic<bool> delays_attributes_{false};
  std::atomic<bool> looks_ahead_{false};
  std::atomic<bool> lists_layouts_{false};
  std::atomic<bool> takes_reads_together_{false};
  std::atomic<bool> commits_attributes_{false};
  std::atomic<bool> commits_wait_{false};
  std::atomic<bool> delegates_{false};
  std::atomic<bool> delegates_names_{false};
  std::atomic<bool> checks_opens_{false};
  std::atomic<bool> squashed_{false};
};

// How far a session is on its way to its end.
class SessionPhase {
 public:
  void Close() { closing_ = true; }
  // The threads end, too.
  void End() { closing_ = ending_ = true; }
  // The session is over, and no other one is to be had: `why`. OK: it is not shut out any more.
  void SetShutOut(absl::Status why) { shut_out_ = std::move(why); }
  // True: the caller is the first to shut the session down.
  bool BeginShutdown() { return !std::exchange(shut_down_, true); }

  bool closing() const { return closing_; }
  bool ending() const { return ending_; }
  // Not OK: no call can be made any more, or none for now.
  absl::Status Closed() const {
    if (closing_) return ErrnoStatus(ESHUTDOWN, "the file system is being unmounted");
    return shut_out_;
  }

 private:
  bool closing_ = false;  // no new calls
  bool ending_ = false;
  absl::Status shut_out_;
  bool shut_down_ = false;
};

}  // namespace reel::client
