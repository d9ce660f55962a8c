// Hands what a session tells to those whom it concerns: names, locks and data.
//
// The kernel is told of a recalled attribute token by a thread of its own: the kernel may wait for
// an inode that it is about to forget, and so for a request that waits for the receiving thread.
// Threads: as SessionEvents.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "client/base/worker_pool.h"
#include "client/data/file_data.h"
#include "client/locks/file_locks.h"
#include "client/names/kernel_names.h"
#include "client/names/name_cache.h"
#include "client/session/session.h"
#include "volume/base/mutex.h"

namespace reel::client {

class EventRouter : public SessionEvents {
 public:
  // `forget_attributes(inode)`: the kernel shall take nothing for valid that it knows of the inode;
  // false: it does not know it.
  EventRouter(FileData& data, NameCache& names, KernelNames& kernel_names, FileLocks& locks,
              const std::unique_ptr<Session>& session,
              std::function<bool(std::uint64_t inode)> forget_attributes)
      : data_(data),
        names_(names),
        kernel_names_(kernel_names),
        locks_(locks),
        session_(session),
        forget_attributes_(std::move(forget_attributes)) {}
  // After it the kernel is told nothing. REQUIRES: the session is shut down.
  void Stop() {
    clearer_.Stop();
    {
      MutexLock lock(clear_mutex_);
      clearing_ = 0;  // what had not begun never will
      cleared_.NotifyAll();
    }
    pool_.Stop();
  }

  void OnRecall(std::uint64_t inode, v1::TokenMode mode, const TokenSpan& span) override {
    data_.OnRecall(inode, mode, span);
  }
  void OnRecallAttr(std::uint64_t inode, bool to_shared) override {
    if (to_shared) return OnShare(inode);
    const bool clearing = clearing_ > 0;
    const NameCache::Recall recall = names_.OnRecall(inode, /*delayed=*/clearing);
    switch (recall.step) {
      case NameCache::RecallStep::kOnItsWay:
        return;
      case NameCache::RecallStep::kReturn:
        if (!clearing) return Return({inode}, streams_lost_);
        return ReturnWhenTold({.inodes = {inode}});
      case NameCache::RecallStep::kForgetAttributesFirst:
        return ReturnWhenTold(
            {.inodes = {inode}, .kept = {{.inode = inode, .until_ms = recall.until_ms}}});
      case NameCache::RecallStep::kForgetNamesFirst:
        kernel_names_.Leave(inode);
        return ReturnWhenTold({.inodes = {inode},
                               .kept = {{.inode = inode, .until_ms = recall.until_ms}},
                               .names = true});
    }
  }
  void OnReply(const v1::Request& request, const v1::Reply& reply) override {
    names_.OnReply(request, reply);
    if (request.has_renew()) locks_.OnRenewed();
    if (NameCache::Dropped dropped = names_.TakeDropped(); !dropped.inodes.empty()) {
      ReturnDropped(std::move(dropped));
    }
  }
  void OnRegistered(std::uint64_t session, std::uint64_t key) override {
    data_.OnRegistered(session, key);
  }
  void OnNewMap(const VolumeDescriptor& map) override { data_.OnNewMap(map); }
  void OnDeal(const v1::Deal& deal) override { data_.OnDeal(deal); }
  void OnStreamLost() override {
    {
      MutexLock lock(mutex_);
      ++streams_lost_;
    }
    ClearNames();
    data_.OnStreamLost();
  }
  void OnEarlyLost(std::uint64_t first) override { data_.OnEarlyLost(first); }
  void OnReplayed(const v1::Request& request, const v1::Reply& reply) override {
    data_.OnReplayed(request, reply);
  }
  void OnEvicted() override {
    ClearNames();
    locks_.OnEvicted();
    data_.OnEvicted();
  }
  void OnRecallLocks(std::uint64_t inode, std::uint64_t token, bool contended) override {
    locks_.OnRecall(inode, token, contended);
  }
  RecallWork LookAtRecalls() const override { return data_.LookAtRecalls(); }
  void Describe(v1::Renew& renewal) const override {
    renewal.set_fuse(fuse_.load(std::memory_order_relaxed));
    data_.Describe(renewal);
  }
  // Once mounted.
  void SetFuse(v1::FuseWay way) { fuse_.store(way, std::memory_order_relaxed); }
  void OnLocksBroken(std::uint64_t inode) override { locks_.OnBroken(inode); }
  std::vector<v1::Reclaim> CollectReclaims() override {
    // In the new epoch nobody recalls what the kernel has kept. Nothing else would come on this
    // thread before the claim: no recall does while grace lasts, which waits for that.
    AwaitCleared();
    std::vector<v1::Reclaim> reclaims = data_.CollectReclaims();
    locks_.Reclaim(reclaims);
    return reclaims;
  }

 private:
  // Behind the opens of directories that these tokens alone have kept. Not on another stream than
  // that which they were recalled on: they may have been granted anew there.
  void Return(std::vector<std::uint64_t> inodes, std::uint64_t stream) {
    const auto left = std::make_shared<std::atomic<std::size_t>>(inodes.size());  // of two threads
    const auto sent = std::make_shared<std::vector<std::uint64_t>>(std::move(inodes));
    for (const std::uint64_t inode : *sent) {
      data_.RegisterOpens(inode, [this, left, sent, stream] {
        if (--*left != 0) return;
        MutexLock lock(mutex_);  // the stream is not lost between the look and the sending
        if (stream == streams_lost_) SendReturn(*sent);
      });
    }
  }

  void ReturnDropped(NameCache::Dropped dropped) {
    std::erase_if(dropped.kept, [now_ms = kernel_names_.NowMs()](const NameCache::Kept& kept) {
      return kept.until_ms <= now_ms;
    });
    if (dropped.kept.empty() && !dropped.names && clearing_ == 0) {
      return Return(std::move(dropped.inodes), streams_lost_);
    }
    ReturnWhenTold(std::move(dropped));
  }

  // Once the kernel has been told of these, and of what a lost stream has left to tell.
  void ReturnWhenTold(NameCache::Dropped dropped) {
    pool_.Run([this, dropped = std::move(dropped), stream = streams_lost_.load()] {
      AwaitCleared();
      if (stream != streams_lost_) return;  // it cannot be returned, and the kernel was told of all
      ForgetAttributes(dropped.kept);
      if (dropped.names) kernel_names_.Forget();
      Return(dropped.inodes, stream);
    });
  }

  // Where a reply that the kernel learns of one by may be on its way, it is told again and again:
  // as soon as it knows the inode, it has taken that reply in.
  void ForgetAttributes(std::vector<NameCache::Kept> left) {
    for (std::uint64_t pause_ms = KernelNames::kRetellMs;; pause_ms *= 2) {
      std::erase_if(left, [this](const NameCache::Kept& kept) {
        const bool on_its_way = kernel_names_.MayBeOnItsWay(kept.until_ms);
        return forget_attributes_(kept.inode) || !on_its_way;
      });
      if (left.empty()) return;
      kernel_names_.AwaitReplies(pause_ms);
    }
  }

  // Before the session goes on on another stream, where nobody asks for these tokens any more. (Of
  // directories the kernel can be told here: no request waits for one that it is about to forget.)
  // Where it has to be waited for, that goes on beside the search for a controller; no token is
  // returned, and nothing reclaimed, before it is over, or the kernel keeps nothing by itself.
  void ClearNames() {
    const std::uint64_t now_ms = kernel_names_.NowMs();
    NameCache::KeptAttributes kept = names_.Clear(now_ms);
    for (const std::uint64_t directory : kept.directories) forget_attributes_(directory);
    const bool forgotten = kernel_names_.TryForget();
    if (forgotten && kept.others.empty()) return;
    {
      MutexLock lock(clear_mutex_);
      ++clearing_;
      cleared_by_ms_ = now_ms + KernelNames::kKeptMs + KernelNames::kSlackMs;
    }
    clearer_.Run([this, forgotten, others = std::move(kept.others)] {
      if (!forgotten) kernel_names_.Forget();
      ForgetAttributes(others);
      MutexLock lock(clear_mutex_);
      --clearing_;
      cleared_.NotifyAll();
    });
  }

  // (The kernel may wait for a file that it is about to forget, whose pages wait for the session.)
  void AwaitCleared() {
    MutexLock lock(clear_mutex_);
    while (clearing_ > 0 && kernel_names_.NowMs() < cleared_by_ms_) {
      cleared_.WaitFor(clear_mutex_, std::chrono::milliseconds(KernelNames::kSlackMs));
    }
  }

  // (Names, which the kernel can be told of here, as in ClearNames. From another thread it might go
  // out behind the return of all of the token, and after another grant: so where it has to be
  // waited for, all of the token goes back.)
  void OnShare(std::uint64_t directory) {
    const NameCache::RecallStep what = names_.OnShare(directory);
    if (what == NameCache::RecallStep::kOnItsWay) return;
    const bool names_too = what == NameCache::RecallStep::kForgetNamesFirst;
    if (clearing_ > 0 || (names_too && !kernel_names_.TryForget())) {
      return OnRecallAttr(directory, /*to_shared=*/false);
    }
    SendReturn({directory}, /*to_shared=*/true);
  }

  void SendReturn(std::vector<std::uint64_t> inodes, bool to_shared = false) {
    v1::Request request;
    request.mutable_attr_return()->set_to_shared(to_shared);
    request.mutable_attr_return()->mutable_inodes()->Add(inodes.begin(), inodes.end());
    session_->Start(std::move(request), [this, inodes = std::move(inodes),
                                         to_shared](const absl::StatusOr<v1::Reply>&) {
      if (!to_shared) names_.Returned(inodes);
    });
  }

  static constexpr std::size_t kMaxThreads = 4;

  FileData& data_;
  NameCache& names_;
  KernelNames& kernel_names_;
  FileLocks& locks_;
  const std::unique_ptr<Session>& session_;  // set before there is anything to return
  const std::function<bool(std::uint64_t inode)> forget_attributes_;
  Mutex mutex_;  // held where one is counted
  std::atomic<std::uint64_t> streams_lost_{0};
  std::atomic<v1::FuseWay> fuse_{v1::FUSE_WAY_UNKNOWN};
  Mutex clear_mutex_;
  CondVar cleared_;
  std::atomic<int> clearing_{0};  // changed under clear_mutex_
  std::uint64_t cleared_by_ms_ ABSL_GUARDED_BY(clear_mutex_) = 0;
  WorkerPool pool_{kMaxThreads};
  WorkerPool clearer_{1};  // what the others may wait for
};

}  // namespace reel::client
