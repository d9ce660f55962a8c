// Whom this controller believes: by the certificate of a connection, its role, and the list of
// those that were revoked, which lies beside the authority's certificate (watched_revocations.h).
//
// The list is looked at every kLookEvery, and the certificates' own files, too. Invariants:
//   1. Whoever is checked after a list was taken in is checked by that list.
//   2. A peer that is watched is told of once, soon after a list that names it was taken in.
// Threads: any.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "grpcpp/grpcpp.h"
#include "proto/admin.pb.h"
#include "proto/tls/watched_revocations.h"
#include "proto/tls/watched_tls.h"
#include "volume/base/mutex.h"
#include "volume/base/thread.h"

namespace reel::mdc {

class PeerGuard {
 public:
  static constexpr std::chrono::milliseconds kLookEvery{1000};
  // `tls` null: without TLS everybody may do everything. Errors as of WatchedRevocations.
  static absl::StatusOr<std::unique_ptr<PeerGuard>> Open(std::shared_ptr<WatchedTls> tls);
  ~PeerGuard();

  bool tls() const { return tls_ != nullptr; }
  // Who the peer is, where it may do what takes `role`. PERMISSION_DENIED: another role, revoked,
  // or no certificate of ReelFS. Without TLS: a peer without a name.
  absl::StatusOr<TlsPeer> Check(const grpc::AuthContext& context, TlsRole role,
                                std::string_view purpose) const;
  // As that, of who wants to see a page (proto/tls/page_viewer.h).
  absl::Status CheckViewer(const std::optional<TlsPeer>& peer) const;

  // This controller's own certificate, as it is used from the next connection on, and how many the
  // list names. Files that have changed are read for that.
  void Describe(v1::SettingsReply& reply) const;

  // Runs `end` when the peer is revoked, or at once where it is by now: on the guard's thread, or
  // within the call. It may run once more after Forget has begun.
  using Ticket = std::uint64_t;
  Ticket Watch(const TlsPeer& peer, std::function<void()> end);
  void Forget(Ticket ticket);

 private:
  struct Watched {
    TlsPeer peer;
    std::function<void()> end;
  };
  explicit PeerGuard(std::shared_ptr<WatchedTls> tls) : tls_(std::move(tls)) {}
  void Main();
  void TakeList();

  const std::shared_ptr<WatchedTls> tls_;
  std::unique_ptr<WatchedRevocations> list_;  // set by Open; null without TLS

  mutable Mutex mutex_;
  CondVar changed_;
  std::shared_ptr<const Revocations> revocations_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<Ticket, Watched> watched_ ABSL_GUARDED_BY(mutex_);
  Ticket next_ ABSL_GUARDED_BY(mutex_) = 1;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  Thread thread_;
};

}  // namespace reel::mdc
