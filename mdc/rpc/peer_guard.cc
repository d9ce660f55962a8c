#include "mdc/rpc/peer_guard.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "proto/grpc/grpc_tls.h"
#include "spdlog/spdlog.h"

namespace reel::mdc {

absl::StatusOr<std::unique_ptr<PeerGuard>> PeerGuard::Open(std::shared_ptr<WatchedTls> tls) {
  auto guard = absl::WrapUnique(new PeerGuard(std::move(tls)));
  if (!guard->tls()) return guard;
  const std::string& ca_file = guard->tls_->files().ca;
  guard->sign_.LookAgain(RevocationsBeside(ca_file));
  auto revocations = ReadRevocations(ca_file, guard->tls_->Current()->ca_pem);
  if (!revocations.ok()) return revocations.status();
  if (revocations->size() > 0) {
    spdlog::info("{} certificates are revoked ({})", revocations->size(),
                 RevocationsBeside(ca_file));
  }
  {
    MutexLock lock(guard->mutex_);
    guard->revocations_ = *std::move(revocations);
  }
  guard->thread_ = Thread([self = guard.get()] { self->Main(); });
  return guard;
}

PeerGuard::~PeerGuard() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  if (thread_.joinable()) thread_.Join();
}

absl::StatusOr<TlsPeer> PeerGuard::Check(const grpc::AuthContext& context, TlsRole role,
                                         std::string_view purpose) const {
  if (!tls()) return TlsPeer();
  auto peer = PeerWithRole(context, role, purpose);
  if (!peer.ok()) return peer;
  MutexLock lock(mutex_);
  if (!revocations_.Contains(*peer)) return peer;
  return absl::PermissionDeniedError(absl::StrCat(
      "the certificate of ", peer->name, " (", peer->serial, ") is revoked; it takes another one"));
}

PeerGuard::Ticket PeerGuard::Watch(const TlsPeer& peer, std::function<void()> end) {
  {
    MutexLock lock(mutex_);
    const Ticket ticket = next_++;
    if (!revocations_.Contains(peer)) {
      watched_.emplace(ticket, Watched{peer, std::move(end)});
      return ticket;
    }
  }
  end();
  return 0;
}

void PeerGuard::Forget(Ticket ticket) {
  MutexLock lock(mutex_);
  watched_.erase(ticket);
}

void PeerGuard::Main() {
  for (;;) {
    {
      MutexLock lock(mutex_);
      if (!stopping_) changed_.WaitFor(mutex_, kLookEvery);
      if (stopping_) return;
    }
    (void)tls_->Current();  // so that the log tells of new files without waiting for a connection
    if (sign_.LookAgain(RevocationsBeside(tls_->files().ca))) TakeList();
  }
}

void PeerGuard::TakeList() {
  const std::string path = RevocationsBeside(tls_->files().ca);
  auto revocations = ReadRevocations(tls_->files().ca, tls_->Current()->ca_pem);
  std::vector<Watched> revoked;
  {
    MutexLock lock(mutex_);
    if (revocations.ok() && revocations->size() == 0 && revocations_.size() > 0) {
      revocations = absl::NotFoundError(absl::StrCat(path, " is gone, or names nobody"));
    }
    if (revocations.ok()) {
      spdlog::info("{} names {} revoked certificates, and named {}", path, revocations->size(),
                   revocations_.size());
      revocations_ = *std::move(revocations);
    } else {
      spdlog::warn("{}: those that were revoked stay so ({})",
                   std::string(revocations.status().message()), revocations_.size());
    }
    for (auto next = watched_.begin(); next != watched_.end();) {
      const auto at = next++;
      if (!revocations_.Contains(at->second.peer)) continue;
      revoked.push_back(std::move(at->second));
      watched_.erase(at);
    }
  }
  for (const Watched& watched : revoked) {
    spdlog::warn("the certificate of {} ({}) is revoked: its session is ended", watched.peer.name,
                 watched.peer.serial);
    watched.end();
  }
}

}  // namespace reel::mdc
