#include "mdc/rpc/peer_guard.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "proto/grpc/grpc_tls.h"
#include "proto/tls/page_viewer.h"
#include "spdlog/spdlog.h"

namespace reel::mdc {

absl::StatusOr<std::unique_ptr<PeerGuard>> PeerGuard::Open(std::shared_ptr<WatchedTls> tls) {
  auto guard = absl::WrapUnique(new PeerGuard(std::move(tls)));
  if (!guard->tls()) return guard;
  auto list = WatchedRevocations::Load(guard->tls_);
  if (!list.ok()) return list.status();
  guard->list_ = *std::move(list);
  {
    MutexLock lock(guard->mutex_);
    guard->revocations_ = guard->list_->Current();
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
  if (absl::Status s = revocations_->Check(*peer); !s.ok()) return s;
  return peer;
}

absl::Status PeerGuard::CheckViewer(const std::optional<TlsPeer>& peer) const {
  if (!tls()) return absl::OkStatus();
  MutexLock lock(mutex_);
  return reel::CheckViewer(peer, *revocations_);
}

void PeerGuard::Describe(v1::SettingsReply& reply) const {
  if (!tls()) return;
  const std::shared_ptr<const TlsMaterial> now = tls_->Current();
  v1::SettingsReply::Certificate& own = *reply.mutable_certificate();
  own.set_file(tls_->files().cert);
  own.set_name(now->self.name);
  own.set_serial(now->self.serial);
  own.set_until(now->until);
  MutexLock lock(mutex_);
  reply.set_revoked(static_cast<std::uint32_t>(revocations_->size()));
}

PeerGuard::Ticket PeerGuard::Watch(const TlsPeer& peer, std::function<void()> end) {
  {
    MutexLock lock(mutex_);
    const Ticket ticket = next_++;
    if (!revocations_->Contains(peer)) {
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
    TakeList();
  }
}

void PeerGuard::TakeList() {
  std::shared_ptr<const Revocations> list = list_->Current();
  std::vector<Watched> revoked;
  {
    MutexLock lock(mutex_);
    if (list == revocations_) return;
    revocations_ = std::move(list);
    for (auto next = watched_.begin(); next != watched_.end();) {
      const auto at = next++;
      if (!revocations_->Contains(at->second.peer)) continue;
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
